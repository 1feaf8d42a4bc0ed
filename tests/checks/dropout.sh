#!/bin/sh
# Dropout affects only training. A model trained with dropout evaluates, generates and is emitted as the same weights without
# dropout. Training with dropout is reproducible.
. "$(dirname "$0")/../begin.sh"
cat >"$work/spec.moe" <<'END_OF_SPEC'
use decoder
use dropout

layer thin(x[s,d]) -> y[s,d] {
  option rate: float = 0.5
  y = drop_path(swiglu(x; hidden_dim = 16); p = rate)
}

model m = decoder {
  dim = 16, layers = 2, attention.heads.q = 2, ffn = thin, dropout = 0.3
  train = { batch_size = 2, context_length = 8, steps = 3 }
}
END_OF_SPEC
head -c 2000 README.md >"$work/text"
none="--set dropout=0 --set ffn.rate=0"
moec train "$work/spec.moe" --data "$work/text" --out "$work/run" >"$work/log"
moec train "$work/spec.moe" --data "$work/text" --out "$work/again" >"$work/log.again"
moec train "$work/spec.moe" --data "$work/text" --out "$work/other" $none >"$work/log.other"
cmp "$work/run/last.safetensors" "$work/again/last.safetensors"
! cmp -s "$work/run/last.safetensors" "$work/other/last.safetensors" || wrong "dropout changes nothing in training"
moec eval "$work/run" --data "$work/text" --json | grep -v seconds >"$work/with"
moec eval "$work/run" --data "$work/text" --json $none | grep -v seconds >"$work/without"
cmp "$work/with" "$work/without"
for seed in 1 2; do
    moec generate "$work/run" --prompt The -n 20 --temperature 1 --seed $seed >"$work/with.$seed"
    moec generate "$work/run" --prompt The -n 20 --temperature 1 --seed $seed $none >"$work/without.$seed"
    cmp "$work/with.$seed" "$work/without.$seed"
done
moec emit "$work/run" --target c --mode decode --out "$work/emitted"
! grep -q 'moec_uniform(moec_seed' "$work/emitted/program.c" || wrong "the emitted program draws random numbers"
# The gradients of a step equal those of the definition with the same dropout mask.
moec verify "$work/spec.moe" >"$work/compared" || { cat "$work/compared"; exit 1; }

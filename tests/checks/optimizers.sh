#!/bin/sh
# Optimizers that update matrices: a stopped and resumed run ends with the same bytes. Their states are in the checkpoint and
# only training reads them. An emitted program trains the same.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0
cat >"$work/spec.moe" <<'END_OF_SPEC'
use adafactor
use decoder
use muon

# Each kind of parameter has its own optimizer.
optimizer by_kind {
  option embeddings: layer = adafactor
  option matrices:   layer = muon { ns_steps = 3 }
  option rest:       layer = adamw
  if embedding { by = embeddings } else if matmul { by = matrices } else { by = rest }
}

model m = decoder {
  dim = 16, layers = 2, attention.heads.q = 2, ffn.hidden_dim = 24
  train = { batch_size = 2, context_length = 16, steps = 6, optimizer = by_kind, save_interval = 3, precision = bf16 }
}
END_OF_SPEC
head -c 3000 README.md >"$work/text"
moec train "$work/spec.moe" --data "$work/text" --out "$work/whole" >"$work/log"
moec train "$work/spec.moe" --data "$work/text" --out "$work/parts" --steps 3 >"$work/log.parts"
moec train "$work/spec.moe" --data "$work/text" --out "$work/parts" --steps 6 --resume >"$work/log.parts"
cmp "$work/whole/last.safetensors" "$work/parts/last.safetensors" || wrong "the resumed run differs"
moec tensors "$work/whole/last.safetensors" >"$work/weights"
for name in m:block.1.ffn.up row:embedding column:embedding v:final_norm.weight; do
    grep -q "^optimizer.$name " "$work/weights" || wrong "the checkpoint lacks $name"
done
! grep -q "^optimizer.v:block.1.ffn.up" "$work/weights" || wrong "AdamW has a state of another optimizer"
moec train "$work/spec.moe" --data "$work/text" --out "$work/next" --steps 1 --init-from "$work/whole" >"$work/log.next" 2>&1
! grep -q "does not have" "$work/log.next" || wrong "states of another run are reported"
moec emit "$work/spec.moe" --target c --mode train --out "$work/emitted" >"$work/log.emitted"
make -s -C "$work/emitted" CFLAGS="-O1 -Werror=discarded-qualifiers" 2>"$work/log.make" || wrong "the emitted program does not build"
"$work/emitted/train" --data "$work/text" --weights "$work/emitted/weights.bin" --out "$work/trained.bin" >"$work/steps"
hosted=$(sed -n 's/.*"step":6,.*"loss":\([0-9.]*\).*/\1/p' "$work/whole/log.jsonl")
emitted=$(sed -n 's/step 6 loss //p' "$work/steps")
awk -v a="$hosted" -v b="$emitted" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-7) }' ||
    wrong "the emitted program has a loss of $emitted, not $hosted"

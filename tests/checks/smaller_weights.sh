#!/bin/sh
# Products that read parameters as bf16, int8 or int4: small models against their definition, which rounds the same weights, also with
# other registers. The effect of rounding in eval; an emitted model with the text of `moec generate`, also with smaller caches;
# no effect on training.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O1 OMP_NUM_THREADS=1

# Rows of 64 and 192, experts, tied logits, and a router whose size is not a multiple of a group.
cat >"$work/small.moe" <<'EOF'
use decoder

model dense = decoder {
  vocab_size = 256, dim = 64, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 }, head_dim = 32 }
  ffn = swiglu { hidden_dim = 192 }
  train = { batch_size = 2, context_length = 32, steps = 60, eval_interval = 0, lr = 1e-2 }
}

model tied = dense { tie_embeddings = true }

model odd = dense { vocab_size = 271, dim = 96, layers = 1 }

model routed = dense { ffn = moe { experts = 6, top_k = 2, expert = swiglu { hidden_dim = 128 } } }
EOF
hold() { # MODEL WEIGHTS
    moec verify "$work/small.moe:$1" -c 12 --set inference.weight_dtype="$2" >"$work/out" 2>&1 || wrong "$1, $2: $(cat "$work/out")"
    grep -q ", $2 weights (f32 in training)" "$work/out" || wrong "$1, $2: not compared: $(cat "$work/out")"
    grep -q 'decoding .* the worst is off by' "$work/out" || wrong "$1, $2: $(cat "$work/out")"
}
hold dense int8
hold tied int8
hold routed int8
hold routed bf16
for model in dense tied odd routed; do hold $model int4; done
if [ "$(uname -m)" = x86_64 ]; then
    for flags in -mno-avx512f -mno-avx; do
        MOEC_CFLAGS="-O1 $flags" hold tied int8
        MOEC_CFLAGS="-O1 $flags" hold tied int4
    done
fi

# Top-k selection does not depend on rounding, and training does not read rounded weights.
moec dump "$work/small.moe:routed" --mode decode --after smaller_weights --set inference.weight_dtype=int8 >"$work/dump"
[ "$(grep -c '^  rounded .*: int8' "$work/dump")" = 8 ] || wrong "int8: $(cat "$work/dump")"
grep -q 'block_ffn_router_rounded' "$work/dump" && wrong "a selection depends on rounding"
moec dump "$work/small.moe:routed" --mode train --after storage --set inference.weight_dtype=int8 | grep -q int8 && wrong "training reads int8"

moec emit --force "$work/small.moe:dense" --target cuda --mode decode --out "$work/cuda" --set inference.weight_dtype=int8 >"$work/out" 2>&1 &&
    wrong "emitted for a device"
grep -q 'inference.weight_dtype = int8 is available on CPUs only' "$work/out" || wrong "no reason: $(cat "$work/out")"

# Training does not depend on the weight type; eval reports its effect.
cat stdlib/*.moe >"$work/text"
head -c 4000 "$work/text" >"$work/short"
for weights in f32 int8 int4; do
    moec train "$work/small.moe:routed" --data "$work/text" --out "$work/$weights" --set inference.weight_dtype=$weights >"$work/log" 2>&1 ||
        wrong "train: $(cat "$work/log")"
    moec eval "$work/$weights" --data "$work/text" --json | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' >"$work/$weights.loss"
done
moec eval "$work/f32" --data "$work/text" --set inference.weight_dtype=int8 --json | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' >"$work/other.loss"
cmp -s "$work/int8.loss" "$work/other.loss" || wrong "training differs: $(cat "$work/int8.loss" "$work/other.loss")"
awk '{ loss[NR] = $1 } END { d = loss[2] - loss[1]; exit !(d != 0 && d < 0.01 && d > -0.01) }' "$work/f32.loss" "$work/int8.loss" ||
    wrong "loss: f32 $(cat "$work/f32.loss"), int8 $(cat "$work/int8.loss")"
awk '{ loss[NR] = $1 } END { d = loss[2] - loss[1]; exit !(d != 0 && d < 0.05 && d > -0.05) }' "$work/f32.loss" "$work/int4.loss" ||
    wrong "loss: f32 $(cat "$work/f32.loss"), int4 $(cat "$work/int4.loss")"
moec eval "$work/int8" --data "$work/text" | grep -q 'perplexity' || wrong "no perplexity"

# An int8 cache changes the loss of the generated text slightly.
for cache in f32 int8; do
    moec eval "$work/f32" --data "$work/short" --incremental --json --set inference.kv_cache_dtype=$cache |
        sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' >"$work/$cache.decoded"
done
awk '{ loss[NR] = $1 } END { d = loss[2] - loss[1]; exit !(d != 0 && d < 0.01 && d > -0.01) }' "$work/f32.decoded" "$work/int8.decoded" ||
    wrong "cache: f32 $(cat "$work/f32.decoded"), int8 $(cat "$work/int8.decoded")"

# Recurrences: a scan multiplies a state by weights; small projections have too few elements for a product.
cat >"$work/scans.moe" <<'EOF'
use decoder
use recurrent

model scans = decoder {
  vocab_size = 256, dim = 64, layers = 8, ffn = swiglu { hidden_dim = 64 }, document_start_token = 1
  token_mixers = [lstm, min_gru, linear_attention { heads = 2 }, retention { heads = 2 }, gated_delta { heads.k = 2 },
            mamba2 { heads = 2 }, gla { heads = 2 }, rwkv7 { heads = 2 }]
  train = { batch_size = 2, context_length = 32, steps = 10, eval_interval = 0, lr = 1e-2 }
}
EOF
loss() { sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$work/out"; }
close() { awk -v a="$1" -v b="$2" -v limit="$3" 'BEGIN { d = a - b; exit !(a > 0 && d < limit && d > -limit) }'; }
moec train "$work/scans.moe" --data "$work/text" --out "$work/scans" >"$work/log" 2>&1 || wrong "train: $(cat "$work/log")"
moec eval "$work/scans" --data "$work/short" --json >"$work/out" 2>&1 || wrong "eval: $(cat "$work/out")"
full=$(loss)
for weights in int4 int8 bf16; do
    set -- --set inference.weight_dtype=$weights
    moec verify "$work/scans.moe" "$@" >"$work/out" 2>&1 || wrong "$weights: $(cat "$work/out")"
    moec eval "$work/scans" --data "$work/short" --json "$@" >"$work/out" 2>&1 || wrong "$weights: $(cat "$work/out")"
    rounded=$(loss)
    moec eval "$work/scans" --data "$work/short" --json --incremental "$@" >"$work/out" 2>&1 || wrong "$weights: $(cat "$work/out")"
    close "$full" "$rounded" 0.05 || wrong "$weights: loss $rounded, f32 $full"
    close "$rounded" "$(loss)" 0.00001 || wrong "$weights: loss $rounded, decoding $(loss)"
done
for graph in forward decode measure; do
    moec dump "$work/scans.moe" --mode $graph --after smaller_weights --set inference.weight_dtype=int8 >"$work/dump" 2>&1 || wrong "$(cat "$work/dump")"
    grep -q 'state_rounded' "$work/dump" && wrong "$graph: a scan reads int8"
    moec dump "$work/scans.moe" --mode $graph --after smaller_weights --set inference.weight_dtype=bf16 >"$work/dump" 2>&1 || wrong "$(cat "$work/dump")"
    grep -q 'state_rounded' "$work/dump" || wrong "$graph: a scan reads f32"
    grep -q 'time_rounded' "$work/dump" && wrong "$graph: fewer elements than a product are rounded"
done

# Emitted; weights.bin contains the smaller weights. A wrong order in their words is found.
for weights in bf16 int8 int4; do
    rm -rf "$work/c"
    cache=$weights
    [ $weights != int4 ] || cache=f32
    set -- --set inference.weight_dtype=$weights --set inference.kv_cache_dtype=$cache
    moec emit --force "$work/f32" --target c --mode decode --out "$work/c" "$@" || wrong "emit"
    moec generate "$work/f32" --prompt 'layer ' -n 24 --temperature 0 "$@" >"$work/hosted"
    text() {
        make -s -C "$work/c" CFLAGS="-O1 -march=native -Wall -Wextra -Werror" >"$work/out" 2>&1 || wrong "$(cat "$work/out")"
        (cd "$work/c" && ./generate --prompt 'layer ' --tokens 24 --temperature 0) >"$work/emitted"
        [ "$(cat "$work/emitted")" = "$(cat "$work/hosted")" ]
    }
    text || wrong "$weights: the emitted program generates another text"
    cp "$work/c/weights.bin" "$work/$weights.bin"
done
size() { wc -c <"$work/$1.bin"; }
[ "$(size int4)" -lt "$(size int8)" ] && [ "$(size int8)" -lt "$(size bf16)" ] || wrong "weights.bin: $(ls -l "$work"/*.bin)"
grep -q 'pairs >> 8,' "$work/c/few_panels.h" && grep -q '4 \* i' "$work/c/operands.h" || wrong "no packed words"
sed -i.before 's|pairs >> 8,|pairs \& 0xFF,|' "$work/c/few_panels.h"
sed -i.before 's|4 \* i|4 * (7 - i)|' "$work/c/operands.h"
text && wrong "a wrong order of the weights in packed words is not found"
exit 0

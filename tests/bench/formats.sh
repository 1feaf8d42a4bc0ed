#!/bin/sh
# Training steps with operands in small formats, compared with f32: the throughput of the fastest step, in alternating runs. At
# least that of f32 if the processor multiplies bf16 (avx512_bf16, amx_bf16), else at least 0.8 of it.
#
#   tests/bench/formats.sh [ROUNDS]    default: 3
. "$(dirname "$0")/../begin.sh"
cat >"$work/sizes.moe" <<'SPEC'
use decoder
model dense = decoder {
  vocab_size = 4096, dim = 512, layers = 2, attention = { heads = { q = 8, k = 2 }, head_dim = 64 }, ffn = swiglu { hidden_dim = 1536 }
  train = { batch_size = 4, context_length = 256 }
}
model mixture = dense { ffn = moe { experts = 8, top_k = 2, expert = swiglu { hidden_dim = 768 } } }
SPEC
least=0.8
! grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo || least=1
for model in dense mixture; do
    for round in $(seq "${1:-3}"); do
        for format in f32 fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary; do
            moec bench "$work/sizes.moe:$model" --set train.precision="$format" >"$work/out" 2>&1 || wrong "$model $format: $(cat "$work/out")"
            awk '/^throughput, best step/ { gsub(",", "", $4); print $4 }' "$work/out" >>"$work/$model.$format"
        done
    done
    for format in fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary; do
        echo "$(sort -gr "$work/$model.$format" | head -1) $(sort -gr "$work/$model.f32" | head -1)" |
            awk -v name="$model $format" -v least="$least" '{ printf "%s: %.2f of the speed of f32\n", name, $1 / $2; exit !($1 >= least * $2) }' ||
            wrong "$model $format: less than $least of the speed of f32"
    done
done

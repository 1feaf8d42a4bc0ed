#!/bin/sh
# train.precision = fp8, mxfp4 and others: models against their definition on the CPU and on the simulated device, training and
# decoding.
. "$(dirname "$0")/../begin.sh"
export OMP_NUM_THREADS=1

cat >"$work/formats.moe" <<'END'
use decoder
model plain = decoder {
  dim = 32, layers = 2, attention = { heads = { q = 2, k = 1 }, head_dim = 16, value_dim = 12 }
  ffn = swiglu { hidden_dim = 40 }, train = { batch_size = 2, context_length = 20 }
}
model mixture = plain { ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 48 } } }
END
device=cpu
compare() { moec verify "$work/formats.moe:$model" --device "$device" --set train.precision="$format" --forms "$@" >"$work/out" 2>&1; }
verify() { # MODEL FORMAT
    model=$1 format=$2
    compare || { grep -q 'or fewer tokens' "$work/out" && compare -b 1 -c 5; } || wrong "$model $format: $(cat "$work/out")"
    grep -q "products of $format," "$work/out" || wrong "the report lacks the format: $(cat "$work/out")"
    grep -q 'operands in a small format' "$work/out" || wrong "not rounded: $(cat "$work/out")"
    # With 4 bits, one tensor of decoding may be undecided: rounding alone moves it as far.
    grep -qE '^  (decoding|undecided: .* of the decoding)' "$work/out" || wrong "$format does not decode: $(cat "$work/out")"
}
for format in fp8 fp8_tensor mxfp8 mxfp4 nvfp4 ternary; do verify plain $format; done
verify mixture mxfp4
verify mixture ternary

moec bench "$work/formats.moe:plain" --quick --set train.precision=ternary >"$work/out" 2>&1 || wrong "no speed: $(cat "$work/out")"
grep -q 'operands are too coarse to see more than gross errors' "$work/out" || wrong "the check of the gradient: $(cat "$work/out")"

cat stdlib/*.moe >"$work/text"
train() { # FOLDER FORMAT STEPS THREADS [OPTION...]
    folder=$1 format=$2 steps=$3 threads=$4
    shift 4
    OMP_NUM_THREADS=$threads moec train "$work/formats.moe:plain" --data "$work/text" --out "$work/$folder" \
        --set train.precision="$format" --set train.eval_interval=0 --steps "$steps" "$@" >"$work/out" 2>&1 ||
        wrong "training in $format: $(cat "$work/out")"
}
train one mxfp4 6 1
grep -q 'tokens/s  mxfp4' "$work/out" || wrong "the progress line lacks the format: $(cat "$work/out")"
train two mxfp4 6 2
cmp "$work/one/last.safetensors" "$work/two/last.safetensors" || wrong "one and two threads compute different bits"
moec generate "$work/one" --prompt "layer " -n 8 --temperature 0 >"$work/text.one" || wrong "generating in mxfp4"
moec emit "$work/one" --mode decode --out "$work/c"
make -s -C "$work/c" CFLAGS="-O1 -march=native -Wall -Wextra -Werror" >"$work/out" 2>&1 || wrong "$(cat "$work/out")"
(cd "$work/c" && ./generate --prompt "layer " --tokens 8 --temperature 0) >"$work/text.c"
[ "$(cat "$work/text.one")" = "$(cat "$work/text.c")" ] || wrong "the emitted program generates another text"

# Processes that divide the sequences would round with other scales.
cd "$work"
fails 'train.precision = fp8 cannot divide the sequences' moec verify "$work/formats.moe:plain" --mesh data=2 --set train.precision=fp8
cd "$OLDPWD"

# On a GPU dense products multiply 8 bits, with heads of 64, sizes that are no multiple of a tile, and short sums. A report names
# the operand types: products over dispatched rows and those of the output matrix multiply bf16.
cat >>"$work/formats.moe" <<'END'
model wide = decoder {
  dim = 128, layers = 1, attention = { heads = { q = 2, k = 1 }, head_dim = 64 }
  ffn = swiglu { hidden_dim = 200 }, train = { batch_size = 1, context_length = 48 }
}
model odd = decoder {
  dim = 40, layers = 1, attention = { heads = { q = 2, k = 1 }, head_dim = 20 }
  ffn = swiglu { hidden_dim = 72 }, train = { batch_size = 2, context_length = 20 }
}
END
moec explain "$work/formats.moe:mixture" --target cuda --set train.precision=fp8 >"$work/out"
grep -A1 '^  attention_q .* matmul' "$work/out" | grep -q 'operands: e4m3, e4m3' || wrong "no 8 bits: $(cat "$work/out")"
grep -A1 '^  expert_gate_product .* grouped matmul' "$work/out" | grep -q 'operands: bf16, bf16' || wrong "$(cat "$work/out")"
! moec explain "$work/formats.moe:mixture" --target c --set train.precision=fp8 | grep 'operands: .*e4m3' || wrong "8 bits on a CPU"
moec emit "$work/formats.moe:plain" --target cuda --mode train --set train.precision=mxfp8 --out "$work/cuda" >"$work/out" 2>&1
grep -q 'moec_dense_units<MoecTileUnits<64, 64, 32>>' "$work/cuda/kernels.cu" || wrong "no kernel for blocks: $(cat "$work/out")"

on_simulator
device=cuda
in_bytes() { # MODEL FORMAT
    verify "$@"
    grep -q 'operands in 8 bits' "$work/out" || wrong "$1 $2: no operand in 8 bits: $(cat "$work/out")"
}
for format in fp8 fp8_tensor mxfp8 mxfp4 nvfp4; do in_bytes odd $format; done
in_bytes plain mxfp8
in_bytes wide fp8
in_bytes wide mxfp4
in_bytes mixture fp8
in_bytes mixture nvfp4
verify plain ternary
! grep -q 'operands in 8 bits' "$work/out" || wrong "ternary in 8 bits"

#!/bin/sh
# Products of the device cuda with an odd vocabulary, in bf16, on the simulated driver with a stand-in for cuBLASLt: all of them
# run over the padded axis (see compiler/transform/lower/pad.c), training has the losses and norms of the CPU, and an interrupted
# run ends with the same bits.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 MOEC_SIM=unchecked

with_cublaslt "$work/cuda"
head -c 900 README.md >"$work/text"
sizes="--set layers=1 --set dim=24 --set attention.heads.q=2 --set attention.head_dim=8 --set ffn.hidden_dim=40 --set train.batch_size=4
    --set train.context_length=12 --set train.logits_chunk_size=12 --set train.precision=bf16 --set train.grad_clip=0.5"

# Every product with the vocabulary has 256 instead of 251 rows, columns or terms; the last two sum over it.
moec dump models/gpt2.moe:gpt2_small --mode train --target cuda --after emit $sizes --set vocab_size=251 >"$work/program"
for form in '.m = 12, .n = 256, .k = 24' '.m = 12, .n = 24, .k = 256' '.m = 256, .n = 24, .k = 12'; do
    grep -q -e "$form" "$work/program" || wrong "no product has $form"
done
! grep -E '\.[mnk] = 251\b' "$work/program" || wrong "a product has an odd size"

# train NAME DEVICE STEPS [OPTION...]
train() {
    name=$1 device=$2 steps=$3
    shift 3
    MOEC_CUDA=$work/cuda moec train models/gpt2.moe:gpt2_small --device "$device" --data "$work/text" --out "$work/$name" \
        --steps "$steps" $sizes --set vocab_size=251 --set train.gradient_accumulation_steps=2 "$@" >"$work/$name.out" 2>&1 ||
        { cat "$work/$name.out"; wrong "training $name failed"; }
}

train cpu cpu 4
train cuda cuda 4
for run in cpu cuda; do sed 's/"seconds":[^,}]*//; s/[^-+.0-9e]/ /g' "$work/$run/log.jsonl" >"$work/$run.numbers"; done
paste "$work/cpu.numbers" "$work/cuda.numbers" | awk '
    function off(a, b) { return (a > b ? a - b : b - a) > 3e-3 * (a > 0 ? a : -a) + 1e-7 }
    { half = NF / 2; for (i = 1; i <= half; i++) if (off($i, $(i + half))) { print "line " NR ": " $i " is not " $(i + half); bad = 1 } }
    END { exit bad || NR < 4 }' || wrong "cpu and cuda train differently"

train parts cuda 2
train parts cuda 4 --resume
cmp "$work/cuda/last.safetensors" "$work/parts/last.safetensors" || wrong "a resumed run ends with other weights"

loss() { moec eval "$work/cuda" --device "$1" --data "$work/text" --json | sed -n 's/.*"loss": \([-.0-9e]*\).*/\1/p'; }
echo "$(loss cpu) $(MOEC_CUDA=$work/cuda loss cuda)" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; exit NF != 2 || d > 1e-3 * $1 }' || wrong "eval differs between the devices"

# Without the library, against the definition.
MOEC_CUDA=$simulator moec verify models/gpt2.moe:gpt2_small --device cuda $sizes --set vocab_size=4099 >"$work/verify" 2>&1 ||
    { cat "$work/verify"; wrong "the model differs from its definition"; }

#!/bin/sh
# The device cuda on the simulated driver: train, checkpoint, resume, evaluate, generate; the CPU has the same results.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 MOEC_SIM=unchecked

head -c 900 README.md >"$work/text"
head -c 300 LICENSE >"$work/other"

# Without a driver the command reports the missing library and exits with 1.
code=0
MOEC_CUDA=$work/nowhere moec train models/tiny.moe:tiny_moe --device cuda --data README.md --out "$work/none" 2>"$work/message" || code=$?
[ "$code" = 1 ] || wrong "exit code $code without a driver"
grep -q 'cannot open libcuda.so.1' "$work/message" || { cat "$work/message"; wrong "the message does not name the driver"; }
code=0
moec eval "$work" --device tpu --data README.md 2>/dev/null || code=$?
[ "$code" = 1 ] || wrong "exit code $code for a device that does not exist"

export MOEC_CUDA="$simulator"

# So does a GPU that is too old.
! MOEC_SIM=old moec train models/tiny.moe:tiny_moe --device cuda --data README.md --out "$work/none" 2>"$work/message" || wrong "an old GPU trains"
grep -q 'has compute capability 7.0; the kernels require 8.0 or newer' "$work/message" || { cat "$work/message"; wrong "the message does not name the capability"; }

# train NAME DEVICE STEPS [OPTION...]: the model $spec
spec=models/tiny.moe:tiny_moe
train() {
    name=$1 device=$2 steps=$3
    shift 3
    cc=cc
    [ "$device" = cpu ] || cc=/bin/false # a device needs no C compiler
    MOEC_CC=$cc moec train "$spec" --device "$device" --data "$work/text" --out "$work/$name" --steps "$steps" \
        --set dim=18 --set layers=2 --set attention.heads.q=2 --set attention.head_dim=8 --set ffn.expert.hidden_dim=12 \
        --set ffn.experts=4 --set train.batch_size=2 --set train.context_length=16 --set train.gradient_accumulation_steps=2 --set train.save_interval=2 \
        --set train.grad_clip=0.5 --set vocab_size=251 "$@" >"$work/$name.out" 2>&1 || { cat "$work/$name.out"; wrong "training $name failed"; }
}

train cpu cpu 4
train cuda cuda 4
grep -q 'kernels compiled' "$work/cuda.out" || wrong "the start line lacks the kernels"

# The same losses and norms, up to rounding.
numbers() { sed 's/"seconds":[^,}]*//; s/[^-+.0-9e]/ /g' "$1"; }
numbers "$work/cpu/log.jsonl" >"$work/cpu.numbers"
numbers "$work/cuda/log.jsonl" >"$work/cuda.numbers"
paste "$work/cpu.numbers" "$work/cuda.numbers" | awk '
    function off(a, b) { return (a > b ? a - b : b - a) > 1e-4 * (a > 0 ? a : -a) + 1e-7 }
    { half = NF / 2; for (i = 1; i <= half; i++) if (off($i, $(i + half))) { print "line " NR ": " $i " is not " $(i + half); bad = 1 } }
    END { exit bad || NR < 4 }' || wrong "cpu and cuda have different losses"
# And the same weights and moments: the optimizer processes four elements at a time, and the sizes here are not multiples of
# four.
values() { od -An -v -f -w4 -j $((8 + $(od -An -t u8 -N8 "$1"))) "$1"; }
same() { # A B LEAST: runs with the same numbers, at least LEAST of them
    values "$work/$1/last.safetensors" >"$work/cpu.values"
    values "$work/$2/last.safetensors" >"$work/cuda.values"
    paste "$work/cpu.values" "$work/cuda.values" | awk -v least="$3" '
        $1 - $2 > 1e-5 || $2 - $1 > 1e-5 { print "number " NR ": " $0; exit bad = 1 }
        END { exit bad || NR < least }' || wrong "$1 and $2 end with different weights"
}
same cpu cuda 30000

# Clip groups, element by element and with matrices of Muon: limits that the norms exceed.
groups='parameters=[{ of = "*embedding", grad_clip = 0.01 }, { of = "block.*.attention.*", grad_clip = 0.02 }]'
printf 'use muon\nuse tiny\nmodel sgd = tiny_moe { train.optimizer = sgd }\nmodel muon = tiny_moe { train.optimizer = muon }\n' >"$work/own.moe"
export MOEC_PATH=models
for optimizer in sgd muon; do
    spec=$work/own.moe:$optimizer
    for device in cpu cuda; do train "$device.$optimizer" $device 2 --set "$groups"; done
    same cpu.$optimizer cuda.$optimizer 15000
done
spec=models/tiny.moe:tiny_moe
train plain cpu 2 --set train.optimizer=sgd
cmp -s "$work/plain/last.safetensors" "$work/cpu.sgd/last.safetensors" && wrong "clip groups have no effect"

# Stopped and resumed: the same bits as without a stop, and no second compilation.
train again cuda 2
train again cuda 4 --resume
grep -q 'kernels found' "$work/again.out" || wrong "the second start compiled the kernels"
cmp "$work/cuda/last.safetensors" "$work/again/last.safetensors" || wrong "a resumed run ends with other weights"

# The optimizer step and a start round the weights of products the same.
train rounded cuda 3 --set train.precision=bf16
train parts cuda 1 --set train.precision=bf16
train parts cuda 3 --resume --set train.precision=bf16
cmp "$work/rounded/last.safetensors" "$work/parts/last.safetensors" || wrong "a start rounds differently from a step"

# Two equal runs have the same bits.
train twice cuda 4
cmp "$work/cuda/last.safetensors" "$work/twice/last.safetensors" || wrong "two runs end with different weights"

# A GPU that NVRTC does not know runs kernels of the newest known architecture.
(export MOEC_SIM=future; train future cuda 4)
grep -q 'has compute capability 15.0, which NVRTC 12.* does not know: kernels are compiled for 9.0' "$work/future.out" || wrong "another architecture is used silently"
cmp "$work/cuda/last.safetensors" "$work/future/last.safetensors" || wrong "kernels of another architecture compute something else"

# Checkpoints move between devices.
train cpu_on_cuda cpu 2
train cpu_on_cuda cuda 4 --resume
moec eval "$work/cpu" --data "$work/other" --json >"$work/cpu.json"
moec eval "$work/cuda" --device cuda --data "$work/other" --json >"$work/cuda.json"
loss() { sed -n 's/.*"loss": \([-.0-9e]*\).*/\1/p' "$1"; }
echo "$(loss "$work/cpu.json") $(loss "$work/cuda.json")" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; exit NF != 2 || d > 1e-4 * $1 }' || wrong "eval differs between the devices"

# Text from one checkpoint on both devices; the prompt is long enough for blocks of the prefill.
prompt=$(printf 'a specification of a sequence model, compiled' | od -An -v -tu1 | tr -s ' \n' ' ')
moec generate "$work/cuda" --token-ids --prompt "$prompt" -n 8 --temperature 0 >"$work/cpu.text" 2>/dev/null
moec generate "$work/cuda" --token-ids --prompt "$prompt" -n 8 --temperature 0 --device cuda >"$work/cuda.text" 2>/dev/null
cmp "$work/cpu.text" "$work/cuda.text" || wrong "generate differs between the devices"

# Samples of a flow-matching model.
"${CC:-cc}" -O1 -o "$work/shapes" examples/shapes.c -lm
"$work/shapes" draw 8 "$work/images" >/dev/null
moec train models/dit.moe:dit_small --device cuda --data "$work/images" --out "$work/dit" --steps 2 --set train.batch_size=2 \
    --set layers=1 >"$work/dit.out" 2>&1 || { cat "$work/dit.out"; wrong "training on images failed"; }
for device in cpu cuda; do
    moec sample "$work/dit" --out "$work/$device.drawn" --count 2 --steps 3 --seed 5 --device "$device"
    header=$(od -An -tu8 -N8 "$work/$device.drawn")
    tail -c +$((header + 9)) "$work/$device.drawn" | od -An -v -w4 -tfF >"$work/$device.numbers"
done
paste "$work/cpu.numbers" "$work/cuda.numbers" | awk '
    { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-5 * (1 + ($1 < 0 ? -$1 : $1))) bad = 1 }
    END { exit bad || NR != 2 * 65 }' || wrong "moec sample differs between the devices"

# Frozen parameters also stay unchanged there.
MOEC_DEVICE=cuda "$BUILD/tests/unit/test_frozen" >"$work/frozen" 2>&1 || { cat "$work/frozen"; wrong "frozen parameters"; }

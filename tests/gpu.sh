#!/bin/sh
# tests/gpu.sh [FOLDER]: the one command for a machine with a GPU. First every small model against its definition and two
# runs against each other, then speed: whole steps, single kernels, starts, each beside its ceiling and its target.
#
# Writes FOLDER/report.md and FOLDER/report.json (default tests/gpu-results/DATE). Needs build/moec, a C compiler and Python;
# with PyTorch its figures stand beside ours. No speed is told of a precision in which an output disagrees. Ends within ten
# minutes: what the time does not suffice for is named in the report.
#
#   DEVICE=cuda:1   another device
#   MODELS="WORDS"  only those small models, see tests/small_models.sh
#   PYTHON=...      another Python, say one with PyTorch
#   QUICK=1         tiny sizes, to try out this script: MOEC_CUDA=build/libmoec_sim.so QUICK=1 MODELS=tiny_moe tests/gpu.sh /tmp/x
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
PATH=$BUILD:$PATH
DEVICE=${DEVICE:-cuda}
PYTHON=${PYTHON:-python3}
QUICK=${QUICK:-}
folder=${1:-tests/gpu-results/$(date -u +%Y-%m-%d)}
[ -x "$BUILD/moec" ] || { echo "tests/gpu.sh: no $BUILD/moec; run make first" >&2; exit 2; }
"$PYTHON" -c '' || { echo "tests/gpu.sh: the report needs Python; name one in PYTHON" >&2; exit 2; }
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=$work/cache
export PATH DEVICE QUICK XDG_CACHE_HOME work
mkdir "$work/agree" "$work/speed"

began=$(date +%s)
seconds_left() { echo $((began + ${SECONDS_IN_ALL:-560} - $(date +%s))); }

# The simulator is slow, and slower beside other tests.
patience=${QUICK:+8}
patience=${patience:-1}
steps=${QUICK:+4}
steps=${steps:-20}

# limited SECONDS COMMAND...: the command, ended after so many seconds or when the time of all is up.
limited() {
    most=$(($1 * patience)) left=$(seconds_left)
    shift
    [ "$left" -gt 2 ] || { echo "no time left" >&2 && return 124; }
    timeout "$([ "$most" -lt "$left" ] && echo "$most" || echo "$left")" "$@"
}

{
    date -u '+%Y-%m-%d %H:%M'
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true
    [ -z "$QUICK" ] || echo "a trial of the script with tiny sizes: its figures mean nothing"
} >"$work/device"
git rev-parse --short HEAD >"$work/commit" 2>/dev/null || echo "a version without a name" >"$work/commit"

# ---- what the device computes ----

# ONE PRECISION MODEL [OPTION...]
cat >"$work/one" <<'END'
precision=$1
shift
to=$work/agree/$(echo "$1.$precision" | tr '/:' '__')
echo "$precision $1" >"$to.what"
timeout 100 moec compare "$@" --device "$DEVICE" --set train.precision="$precision" --json >"$to.json" 2>"$to.log"
echo "$?" >"$to.code"
END
# shellcheck disable=SC2086 # several words
tests/small_models.sh ${MODELS:-} | while read -r model; do printf 'f32 %s\nbf16 %s\n' "$model" "$model"; done >"$work/all"
echo "comparing $(wc -l <"$work/all") programs with their definition" >&2
limited 180 xargs -P "${JOBS:-$(nproc)}" -I '{}' sh -c "sh '$work/one' {}" <"$work/all"

head -c 3000 README.md >"$work/read"
train_twice() {
    for run in first second; do
        limited 60 moec train models/tiny.moe:tiny_moe --device "$DEVICE" --data "$work/read" --out "$work/$run" --steps "$steps" \
            --set train.context=16 --set train.precision=bf16 ${QUICK:+--set dim=16 --set layers=1 --set train.batch=1} \
            >"$work/$run.log" 2>&1 || { tail -1 "$work/$run.log" && return; }
    done
    cmp "$work/first/last.safetensors" "$work/second/last.safetensors" && echo "the same bits after $steps steps"
}
train_twice >"$work/twice" 2>&1

# ---- speed ----

number=10
# bench PRECISION NAME SECONDS SPEC [OPTION...]
bench() {
    precision=$1 name=$2 most=$3
    shift 3
    number=$((number + 1))
    echo "timing: $name" >&2
    echo "$precision" >"$work/speed/$number.precision"
    echo "$name" >"$work/speed/$number.name"
    limited "$most" moec bench "$@" --set train.precision="$precision" --device "$DEVICE" --json --kernels ${QUICK:+--quick} \
        >"$work/speed/$number.json" 2>"$work/speed/$number.log" ||
        { [ -s "$work/speed/$number.log" ] || echo "out of time" >"$work/speed/$number.log"; }
}

if [ -n "$QUICK" ]; then
    tiny="--set dim=32 --set vocab=64 --set train.context=16 --set train.batch=1"
    small="$tiny --set layers=1 --set attention.head_dim=8 --set ffn.hidden=32"
    mix="$tiny --set ffn.experts=4 --set ffn.top=2 --set ffn.expert.hidden=16"
    prefix=32
else
    tiny="" small="" mix=""
    prefix=32768
fi
# What targets are about comes first, should the time be short.
# shellcheck disable=SC2086 # several words
{
    bench bf16 "GPT-2 124M, training" 90 models/gpt2.moe:gpt2 ${small:---set train.batch=16}
    bench bf16 "mixture of experts" 70 tests/gpu.moe:moe_layer $mix
    bench bf16 "238M, decoding" 40 models/gpt2.moe:wide --graph decode $small
    bench bf16 "1.5B, decoding" 70 models/sigma.moe:standard_1b5 --graph decode $small
    bench bf16 "32/4/16 heads, decoding" 40 tests/gpu.moe:diff_heads --graph decode --prefix $prefix $small
    bench bf16 "32/16/16 heads, decoding" 40 tests/gpu.moe:even_heads --graph decode --prefix $prefix $small
}

# PyTorch gets our weights, so that its loss can be held against ours before it is timed.
if "$PYTHON" -c 'import torch' 2>/dev/null; then
    echo "timing PyTorch" >&2
    head -c 1040 README.md >"$work/text"
    moec init models/gpt2.moe:gpt2_small --seed 1 --out "$work/weights" >/dev/null &&
        moec run models/gpt2.moe:gpt2_small --weights "$work/weights" --tokens "$work/text" --want loss --out "$work/loss" \
            --device "$DEVICE" >/dev/null
    limited 150 "$PYTHON" tests/gpu_torch.py "$work" ${QUICK:+quick} >"$work/torch" 2>"$work/torch.log"
fi

# shellcheck disable=SC2086 # several words
{
    bench f32 "238M, decoding" 40 models/gpt2.moe:wide --graph decode $small
    bench f32 "GPT-2 124M, training" 70 models/gpt2.moe:gpt2 $small
}

# Which form of a kernel was taken, and what each takes: see runtime/device/cuda/cuda_twins.h.
cat "$work"/cache/moec/*.twins >"$work/twins" 2>/dev/null || true

echo "seconds: $(($(date +%s) - began))" >&2
"$PYTHON" tests/gpu_report.py "$work" "$folder"

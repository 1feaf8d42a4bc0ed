#!/bin/sh
# tests/gpu.sh [FOLDER]: the one command for a machine with a GPU. First every small model against its definition, then speed.
#
# Writes FOLDER/report.md and FOLDER/report.json (default tests/gpu-results/DATE). No speed is told of a model whose outputs
# disagree. About ten minutes. With MOEC_CUDA=build/libmoec_sim.so it runs on the simulated driver, correctness alone.
#
#   DEVICE=cuda:1   another device
#   MODELS="..."    FILE:MODEL of models/ instead of all small ones
#   PYTHON=...      with PyTorch the same dense model is timed beside ours, eager and compiled
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
DEVICE=${DEVICE:-cuda}
PYTHON=${PYTHON:-python3}
moec=$BUILD/moec
folder=${1:-tests/gpu-results/$(date -u +%Y-%m-%d)}
[ -x "$moec" ] || { echo "tests/gpu.sh: no $moec; run make first" >&2; exit 2; }
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$folder/report.md
: >"$report"
: >"$work/json"

say() { printf '%s\n' "$*" | tee -a "$report"; }
record() { printf '%s\n' "$*" >>"$work/json"; }

simulated=
case ${MOEC_CUDA:-} in *sim*) simulated=1 ;; esac

say "# $(date -u '+%Y-%m-%d %H:%M') UTC, $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)"
say ""
say "moec $(git rev-parse --short HEAD 2>/dev/null)."

# ---- every small model: logits and loss to 1e-5, gradients to 1e-4 of the definition (bf16: see gpu_compare.py) ----

small_models() {
    sed -n 's/^model \([a-z0-9_]*\) = .*/\1/p' models/tiny.moe | sed 's/^/tiny.moe:/'
    sed -n 's/^model \([a-z0-9_]*small[a-z0-9_]*\) = .*/\1/p' models/gated_attention.moe | sed 's/^/gated_attention.moe:/'
    sed -n 's/^model \(mue_small[a-z0-9_]*\) = .*/\1/p' models/complete_mue.moe | sed 's/^/complete_mue.moe:/'
    sed -n 's/^model \([a-z0-9_]*small[a-z0-9_]*\) = .*/\1/p' models/sigma.moe | sed 's/^/sigma.moe:/'
    sed -n 's/^model \([a-z0-9_]*small[a-z0-9_]*\) = .*/\1/p' models/structmoe.moe | sed 's/^/structmoe.moe:/'
}

# check FILE:MODEL PRECISION LIMIT LIMIT_OF_GRADIENTS: true when what the device gives is what the definition gives
check() {
    $moec init "models/$1" --seed 1 --out "$work/weights" >"$work/log" 2>&1 || return 2
    [ -e "$work/defined.$1" ] ||
        $moec run "models/$1" --weights "$work/weights" --tokens "$work/tokens" --context 17 --device eval \
            --want logits,loss,grads --out "$work/defined.$1" >"$work/log" 2>&1 || return 2
    $moec run "models/$1" --weights "$work/weights" --tokens "$work/tokens" --context 17 --device "$DEVICE" \
        --set train.precision="$2" --want logits,loss,grads --out "$work/device" >"$work/log" 2>&1 || return 1
    "$PYTHON" tests/gpu_compare.py "$work/defined.$1" "$work/device" "$3" "$4" >"$work/log" 2>&1
}

head -c 36 README.md >"$work/tokens"
say ""
say "## What the device computes"
say ""
say "| model | f32 | bf16 products |"
say "|---|---|---|"
disagree=0
for model in ${MODELS:-$(small_models)}; do
    row="| $model "
    for kind in "f32 1e-5 1e-4" "bf16 2e-2 4e-2"; do
        # shellcheck disable=SC2086 # three words
        set -- $kind
        check "$model" "$1" "$2" "$3"
        code=$?
        what=$(grep -m 1 error "$work/log" || tail -1 "$work/log")
        if [ "$code" = 2 ]; then
            row="$row| not run: $what "
        else
            [ "$code" = 0 ] || disagree=$((disagree + 1))
            row="$row| $([ "$code" = 0 ] && echo agrees || echo DISAGREES): $what "
            record "{\"model\": \"$model\", \"precision\": \"$1\", \"agrees\": $([ "$code" = 0 ] && echo true || echo false)}"
        fi
    done
    rm -f "$work/defined.$model"
    say "$row|"
done

# ---- speed ----

# bench NAME SPEC GRAPH [OPTION...]
bench() {
    name=$1 spec=$2 graph=$3
    shift 3
    if timeout 240 "$moec" bench "$spec" --graph "$graph" --device "$DEVICE" --json "$@" >"$work/bench" 2>"$work/log"; then
        "$PYTHON" tests/gpu_compare.py --row "$name" "$work/bench" | tee -a "$report"
        record "$(tr '\n' ' ' <"$work/bench")"
    else
        say "| $name | not told: $(head -1 "$work/log") | | | |"
    fi
}

if [ -z "$simulated" ]; then
    say ""
    say "## Speed"
    say ""
    say "A multiply-add is two operations; the denominator is cuBLASLt's product of 8192 measured in the same run (decoding: a"
    say "copy of 1 GiB, read and written)."
    say ""
    say "| what | tokens/s | of the ceiling | ceiling | first step, cold and warm |"
    say "|---|---|---|---|---|"
    gpt2=models/gpt2.moe:gpt2_small
    bench "GPT-2 124M, training, f32" $gpt2 train --set train.batch=8 --set train.context=1024
    bench "GPT-2 124M, training, bf16" $gpt2 train --set train.batch=8 --set train.context=1024 --set train.precision=bf16
    bench "GPT-2 124M, decoding" $gpt2 decode
    "$PYTHON" -c 'import torch' 2>/dev/null && timeout 200 "$PYTHON" tests/gpu_torch.py 2>/dev/null | tee -a "$report"
fi

say ""
say "$disagree outputs disagree."
{
    echo '['
    sed '$!s/$/,/' "$work/json"
    echo ']'
} >"$folder/report.json"
[ "$disagree" = 0 ]

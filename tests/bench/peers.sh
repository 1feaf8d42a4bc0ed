#!/bin/sh
# Training speed on the CPU compared with PyTorch, in f32 and in bf16: the same weights, fused AdamW, clipped gradients.
# Installs PyTorch into a separate folder (PEERS, build/peers), unless PYTHON names one that has it. The rounds alternate
# because the speed of a shared machine drifts. The result is the ratio; its median over the rounds is on the last line. The
# number of PyTorch is the best of several ways (see peers.py).
#
#   tests/bench/peers.sh [ROUNDS [ROW...]]      rows: dense long 2of8 8of64 124m (default: all)
#   PRECISIONS=f32 ...                          without bf16: on processors that only emulate it; 0 = not measured
#
# First PyTorch computes our loss from our weights in both precisions, and `moec bench` compares the gradient with differences
# of the loss.
set -eu
cd "$(dirname "$0")/../.."
moec=${BUILD:-build}/moec
precisions=${PRECISIONS:-f32 bf16}
rounds=${1:-3}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- dense long 2of8 8of64 124m
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${PYTHON:-}" ]; then
    folder=${PEERS:-build/peers}
    [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
    PYTHON=$folder/bin/python
    "$PYTHON" -c 'import torch' 2>/dev/null || "$PYTHON" -m pip install --quiet torch
fi

# ROW: the model and its options, sequences and tokens per sequence in a step, the ways of PyTorch in f32 and in bf16
of() {
    small=models/gpt2.moe:gpt2_small
    case $1 in
    dense) spec=$small batch=8 context=256 f32="eager compiled" bf16=$f32 ;;
    long) spec=$small batch=1 context=2048 f32="eager compiled" bf16=$f32 ;;
    2of8) spec=${small}_moe batch=8 context=256 f32=loop bf16="loop grouped" ;;
    8of64)
        spec="${small}_moe --set ffn.experts=64 --set ffn.top_k=8 --set ffn.expert.hidden_dim=192"
        batch=8 context=256 f32=loop bf16="loop grouped"
        ;;
    124m) spec=models/gpt2.moe:gpt2 batch=1 context=512 f32="eager compiled" bf16=$f32 ;;
    *) echo "peers.sh: unknown row $1" >&2 && exit 2 ;;
    esac
    spec="$spec --set train.batch_size=$batch --set train.context_length=$context"
}

# shellcheck disable=SC2086 # several words in $spec
agrees() {
    head -c $((4 * (context + 1))) README.md >"$work/text"
    $moec init -q $spec --seed 1 --out "$work/weights" >/dev/null
    for precision in $precisions; do
        $moec forward -q $spec --set train.batch_size=1 --set train.precision=$precision --weights "$work/weights" --input "$work/text" \
            --outputs loss --out "$work/loss" >/dev/null
        "$PYTHON" tests/bench/peers.py "$work" agrees $precision || exit 1
    done
}
# shellcheck disable=SC2086
ours() { # PRECISION: tokens per second, the median of the steps, and the share of the floor
    case $precisions in *"$1"*) ;; *) echo 0 0 && return ;; esac
    $moec bench $spec --set train.precision="$1" --json >"$work/bench"
    for name in median_tokens_per_second share_of_floor; do
        sed -n "s/.*\"$name\": *\([0-9.e+-]*\).*/\1/p" "$work/bench"
    done
}
theirs() { # PRECISION WAY...: the best
    precision=$1
    case $precisions in *"$1"*) ;; *) echo 0 && return ;; esac
    shift
    for way; do "$PYTHON" tests/bench/peers.py "$work" "$precision" "$batch" "$way"; done | sort -g | tail -1
}

printf '%-6s %5s %9s %6s %9s %6s %10s %10s %11s %12s %10s\n' row round "ours f32" floor "ours bf16" floor "torch f32" \
    "torch bf16" "f32 / torch" "bf16 / torch" "bf16 / f32"
for row; do
    of "$row"
    agrees
    for round in $(seq "$rounds"); do
        # shellcheck disable=SC2046,SC2086
        echo "$row" "$round" $(ours f32) $(ours bf16) $(theirs f32 $f32) $(theirs bf16 $bf16) >"$work/row"
        cat "$work/row" >>"$work/rows"
        awk 'function ratio(a, b) { return b ? a / b : 0 } { printf "%-6s %5s %9.0f %6.2f %9.0f %6.2f %10.0f %10.0f %11.2f %12.2f %10.2f\n",
            $1, $2, $3, $4, $5, $6, $7, $8, ratio($3, $7), ratio($5, $8), ratio($5, $3) }' "$work/row"
    done
done

median() { # ROW A B: of the ratios of these columns
    awk -v row="$1" -v a="$2" -v b="$3" '$1 == row { print !b ? $a : $b ? $a / $b : 0 }' "$work/rows" | sort -g |
        awk '{ x[NR] = $1 } END { printf "%.2f", x[int((NR + 1) / 2)] }'
}
for row; do
    echo "$row: medians: f32 $(median "$row" 4 0) of its floor, $(median "$row" 3 7) of PyTorch's best;" \
        "bf16 $(median "$row" 5 8) of PyTorch's best, $(median "$row" 5 3) of f32"
done

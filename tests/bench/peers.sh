#!/bin/sh
# How fast a training step is beside PyTorch's on the processor, in f32 and in bf16: the same shape, fused AdamW, clipped
# gradients. PyTorch is installed into a folder of its own (PEERS, build/peers), or PYTHON names one that has it. Rounds
# alternate, because a shared machine drifts: what counts is the ratio, of which the median over the rounds is told last.
#
#   tests/bench/peers.sh [ROUNDS [WAY...]]      ways of PyTorch: eager (default), compiled
#
# Before any figure PyTorch computes our loss again from our weights, in both precisions, and `moec bench` holds the gradient
# against differences of the loss.
set -eu
cd "$(dirname "$0")/../.."
moec=${BUILD:-build}/moec
rounds=${1:-3}
[ $# = 0 ] || shift
ways=${*:-eager}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${PYTHON:-}" ]; then
    folder=${PEERS:-build/peers}
    [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
    PYTHON=$folder/bin/python
    "$PYTHON" -c 'import torch' 2>/dev/null || "$PYTHON" -m pip install --quiet torch
fi

spec=models/gpt2.moe:gpt2_small
head -c 1040 README.md >"$work/text"
$moec init $spec --seed 1 --out "$work/weights" >/dev/null
for precision in f32 bf16; do
    $moec run $spec --set train.precision=$precision --weights "$work/weights" --tokens "$work/text" --want loss \
        --out "$work/loss" >/dev/null
    "$PYTHON" tests/bench/peers.py "$work" agrees $precision || exit 1
done

ours() { # PRECISION: tokens per second, the median of the steps
    $moec bench $spec --set train.precision="$1" --json >"$work/bench"
    sed -n 's/.*"median_tokens_per_second": *\([0-9.e+-]*\).*/\1/p' "$work/bench"
}
printf '%-7s %-10s %10s %10s %10s %10s %12s %12s %12s\n' round way "ours f32" "ours bf16" "torch f32" "torch bf16" \
    "f32 / torch" "bf16 / torch" "bf16 / f32"
for round in $(seq "$rounds"); do
    for way in $ways; do
        echo "$round $way $(ours f32) $(ours bf16) $("$PYTHON" tests/bench/peers.py "$work" f32 "$way")" \
            "$("$PYTHON" tests/bench/peers.py "$work" bf16 "$way")" >"$work/row"
        cat "$work/row" >>"$work/rows"
        awk '{ printf "%-7s %-10s %10.0f %10.0f %10.0f %10.0f %12.2f %12.2f %12.2f\n",
            $1, $2, $3, $4, $5, $6, $3 / $5, $4 / $6, $4 / $3 }' "$work/row"
    done
done
# shellcheck disable=SC2086
for way in $ways; do
    for ratio in "3 5 f32 / torch's f32" "4 6 bf16 / torch's bf16" "4 3 bf16 / f32"; do
        set -- $ratio
        awk -v way="$way" -v a="$1" -v b="$2" '$2 == way { print $a / $b }' "$work/rows" | sort -g |
            awk -v what="$way: ours, ${ratio#? ? }" '{ x[NR] = $1 } END { printf "%s: median %.2f\n", what, x[int((NR + 1) / 2)] }'
    done
done

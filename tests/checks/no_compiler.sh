#!/bin/sh
# Initial weights, costs and the definition need no C compiler; commands that need one report it.
. "$(dirname "$0")/../begin.sh"
export MOEC_CC=/nowhere/cc
printf '012345678901234567890123456789' >"$work/text"
for model in dense routed; do
    spec=generated/$model.moe
    moec check "$spec" --json >"$work/check"
    moec init --force "$spec" --seed 1 --out "$work/w"
    moec forward "$spec" --weights "$work/w" --input "$work/text" -c 4 --outputs logits,loss,grads \
        --device reference --out "$work/o"
    grep -aq '"gradient:' "$work/o" || { echo "$model: no gradients"; exit 1; }
    if moec forward "$spec" --weights "$work/w" --input "$work/text" -c 4 --outputs loss \
        --out "$work/o" 2>"$work/output"; then
        echo "$model: compiled without a compiler"
        exit 1
    fi
    grep -q 'no C compiler found: /nowhere/cc' "$work/output" || { cat "$work/output"; exit 1; }
done

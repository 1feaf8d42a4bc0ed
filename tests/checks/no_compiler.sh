#!/bin/sh
# Fresh weights, costs and the definition need no C compiler; what does need one says so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export MOEC_CC=/nowhere/cc XDG_CACHE_HOME="$folder/cache"
printf '012345678901234567890123456789' >"$folder/text"
for model in dense routed; do
    spec=generated/$model.moe
    moec check "$spec" --json >"$folder/check"
    moec init "$spec" --seed 1 --out "$folder/w"
    moec run "$spec" --weights "$folder/w" --tokens "$folder/text" --context 4 --want logits,loss,grads \
        --device eval --out "$folder/o"
    grep -aq '"gradient:' "$folder/o" || { echo "$model: no gradients"; exit 1; }
    if moec run "$spec" --weights "$folder/w" --tokens "$folder/text" --context 4 --want loss \
        --out "$folder/o" 2>"$folder/said"; then
        echo "$model: compiled without a compiler"
        exit 1
    fi
    grep -q 'there is no C compiler: /nowhere/cc' "$folder/said" || { cat "$folder/said"; exit 1; }
done

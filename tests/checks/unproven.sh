#!/bin/sh
# The terms of lowered programs that the verifier of modules does not decide: their number per model and target, in every mode
# together, is that of tests/unproven.known. It may only fall. UPDATE=1 writes the file.
. "$(dirname "$0")/../begin.sh"
specs="models/tiny.moe:tiny models/tiny.moe:tiny_moe models/tiny.moe:tiny_lore models/gpt2.moe:gpt2_small
    models/hybrid.moe:mamba2_small models/hybrid.moe:rwkv7_small models/structmoe.moe:structmoe_small_top2
    models/complete_mue.moe:mue_small_e8a4g2 models/dit.moe:dit_small tests/attention.moe:masks tests/layers.moe:groups"
# shellcheck disable=SC2086 # several words
for spec in $specs; do
    for target in c cuda; do
        for mode in train decode forward update; do
            moec dump "$spec" --mode $mode --target $target --after check 2>/dev/null | tail -n 1
        done | awk -v name="$spec $target" '{ sum += $1 } END { print name, sum + 0 }'
    done
done >"$work/found"
if [ -n "${UPDATE:-}" ]; then
    cp "$work/found" tests/unproven.known
else
    diff tests/unproven.known "$work/found" || wrong "other numbers of unproven terms"
fi

#!/bin/sh
# The tables of models/README.md equal the output of tests/models_table.sh, which verifies the counts.
. "$(dirname "$0")/../begin.sh"
tests/models_table.sh >"$work/table"
sed -n '/^## Gated Attention/,$p' models/README.md >"$work/readme"
sed 1d "$work/table" | diff "$work/readme" - || wrong "models/README.md differs; copy the output of tests/models_table.sh"
# Gated Attention balances the expert load of a global batch: each full-size mixture has the load of a whole step as a state.
for model in $(sed -n 's/^model \(moe_15b[a-z0-9_]*\) .*/\1/p' models/gated_attention.moe); do
    moec dump "models/gated_attention.moe:$model" --after elaborate --mode train >"$work/program"
    grep -q '^  state .*"block.{i}.ffn.loads"$' "$work/program" || wrong "$model balances single micro-batches"
done

#!/bin/sh
# The tables of models/README.md equal the output of tests/models_table.sh, which verifies the counts.
. "$(dirname "$0")/../begin.sh"
tests/models_table.sh >"$work/table"
sed -n '/^## Gated Attention/,$p' models/README.md >"$work/readme"
sed 1d "$work/table" | diff "$work/readme" - || wrong "models/README.md differs; copy the output of tests/models_table.sh"

#!/bin/sh
# The table of models/README.md is what tests/models_table.sh prints, whose own checks hold.
. "$(dirname "$0")/../begin.sh"
tests/models_table.sh >"$work/table"
sed -n '/^## /,$p' models/README.md >"$work/readme"
sed 1d "$work/table" | diff "$work/readme" - || { echo "write the table again: tests/models_table.sh"; exit 1; }

#!/bin/sh
# The table of models/README.md is what tests/models_table.sh prints, whose own checks hold.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tests/models_table.sh >"$work/table"
sed -n '/^## /,$p' models/README.md >"$work/readme"
sed 1d "$work/table" | diff "$work/readme" - || { echo "write the table again: tests/models_table.sh"; exit 1; }

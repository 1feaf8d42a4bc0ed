#!/bin/sh
# Every example of the language reference, README.md and the guides is a file that `moec check` accepts.
. "$(dirname "$0")/../begin.sh"
awk -v folder="$work" '
    /^```moe$/ { file = sprintf("%s/line_%04d.moe", folder, NR); next }
    /^```/     { file = "" }
    file       { print > file }' stdlib/LANGUAGE.md stdlib/EXPERIMENTS.md stdlib/LAYOUTS.md README.md \
    examples/guides/*.md
count=0
for file in "$work"/*.moe; do
    moec check "$file" >"$work/out" 2>&1 || { echo "$(basename "$file"):"; cat "$work/out"; exit 1; }
    count=$((count + 1))
done
[ "$count" -ge 8 ]

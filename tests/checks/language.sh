#!/bin/sh
# Every example of the language reference, README.md and the guides is a file that `moec check` accepts.
. "$(dirname "$0")/../begin.sh"
awk -v folder="$work" '
    /^```moe$/ { gsub(/.*\//, "", FILENAME); file = sprintf("%s/%s_%04d.moe", folder, FILENAME, FNR); next }
    /^```/     { file = "" }
    file       { print > file }' stdlib/LANGUAGE.md stdlib/EXPERIMENTS.md stdlib/LAYOUTS.md README.md \
    examples/guides/*.md
count=0
for file in "$work"/*.moe; do
    moec check "$file" >"$work/out" 2>"$work/warnings" || { echo "$(basename "$file"):"; cat "$work/warnings"; exit 1; }
    grep -qE '^(model|layout) ' "$work/out" || wrong "$(basename "$file"): moec check prints neither a model nor a layout"
    if grep 'warning:' "$work/warnings"; then exit 1; fi
    count=$((count + 1))
done
[ "$count" -ge 24 ]

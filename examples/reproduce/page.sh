#!/bin/sh
# Writes the results of a sweep into this folder: NAME.csv, NAME.svg, and the block NAME of README.md.
#
#     sh examples/reproduce/page.sh runs/stability
#
# No number in the block is written by hand.
set -eu
[ $# = 1 ] && [ -f "$1/table.csv" ] || { echo "usage: sh page.sh DIR, the directory of a finished sweep" >&2; exit 2; }
run=$1
here=$(dirname "$0")
moec=${MOEC:-build/moec}
name=$(sed -n 's/^  "experiment": "\([^"]*\)".*/\1/p' "$run/table.json" | head -1)
part=$here/$name.part
{
    "$moec" compare "$run" --markdown
    printf '\n![losses of all seeds](%s.svg)\n' "$name"
} >"$part"
sh "$here/block.sh" "$name" "$part"
rm "$part"
cp "$run/table.csv" "$here/$name.csv"
"$moec" compare "$run" --svg >"$here/$name.svg"

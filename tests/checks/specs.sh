#!/bin/sh
# Every file of the library, of models/ and of examples/ is in the canonical format, and every model in them is accepted. A
# parameter count in the comment before a model equals the output of `moec check`. README.md shows examples/guides/dense.moe.
. "$(dirname "$0")/../begin.sh"
# "# NAME: 671,026,419,200 parameters, of which 14,848 are ..." in the line before the model: 671026404352
stated_count() { # FILE MODEL
    awk -v model="$2" '$1 == "model" && $2 == model { gsub(/,/, "", line); if (match(line, /: [0-9]+ parameters/)) {
        all = substr(line, RSTART + 2) + 0
        printf "%.0f\n", all - (match(line, /of which [0-9]+/) ? substr(line, RSTART + 9) : 0) } } { line = $0 }' "$1"
}
for file in stdlib/*.moe models/*.moe examples/*.moe examples/guides/*.moe; do
    moec fmt --check "$file"
    for model in $(sed -n 's/^model  *\([A-Za-z0-9_]*\).*/\1/p' "$file"); do
        moec check --json "$file:$model" >"$work/json" || wrong "$file:$model"
        published=$(stated_count "$file" "$model")
        [ -z "$published" ] || grep -q "\"total\": $published," "$work/json" ||
            wrong "$file:$model: not $published but $(grep -m 1 '"total"' "$work/json")"
    done
done
awk '/^```/ { inside = /moe$/; next } inside' README.md >"$work/shown"
grep -v '^# ' examples/guides/dense.moe | diff "$work/shown" -

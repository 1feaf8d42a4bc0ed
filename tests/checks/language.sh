#!/bin/sh
# Every example of the language reference, README.md and the guides is a file that `moec check` accepts, without deprecated names.
# Options of the standard library in their text, as in `decoder.dim` or `moe { experts = 4 }`, exist.
. "$(dirname "$0")/../begin.sh"
awk -v folder="$work" '
    /^```moe$/ { gsub(/.*\//, "", FILENAME); file = sprintf("%s/%s_%04d.moe", folder, FILENAME, FNR); next }
    /^```/     { file = "" }
    file       { print > file }' stdlib/LANGUAGE.md stdlib/SEQUENCES.md stdlib/TRAINING.md stdlib/EXPERIMENTS.md stdlib/LAYOUTS.md README.md \
    examples/guides/*.md
count=0
for file in "$work"/*.moe; do
    moec check "$file" >"$work/out" 2>"$work/warnings" || { echo "$(basename "$file"):"; cat "$work/warnings"; exit 1; }
    grep -qE '^(model|layout) ' "$work/out" || wrong "$(basename "$file"): moec check prints neither a model nor a layout"
    if grep -E 'warning:|the old name' "$work/warnings"; then exit 1; fi
    count=$((count + 1))
done
[ "$count" -ge 24 ]
[ "$(wc -w <stdlib/LANGUAGE.md)" -le 5000 ] || wrong "stdlib/LANGUAGE.md has more than 5,000 words, which are read in 20 minutes"

awk '
    FNR == NR && /^### / { layer = $2; known[layer] = 1; next }
    FNR == NR && /^\| `/ { option = $2; gsub(/`/, "", option); sub(/[.].*/, "", option); has[layer, option] = 1; next }
    FNR == NR { next }
    FNR == 1 { inside = 0 }
    /^```/ { inside = !inside }
    inside { next }
    function check(layer, option) {
        if (!(layer in known) || (layer, option) in has) return
        printf "%s:%d: layer %s has no option %s\n", FILENAME, FNR, layer, option
        bad = 1
    }
    {
        count = split($0, spans, "`")
        for (i = 2; i <= count; i += 2) {
            if (match(spans[i], /^[a-z_0-9]+[.][a-z_0-9]+([. =]|$)/)) {
                split(spans[i], names, /[. =]/)
                if (!(names[2] ~ /^(moe|md|c|h|cu|cuh|def|json)$/)) check(names[1], names[2])
            }
            if (match(spans[i], /^[a-z_0-9]+ \{ [a-z_0-9]+/)) {
                text = spans[i]
                layer = substr(text, 1, index(text, " ") - 1)
                while (match(text, /[{,] ?[a-z_0-9.]+ =/)) {
                    option = substr(text, RSTART + 1, RLENGTH - 3)
                    gsub(/^ |[.].*/, "", option)
                    check(layer, option)
                    text = substr(text, RSTART + RLENGTH)
                    if (text ~ /^ [a-z_0-9]* ?\{/) break # the options of another layer
                }
            }
        }
    }
    END { exit bad }' stdlib/OPTIONS.md stdlib/LANGUAGE.md stdlib/SEQUENCES.md stdlib/TRAINING.md stdlib/EXPERIMENTS.md stdlib/LAYOUTS.md README.md examples/tutorial.md \
    examples/ideas/README.md examples/guides/*.md || wrong "the text names options that do not exist"

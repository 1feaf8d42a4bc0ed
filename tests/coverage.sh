#!/bin/sh
# tests/coverage.sh BUILD: executable lines of compiler/ and runtime/ that ran, per folder, from the gcov data in BUILD.
cd "$(dirname "$0")/.."
build=${1:?usage: tests/coverage.sh BUILD}
find "$build/compiler" "$build/runtime" -name '*.gcda' | xargs gcov -n 2>/dev/null |
    awk -F"'" '
        /^File/ { file = $2; next }
        /^Lines executed:/ && file ~ /^(compiler|runtime)\/.*\.[cly]$/ {
            split($0, part, /[:%]/)
            count = $0; sub(/.* of /, "", count)
            folder = file; sub("/[^/]*$", "", folder)
            all[folder] += count; ran[folder] += count * part[2] / 100
            file = ""
        }
        END {
            for (folder in all) {
                printf "%5.1f %%  %6d lines  %s\n", 100 * ran[folder] / all[folder], all[folder], folder | "sort -k5"
                lines += all[folder]; executed += ran[folder]
            }
            close("sort -k5")
            if (lines) printf "%5.1f %%  %6d lines  in all\n", 100 * executed / lines, lines
        }'

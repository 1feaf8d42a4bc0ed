#!/bin/sh
# Replaces the block NAME of README.md, which lies between <!-- NAME --> and <!-- end NAME -->, by the lines of a file.
#
#     sh examples/reproduce/block.sh NAME FILE
set -eu
page=$(dirname "$0")/README.md
grep -q "^<!-- $1 -->$" "$page" || { echo "block.sh: $page has no block $1" >&2; exit 1; }
awk -v name="$1" -v part="$2" '
    $0 == "<!-- " name " -->" {
        print; print ""
        while ((getline line < part) > 0) print line
        print ""
        inside = 1
    }
    $0 == "<!-- end " name " -->" { inside = 0 }
    !inside' "$page" >"$page.part"
mv "$page.part" "$page"

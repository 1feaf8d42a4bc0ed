#!/bin/sh
# Writes the results of a sweep into this folder: NAME.csv, NAME.svg, and the block NAME of README.md.
#
#     sh examples/reproduce/page.sh runs/stability
#
# The block lies between the comments <!-- NAME --> and <!-- end NAME -->. No number in it is written by hand.
set -eu
[ $# = 1 ] && [ -f "$1/table.csv" ] || { echo "usage: sh page.sh DIR, the directory of a finished sweep" >&2; exit 2; }
run=$1
here=$(dirname "$0")
moec=${MOEC:-build/moec}
name=$(sed -n 's/^  "experiment": "\([^"]*\)".*/\1/p' "$run/table.json" | head -1)
grep -q "^<!-- $name -->$" "$here/README.md" || { echo "page.sh: README.md has no block $name" >&2; exit 1; }

cp "$run/table.csv" "$here/$name.csv"
"$moec" compare "$run" --svg >"$here/$name.svg"
"$moec" compare "$run" --markdown >"$here/$name.part"
awk -v name="$name" -v part="$here/$name.part" '
    $0 == "<!-- " name " -->" {
        print; print ""
        while ((getline line < part) > 0) print line
        print ""; print "![losses of all seeds](" name ".svg)"; print ""
        inside = 1
    }
    $0 == "<!-- end " name " -->" { inside = 0 }
    !inside' "$here/README.md" >"$here/README.part"
mv "$here/README.part" "$here/README.md"
rm "$here/$name.part"

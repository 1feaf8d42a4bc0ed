#!/bin/sh
# Every file of the library, of models/ and of examples/ is in the one layout, and every model in them is accepted. The first
# example is the one that README.md shows.
set -eu
cd "$(dirname "$0")/../.."
moec=$(command -v moec)
for file in stdlib/*.moe models/*.moe examples/*.moe; do
    "$moec" fmt --check "$file"
    for model in $(sed -n 's/^model  *\([A-Za-z0-9_]*\).*/\1/p' "$file"); do
        "$moec" check "$file:$model" >/dev/null || { echo "$file:$model"; exit 1; }
    done
done
awk '/^```/ { inside = /moe$/; next } inside' README.md >"${TMPDIR:-/tmp}/shown.$$"
grep -v '^# ' examples/first.moe | diff "${TMPDIR:-/tmp}/shown.$$" -
rm -f "${TMPDIR:-/tmp}/shown.$$"

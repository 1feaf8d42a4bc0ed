#!/bin/sh
# What the compiler writes for two small specs is what stands in generated/. With -u it is written there. Lines of the
# standard library may move without a new copy.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
without_lines() {
    sed 's/\(std\/[a-z_]*\.moe\):[0-9]*/\1/g' "$1"
}
for spec in generated/*.moe; do
    for graph in train decode; do
        name=$(basename "$spec" .moe)_$graph
        moec emit "$spec" --target c --graph $graph --out "$work/$name"
        if [ -n "${UPDATE:-}" ]; then
            cp "$work/$name/program.c" "generated/$name.c"
            continue
        fi
        without_lines "generated/$name.c" >"$work/expected"
        without_lines "$work/$name/program.c" >"$work/actual"
        if ! diff -u --label "generated/$name.c" --label actual "$work/expected" "$work/actual" >"$work/diff"; then
            head -60 "$work/diff"
            status=1
        fi
    done
done
exit $status

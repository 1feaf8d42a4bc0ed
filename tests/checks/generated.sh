#!/bin/sh
# What the compiler writes for two small specs is what stands in generated/. With -u it is written there.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for spec in generated/*.moe; do
    for graph in train decode; do
        name=$(basename "$spec" .moe)_$graph
        moec emit "$spec" --target c --graph $graph --out "$work/$name"
        if [ -n "${UPDATE:-}" ]; then
            cp "$work/$name/program.c" "generated/$name.c"
        elif ! diff -u "generated/$name.c" "$work/$name/program.c" >"$work/diff"; then
            head -60 "$work/diff"
            status=1
        fi
    done
done
exit $status

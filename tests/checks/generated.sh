#!/bin/sh
# What the compiler writes for two small specs is what stands in generated/. With -u it is written there. Lines of the
# standard library may move without a new copy.
. "$(dirname "$0")/../begin.sh"
status=0
without_lines() {
    sed 's/\(std\/[a-z_]*\.moe\):[0-9]*/\1/g' "$1"
}
# same FILE WRITTEN: the two are alike, or FILE is made so.
same() {
    if [ -n "${UPDATE:-}" ]; then
        cp "$2" "generated/$1"
        return
    fi
    without_lines "generated/$1" >"$work/expected"
    without_lines "$2" >"$work/actual"
    if ! diff -u --label "generated/$1" --label actual "$work/expected" "$work/actual" >"$work/diff"; then
        head -60 "$work/diff"
        status=1
    fi
}
for spec in generated/*.moe; do
    for graph in train decode; do
        name=$(basename "$spec" .moe)_$graph
        moec emit "$spec" --target c --mode $graph --out "$work/$name"
        same "$name.c" "$work/$name/program.c"
    done
done
# Of the kernels for a device one text is enough to read; what launches them has the shape of the C above.
moec emit generated/routed.moe --target cuda --mode train --out "$work/device"
same routed_train.cu "$work/device/kernels.cu"
exit $status

#!/bin/sh
# The output of the compiler for two small specs equals the files in generated/. -u writes them. Lines of the standard library
# may move without a new copy.
. "$(dirname "$0")/../begin.sh"
status=0
without_lines() {
    sed 's/\(std\/[a-z_]*\.moe\):[0-9]*/\1/g' "$1"
}
# same FILE WRITTEN: both are equal; -u copies WRITTEN to FILE.
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
# For a device only the kernels are stored; the launching code resembles the C code above.
moec emit generated/routed.moe --target cuda --mode train --out "$work/device"
same routed_train.cu "$work/device/kernels.cu"
exit $status

#!/bin/sh
# Includes go one way; and the test that says so finds planted ones that do not.
. "$(dirname "$0")/../begin.sh"
tests/arrows.sh || exit 1
# planted FILE INCLUDE: the fault is found in a copy, with its place.
planted() {
    rm -rf "$work/copy"
    mkdir "$work/copy"
    cp -R compiler runtime "$work/copy"
    echo "#include \"$2\"" >>"$work/copy/$1"
    line=$(wc -l <"$work/copy/$1")
    if tests/arrows.sh "$work/copy" >"$work/found" || ! grep -q "^$1:$line: .*$2" "$work/found"; then
        echo "not found: $1 includes $2"
        cat "$work/found"
        exit 1
    fi
}
planted compiler/ir/ir.c schedule/kernel.h
planted compiler/codegen/c/emit_c.c codegen/cuda/emit_cuda.h
planted compiler/analysis/cost.c device/device.h
planted compiler/explain/explain.c calls/call_table.h
planted runtime/base/files.c model/model.h

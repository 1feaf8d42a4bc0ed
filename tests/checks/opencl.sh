#!/bin/sh
# The OpenCL target runs whole models: tests/opencl prints their kernels in at most 300 lines and interprets their steps in at most
# 200; the results equal those of the definition.
. "$(dirname "$0")/../begin.sh"

at_most() {
    lines=$(wc -l <"$2")
    [ "$lines" -le "$1" ] || wrong "$2 has $lines lines, at most $1"
}
at_most 300 tests/opencl/opencl.c
at_most 200 tests/opencl/runner.c

compiler=${CC:-cc}
flags=$(nm "$BUILD/libmoec_compiler.a" 2>/dev/null | grep -q __asan_init && echo -fsanitize=address,undefined || true)
# shellcheck disable=SC2086 # words
if ! echo '#include <CL/cl.h>' | $compiler -E - >/dev/null 2>&1; then
    echo "skipped: no OpenCL headers here"
    exit 0
fi
# shellcheck disable=SC2086 # words
$compiler -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror $flags -Icompiler -Iruntime -Iruntime/abi -Itests/opencl \
    -o "$work/run" tests/opencl/*.c "$BUILD/libmoec_compiler.a" -ljansson -lm -lOpenCL
[ -d /sys/devices ] || { echo "skipped: pocl needs /sys"; exit 0; }
code=0
ASAN_OPTIONS=detect_leaks=0 POCL_CACHE_DIR=$work "$work/run" >"$work/output" || code=$?
cat "$work/output"
[ "$code" = 77 ] || exit "$code"

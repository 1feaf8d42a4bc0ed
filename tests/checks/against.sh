#!/bin/sh
# `moec verify --against` with functions of shared libraries: the example agrees, planted faults of it are found, and code that
# does not match is refused with both sides. tests/against/compare.sh is the same for PyTorch.
. "$(dirname "$0")/../begin.sh"
root=$PWD
cd "$work"
export OMP_NUM_THREADS=1

# built NAME [SED...]: the example as NAME.so, changed by sed.
built() {
    name=$1
    shift
    sed "$@" "$root/examples/fused_norm.c" >"$name.c"
    ${CC:-cc} -O1 -shared -fPIC -I"$root/runtime/library" "$name.c" -o "$name.so" -lm
}

# found TEXT NAME SED: the changed example differs, and the report has TEXT.
found() {
    text=$1
    shift
    built "$@"
    cmp -s "$1.c" "$root/examples/fused_norm.c" && wrong "$1: nothing changed"
    code=0
    moec verify -q rms_norm --against "./$1.so:fused_norm" >out 2>&1 || code=$?
    [ $code = 1 ] && grep -q DISAGREES out || wrong "the fault $1 is not found: $(cat out)"
    grep -q -- "$text" out || wrong "$1: no '$text' in $(cat out)"
}

built right -e ''
moec verify rms_norm --against ./right.so:fused_norm --dtypes f32,bf16,f64 >out 2>&1 || wrong "$(cat out)"
[ "$(grep -c 'results and gradients agree' out)" = 3 ] || wrong "$(cat out)"
[ "$(wc -l <out)" -le 7 ] || wrong "more than a line per precision: $(cat out)"
moec verify rms_norm --against ./right.so:fused_norm --json -b 1 -c 4 >out
grep -q '"agrees": true' out || wrong "$(cat out)"

found 'y\[0,0,0\] is .* computed in std/norms.moe\|computed in std/norms.moe:' eps 's/eps = 1e-6/eps = 1e-5/'
grep -q 'tiny' out || wrong "$(cat out)"
found 'gradient of x' factor 's| / (double)width));|));|'
found 'bf16 .*DISAGREES' sum 's|^ *sums\[i\] += .*|&\n            store(type, weight->gradient, i, sums[i]), sums[i] = load(type, weight->gradient, i);|'
grep -q 'f32 .*results and gradients agree' out || wrong "$(cat out)"
grep -q 'first read in std/norms.moe:' out || wrong "$(cat out)"
found 'not a number' unwritten 's/row < rows; row++/row < rows - (rows == 65); row++/'
found 'not deterministic' kept 's|^ *const MoecAgainstType type = .*|&\n    static double before = 0;|; s|double squares = 0,|double squares = before,|; s|^    free(sums);|    before = 1;\n&|'
found 'gradient of weight' alone 's/^ *for (int64_t i = 0; i < width; i++) store(type, weight->gradient.*//'

# Code that cannot be judged.
built zone 's|^    free(sums);|    store(type, y->values, y->count, 1);\n&|'
fails "the function writes outside of 'y'" moec verify rms_norm --against ./zone.so:fused_norm
built crash 's|^    free(sums);|    *(volatile int *)0 = 1;|'
fails 'ended by signal 11' env ASAN_OPTIONS=handle_segv=0 moec verify rms_norm --against ./crash.so:fused_norm
built leaves 's|^    free(sums);|    exit(3);|'
fails 'ended the process, exit code 3' moec verify rms_norm --against ./leaves.so:fused_norm
built hangs 's|^    free(sums);|    for (volatile int more = 1; more;) continue;|'
fails 'did not return within 2 s' env MOEC_AGAINST_TIMEOUT=2 moec verify rms_norm --against ./hangs.so:fused_norm
fails "MOEC_AGAINST_TIMEOUT is 'soon': expected seconds above 0" env MOEC_AGAINST_TIMEOUT=soon moec verify rms_norm --against ./right.so:fused_norm
built forward 's/return MOEC_AGAINST_GOOD/return MOEC_AGAINST_NO_GRADIENTS/'
moec verify rms_norm --against ./forward.so:fused_norm >out || wrong "$(cat out)"
grep -q 'gradients are not compared: the function computes no gradients' out || wrong "$(cat out)"
fails 'expected x, weight and y' moec verify swiglu --against ./right.so:fused_norm
fails 'undefined symbol: other' moec verify rms_norm --against ./right.so:other

# Command lines.
fails 'expects FILE.py:NAME or LIBRARY.so:NAME' moec verify rms_norm --against right.so
fails "expects a file .py or .so, got 'right.c'" moec verify rms_norm --against right.c:f
fails "cannot read 'missing.py'" moec verify rms_norm --against missing.py:f
fails 'a shared library computes on the CPU' moec verify rms_norm --against ./right.so:fused_norm --device cuda
fails 'expects f32, bf16 or f64' moec verify rms_norm --against ./right.so:fused_norm --dtypes f16
fails 'expects NAME=DOMAIN' moec verify rms_norm --against ./right.so:fused_norm --inputs x=3..1
fails "'z' is not an input" moec verify rms_norm --against ./right.so:fused_norm --inputs z=0..1
fails "expects AXIS=N, got 'q=4'" moec verify rms_norm --against ./right.so:fused_norm --sizes d=8,q=4
fails 'cannot set the sequence axis' moec verify rms_norm --against ./right.so:fused_norm --sizes s=8
fails 'is for a layer' moec verify "$root/examples/first.moe" --against ./right.so:fused_norm --sizes d=8
fails 'too large for the interpreter' moec verify rms_norm --against ./right.so:fused_norm --sizes d=100000000
printf 'layer wide(x[s,d]) -> y[s,k] {\n  axis k = 4\n  param w[d,k]\n  y[s,k] = sum[d] x[s,d] * w[d,k]\n}\n' >wide.moe
fails "has the axis 'k' of its result" moec verify wide.moe:wide --against ./right.so:fused_norm
: >code.py
code=0
PYTHON=$work/nothing moec verify rms_norm --against code.py:f >out 2>&1 || code=$?
[ $code = 1 ] && grep -q 'set PYTHON to a Python with PyTorch' out || wrong "$(cat out)"

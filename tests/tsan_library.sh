#!/bin/sh
# libmoec and the programs that it compiles under ThreadSanitizer. library_threads.c calls every function from four threads, on
# one shared model and on private models. python/concurrency.py does the same if Python has NumPy and PyTorch. Builds in BUILD
# (default build/tsan-lib). OpenMP has one thread per call: ThreadSanitizer does not see how GCC's OpenMP threads synchronize.
# Not part of `make test`.
#
#   PYTHON=build/python/bin/python tests/tsan_library.sh
export BUILD="${BUILD:-build/tsan-lib}" OMP_NUM_THREADS=1
. "$(dirname "$0")/begin.sh"
flags="-O1 -g -fsanitize=thread"
make -s -j"$(nproc)" BUILD="$BUILD" CC="${CC:-cc}" CFLAGS="$flags" "$BUILD/moec" "$BUILD/libmoec.so"
${CC:-cc} -std=c11 -D_GNU_SOURCE $flags -Iruntime tests/library_threads.c -L"$BUILD" -lmoec -Wl,-rpath,"$BUILD" -lpthread \
    -o "$work/library_threads"
small_model 40
moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
export MOEC_CFLAGS=-fsanitize=thread TSAN_OPTIONS="halt_on_error=0 exitcode=66 die_after_fork=0"

# checked NAME COMMAND...: the command ends with 0 and ThreadSanitizer reports nothing.
checked() {
    name=$1
    shift
    code=0
    TSAN_OPTIONS="$TSAN_OPTIONS log_path=$work/report" "$@" >"$work/out" 2>&1 || code=$?
    cat "$work/out"
    for report in "$work"/report.*; do
        if [ -e "$report" ]; then
            head -80 "$report"
            wrong "$name: ThreadSanitizer reports errors"
        fi
    done
    [ $code = 0 ] || wrong "$name: exit code $code"
    echo "ok   $name"
}

checked "library from C" "$work/library_threads" "$work/run"
python=${PYTHON:-python3}
library=$(${CC:-cc} -print-file-name=libtsan.so)
# With randomized addresses, Python ends with a segmentation fault in ThreadSanitizer on some kernels.
fixed=$(setarch -R true 2>/dev/null && echo setarch -R || :)
if PYTHONPATH=runtime/python MOEC_LIBRARY=$BUILD/libmoec.so LD_PRELOAD=$library $fixed "$python" -c 'import torch, moec' 2>"$work/out"; then
    TSAN_OPTIONS="$TSAN_OPTIONS ignore_noninstrumented_modules=1"
    export PYTHONPATH=runtime/python MOEC_LIBRARY="$BUILD/libmoec.so"
    checked "library from Python" env LD_PRELOAD="$library" $fixed "$python" tests/python/concurrency.py "$work" threads modules
else
    echo "skip library from Python: $(tail -1 "$work/out")"
fi

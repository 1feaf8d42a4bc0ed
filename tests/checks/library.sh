#!/bin/sh
# libmoec.so: the C example has the results of the command; errors are reported without ending the process; no other symbols are
# exported.
. "$(dirname "$0")/../begin.sh"
[ -e "$BUILD/libmoec.so" ] || { echo "no libmoec.so in $BUILD"; exit 0; }
export OMP_NUM_THREADS=1
small_model 40
moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
for compiler in "${CC:-cc}" g++; do
    language=c
    [ "$compiler" = g++ ] && language=c++
    $compiler -x $language -Wall -Wextra -Iruntime/library -fsyntax-only runtime/library/moec.h || wrong "moec.h with $compiler"
done
${CC:-cc} -std=c11 -Wall -Wextra -Werror examples/library.c -Iruntime/library -L"$BUILD" -lmoec -Wl,-rpath,"$BUILD" -o "$work/library"

"$work/library" "$work/run" "layer x" >"$work/out" || wrong "the example fails"
expected=$(moec generate "$work/run" --prompt "layer x" -n 8 --temperature 0)
[ "$(sed -n '2,$p' "$work/out" | sed '$d')" = "$expected" ] || wrong "the text is $(cat "$work/out"), not $expected"
printf 'layer xlayer xlay' >"$work/window"
loss=$(moec eval "$work/run" --data "$work/window" --set train.batch_size=1 | sed 's/^loss \([0-9.]*\).*/\1/')
grep -q "^loss $loss, " "$work/out" || wrong "the loss is $(head -1 "$work/out"), not $loss"
awk -v a="$loss" '/after two steps/ { exit !($2 < a) }' "$work/out" || wrong "two steps do not reduce the loss: $(cat "$work/out")"

"$work/library" "$work/none" x >"$work/out" 2>&1 && wrong "a missing run was loaded"
grep -q "none" "$work/out" || wrong "$(cat "$work/out")"
nm -D --defined-only "$BUILD/libmoec.so" | awk '$3 !~ /^moec_/ { print; wrong = 1 } END { exit wrong }' || wrong "these symbols are exported"

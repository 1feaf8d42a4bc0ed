#!/bin/sh
# The output of moec emit --target cuda builds with nvcc, for every mode. Without nvcc only the C part is compiled.
. "$(dirname "$0")/../begin.sh"
for graph in decode train draw; do
    model=models/tiny.moe:tiny_moe
    [ "$graph" != draw ] || model=models/dit.moe:dit_small_e8a3s1
    moec emit "$model" --set layers=2 --set dim=32 --set train.precision=bf16 \
        --target cuda --mode "$graph" --out "$work/$graph"
    if command -v nvcc >/dev/null; then
        make -s -C "$work/$graph" ARCH=sm_80
    else
        (cd "$work/$graph" && for source in *.c; do
            "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I. -c -o "$source.o" "$source"
        done)
    fi
done
if command -v nvcc >/dev/null; then
    test -x "$work/decode/generate"
    test -x "$work/train/train"
    test -x "$work/draw/draw"
fi

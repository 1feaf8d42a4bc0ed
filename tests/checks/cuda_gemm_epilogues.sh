#!/bin/sh
# What a dense product of the device cuda does before it stores, and what is left to a kernel: layers of which the emitted
# product has that epilogue and the simulated device makes the same numbers as the definition, by its own products (f32)
# and by a stand-in of cuBLASLt, which does them as well.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 MOEC_SIM=unchecked
with_cublaslt "$work/cuda"

# model EQUATIONS [WIDTH]
model() {
    cat <<MODEL
use decoder
use activations

layer inner(x[s,d]) -> y[s,d] {
  axis f = ${2:-24}
  param up[d,f], side[d,f], down[f,d], bias[f] ~ 0.3, shift[s] ~ 0.3
$1
  y[s,d] = sum[f] h[s,f] * down[f,d]
}

model small = decoder {
  vocab_size = 16, dim = 16, layers = 2
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = inner
  train = { batch_size = 2, context_length = 12 }
}
MODEL
}
number=0
# same OPS LIBRARY EQUATIONS [WIDTH]: those of the products of the training graph, with how many there are of each, in f32;
# what the library did (_f32: in f32 alone); in both precisions the right numbers. LIBRARY empty: nothing to compute.
same() {
    number=$((number + 1))
    model "$3" "${4:-24}" >"$work/$number.moe"
    moec emit "$work/$number.moe" --target cuda --mode train --force --out "$work/$number" >/dev/null 2>&1
    found=$(sed -n 's/.*\.epilogue_ops = \([0-9]*\),.*/\1/p' "$work/$number/program.c" | sort -n | uniq -c | awk '{ printf "%sx%s ", $1, $2 }')
    [ "$found" = "$1 " ] || { echo "epilogues $found instead of $1: $3"; exit 1; }
    [ "$2" ] || return 0
    for precision in f32 bf16; do
        [ $precision = f32 ] && libraries="$simulator $work/cuda" || libraries=$work/cuda
        for library in $libraries; do
            rm -f "$work/log"
            MOEC_CUDA=$library STAND_IN_LOG=$work/log moec verify "$work/$number.moe" --device cuda \
                --set train.precision=$precision >"$work/out" 2>&1 || { echo "$precision, $library: $3"; cat "$work/out"; exit 1; }
        done
        for line in $2; do
            case $line in *_f32) [ $precision = f32 ] || continue ;; esac
            line=${line%_f32}
            grep -q "^. $(echo "$line" | tr _ ' ')\$" "$work/log" || { echo "$precision: nothing was done as $line: $3"; exit 1; }
        done
    done
}
a='  a[s,f] = sum[d] x[s,d] * up[d,f]'
b='  b[s,f] = sum[d] x[s,d] * side[d,f]'
# the two residual connections alone: what is made of the result elsewhere in the row, or of it twice, is none
same 2x1 "" "$a
  h[s,f] = a[s,(f + 1) % 24] + bias[f]"
same 2x1 "" "$a
  t[s,f] = a[s,f] + bias[f]
  h[s,f] = t[s,f] * a[s,f]"
same 2x1 "" "$a
  h[s,f] = gelu(a[s,f])"
same 2x1 "" "$a
  h[s,f] = a[s,f] - bias[f]"
# a value of each column, before and after; of each row, which the library does not know
same "2x1 1x2" "4 1_added" "$a
  h[s,f] = bias[f] + a[s,f]"
same 2x1 "" "$a
  h[s,f] = a[s,f] + shift[s]"
# another product, of which the bias can be, too
same 3x1 "" "$a
$b
  h[s,f] = a[s,f] + b[s,f]"
same "2x1 1x3" 4_added_f32 "$a
$b
  h[s,f] = a[s,f] + (b[s,f] + bias[f])"
# the function, in words of one's own; what it is taken of is wanted on the way back, if lines of it begin where they may
same "2x1 1x14 1x16" "164 192" "$a
  t[s,f] = a[s,f] + bias[f]
  h[s,f] = gelu_tanh(t[s,f])"
same "2x1 1x12 1x16" "160 192" "$a
  h[s,f] = a[s,f] * sigmoid(1.5957691216057308 * (a[s,f] + 0.044715 * a[s,f]^3))"
same "2x1 1x2" "" "$a
  t[s,f] = a[s,f] + bias[f]
  h[s,f] = gelu_tanh(t[s,f])" 20
# a number times it, alone and before what is added to that; but not of the sum, nor where what the product reads can have it
same 2x1 "" "$a
  h[s,f] = 0.25 * a[s,f]"
same "2x1 1x32" 1_scaled_f32 "$a
$b
  t[s,f] = 0.25 * a[s,f]
  h[s,f] = t[s,f] * b[s,f]"
same "2x1 1x33" 1_added_scaled_f32 "$a
$b
  h[s,f] = a[s,f] + b[s,f] * 0.25"
same 2x1 "" "$a
  h[s,f] = 0.25 * (a[s,f] + bias[f])"

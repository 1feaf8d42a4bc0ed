#!/bin/sh
# Epilogues of dense products on the device cuda, and computations that remain in a separate kernel. Each emitted product has
# the expected epilogue. The simulated device computes the same numbers as the definition with moec's products (f32) and with a
# stand-in for cuBLASLt that supports epilogues.
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
# same OPS LIBRARY EQUATIONS [WIDTH]: OPS are the epilogues of the products of the training graph in f32, each with its count.
# LIBRARY lists the epilogues that the library computed (_f32: in f32 only; empty: do not compute). The numbers are correct in
# both precisions.
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
            grep -q "^. $(echo "$line" | tr _ ' ')\$" "$work/log" || { echo "$precision: no product was computed as $line: $3"; exit 1; }
        done
    done
}
a='  a[s,f] = sum[d] x[s,d] * up[d,f]'
b='  b[s,f] = sum[d] x[s,d] * side[d,f]'
# only the two residual connections: values of other columns, or two uses of the result, are not an epilogue
same 2x1 "" "$a
  h[s,f] = a[s,(f + 1) % 24] + bias[f]"
same 2x1 "" "$a
  t[s,f] = a[s,f] + bias[f]
  h[s,f] = t[s,f] * a[s,f]"
same 2x1 "" "$a
  h[s,f] = gelu(a[s,f])"
same 2x1 "" "$a
  h[s,f] = a[s,f] - bias[f]"
# a value per column, before and after; a value per row, which the library does not support
same "2x1 1x2" "4 1_added" "$a
  h[s,f] = bias[f] + a[s,f]"
same 2x1 "" "$a
  h[s,f] = a[s,f] + shift[s]"
# another product, whose bias may also be one
same 3x1 "" "$a
$b
  h[s,f] = a[s,f] + b[s,f]"
same "2x1 1x3" 4_added_f32 "$a
$b
  h[s,f] = a[s,f] + (b[s,f] + bias[f])"
# the activation function, written as equations; its argument is needed in the backward pass if its rows are aligned
same "2x1 1x14 1x16" "164 192" "$a
  t[s,f] = a[s,f] + bias[f]
  h[s,f] = gelu_tanh(t[s,f])"
same "2x1 1x12 1x16" "160 192" "$a
  h[s,f] = a[s,f] * sigmoid(1.5957691216057308 * (a[s,f] + 0.044715 * a[s,f]^3))"
same "2x1 1x2" "" "$a
  t[s,f] = a[s,f] + bias[f]
  h[s,f] = gelu_tanh(t[s,f])" 20
# a factor, alone and before an addend; but not of the sum, nor if an operand of the product can have the factor
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

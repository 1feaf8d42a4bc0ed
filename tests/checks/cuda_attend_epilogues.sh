#!/bin/sh
# Computations in the store of an attention kernel, and those that must not be fused. The simulated device must compute the
# numbers of the definition: forward, backward and in a training step, with bf16 operands and, for every second layer, in f32
# (ALL=1: for each).
. "$(dirname "$0")/../begin.sh"
# model EQUATIONS HEADS WIDTH
model() {
    cat <<MODEL
use train
use activations

model small = inner

layer inner {
  option train: layer = train { batch_size = 2, context_length = 21 }
  axis d = 8
  axis h = $2
  axis hk = 1
  axis e = 6
  axis c = $3
  sequence s = train.context_length
  input x[s,d]: float
  param query[d,h,e], key[d,hk,e], value[d,hk,c], side[d,h,c], few[d,h], more[h,c], output[h,c,d]
  q[s,h,e] = sum[d] x[s,d] * query[d,h,e]
  k[s,hk,e] = sum[d] x[s,d] * key[d,hk,e]
  v[s,hk,c] = sum[d] x[s,d] * value[d,hk,c]
  o = attend(q, k, v)
$1
  z[s,d] = tanh(sum[h,c] y[s,h,c] * output[h,c,d])
  output z
  loss = mean[batch,s,d] z * z
}
MODEL
}
number=0
# same FUSED EQUATIONS [HEADS WIDTH]: the numbers are correct, and the store of the attention computes FUSED (1) or not (0).
same() {
    number=$((number + 1))
    model "$2" "${3:-2}" "${4:-8}" >"$work/$number.moe"
    for graph in train decode; do
        moec emit "$work/$number.moe" --target cuda --mode $graph --force --out "$work/$number" >/dev/null 2>&1
        count=$(grep -c 'moec_attend.*\[&\]' "$work/$number/kernels.cu" || true)
        [ "$count" -eq "$1" ] || { echo "$graph: $count fused stores instead of $1: $2"; exit 1; }
        for precision in $(precisions "$number"); do
            "$BUILD/tests/unit/test_emit_cuda" "$work/$number.moe" small $graph "train.precision=$precision" \
                >"$work/log" 2>&1 || { echo "$graph, $precision: $2"; tail -5 "$work/log"; exit 1; }
        done
    done
}
a='  a[s,h,c] = sum[d] x[s,d] * side[d,h,c]'
# a value per element, row, head and column; even and odd widths; one head
same 1 "$a
  y[s,h,c] = o[s,h,c] * sigmoid(a[s,h,c])"
same 1 "$a
  y[s,h,c] = o[s,h,c] * sigmoid(a[s,h,c])" 2 7
same 1 "  b[s,h] = sum[d] x[s,d] * few[d,h]
  y[s,h,c] = o[s,h,c] * sigmoid(b[s,h]) + more[h,c]" 3 10
same 1 "$a
  y[s,h,c] = o[s,h,c] + sigmoid(a[s,h,c])" 1 8
# a chain that also reads the unchanged result; two readers
same 1 "  t[s,h,c] = tanh(o[s,h,c])
  y[s,h,c] = t[s,h,c] * t[s,h,c] + o[s,h,c]"
same 1 "$a
  t[s,h,c] = sigmoid(a[s,h,c]) * o[s,h,c]
  y[s,h,c] = t[s,h,c] + silu(o[s,h,c])"
# the operands of the attention
same 1 "  y[s,h,c] = o[s,h,c] * q[s,h,0]"
# readers of the whole result: of another head; a sum over the row; the normalizer, which is complete only later
same 0 "  y[s,h,c] = o[s,h,c] * sigmoid(o[s,(h + 1) % 2,c])"
same 0 "  m[s,h] = mean[c] o[s,h,c] * o[s,h,c]
  y[s,h,c] = o[s,h,c] * (m[s,h] + 0.1)^-0.5"
same 0 "  y[s,h,c] = o[s,h,c] * (o.lse[s,h] + 9)"

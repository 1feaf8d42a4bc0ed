#!/bin/sh
# Computations in the store of a grouped product, and those that must not be fused. The simulated device must compute the
# numbers of the definition: forward and backward, with bf16 operands and, for every second layer, in f32 (ALL=1: for each).
. "$(dirname "$0")/../begin.sh"
model() {
    cat <<MODEL
use moe
use train
use activations

model small = outer

layer outer {
  option ffn: layer = moe { experts = 3, top_k = 2, expert = inner }
  option train: layer = train { batch_size = 2, context_length = 20 }
  axis d = 16
  sequence s = train.context_length
  input x[s,d]: float
  param mix[d] ~ 0.3
  u[s,d] = x[s,d] * (1 + mix[d])
  y = ffn(u)
  z[s,d] = tanh(y[s,d])
  output z
  loss = mean[batch,s,d] z * z
}

layer inner(x[s,d]) -> y[s,d] {
  axis f = 24
  param up[d,f], side[d,f], down[f,d], bias[f] ~ 0.3
$1
  y[s,d] = sum[f] h[s,f] * down[f,d]
}
MODEL
}
number=0
# same EQUATIONS COUNT: the numbers are correct, and at least COUNT stores compute.
same() {
    number=$((number + 1))
    model "$1" >"$work/$number.moe"
    moec emit "$work/$number.moe" --target cuda --mode train --force --out "$work/$number" >/dev/null 2>&1
    count=$(grep -c '__global__.* product_train_' "$work/$number/kernels.cu" || true)
    [ "$count" -ge "$2" ] || { echo "$count fused stores instead of $2: $1"; exit 1; }
    for precision in $(precisions "$number"); do
        "$BUILD/tests/unit/test_emit_cuda" "$work/$number.moe" small train "train.precision=$precision" >"$work/log" 2>&1 ||
            { echo "$precision: $1"; tail -5 "$work/log"; exit 1; }
    done
}
a='  a[s,f] = sum[d] x[s,d] * up[d,f]'
b='  b[s,f] = sum[d] x[s,d] * side[d,f]'
# a value per row or per column; a chain; a result that is also read unchanged
same "$a
  h[s,f] = tanh(a[s,f] + bias[f])" 2
same "$a
  t[s,f] = tanh(a[s,f])
  u[s,f] = t[s,f] * t[s,f] + a[s,f]
  h[s,f] = u[s,f] * sigmoid(a[s,f])" 2
# two products with a common reader, in either order
same "$a
$b
  h[s,f] = a[s,f] * sigmoid(b[s,f])" 2
same "$a
  t[s,f] = sigmoid(a[s,f])
$b
  h[s,f] = t[s,f] * b[s,f] + t[s,f]" 2
# another position of the same row, which requires the whole result
same "$a
  h[s,f] = a[s,f] * sigmoid(a[s,(f + 1) % 24])" 0
# a sum over the row in between
same "$a
  m[s] = mean[f] a[s,f] * a[s,f]
  h[s,f] = a[s,f] * (m[s] + 0.1)^-0.5" 0
# a result that the next product reads completely
same "$a
  param mix[f,f]
  t[s,f] = tanh(a[s,f])
  c[s,j] = sum[f] t[s,f] * mix[f,j]
  h[s,f] = c[s,f] * t[s,f] + a[s,f]" 2

#!/bin/sh
# Attention to one of sixteen blocks of keys, chosen by the data, compared with full attention at 16,384 tokens: the time of the
# kernels of attention and of the choice in a training step, without the products with weights. At most 1/6.
# Then, at 4,096 tokens, attention to a window of 256 tokens and the first 4, by a condition, and the kernels of attention to the
# 128 single keys with the largest scores (without those of the choice): each at most 0.75 of full attention.
#
#   tests/bench/sparse_attention.sh [ROUNDS]    default: 3
. "$(dirname "$0")/../begin.sh"
cp examples/ideas/block_attention.moe "$work"
cat >"$work/long.moe" <<'SPEC'
use decoder
use block_attention
model chosen = decoder {
  dim = 128, layers = 1, attention = block_attention { heads = 2, block = 128, blocks = 8 }, ffn.hidden_dim = 128
  train = { batch_size = 1, context_length = 16384 }
}
model full = chosen { attention = attention { heads.q = 2 } }

layer first_and_last(x[s,d]) -> y[s,d] {
  axis h = 8
  axis e = 32
  param query[d,h,e], key[d,h,e], value[d,h,e], output[h,e,d]
  q[s,h,e] = sum[d] x[s,d] * query[d,h,e]
  k[s,h,e] = sum[d] x[s,d] * key[d,h,e]
  v[s,h,e] = sum[d] x[s,d] * value[d,h,e]
  o[s,h,e] = attend[t](q, k, v; mask = t <= s and (s - t < 256 or t < 4))
  y[s,d]   = sum[h,e] o[s,h,e] * output[h,e,d]
}
layer best_keys(x[s,d]) -> y[s,d] {
  axis h = 8
  axis e = 32
  axis i = 16
  param query[d,h,e], key[d,h,e], value[d,h,e], output[h,e,d], left[d,i], right[d,i]
  q[s,h,e] = sum[d] x[s,d] * query[d,h,e]
  k[s,h,e] = sum[d] x[s,d] * key[d,h,e]
  v[s,h,e] = sum[d] x[s,d] * value[d,h,e]
  a[s,i] = sum[d] x[s,d] * left[d,i]
  b[s,i] = sum[d] x[s,d] * right[d,i]
  score[s,t] = sum[i] a[s,i] * b[t,i]
  chosen[s,t] = top_k[t](where(t <= s, score[s,t], -1e30), 128)
  o[s,h,e] = attend[t](q, k, v; mask = t <= s and chosen[s,t] > 0)
  y[s,d]   = sum[h,e] o[s,h,e] * output[h,e,d]
}
model stream = full { attention = first_and_last, train.context_length = 4096 }
model single = stream { attention = best_keys }
model dense = stream { attention = attention { heads.q = 8, head_dim = 32, rotary = none } }
SPEC

# kernels MODEL FILE [KIND]: milliseconds of the kernels of that source file, without products, or of those of that kind
kernels() {
    moec bench "$work/long.moe:$1" --kernels --quick |
        awk -v file="$2" -v kind="${3:-}" '!/ matmul / && index($NF, file) && index($0, kind) { for (i = 2; i < NF; i++) if ($i ~ /^[0-9]+\.[0-9][0-9][0-9]$/) { sum += $i; break } } END { print sum }' >>"$work/$1"
}
for round in $(seq "${1:-3}"); do
    kernels chosen block_attention.moe
    kernels full std/attention.moe
    kernels stream long.moe
    kernels single long.moe ' attention '
    kernels dense std/attention.moe
done
# compare MODEL NAME: its time, relative to that of full attention, at 4,096 tokens
compare() {
    echo "$(sort -g "$work/$1" | head -1) $(sort -g "$work/dense" | head -1)" |
        awk -v name="$2" '{ printf "%s %.0f ms, full attention %.0f ms: %.2f of the time\n", name, $1, $2, $1 / $2; exit !($1 > 0 && $1 <= 0.75 * $2) }' ||
        wrong "more than 0.75 of full attention"
}
compare stream "window and first tokens"
compare single "128 single keys"
echo "$(sort -g "$work/chosen" | head -1) $(sort -g "$work/full" | head -1)" |
    awk '{ printf "blocks %.0f ms, full attention %.0f ms: %.2f times as fast\n", $1, $2, $2 / $1; exit !($1 > 0 && $2 >= 6 * $1) }' || wrong "less than 6 times as fast"

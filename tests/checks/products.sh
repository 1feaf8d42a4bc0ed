#!/bin/sh
# oneDNN never uses its reference loops, which are up to a thousand times slower: neither if a batch shares an operand (stride
# 0) nor if it is an inner dimension. Its verbose log is the evidence.
#
#   tests/checks/products.sh        batches that share an operand, models/tiny.moe
#   tests/checks/products.sh all    the small models, too
. "$(dirname "$0")/../begin.sh"
export ONEDNN_VERBOSE=1 DNNL_VERBOSE=1

cat >"$work/shared.moe" <<'END'
use decoder

# Every expert for every token: the products of the batch share an operand.
layer dense_mixture(x[s, d]) -> y[s, d] {
  axis n = 4
  axis f = 96
  param up[n, d, f], down[n, f, d]
  h[s, n, f] = relu(sum[d] x[s, d] * up[n, d, f])
  y[s, d] = 0.25 * (sum[n, f] h[s, n, f] * down[n, f, d])
}

layer weighed(x[s, d]) -> y[s, d] {
  axis n = 4
  param router[d, n]
  p[s, n] = softmax[n](sum[d] x[s, d] * router[d, n])
  y[s, d] = sum[n] p[s, n] * swiglu@expert[n](x; hidden_dim = 96)[s, d]
}

layer hashed(x[s, d]) -> y[s, d] {
  axis n = 4
  chosen[s, n] = s % 4 == n
  y[s, d] = sum[n in chosen] swiglu@expert[n](x; hidden_dim = 96)[s, d]
}

model dense = decoder { dim = 64, layers = 1, ffn = dense_mixture, train = { batch_size = 4, context_length = 32 } }

model soft = dense { ffn = weighed }

model hash = dense { ffn = hashed }
END

{
    printf '%s\n' "$work/shared.moe:dense" "$work/shared.moe:soft" "$work/shared.moe:hash" "models/tiny.moe -b 2 -c 12"
    [ "${1:-}" != all ] || tests/small_models.sh
} >"$work/models"
while read -r model options; do
    # Unquoted: OPTIONS are words.
    moec verify "$model" $options >"$work/out" </dev/null || wrong "$(grep -v _verbose "$work/out")"
    grep -q outputs "$work/out" || wrong "$model: moec verify has compared no outputs"
    ! grep -E '_verbose,.*exec,.*matmul,ref' "$work/out" || wrong "$model"
    grep _verbose "$work/out" >>"$work/all" || true
done <"$work/models"
! grep -q '_verbose,info' "$work/all" || grep -q '_verbose,.*exec,.*matmul' "$work/all" || wrong 'the library has executed no product'

# Commands without products neither load the library nor allocate memory per thread: this once zeroed 450 pages per start.
! ldd "$BUILD/moec" | grep dnnl || wrong 'every command loads the library'
threads=$(readelf -lW "$BUILD/moec" | awk '$1 == "TLS" { print $6 }')
[ $((${threads:-0})) -lt 4096 ] || wrong "every thread starts with $((threads)) bytes"

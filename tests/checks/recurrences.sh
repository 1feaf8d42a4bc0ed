#!/bin/sh
# Scan chunks compute the recurrence: decays from 1e-4 to 1, chunks of only strong decays, decays of 0, a length that is not a
# multiple of the chunk size, decoding position by position. The models run on the CPU and, with fewer positions, on the
# simulated device. A few random recurrences of all kinds follow. `all`: 500 of them, and the layers of the standard library at
# 1,024 positions.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O1 MOEC_SIM=unchecked OMP_NUM_THREADS=1
cat >"$work/strong.moe" <<'END_OF_SPEC'
use decoder
use recurrent

layer strong(x[s,d]) -> y[s,d] {
  axis h = 3
  axis e = 16
  axis c = 16
  param q[d,h,e], k[d,h,e], v[d,h,c], part[d,h], out[h,c,d], rate[h] ~ ones
  key[s,h,e] = sum[d] x[s,d] * k[d,h,e]
  unit[s,h,e] = key[s,h,e] * rsqrt((sum[e] key[s,h,e] * key[s,h,e]) + 1e-6)
  val[s,h,c] = sum[d] x[s,d] * v[d,h,c]
  beta[s,h] = sigmoid(sum[d] x[s,d] * part[d,h])
  slow[s,h] = where(h == 1, where(s % 64 > 60, 0, 3.4), (s % 7 == 0) * 3)
  a[s,h] = (s != 20) * exp(-exp(rate[h]) * where(h == 0, 3.4, slow[s,h]))
  scan S[h,e,c] over s {
    S[h,e,c] = a[s,h] * S[h,e,c] + beta[s,h] * unit[s,h,e] * (val[s,h,c] - (sum[e] unit[s,h,e] * a[s,h] * S[h,e,c]))
  }
  scan L[h,e,c] over s { L[h,e,c] = a[s,h] * L[h,e,c] + key[s,h,e] * val[s,h,c] }
  b[s,h,e] = where(e == 3, 1, where(e == 5, (s + e) % 9 > 0, where(e == 7, 1e-4, a[s,h])))
  scan E[h,e,c] over s {
    E[h,e,c] = b[s,h,e] * E[h,e,c] - beta[s,h] * unit[s,h,e] * (sum[e] unit[s,h,e] * E[h,e,c]) + key[s,h,e] * val[s,h,c]
  }
  scan F[h,e,c] over s { F[h,e,c] = b[s,h,e] * F[h,e,c] + key[s,h,e] * val[s,h,c] }
  p[s,h,e] = sum[d] x[s,d] * q[d,h,e]
  o[s,h,c] = (sum[e] p[s,h,e] * S[s,h,e,c]) + 0.1 * (sum[e] unit[s,h,e] * L[s,h,e,c])
           + 0.1 * (sum[e] p[s,h,e] * E[s,h,e,c]) + 0.1 * (sum[e] p[s,h,e] * F[s,h,e,c])
  y[s,d] = sum[h,c] o[s,h,c] * out[h,c,d]
}

model m = decoder {
  vocab_size     = 32
  dim       = 24
  layers    = 1
  attention = strong
  ffn       = swiglu { hidden_dim = 16 }
  train     = { batch_size = 1, context_length = 300 }
}
END_OF_SPEC
chunked=$(moec dump "$work/strong.moe" --mode train --after chunk_scan | grep -c '_border\[.*scan(')
[ "$chunked" = 4 ] || wrong "$chunked of 4 scans run in chunks"
ONEDNN_VERBOSE=1 DNNL_VERBOSE=1 moec verify "$work/strong.moe" -c 300 -b 1 >"$work/output" ||
    { cat "$work/output"; exit 1; }
! grep -E '_verbose,.*exec,.*matmul,ref' "$work/output" || wrong 'a product of a chunk uses the reference loops of the library'
MOEC_CUDA=$simulator moec verify "$work/strong.moe" --device cuda -c 40 -b 1 --set train.scan_chunk_size=16 \
    >"$work/output" || { cat "$work/output"; exit 1; }

# A chunked hybrid model resumes as if there had been no stop, and is emitted as C that generates the same text.
cat README.md stdlib/LANGUAGE.md >"$work/text"
trained() {
    moec train models/hybrid.moe:hybrid_small --data "$work/text" --out "$work/$1" --set train.scan_chunk_size=16 --set train.steps=8 \
        --set train.batch_size=2 --set train.save_interval=4 --set train.eval_interval=0 $2 >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
}
trained once ""
trained twice "--stop-after 4"
trained twice --resume
cmp "$work/once/last.safetensors" "$work/twice/last.safetensors"
moec emit "$work/once" --target c --mode decode --out "$work/c" >/dev/null
make -s -C "$work/c"
moec generate "$work/once" --prompt "The " -n 40 --temperature 0 >"$work/hosted"
"$work/c/generate" --weights "$work/c/weights.bin" --prompt "The " --tokens 40 >"$work/alone"
[ "$(cat "$work/hosted")" = "$(cat "$work/alone")" ] || wrong "the emitted program generates another text"

# Random recurrences against the interpreter, 500 with `all`.
random=4 MOEC_CFLAGS=-O0
[ "${1:-}" = all ] && random=500 MOEC_CFLAGS=-O1
MOEC_MODELS=$random "$BUILD/tests/unit/test_models" recurrences
MOEC_MODELS=$random MOEC_CUDA=$simulator MOEC_DEVICE=cuda "$BUILD/tests/unit/test_models" recurrences

[ "${1:-}" = all ] || exit 0
for mixer in retention 'gated_delta { heads.k = 2 }' 'mamba2 { heads = 2 }' linear_attention 'gla { heads = 2 }' 'rwkv7 { heads = 2 }'; do
    cat >"$work/layer.moe" <<END_OF_SPEC
use decoder
use recurrent
model m = decoder { vocab_size = 32, dim = 64, layers = 1, attention = $mixer, train = { batch_size = 1, context_length = 1024 } }
END_OF_SPEC
    moec verify "$work/layer.moe" -c 1024 -b 1 || exit 1
done

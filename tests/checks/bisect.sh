#!/bin/sh
# moec verify --bisect names the first equation that differs: a C compiler that changes an operation of the emitted text.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
cd "$work"
cat >small.moe <<'SPEC'
use decoder
layer waves(x[s, d]) -> y[s, d] {
  param w[d] ~ normal(1)
  wave[s, d] = tanh(w[d] * x[s, d])
  y[s, d] = wave[s, d] + x[s, d]
}
model small = decoder {
  dim = 16, layers = 2
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = waves
  train = { batch_size = 1, context_length = 8 }
}
SPEC
cat >changes <<'SCRIPT'
#!/bin/sh
for word; do case $word in *.c) sed -i "$CHANGE" "$word" ;; esac; done
exec cc "$@"
SCRIPT
chmod +x changes

# finds CHANGE TEXT: with the change of the emitted text, the report has the text.
finds() {
    rm -rf "$XDG_CACHE_HOME"
    code=0
    CHANGE=$1 MOEC_CC=$PWD/changes moec verify small.moe --bisect >report || code=$?
    [ $code -eq 1 ] && grep -qF "$2" report || wrong "$1: no '$2': $(cat report)"
}
finds 's/moec_tanh(/0.9f * moec_tanh(/' 'the first difference is in block.0.ffn.wave, small.moe:4'
finds 's/moec_rsqrt(/1.01f * moec_rsqrt(/' 'the first difference is in block.0.attention_norm.root, std/norms.moe:9'
CHANGE='s/moec_tanh(/0.9f * moec_tanh(/' MOEC_CC=$PWD/changes moec verify small.moe --bisect --json >report && wrong "the fault was not noticed"
grep -q '"name": "block.0.attention_norm.root"' report || wrong "$(cat report)"
rm -rf "$XDG_CACHE_HOME"
moec verify small.moe --bisect >report || wrong "$(cat report)"
grep -q 'every equation agrees' report || wrong "$(cat report)"

# A second loss and a probe have the names of tensors.
cat >named.moe <<'SPEC'
use decoder
layer sized(x[s, d]) -> y[s, d] {
  size[s] = mean[d] x[s, d] * x[s, d]
  probe size = mean[batch, s] size[s]
  y[s, d] = 0.5 * x[s, d] * size[s]
}
model named = decoder {
  dim = 16, layers = 2, attention.heads.q = 2
  ffn = moe { experts = 2, top_k = 1, expert = sized, aux_loss_coef = 0.3 }
  train = { batch_size = 1, context_length = 8 }
}
SPEC
moec verify named.moe --bisect >report || wrong "$(cat report)"
grep -q 'every equation agrees' report || wrong "$(cat report)"
on_simulator
moec verify small.moe --bisect --device cuda >report || wrong "the device: $(cat report)"
# The same change in the kernels of the device.
cat >cxx_changes <<'SCRIPT'
#!/bin/sh
for word; do case $word in *.cpp | *.cu | *.c | *.cc) sed -i "$CHANGE" "$word" ;; esac; done
exec c++ "$@"
SCRIPT
chmod +x cxx_changes
rm -rf "$XDG_CACHE_HOME"
code=0
CHANGE='s/= moec_tanh(/= 0.9f * moec_tanh(/' MOEC_CXX=$PWD/cxx_changes moec verify small.moe --bisect --device cuda >report || code=$?
[ $code -eq 1 ] && grep -qF 'the first difference is in block.0.ffn.wave, small.moe:4' report || wrong "the fault on the device is not found: $(cat report)"

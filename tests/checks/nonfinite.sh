#!/bin/sh
# Faults that make a loss infinite or NaN. The message names the step, the tensor with its layer and index, the equation with its
# line, and the operands.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
seq 20000 -1 1 >"$work/text"
cc -O1 -o "$work/shapes" examples/shapes.c -lm && "$work/shapes" draw 40 "$work/images" || wrong "no images"
cp models/dit.moe "$work/"
cd "$work" || exit 1
cat >faults.moe <<'SPEC'
use decoder
layer softmax_without_maximum(x[s, d]) -> y[s, d] {
  option scale: float = 100
  power[s, d] = exp(scale * x[s, d])
  y[s, d] = power[s, d] / sum[d] power[s, d]
}
layer norm_of_zero(x[s, d]) -> y[s, d] {
  centered[s, d] = where(s == 3, 0, x[s, d])
  y[s, d] = centered[s, d] / sqrt(sum[d] centered[s, d]^2)
}
layer log_of_zero(x[s, d]) -> y[s, d] {
  param gate[d] ~ zeros
  weight[s, d] = gate[d] * x[s, d]
  y[s, d] = x[s, d] + log(weight[s, d]^2)
}
layer diverging_state(x[s, d]) -> y[s, d] {
  scan h[d] from 1 over s {
    grown[d] = 1e6 * h[d]
    h[d] = grown[d] + x[s, d]
  }
  y[s, d] = h[s, d]
}
layer exploding(x[s, d]) -> y[s, d] {
  param up[d] ~ normal(1), size ~ normal(1)
  y[s, d] = x[s, d] * exp(300 * size) * up[d]
}
layer large(x[s, d]) -> y[s, d] {
  param w[d, d] ~ normal(1e-4)
  limit[s, d] = 3.397e38 * tanh(x[s, d]^2 + 99)
  y[s, d] = sum[i] limit[s, i] * w[i, d]
}
layer rare(x[s, d]) -> y[s, d] {
  y[s, d] = x[s, d] / (x[s, d] < 3.1)
}
model small = decoder {
  dim = 16, layers = 2
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = swiglu { hidden_dim = 8 }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 6, eval_interval = 2, save_interval = 3 }
}
model softmax = small { ffn = softmax_without_maximum }
model norm = small { ffn = norm_of_zero }
model logarithm = small { ffn = log_of_zero }
model state = small { ffn = diverging_state }
model expert = small { ffn = moe { experts = 4, top_k = 2, expert = exploding } }
model rarely = small { ffn = rare, train.gradient_accumulation_steps = 4 }
model rounded = small { ffn = large, train.precision = bf16 }
SPEC
# finds COMMAND... : the command fails; then each line of stdin is in its messages.
finds() {
    "$@" >out 2>log </dev/null
    [ $? -eq 1 ] || { cat out log; wrong "$*: it does not fail"; }
    while read -r words; do
        grep -qF -- "$words" log || { cat log; wrong "$*: no '$words'"; }
    done
}
trains() {
    rm -rf run
    finds moec train "$@" --data text --out run $on
}

# spoil FILE COPY OFFSET: the same file with NaN at an offset from its end; one without a checksum may be changed.
spoil() {
    sed 's/"checksum"/"checksun"/' "$1" >"$2"
    printf '\0\0\300\177' | dd of="$2" bs=1 seek=$(($(wc -c <"$2") - $3)) conv=notrunc 2>/dev/null
}
on=${FAULTS_ON:-} # flags of the device
[ -z "$on" ] || on_simulator
trains faults.moe:softmax <<'WORDS'
step 1: the loss is not a finite number; training has stopped
faults.moe:4:17: note: the first value that is not finite is in block.0.ffn.power[batch=0,s=0,d=0]: exp(
power[s, d] = exp(scale * x[s, d])
operands: block.0.ffn_norm.y[batch=0,s=0,d=0] = 1.
WORDS
trains faults.moe:norm <<'WORDS'
faults.moe:9:13: note: the first value that is not finite is in block.0.ffn.y[batch=0,s=3,d=0]: 0 / 0 is nan
operands: block.0.ffn.centered[batch=0,s=3,d=0] = 0, block.0.ffn.sum_of_squares[batch=0,s=3] = 0
WORDS
trains faults.moe:logarithm <<'WORDS'
faults.moe:14:23: note: the first value that is not finite is in block.0.ffn.y[batch=0,s=0,d=0]: log(0) is -inf
operands: block.0.ffn.weight[batch=0,s=0,d=0] = 0
WORDS
trains faults.moe:state <<'WORDS'
faults.moe:18:16: note: the first value that is not finite is in block.0.ffn.grown[batch=0,s=6,d=0] at s=6: 1e+06 * 1e+36 is inf
operands: block.0.ffn.h_before[batch=0,s=6,d=0] = 1e+36
WORDS
trains faults.moe:expert <<'WORDS'
faults.moe:25:23: note: the first value that is not finite is in block.1.ffn.expert.y[batch=0,s=0,n=1,d=0]: exp(185.002) is inf
operands: block.1.ffn.expert.size[n=1] = 0.616674
WORDS
trains faults.moe:rounded <<'WORDS'
faults.moe:29:17: note: the first value that is not finite is in block.0.ffn.limit[batch=0,s=0,d=0]: 3.397e+38 is rounded to bf16
WORDS

moec init faults.moe:small --seed 1 --out fresh
spoil fresh spoilt 4
cat >words <<'WORDS'
note: the first value that is not finite is the weight unembedding[d=15,v=255] = nan, which is read here
logits[s,v] = sum[d] x[s,d] * unembedding[d,v]
WORDS
trains faults.moe:small --init-from spoilt <words
finds moec eval spoilt --data text $on <words
head -c 33 text >tokens
moec forward faults.moe:small --weights spoilt --input tokens --outputs loss,grads --out results $on 2>log || wrong "forward fails"
while read -r words; do grep -qF -- "$words" log || { cat log; wrong "forward: no '$words'"; }; done <words

# Data of a real input: number 1 of patch 3 of example 17, in front of the 40 labels.
spoil images spoilt $((4 * (40 + 22 * 64 + 12 * 4 + 3)))
rm -rf run
finds moec train dit.moe:dit_small --set layers=1 --data spoilt --out run $on <<'WORDS'
note: the first value that is not finite is the input image[batch=18,n=3,p=1] = nan, which is read here
WORDS

[ -z "$on" ] || exit 0
# The first micro-batch with the fault is of the second of two processes; the first one prints it.
trains faults.moe:rarely <<'WORDS'
 / 0 is inf
note: it is in micro-batch 3 of 4
WORDS
fault=$(grep 'the first value' log)
# shellcheck disable=SC2086 # several words
set -- $mpi
if [ $# != 0 ]; then
    rm -rf run
    $1 -n 2 moec train faults.moe:rarely --data text --out run >out 2>log </dev/null && wrong "two processes: no failure"
    grep -qF -- "$fault" log || { cat log; wrong "two processes: another fault than $fault"; }
fi

# One of them on the simulated device; nonfinite_device.sh has all.
on_simulator
on='--device cuda'
trains faults.moe:state <<'WORDS'
faults.moe:18:16: note: the first value that is not finite is in block.0.ffn.grown[batch=0,s=6,d=0] at s=6: 1e+06 * 1e+36 is inf
WORDS

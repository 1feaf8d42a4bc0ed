#!/bin/sh
# Ternary weights in 2 bits. Prepared weights that are ternary keep their values: the loss is that of f32, and that of int8 if the operands
# are ternary, also in emitted programs. Others are rounded: the same in a quantized run. Sums of other than whole groups stay f32.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat >"$work/bit.moe" <<'EOF'
use decoder

model bit = decoder {
  vocab_size = 256, dim = 128, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 }, head_dim = 32 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 192 } }
  train = { batch_size = 2, context_length = 64, steps = 6, eval_interval = 0, lr = 1e-2, precision = ternary }
}

model plain = bit { layers = 1, ffn = swiglu { hidden_dim = 160 }, train.precision = f32 }

layer ternary(x[s,a]) -> y {
  option to: axes
  param weight[a,to]
  scale = mean[a,to] abs(weight[a,to])
  round[a,to] = max(min(floor(weight[a,to] / (scale + 1e-5) + 0.5), 1), -1) * scale
  y[s,to] = sum[a] x[s,a] * round[a,to]
}

layer net {
  option train: layer = train { batch_size = 2, context_length = 64 }
  axis v = 256
  axis d = 128
  axis f = 320
  sequence s = train.context_length
  input tokens[s]: token
  input targets[s]: next_token
  param embedding[v,d], unembedding[d,v]
  x[s,d] = embedding[tokens[s],d]
  repeat block[i < 2] {
    h = ternary@up(x; to = [f])
    x = x + ternary@down(silu(h); to = [d])
  }
  logits[s,v] = sum[d] x[s,d] * unembedding[d,v]
  output logits
  loss = mean[batch,s] (logsumexp[v] logits[s,v] - logits[s,targets[s]])
}

model own = net
EOF
cat stdlib/*.moe >"$work/text"
head -c 1500 "$work/text" >"$work/short"
cd "$work"
for model in "own -c 64" "bit -b 1 -c 8"; do
    # shellcheck disable=SC2086 # several words
    moec verify bit.moe:$model --forms --set inference.weight_dtype=ternary >log 2>&1 || wrong "$(cat log)"
    grep -q 'forms .*, ternary weights' log && grep -q '^  decoding' log || wrong "not compared: $(cat log)"
done
for model in bit own; do moec init bit.moe:$model --out $model.safetensors >log 2>&1 || wrong "$(cat log)"; done
# 160 terms are two groups and a rest of 32.
moec check bit.moe:plain --weight-dtype ternary | grep -q 'decoding weights .*: ternary .* kB, f32 .* with embedding, block.0.ffn.down$' ||
    wrong "$(moec check bit.moe:plain --weight-dtype ternary)"

loss() { moec eval "$@" --data short --json 2>log | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'; }
text() { moec generate "$@" --prompt 'layer ' -n 24 --temperature 0 2>log || wrong "$(cat log)"; }
prepared() { moec check bit.moe:bit --json --weight-dtype "$1" | sed -n 's/.*"prepared_bytes": *\([0-9]*\).*/\1/p'; }
{
    echo "$(loss own.safetensors) $(loss own.safetensors --weight-dtype ternary --head-dtype f32)"
    echo "$(loss bit.safetensors --weight-dtype int8) $(loss bit.safetensors --weight-dtype ternary --head-dtype int8)"
} >losses
awk '{ d = $1 - $2; if (!($1 > 0 && $2 > 0 && d < 1e-6 && d > -1e-6)) exit 1 }' losses || wrong "losses of f32, of int8 and of ternary: $(cat losses)"
# 64 weights: 256 bytes, or a scale and 16 bytes
[ "$(prepared f32)" -gt 0 ] && [ $(($(prepared f32) * 20)) = $(($(prepared ternary) * 256)) ] || wrong "bytes: $(prepared f32), $(prepared ternary)"

text bit.safetensors --weight-dtype ternary >expected
moec emit bit.safetensors --mode decode --weight-dtype ternary --out c >log 2>&1 || wrong "$(cat log)"
make -s -C c CFLAGS="-O0 -march=native -Wall -Wextra -Werror" >log 2>&1 || wrong "$(cat log)"
(cd c && ./generate --prompt 'layer ' --tokens 24 --temperature 0) >found
[ "$(cat expected)" = "$(cat found)" ] || wrong "the emitted program generates another text"
moec emit bit.safetensors --profile freestanding --weight-dtype ternary --head-dtype int4 --out free >log 2>&1 || wrong "$(cat log)"
grep -q 'MoecTernary ternaries' free/model.c && grep -q 'MoecInt4 panels' free/model.c || wrong "no ternary and int4"
moec generate bit.safetensors --token-ids --prompt "3 1 4" -n 9 --temperature 0.8 --seed 3 --weight-dtype ternary --head-dtype int4 2>/dev/null |
    sed 's/^3 1 4 //; s/ *$//' >expected
(cd free && cc -std=c99 -Wall -Wextra -Werror -O1 -DPROMPT=3,1,4 -DCOUNT=9 -DTEMPERATURE=0.8f -DSEED=3 example.c model.c -o example &&
    ./example | sed -n 1p) >found
[ "$(cat expected)" = "$(cat found)" ] || wrong "other tokens of the freestanding program: $(cat found expected)"

moec train bit.moe:plain --data text --steps 2 --out plain >log 2>&1 || wrong "$(cat log)"
moec quantize plain --type ternary --head-type int8 --out two >log 2>&1 || wrong "$(cat log)"
moec tensors two | grep -q '^block.0.ffn.up *TERNARY *\[128, 160\]' || wrong "tensors: $(moec tensors two)"
expected=$(loss plain --weight-dtype ternary --head-dtype int8)
[ -n "$expected" ] && [ "$expected" = "$(loss two)" ] || wrong "loss $(loss two), rounded when loaded $expected"
text two >found && text plain --weight-dtype ternary --head-dtype int8 | cmp - found || wrong "another text of the quantized run"
fails "is already quantized: its weights are ternary" moec quantize two --type int4 --out nowhere
fails "inference.weight_dtype = ternary is available on CPUs only" moec emit bit.safetensors --target cuda --mode decode --weight-dtype ternary --out nowhere

#!/bin/sh
# `export` and `import` with --layout FILE for layers outside of the standard library: in a file that the layout uses, in the
# file of the layout itself, and as the base. The model, its weights and its loss are the same after export and import.
# A folder may have any name.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cd "$work" || exit 1
mkdir lib
cat >lib/mixers.moe <<'SPEC'
use activations

layer two_taps(x[s, d]) -> y[s, d] {
  option act: layer = silu  "activation"
  param now[d] ~ normal(1), before[d] ~ normal(1)
  y[s, d] = now[d] * x[s, d] + before[d] * act(x[s - 1, d])
}
SPEC
cat >lib/family.moe <<'SPEC'
use llama
use mixers

layout taps = llama {
  from model_type = "taps"
  from architectures = ["Taps"]
  from intermediate_size = none
  from hidden_act = none
  from tap_act = ffn.act
  ffn = two_taps
  "model.layers.{i}.taps.now"[d] = block[i].ffn.now[d]
  "model.layers.{i}.taps.before"[d] = block[i].ffn.before[d]
}
SPEC
# The same with the layers in the file of the layout.
{ echo 'use activations'; sed '/^use mixers/d' lib/family.moe; sed '/^use/d' lib/mixers.moe; } >whole.moe
# A layout for a base outside of the standard library.
cat >lib/tower.moe <<'SPEC'
use mixers
use train

layer tower {
  option vocab: int = 64 "vocabulary size"
  option width: int = 8 "width"
  option depth: int = 2 "number of blocks"
  option train: layer = train { batch_size = 2, context_length = 16 }
  axis v = vocab
  axis d = width
  sequence s = train.context_length
  input tokens[s]: token
  input targets[s]: next_token
  param table[v, d] ~ normal(0.1), head[d, v] ~ normal(0.1)
  x[s, d] = table[tokens[s], d]
  repeat block[i < depth] { x = x + two_taps@taps(x) }
  logits[s, v] = sum[d] x[s, d] * head[d, v]
  output logits
  loss = mean[batch, s] (logsumexp[v] logits[s, v] - logits[s, targets[s]])
}
SPEC
cat >lib/towers.moe <<'SPEC'
use tower

layout towers for tower {
  from model_type = "towers"
  from vocab_size = vocab
  from hidden_size = width
  from num_hidden_layers = depth
  from torch_dtype
  "table.weight"[v, d] = table[v, d]
  "head.weight"[v, d] = head[d, v]
  "layers.{i}.now"[d] = block[i].taps.now[d]
  "layers.{i}.before"[d] = block[i].taps.before[d]
}
SPEC
printf 'use tower\nmodel tall = tower { width = 12, depth = 3 }\n' >towers.moe
cat >models.moe <<'SPEC'
use decoder
use mixers
model m = decoder {
  vocab_size = 64, dim = 16, layers = 2, attention = { heads = { q = 4, k = 2 }, head_dim = 8 }, ffn = two_taps { act = tanh }
  train = { batch_size = 2, context_length = 16 }
}
SPEC
head -c 400 /dev/zero | tr '\0' '\1' >text

# there_and_back SPEC LAYOUT FILE FOLDER: export, import, export again.
there_and_back() {
    MOEC_PATH=lib moec init --force "$1" --seed 3 --out weights >log 2>&1 || wrong "init $1: $(cat log)"
    mv weights weights.safetensors
    moec export weights.safetensors --format "$2" --layout "$3" --out "$4" >log 2>&1 || wrong "export $1: $(cat log)"
    moec import "$4" --layout "$3" --out run >log 2>&1 || wrong "import $4: $(cat log)"
    moec export run --format "$2" --layout "$3" --out again >log 2>&1 || wrong "export again: $(cat log)"
    cmp "$4/model.safetensors" again/model.safetensors || wrong "$1 is not the same"
    cmp "$4/config.json" again/config.json || wrong "the configuration of $1 is not the same"
    moec tensors weights.safetensors >before
    moec tensors run | cmp - before || wrong "the weights of $1 are not the same"
    # The spec next to the weights is complete: it needs no other folder.
    for spec in run/*.moe; do
        grep -q '^model ' "$spec" || continue
        moec check "$spec" >log 2>&1 || wrong "$spec: $(cat log)"
        checked=1
    done
    [ -n "$checked" ] || wrong "no spec next to the weights: $(ls run)"
    checked=
    rm -rf run again "$4" weights.safetensors
}
export MOEC_PATH=
there_and_back models.moe taps lib/family.moe published
there_and_back models.moe taps whole.moe published
there_and_back towers.moe towers lib/towers.moe published
there_and_back models.moe taps lib/family.moe mixers
there_and_back models.moe taps lib/family.moe if
there_and_back models.moe taps lib/family.moe decoder
there_and_back models.moe taps lib/family.moe 7b
there_and_back models.moe taps lib/family.moe 'é [x] ü'

# The loss of the imported model is that of the model.
MOEC_PATH=lib moec init --force models.moe --seed 3 --out weights.safetensors
moec export weights.safetensors --format taps --layout lib/family.moe --out published >log 2>&1 || wrong "$(cat log)"
moec import published --layout lib/family.moe --out run >log 2>&1 || wrong "$(cat log)"
MOEC_PATH=lib moec train models.moe --init-from weights.safetensors --data text --out first --steps 0 >log 2>&1 || wrong "$(cat log)"
moec eval first --data text >one 2>log || wrong "$(cat log)"
moec eval run --data text >other 2>log || wrong "$(cat log)"
[ "$(grep -o 'loss [0-9.]*' one)" = "$(grep -o 'loss [0-9.]*' other)" ] && grep -q loss one || wrong "the loss is not the same: $(cat one other)"

# A changed layer is a different model, and nothing is written.
sed 's/act(x\[s - 1, d\])/act(x[s - 2, d])/' lib/mixers.moe >changed && cp -r lib changed_lib && cp changed changed_lib/mixers.moe
fails "cannot represent this model" moec export weights.safetensors --format taps --layout changed_lib/family.moe --out nowhere

# The multipliers of a transfer have no option.
cat >deep.moe <<'SPEC'
use decoder
use parametrizations
model base = decoder { dim = 16, layers = 2, attention.heads.q = 2 }
model deep = base { layers = 4 } transfer completep from base
SPEC
moec init --force deep.moe:deep --out deep.safetensors
fails "multipliers of the transfer of model 'deep' would be lost" moec export deep.safetensors --format llama --out nowhere
fails "cannot find 'missing.moe'" sh -c "sed 's/use mixers/use missing/' lib/family.moe >lib/broken.moe; moec import published --layout lib/broken.moe --out nowhere"
printf 'use decoder\nmodel plain = decoder\n' >lib/plain.moe
fails "lib/plain.moe has no layout" moec import published --layout lib/plain.moe --out nowhere
exit 0

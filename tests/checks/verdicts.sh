#!/bin/sh
# The verdict of `moec verify` for differences beyond the limits. It is undecided, with the name of the tensor, if rounding
# alone moves a tensor as far: gradients that depend on a tie, or whose terms cancel. It is wrong for a fault in the same
# models.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat >"$work/cancels.moe" <<'END_OF_SPEC'
use decoder

model m = decoder { vocab_size = 64, dim = 6, layers = 5, attention = { heads = { q = 3, k = 3, v = 1 }, head_dim = 10, value_dim = 4, cached_key_dim = 8, gate = [{ at = q, per = shared, act = identity, average = logits }, { at = sdpa, per = element, act = gelu_tanh }], mask = causal, top_values = 3 }, ffn = moe { experts = 1, top_k = 1, expert = swiglu { hidden_dim = 1, act = relu }, route_norm = none }, post_norm = true, tie_embeddings = true, softcap = 3, probes = true, train = { batch_size = 2, context_length = 12, optimizer = sgd { nesterov = true, momentum = 0.5 }, schedule = cosine, logits_chunk_size = 1 } }
END_OF_SPEC
cat >"$work/one_place.moe" <<'END_OF_SPEC'
use decoder

model m = decoder { vocab_size = 2, dim = 17, layers = 1, attention = { heads = { q = 3, k = 1, v = 3 }, head_dim = 10, value_dim = 3, gate = [{ at = sdpa, per = head, mode = add }], mask = window, window = 5 }, ffn = moe { experts = 2, top_k = 1, uniform_groups = 1, expert = lore_mlp { hidden_dim = 8, lores = 1, top_k = 1, rank = 8, on = output, inner = gelu_tanh, act = gelu_tanh }, route_norm = none, shared_expert = swiglu { hidden_dim = 3 } }, post_norm = true, tie_embeddings = true, train = { batch_size = 2, context_length = 1, optimizer = sgd { nesterov = true, momentum = 0.5 }, schedule = cosine, precision = bf16 } }
END_OF_SPEC
cat >"$work/nothing.moe" <<'END_OF_SPEC'
use decoder
model m = decoder { vocab_size = 1, dim = 16, layers = 1, attention = { heads.q = 2 }, train = { batch_size = 1, context_length = 4 } }
END_OF_SPEC
cat >"$work/balanced.moe" <<'END_OF_SPEC'
use decoder
model m = decoder {
  vocab_size     = 13
  dim       = 6
  layers    = 1
  attention = { heads.q = 2, head_dim = 4 }
  ffn       = moe { experts = 3, top_k = 3, expert = swiglu { hidden_dim = 5 }, bias_update_rate = 0.1 }
  train     = { batch_size = 2, context_length = 7 }
}
END_OF_SPEC
cat >"$work/tied.moe" <<'END_OF_SPEC'
use decoder
layer tied(x[s,d]) -> y[s,d] {
  state bias[d] = 0
  part[d] = mean[batch,s] (x[s,d] > -100) / 7
  update bias[d] = bias[d] + 0.1 * sign(1 / 7 - part[d])
  y[s,d] = x[s,d] + bias[d]
}
model m = decoder {
  vocab_size = 13, dim = 6, layers = 1, attention = { heads.q = 2, head_dim = 4 }, ffn = tied
  train = { batch_size = 2, context_length = 7 }
}
END_OF_SPEC
cat >"$work/called.moe" <<'END_OF_SPEC'
use decoder
layer whole {
  option train: layer = train { batch_size = 1, context_length = 2 }
  axis d = 2
  axis v = 3
  sequence s = train.context_length
  param table[v,d] ~ normal(1)
  input loss_scale[s,d]: float
  logits[s,v] = sum[d] loss_scale[s,d] * table[v,d]
  output logits
  loss = mean[batch,s] ((logsumexp[v] logits[s,v]) - logits[s,1])
}
model m = whole
END_OF_SPEC

# judged TEXT COMMAND...: agrees, and prints TEXT.
judged() {
    text=$1
    shift
    "$@" >"$work/output" || { cat "$work/output"; wrong "$*: disagrees"; }
    grep -q "$text" "$work/output" || { cat "$work/output"; wrong "$*: the output lacks '$text'"; }
}
# A gradient that is 0 on both sides.
judged 'off by 0.0e+00' moec verify "$work/nothing.moe"
judged 'off by 0.0e+00' moec verify tests/rows.moe:columns
# Terms that cancel, and the attention weight of a single position, whose gradient is 0.
judged 'undecided: .* of the gradients, the most block' moec verify "$work/cancels.moe" --seed 1 -b 3
(on_simulator && judged 'undecided: .* of the gradients, the most block.0.attention' \
    moec verify "$work/one_place.moe" --device cuda --seed 1 -b 1)

# An input with the name of a number that the runtime sets.
judged 'gradients *2 tensors' moec verify "$work/called.moe"
# The sign of a difference that is 0 except for rounding.
judged 'undecided: .* of the states, the most block.*ffn.bias' moec verify "$work/tied.moe"
# Balanced expert loads are equal numbers.
judged 'states .* off by 0.0e+00' moec verify "$work/balanced.moe"

# planted FLAG COMMAND...: a fault in the compiled program is reported.
planted() {
    flag=$1
    shift
    ! MOEC_CFLAGS=$flag "$@" >"$work/output" || { cat "$work/output"; wrong "$flag: $* agrees"; }
    grep -q DISAGREES "$work/output" || { cat "$work/output"; wrong "$flag: $* does not report it"; }
}
planted '-D__builtin_sqrtf(x)=(1.001f*__builtin_sqrtf(x))' moec verify "$work/cancels.moe" --seed 1 -b 3
planted '-D__builtin_sqrtf(x)=((x)-(x))' moec verify "$work/cancels.moe" --seed 1 -b 3
planted '-D__builtin_sqrtf(x)=(1.001f*__builtin_sqrtf(x))' moec verify "$work/nothing.moe"

# A result that is not finite keeps its row.
! MOEC_CFLAGS='-D__builtin_sqrtf(x)=((x)-(x))/((x)-(x))' moec verify "$work/cancels.moe" --seed 1 --json >"$work/output" ||
    wrong "a result that is not finite agrees"
for row in outputs gradients decoding; do
    grep -A3 "\"$row\"" "$work/output" | grep -q '"error": null' || { cat "$work/output"; wrong "--json: no row of $row"; }
done

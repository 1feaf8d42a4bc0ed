#!/bin/sh
# Four processes on simulated GPUs: blocks of several parts, of which some processes have one and some two, with bf16, averages
# and optimizer states that are divided or not. Every access of a kernel is checked, also its order with the collectives.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
. tests/mesh_cuda_common.sh
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 128, layers = 1
  attention = { heads = { q = 4 }, head_dim = 8 }
  ffn = swiglu { hidden_dim = 640 }
  train = { lr = 1e-2, batch_size = 1, context_length = 8, steps = 2, gradient_accumulation_steps = 4, reduction_lanes = 4, eval_interval = 2, precision = bf16, ema_decay = 0.9 }
}
model tiny = decoder {
  dim = 8, layers = 1
  attention = { heads = { q = 1 }, head_dim = 8 }
  ffn = swiglu { hidden_dim = 8 }
  train = { batch_size = 1, context_length = 8, steps = 1, gradient_accumulation_steps = 2, eval_interval = 0 }
}
SPEC
state() { sed -n 's/.*, optimizer \([^,]*\),.*/\1/p' "$work/$1.out"; }
for zero in 1 0; do
    launcher= train "$work/one$zero" --set train.zero=$zero >"$work/one$zero.out" 2>&1
    torch 4 "$work/four$zero" --set train.zero=$zero >"$work/four$zero.out" 2>&1 || wrong "4 processes: $(cat "$work/four$zero.out")"
    same "$work/one$zero" "$work/four$zero"
done
[ "$(state one1)" != "$(state four1)" ] || wrong "the optimizer state is not divided"
[ "$(state one0)" = "$(state four0)" ] || wrong "the optimizer state is divided"

model=tiny
export MOEC_SIM=eight
torch 2 "$work/checked" >"$work/out" 2>&1 || wrong "checked: $(cat "$work/out")"

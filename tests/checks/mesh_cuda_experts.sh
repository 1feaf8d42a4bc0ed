#!/bin/sh
# Experts divided over simulated GPUs: the bits of one process, also if a router sends all rows to one process. Repeated calls are
# CUDA graphs, between which the processes exchange rows. A second run divides the sequences of a micro-batch, too, with other
# rounding; every access of its kernels is checked, also its order with the exchanges. For more: tests/mesh.sh gpu_experts.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
. tests/mesh_cuda_common.sh
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 8, layers = 2
  attention = { heads = { q = 1 }, head_dim = 8 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 }, shared_expert = swiglu { hidden_dim = 8 } }
  train = { lr = 1e-2, batch_size = 2, context_length = 8, steps = 2, gradient_accumulation_steps = 4, reduction_lanes = 4, eval_interval = 2 }
}
SPEC
# Equal scores: every token chooses experts 0 and 1, those of process 0.
for router in 0.5 0; do
    rm -rf "$work/one" "$work/two"
    options="--set ffn.init_std=$router"
    [ $router != 0 ] || options="$options --stop-after 1"
    # shellcheck disable=SC2086 # several words
    launcher= train "$work/one" -q $options >"$work/out" 2>&1 || wrong "$router: $(cat "$work/out")"
    # shellcheck disable=SC2086
    torch 2 "$work/two" -v --mesh expert=2 $options >"$work/out" 2>&1 || wrong "$router, expert=2: $(cat "$work/out")"
    same "$work/one" "$work/two"
    grep -q '^2 processes on 1 host, experts over 2; reduction ordered, 4 lanes$' "$work/out" || wrong "no line about the processes: $(cat "$work/out")"
    grep -qE '^moec: [0-9]{2,} exchanges on the device, [0-9]{2,} waits for numbers of rows$' "$work/out" || wrong "no exchanges: $(cat "$work/out")"
done

options="--set layers=1 --set train.batch_size=4 --set train.gradient_accumulation_steps=1 --set train.reduction_lanes=0 --set train.eval_interval=0 --steps 1"
rm -rf "$work/one" "$work/two"
# shellcheck disable=SC2086
launcher= train "$work/one" -q $options >"$work/out" 2>&1 || wrong "$(cat "$work/out")"
export MOEC_SIM=eight
# shellcheck disable=SC2086
torch 2 "$work/two" --mesh expert=2 $options >"$work/out" 2>&1 || wrong "shared micro-batches: $(cat "$work/out")"
grep -q 'experts over 2, sequences of a micro-batch over 2' "$work/out" || wrong "no line about the micro-batches: $(cat "$work/out")"
loss() { sed -n 's/.*"loss":\([^,]*\),"grad_norm".*/\1/p' "$1/log.jsonl"; }
echo "$(loss "$work/one") $(loss "$work/two")" | awk '{ off = $1 / $2 - 1; exit !($1 > 0 && off * off < 1e-10) }' ||
    wrong "shared micro-batches change the loss: $(loss "$work/one") $(loss "$work/two")"

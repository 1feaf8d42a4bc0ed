#!/bin/sh
# Experts divided over simulated GPUs: the bits of one process, also if a router sends all rows to one process. The host waits for
# numbers of rows, but not with `uniform_groups`, where they are known and calls are single CUDA graphs. A last run divides the
# sequences of a micro-batch, too, with other rounding; every access of its kernels is checked, also its order with the exchanges.
# For more: tests/mesh.sh gpu_experts.
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
model uniform = small { ffn.uniform_groups = 2 }
SPEC
# The number of exchanges that the host began; how often it waited for numbers of rows.
exchanges() {
    sed -n 's/^moec: \([0-9]*\) exchanges on the device, \([0-9]*\) waits for numbers of rows$/\1 \2/p' "$work/out"
}
# Equal scores: every token chooses experts 0 and 1, those of process 0.
for router in 0.5 0; do
    rm -rf "$work/one" "$work/two"
    options="--set ffn.init_std=$router"
    [ $router != 0 ] || options="$options --steps 1"
    # shellcheck disable=SC2086 # several words
    launcher= train "$work/one" -q $options >"$work/out" 2>&1 || wrong "$router: $(cat "$work/out")"
    # shellcheck disable=SC2086
    torch 2 "$work/two" -v --mesh expert=2 $options >"$work/out" 2>&1 || wrong "$router, expert=2: $(cat "$work/out")"
    same "$work/one" "$work/two"
    grep -q '^2 processes on 1 host, experts over 2; reduction ordered, 4 lanes$' "$work/out" || wrong "no line about the processes: $(cat "$work/out")"
    exchanges | awk '{ good = $1 >= 70 && $2 >= 50 } END { exit !good }' || wrong "too few exchanges: $(exchanges)"
done

rm -rf "$work/one" "$work/two"
launcher= model=uniform train "$work/one" -q >"$work/out" 2>&1 || wrong "uniform: $(cat "$work/out")"
model=uniform torch 2 "$work/two" -v --mesh expert=2 >"$work/out" 2>&1 || wrong "uniform, expert=2: $(cat "$work/out")"
same "$work/one" "$work/two"
exchanges | awk '{ good = $1 >= 10 && $1 < 70 && $2 == 0 } END { exit !good }' || wrong "not single graphs: $(exchanges)"

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

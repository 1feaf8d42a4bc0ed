#!/bin/sh
# Several processes train on GPUs, here simulated, with the bits of one: started by the variables of torchrun, and by mpirun if
# there is MPI. A run moves between one and two processes, and to the CPU. A process that ends or stalls ends the run with one
# message, as do libraries, GPUs and sizes that do not fit.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
. tests/mesh_cuda_common.sh
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 16, layers = 1, dropout = 0.1
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 }, bias_update_rate = 0.001 }
  train = { lr = 1e-2, batch_size = 1, context_length = 16, steps = 4, gradient_accumulation_steps = 4, eval_interval = 2, save_interval = 2 }
}
SPEC
four="--set train.reduction_lanes=4"

# The same bits with 1 and 2 processes.
launcher= train "$work/one" $four -q >/dev/null
torch 2 "$work/two" $four >"$work/out" 2>&1 || wrong "torchrun: $(cat "$work/out")"
same "$work/one" "$work/two"
grep -q '^2 processes on 1 host; reduction ordered, 4 lanes$' "$work/out" || wrong "no line about the processes: $(cat "$work/out")"
[ "$(grep -c '^done at step 4' "$work/out")" = 1 ] || wrong "not one result: $(cat "$work/out")"
# A run moves: 2 processes on GPUs, then one, then 2; the CPU continues it with the same numbers up to rounding.
for stop in 1 3 4; do
    launcher= train "$work/straight" --set train.reduction_lanes=2 -q --resume --stop-after $stop >/dev/null
done
torch 2 "$work/moved" -q --stop-after 1 >/dev/null || wrong "no first step"
launcher= train "$work/moved" -q --resume --stop-after 3 >/dev/null
cp -R "$work/moved" "$work/cpu"
torch 2 "$work/moved" -q --resume >/dev/null || wrong "no last step"
[ "$(log "$work/straight")" = "$(log "$work/moved")" ] || wrong "a run that moved to other processes has another log"
launcher= train "$work/cpu" -q --resume --device cpu >/dev/null
losses() { grep '"grad_norm"' "$1/log.jsonl" | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
near() { # RUN RUN: losses that differ by rounding only
    losses "$work/$1" >"$work/a"
    losses "$work/$2" | paste "$work/a" - | awk '{ off = ($1 - $2) / $1; if (off < 0) off = -off; if (off > 1e-5) wrong = 1 } END { exit wrong || NR != 4 }' ||
        wrong "$1 and $2 have other losses"
}
near moved cpu
torch 2 "$work/fast" --set train.reduction=fast -q >/dev/null || wrong "no fast reduction"
near two fast

# With MPI.
for name in $mpi; do
    launcher="$name -n 2" train "$work/$name" $four >"$work/out" 2>&1 || wrong "$name: $(cat "$work/out")"
    same "$work/one" "$work/$name"
done

# refused WORDS N ARGUMENTS...: N processes end with one error, which has the words and one line of help.
refused() {
    words=$1 count=$2
    shift 2
    torch "$count" "$work/refused" "$@" >"$work/out" 2>&1 && wrong "accepted: $words"
    grep -qF -- "$words" "$work/out" || wrong "no '$words': $(cat "$work/out")"
    [ "$(grep -cE '^moec: error|^[^ ]*: error' "$work/out")" = 1 ] || wrong "not one error: $(cat "$work/out")"
    grep -q '^  help: ' "$work/out" || wrong "no help: $(cat "$work/out")"
    [ ! -e "$work/refused" ] || wrong "written in spite of: $words"
}
MOEC_NCCL=/nowhere refused "several processes on GPUs communicate by NCCL: cannot open libnccl.so.2 from MOEC_NCCL=/nowhere" 2
MOEC_SIM=unchecked,pair refused "4 processes on this host need as many GPUs, but the driver reports 2" 4
refused "data = 4 has 4 processes, but torchrun started 2" 2 --mesh data=4
refused "4 micro-batches (train.gradient_accumulation_steps) cannot be distributed over data = 3" 3
refused "ranks 0 and 1 use the same GPU" 2 --device cuda:1
refused "torchrun started 2 processes, but training on CPUs communicates by MPI" 2 --device cpu

# A process that ends or stalls.
ended() { # SIGNAL SECONDS WORDS
    begin_torch 2 "$work/ended.$1" --steps 100000 >"$work/out" 2>&1
    for _ in $(seq 200); do
        [ ! -e "$work/ended.$1/last.safetensors" ] || break
        sleep 0.05
    done
    start=$(date +%s%N)
    kill -"$1" "${children##* }"
    for child in ${children% *}; do wait "$child" && wrong "$1: exit code 0"; done
    [ $((($(date +%s%N) - start) / 1000000000)) -le "$2" ] || wrong "$1: ended after more than $2 s"
    kill -CONT "${children##* }" 2>/dev/null || :
    wait "${children##* }" || :
    grep -qE "$3" "$work/out" || wrong "$1: no '$3': $(cat "$work/out")"
    [ "$(grep -c '^moec: error' "$work/out")" = 1 ] || wrong "$1: not one message: $(cat "$work/out")"
    MOEC_CUDA= moec eval "$work/ended.$1" --data "$work/text" >/dev/null || wrong "$1: the checkpoint is lost"
}
ended KILL 5 'moec: error.*rank 1 of 2 \(.*\) ended unexpectedly in step [0-9]*, last collective [0-9]* \('
MOEC_WATCHDOG_TIMEOUT=2 ended STOP 7 'moec: error.*rank 1 of 2 \(.*\) does not continue in step'
[ -n "$mpi" ] || echo "no MPI: .ci/setup test installs it; only the variables of torchrun are tested"

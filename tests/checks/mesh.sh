#!/bin/sh
# Several processes of Open MPI and of MPICH train with the bits of one. A run resumes on another number of them. A process that
# ends or stalls ends the run with one message. So do files, sizes and installations that do not fit.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
[ -n "$mpi" ] || { echo "no MPI: .ci/setup test installs it"; exit 0; }
export OMP_NUM_THREADS=1
cat stdlib/*.moe >"$work/text"
head -c 30000 "$work/text" >"$work/other"
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 16, layers = 2, dropout = 0.1
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 }, aux_loss_coef = 0.01, aux_loss_scope = global_batch }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 12, gradient_accumulation_steps = 8, eval_interval = 5, save_interval = 4 }
}
SPEC
train() { # OUT ARGUMENTS...: the command line, after a launcher
    out=$1
    shift
    set -- moec train "$work/small.moe" --data "$work/text" --out "$out" "$@"
    $launcher "$@" </dev/null
}
eight="--set train.reduction_lanes=8"

# The same bits for any number of processes and threads.
launcher= train "$work/one" $eight -q >/dev/null
launcher="env OMP_NUM_THREADS=2" train "$work/threads" $eight -q >/dev/null
same "$work/one" "$work/threads"
for name in $mpi; do
    launcher="$name -n 2" train "$work/$name" $eight >"$work/out" 2>&1 || wrong "$name: $(cat "$work/out")"
    same "$work/one" "$work/$name"
    grep -q '^2 processes on 1 host; reduction ordered, 8 lanes$' "$work/out" || wrong "$name: no line about the processes"
    [ "$(grep -c '^done at step 12\|^step 10/12 ' "$work/out")" = 2 ] || wrong "$name: not one result: $(cat "$work/out")"
done
set -- $mpi
first=$1
launcher="$first -n 4" train "$work/four" $eight -q >/dev/null
same "$work/one" "$work/four"

# Clip groups: each process has all gradients, and the norms have the same bits.
groups='parameters=[{ of = "*embedding", grad_clip = 0.01 }, { of = "block.*", grad_clip = 0.02 }]'
launcher= train "$work/groups" $eight --set "$groups" -q >/dev/null
launcher="$first -n 2" train "$work/groups_2" $eight --set "$groups" -q >"$work/out" 2>&1 || wrong "clip groups: $(cat "$work/out")"
same "$work/groups" "$work/groups_2"
! cmp -s "$work/one/last.safetensors" "$work/groups/last.safetensors" || wrong "clip groups have no effect"

# More processes than micro-batches divide the sequences: equal up to rounding, the same bits with divided experts.
values() { grep '"grad_norm"' "$1/log.jsonl" | sed 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/'; }
few="--steps 4 --set train.gradient_accumulation_steps=2 --set train.batch_size=4"
launcher= train "$work/whole" -q $few >/dev/null
launcher="$first -n 4" train "$work/shared" $few >"$work/out" 2>&1 || wrong "divided sequences: $(cat "$work/out")"
grep -q '^4 processes on 1 host, sequences of a micro-batch over 2; ' "$work/out" || wrong "sequences are not divided: $(cat "$work/out")"
launcher="$first -n 4" train "$work/both" -q $few --mesh expert=2 >/dev/null
same "$work/shared" "$work/both"
values "$work/whole" >"$work/values"
values "$work/shared" | paste -d' ' "$work/values" - | awk '
    function off(a, b) { return a > b ? (a - b) / a : (b - a) / b }
    { if (off($1, $3) > 1e-6 || off($2, $4) > 1e-5) wrong = 1; equal += $1 == $3 && $2 == $4 }
    END { exit wrong || NR != 4 || equal == 4 }' || wrong "divided sequences: other results: $(values "$work/shared")"

# The lanes of a run are those of its first start: 4 processes, then 2, then 1.
for stop in 5 8 12; do
    launcher= train "$work/straight" --set train.reduction_lanes=4 -q --resume --stop-after $stop >/dev/null
done
launcher="$first -n 4" train "$work/moved" -q --stop-after 5 >/dev/null
launcher="$first -n 2" train "$work/moved" -q --resume --stop-after 8 --mesh data=2 >/dev/null
launcher= train "$work/moved" -q --resume >/dev/null
[ "$(log "$work/straight")" = "$(log "$work/moved")" ] || wrong "a run that moved to other processes has another log"
cp -R "$work/moved" "$work/grown"

# `fast` differs by rounding only.
launcher="$first -n 4" train "$work/fast" --set train.reduction=fast -q >/dev/null
launcher= train "$work/plain" -q >/dev/null
losses() { grep '"grad_norm"' "$1/log.jsonl" | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
losses "$work/plain" >"$work/a"
losses "$work/fast" | paste "$work/a" - | awk 'NR <= 10 { off = ($1 - $2) / $1; if (off < 0) off = -off; if (off > 1e-5) wrong = 1 } END { exit wrong || NR != 12 }' ||
    wrong "reduction = fast has other losses"

# refused WORDS LAUNCHER ARGUMENTS...: exit code 1 and one error, which has the words and one line of help.
refused() {
    words=$1 launcher=$2 code=0
    shift 2
    train "$work/refused" "$@" >"$work/out" 2>&1 || code=$?
    [ $code -ne 0 ] || wrong "accepted: $words"
    grep -qF -- "$words" "$work/out" || wrong "no '$words': $(cat "$work/out")"
    [ "$(grep -cE '^moec: error|^[^ ]*: error' "$work/out")" = 1 ] || wrong "not one error: $(cat "$work/out")"
    grep -q '^  help: ' "$work/out" || wrong "no help: $(cat "$work/out")"
    [ ! -e "$work/refused" ] || wrong "written in spite of: $words"
}
for name in $mpi; do
    refused "8 micro-batches (train.gradient_accumulation_steps) cannot be distributed over data = 3" "$name -n 3"
    grep -q 'help: use 2 or 4 processes, or train.gradient_accumulation_steps = 9' "$work/out" || wrong "no sizes: $(cat "$work/out")"
done
refused "data = 4 has 4 processes, but mpirun started 2" "$first -n 2" --mesh data=4
refused "data = 2 has 2 processes, but only one was started" "" --mesh data=2
refused "data = 2 has 2 processes, but only one was started" "" --set train.mesh.data=2
refused "a mesh has no axis 'experts'" "$first -n 2" --mesh experts=2
for command in "" "$first -n 2"; do
    refused "the mesh axis 'tensor' is not supported yet" "$command" --mesh tensor=2
done
refused "train.reduction_lanes = 3 does not divide the 8 micro-batches" "$first -n 2" --set train.reduction_lanes=3
refused "has no option 'brightness'" "$first -n 2" --set brightness=3
refused "/nowhere/mpicc was not found" "env MOEC_MPICC=/nowhere/mpicc $first -n 2"
refused "unknown option --steep" "$first -n 2" --steep 3
$first -n 2 moec sweep "$work/small.moe" --data "$work/text" --out "$work/sweep" >"$work/out" 2>&1 </dev/null && wrong "a sweep in two processes is accepted"
[ "$(grep -c 'moec sweep runs in one process, but mpirun started 2$' "$work/out")" = 1 ] || wrong "a sweep in two processes: $(cat "$work/out")"
[ ! -e "$work/sweep" ] || wrong "a sweep in two processes wrote its directory"
$first -n 2 moec verify "$work/small.moe" -b 1 >"$work/out" 2>&1 </dev/null || wrong "verify in two processes fails: $(cat "$work/out")"
[ "$(grep -c '^  gradients ' "$work/out")" = 1 ] || wrong "verify in two processes: $(cat "$work/out")"
grep -qF 'moec verify runs in one of the 2 processes that mpirun started' "$work/out" || wrong "verify in two processes: $(cat "$work/out")"
refused "torchrun started 2 processes" "env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0"
refused "srun started 2 processes without an interface to MPI" "env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2"
code=0
launcher="$first -n 8" train "$work/grown" --resume --steps 20 >"$work/out" 2>&1 || code=$?
grep -q 'the 4 reduction lanes of the run cannot be distributed over 8 processes' "$work/out" || wrong "8 processes share 4 lanes: $(cat "$work/out")"
grep -q 'help: use 4 processes, or train.reduction_lanes = 8' "$work/out" || wrong "no help: $(cat "$work/out")"

# Rank 1 reads another file. (The launcher of Open MPI 5.0.7 crashes with a command line per process.)
cat >"$work/with" <<'SCRIPT'
case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in 0) data=text ;; *) data=$1 ;; esac
exec moec train "$work/small.moe" --data "$work/$data" --out "$work/differs"
SCRIPT
export work
for name in $mpi; do
    code=0
    $name -n 2 sh "$work/with" other >"$work/out" 2>&1 </dev/null || code=$?
    [ $code -ne 0 ] || wrong "$name: other data is accepted"
    grep -q 'rank 1 (.*) differs from rank 0 (.*) in the training data: 30000 tokens' "$work/out" || wrong "$name: other data: $(cat "$work/out")"
done
$first -n 2 sh "$work/with" missing >"$work/out" 2>&1 </dev/null && wrong "missing data is accepted"
grep -q '^rank 1 of 2 (.*) cannot start:$' "$work/out" || wrong "missing data: $(cat "$work/out")"
[ "$(grep -c "moec: error.*$work/missing" "$work/out")" = 1 ] || wrong "missing data has no single message: $(cat "$work/out")"

# differs WORDS COMMAND ARGUMENTS...: rank 1 has another command than rank 0.
differs() {
    words=$1
    shift
    $first -n 1 moec train "$work/small.moe" --data "$work/text" --out "$work/differs" : \
        -n 1 "$@" --data "$work/text" --out "$work/differs" >"$work/out" 2>&1 </dev/null && wrong "accepted: $words"
    grep -q "^moec: error.*rank 1 (.*) differs from rank 0 (.*) in the $words" "$work/out" || wrong "no '$words': $(cat "$work/out")"
    grep -q '^  help: use the same files, command and installation' "$work/out" || wrong "no help: $(cat "$work/out")"
}
# Without git, the version has no commit.
commit=$(moec --version | sed -n 's/.*(\([0-9a-f]*\).*/\1/p')
if [ -n "$commit" ]; then
    sed "s/$commit/$(echo "$commit" | tr '0-9a-f' '1-9a-f0')/g" "$BUILD/moec" >"$work/moec"
    chmod +x "$work/moec"
    differs "version of moec" "$work/moec" train "$work/small.moe"
fi
differs "spec: hash" moec train "$work/small.moe" --lr 3e-3
sed 's/^model name.*/model name\t: Another Processor/' /proc/cpuinfo >"$work/cpuinfo"
other_processor='mount --bind "$0" /proc/cpuinfo && exec "$@"'
if unshare -m sh -c "$other_processor" "$work/cpuinfo" true 2>/dev/null; then
    differs "processor: Another Processor" unshare -m sh -c "$other_processor" "$work/cpuinfo" moec train "$work/small.moe"
fi
differs "command line: steps 7" moec train "$work/small.moe" --steps 7

# A full disk ends all processes with one message.
mkdir "$work/full"
small_disk='mount -t tmpfs -o size=100k none "$0" && exec "$@"'
for name in $mpi; do
    unshare -m sh -c "$small_disk" "$work/full" true 2>/dev/null || break
    code=0
    unshare -m sh -c "$small_disk" "$work/full" timeout 60 $name -n 2 moec train "$work/small.moe" --data "$work/text" --out "$work/full/run" \
        >"$work/out" 2>&1 </dev/null || code=$?
    [ $code -ne 0 ] && [ $code -ne 124 ] || wrong "$name: exit code $code with a full disk"
    [ "$(grep -c '^moec: error' "$work/out")" = 1 ] && grep -q 'moec: error.*No space left on device' "$work/out" || wrong "$name, a full disk: $(cat "$work/out")"
    [ -z "$(process "$work/full/run" 0)$(process "$work/full/run" 1)" ] || wrong "$name: a process is left"
done

# Stages train with the same bits, and need a micro-batch for each process.
stages="train.stages=[{steps=4,batch_size=1,context_length=8}]"
launcher= train "$work/stages" $eight --set "$stages" -q >/dev/null
launcher="$first -n 2" train "$work/stages_2" $eight --set "$stages" -q >"$work/out" 2>&1 || wrong "stages: $(cat "$work/out")"
same "$work/stages" "$work/stages_2"
launcher="$first -n 2" train "$work/few" --set "$stages" --set train.gradient_accumulation_steps=1 >"$work/out" 2>&1 && wrong "a stage with too few micro-batches is accepted"
grep -q 'a stage cannot divide its micro-batches (1) over 2 processes' "$work/out" || wrong "$(cat "$work/out")"

# A process that does not start MPI ends the others after ten times the limit of a stall.
for name in $mpi; do
    code=0
    MOEC_WATCHDOG_TIMEOUT=0.3 timeout 30 $name -n 2 sh -c 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then exec sleep 60; fi; exec "$@"' sh \
        moec train "$work/small.moe" --data "$work/text" --out "$work/limit" >"$work/out" 2>&1 </dev/null || code=$?
    [ $code -ne 0 ] && [ $code -ne 124 ] || wrong "$name: exit code $code without a second process"
    [ "$(grep -c 'mpirun started 2 processes, but MPI has not connected them within 3 s' "$work/out")" = 1 ] || wrong "$name: $(cat "$work/out")"
done
MOEC_WATCHDOG_TIMEOUT=soon $first -n 2 moec train "$work/small.moe" --data "$work/text" --out "$work/limit" >"$work/out" 2>&1 </dev/null && wrong "a wrong limit is accepted"
[ "$(grep -c "MOEC_WATCHDOG_TIMEOUT is 'soon': expected seconds above 0" "$work/out")" = 1 ] || wrong "wrong limit: $(cat "$work/out")"

# ended LAUNCHER SIGNAL RANK SECONDS WORDS: the signal ends all processes in time, with one message; the checkpoint is sound.
ended() {
    launcher="$1 -n 2" signal=$2 rank=$3 seconds=$4 words=$5 out=$work/ended.$1.$2.$3
    (train "$out" --steps 100000 >"$work/out" 2>&1) &
    child=$!
    for _ in $(seq 200); do
        [ ! -e "$out/last.safetensors" ] || break
        sleep 0.05
    done
    start=$(date +%s%N)
    kill -"$signal" "$(process "$out" "$rank")"
    code=0
    wait $child || code=$?
    [ $code -ne 0 ] || wrong "$1 $signal: exit code 0"
    [ $((($(date +%s%N) - start) / 1000000000)) -le "$seconds" ] || wrong "$1 $signal: ended after more than $seconds s"
    sleep 0.2
    [ -z "$(process "$out" 0)$(process "$out" 1)" ] || wrong "$1 $signal: a process is left"
    grep -qE "$words" "$work/out" || wrong "$1 $signal: no '$words': $(cat "$work/out")"
    [ "$(grep -c '^moec: error' "$work/out")" -le 1 ] || wrong "$1 $signal: several messages: $(cat "$work/out")"
    moec eval "$out" --data "$work/other" >/dev/null || wrong "$1 $signal: the checkpoint is lost"
}
for name in $mpi; do
    # MPICH's launcher may end the other processes before they report; it names the process itself.
    ended $name KILL 1 5 'moec: error.*rank 1 of 2 \(.*\) ended unexpectedly in step|Killed \(signal 9\)'
    ended $name TERM 1 5 '^stopped at step'
    export MOEC_WATCHDOG_TIMEOUT=2
    ended $name STOP 1 7 'moec: error.*rank 1 of 2 \(.*\) does not continue in step'
    unset MOEC_WATCHDOG_TIMEOUT
done

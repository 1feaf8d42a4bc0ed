#!/bin/sh
# Exchanges that run while a process computes: the same bits as without overlap and as on one process, with Open MPI and MPICH. The
# schedule has products between the begin and the end of an exchange, and the thread of the exchanges ran during computation. A process
# that is killed or stops, and an error of the MPI library in that thread, end all processes with one message.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
[ -n "$mpi" ] || { echo "no MPI: .ci/setup test installs it"; exit 0; }
export OMP_NUM_THREADS=1
cat stdlib/*.moe >"$work/text"
cat >"$work/mixture.moe" <<'SPEC'
use decoder
model mixture = decoder {
  dim = 64, layers = 2
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = moe {
    experts = 4, top_k = 2, expert = swiglu { hidden_dim = 32 }, shared_expert = swiglu { hidden_dim = 128 }
    score = sigmoid, bias_update_rate = 0.01, aux_loss_coef = 0.01
  }
  train = { lr = 1e-2, batch_size = 4, context_length = 64, steps = 4, gradient_accumulation_steps = 4, reduction_lanes = 4, eval_interval = 2, save_interval = 2 }
}
SPEC
train() { # OUT ARGUMENTS...: the command line, after a launcher
    out=$1
    shift
    $launcher moec train "$work/mixture.moe" --data "$work/text" --out "$out" "$@" </dev/null
}

# Products in the order of the schedule that run during an exchange.
moec dump "$work/mixture.moe" --after overlap --mesh data=4,expert=4 >"$work/plan"
during=$(awk '/, begin$/ { running++ } /, end$/ { running-- } /^ *product/ && running { count++ } END { print count }' "$work/plan")
[ "$during" -ge 10 ] || wrong "$during products during exchanges"
moec dump "$work/mixture.moe" --after overlap >"$work/plan"
grep -q 'begin\|end$' "$work/plan" && wrong "exchanges without a mesh"

launcher= train "$work/one" -q >/dev/null
for start in $mpi; do
    for processes in 2 4; do
        launcher="$start -n $processes" out=$work/$start.$processes
        train "$out" --mesh expert=$processes -v >"$work/out" 2>&1 || wrong "$launcher: $(cat "$work/out")"
        same "$work/one" "$out"
        grep -q ' exchanges, [1-9][0-9]* of them during computation: ' "$work/out" || wrong "$launcher: no overlap: $(cat "$work/out")"
    done
    MOEC_MESH_OVERLAP=off train "$work/$start.off" --mesh expert=4 -v >"$work/out" 2>&1 || wrong "$launcher: $(cat "$work/out")"
    same "$work/one" "$work/$start.off"
    grep -q ' exchanges, 0 of them during computation: ' "$work/out" || wrong "$launcher: overlap: $(cat "$work/out")"
done

# Processes that share a micro-batch exchange sums, too.
launcher= train "$work/shared" -q --set train.gradient_accumulation_steps=1 --set train.reduction_lanes=1 >/dev/null
for overlap in on off; do
    launcher="${mpi##* } -n 4"
    MOEC_MESH_OVERLAP=$overlap train "$work/shared.$overlap" -q --mesh expert=2 --set train.gradient_accumulation_steps=1 --set train.reduction_lanes=1 >/dev/null
done
same "$work/shared.on" "$work/shared.off"

# ends LAUNCHER WORDS: all processes of the run in $out have ended with an error, with one message.
ends() {
    code=0
    wait $child || code=$?
    [ $code -ne 0 ] || wrong "$1: exit code 0"
    sleep 0.2
    [ -z "$(process "$out" 0)$(process "$out" 1)" ] || wrong "$1: a process is left"
    grep -qE "$2" "$work/out" || wrong "$1: no '$2': $(cat "$work/out")"
    [ "$(grep -c '^moec: error' "$work/out")" -le 1 ] || wrong "$1: several messages: $(cat "$work/out")"
}

# signal LAUNCHER SIGNAL WORDS: a signal to a process that trains.
signal() {
    launcher="$1 -n 2" out=$work/signal.$1.$2
    (train "$out" --mesh expert=2 --steps 100000 >"$work/out" 2>&1) &
    child=$!
    for _ in $(seq 200); do
        [ ! -e "$out/last.safetensors" ] || break
        sleep 0.05
    done
    kill -"$2" "$(process "$out" 1)"
    ends "$1 $2" "$3"
}
for start in $mpi; do
    # MPICH's launcher may end the other process first; the transport of MPICH aborts where it copies from memory of the killed one.
    signal $start KILL 'moec: error.*rank 1 of 2 \(.*\) ended unexpectedly in step|(Killed|Aborted) \(signal [69]\)'
    MOEC_WATCHDOG_TIMEOUT=2 signal $start STOP 'moec: error.*rank 1 of 2 \(.*\) does not continue in step'
done

# An MPI library whose transfers fail in process 1 after some exchanges.
cat >"$work/mpicc" <<'SCRIPT'
#!/bin/sh
for source; do :; done
sed -i '/^static int transfer/,/^}/s/int requests = 0, error = 0;/&\n    static int calls;\n    const char *rank = getenv("OMPI_COMM_WORLD_RANK");\n    if (rank \&\& *rank == 49 \&\& ++calls > 30) return MPI_ERR_OTHER;/' "$source"
exec mpicc.openmpi "$@"
SCRIPT
chmod +x "$work/mpicc"
if [ "${mpi#*openmpi}" != "$mpi" ]; then
    launcher="mpirun.openmpi -n 2" out=$work/error
    (MOEC_MPICC=$work/mpicc train "$out" --mesh expert=2 >"$work/out" 2>&1) &
    child=$!
    ends error "rank 1 of 2 \(.*\): MPI reports for '[a-z-]* of [a-z_0-9]*, std/[a-z]*[.]moe:[0-9]*'"
fi

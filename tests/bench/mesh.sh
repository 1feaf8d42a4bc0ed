#!/bin/sh
# Cost of training on several processes, in alternated rounds of which the fastest counts: one process under mpirun compared with none,
# two processes of one thread compared with one of two threads, ordered reductions compared with those of the library, and the time to
# compile a program of a mesh. Each ratio has a limit. The processes have a higher priority than other load, which is printed. CPU time
# is printed, too; that of the start is subtracted.
#
#   tests/bench/mesh.sh [ROUNDS]    default: 3
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
[ -n "$mpi" ] || wrong "no MPI: .ci/setup test installs it"
rounds=${1:-3}
cat stdlib/*.moe >"$work/text"
cat >"$work/cost.moe" <<'SPEC'
use decoder
model cost = decoder {
  vocab_size = 256, dim = 192, layers = 4
  attention = { heads = { q = 6 }, head_dim = 32 }
  ffn = swiglu { hidden_dim = 512 }
  train = { batch_size = 2, context_length = 64, gradient_accumulation_steps = 8, reduction_lanes = 2, eval_interval = 0, save_interval = 0 }
}
SPEC
raise_priority
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors"

# run NAME THREADS STEPS LAUNCHER...: appends the seconds of the fastest step, and the CPU seconds of its processes, to $work/NAME
run() {
    name=$1 threads=$2 steps=$3
    shift 3
    rm -rf "$work/out"
    OMP_NUM_THREADS=$threads "$@" bash -c '{ echo -15 >/proc/self/autogroup; } 2>/dev/null; TIMEFORMAT="CPU %U"; time "$@"' run moec train "$work/cost.moe" --data "$work/text" --out "$work/out" -q \
        --steps "$steps" </dev/null >/dev/null 2>"$work/time"
    step=$(sed -n 's/.*"seconds":\([0-9.e-]*\).*/\1/p' "$work/out/log.jsonl" | sort -g | head -1)
    echo "$step $(awk '$1 == "CPU" { sum += $2 } END { print sum }' "$work/time")" >>"$work/$name"
}

# at_most NUMBER: prints lines that end with "ratio R", and marks those above the limit.
status=0
at_most() {
    awk -v most="$1" '{ above = $NF > most; bad = bad || above; print $0 (above ? ", above " most : "") } END { exit bad || !NR }' "$work/lines" || status=1
}

least() { cut -d' ' -f"$2" "$work/$1" | sort -g | head -1; }

for launcher in $mpi; do
    run none 1 2 # fills the cache
    run one 1 2 "$launcher" -n 1
    rm -f "$work/none" "$work/one" "$work"/none_* "$work"/one_* "$work/threads" "$work/processes"
    for round in $(seq "$rounds"); do
        run none_short 1 2
        run one_short 1 2 "$launcher" -n 1
        run none_long 1 26
        run one_long 1 26 "$launcher" -n 1
        run threads 2 16
        run processes 1 16 "$launcher" -n 2
    done
    awk -v name="$launcher" -v none="$(least none_long 1)" -v one="$(least one_long 1)" \
        -v none_cpu="$(least none_long 2) $(least none_short 2)" -v one_cpu="$(least one_long 2) $(least one_short 2)" 'BEGIN {
        split(none_cpu, none_part, " ")
        split(one_cpu, one_part, " ")
        printf "%s: one process %.1f ms per step (CPU time of 24 steps: ratio %.3f), time without a launcher: ratio %.3f\n", name, 1e3 * one,
            (one_part[1] - one_part[2]) / (none_part[1] - none_part[2]), one / none }' >"$work/lines"
    at_most 1.01
    awk -v name="$launcher" -v threads="$(least threads 1)" -v two="$(least processes 1)" 'BEGIN {
        printf "%s: 2 processes of 1 thread %.1f ms per step, time of 2 threads %.1f ms: ratio %.3f\n", name, 1e3 * two, 1e3 * threads, two / threads }' >"$work/lines"
    at_most 1.052 # 1 / 0.95
    # shellcheck disable=SC2046 # several words
    mpicc."${launcher#mpirun.}" -std=gnu11 -O2 -w -fopenmp -Icompiler -Iruntime -Iruntime/abi -o "$work/reduce" tests/bench/mesh_reduce.c \
        "$BUILD"/libruntime.a "$BUILD"/libmoec_compiler.a -ljansson -lpcre2-8 -lutf8proc -ldl -lm
    OMP_NUM_THREADS=1 "$launcher" -n 2 "$work/reduce" >"$work/lines"
    at_most 1.25
done
cc -std=gnu11 -O2 -Icompiler -Iruntime -Iruntime/abi -o "$work/compile" tests/bench/mesh_compile.c "$BUILD"/libmoec_compiler.a \
    -ljansson -lpcre2-8 -lutf8proc -ldl -lm
"$work/compile" models/published.moe deepseek_v3 data=8,expert=8 8 >"$work/lines"
"$work/compile" models/tiny.moe tiny_moe data=4,expert=4 4 >>"$work/lines"
at_most 1.3
exit $status

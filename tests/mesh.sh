#!/bin/sh
# Training on several processes, in full; checks/mesh.sh has the short tests, bench/mesh.sh the cost. All parts, or one:
#
#   tests/mesh.sh bits      eleven kinds of models on 1, 2, 4 and 8 processes of 1 and 2 threads: the same bits
#   tests/mesh.sh experts   fourteen kinds of mixtures with their experts over 2, 4 and 8 processes: the same weights
#   tests/mesh.sh devices   four kinds of models on 1, 2 and 4 simulated GPUs: the same bits
#   tests/mesh.sh gpu_experts  the mixtures of `experts` with their experts over 2 simulated GPUs: the same weights
#   tests/mesh.sh plain     with one process, no launcher and no mesh change a byte of checkpoints and emitted texts
#   tests/mesh.sh fast      `reduction = fast` differs by rounding: the gradient of step 1 by 1e-6, the losses of 10 steps by 1e-5
#   tests/mesh.sh kills     kills of a random process at random times, each resumed on another number of processes
#
# STEPS (200), EXPERT_STEPS (12; on GPUs 2), KILLS (20), SEED of the kills (random) MODELS of all parts but the last (all) and PROCESSES of
# devices (2 4) and gpu_experts (2) change them.
. "$(dirname "$0")/begin.sh"
. tests/mesh_common.sh
[ -n "$mpi" ] || wrong "no MPI: .ci/setup test installs it"
parts=${*:-bits experts devices gpu_experts plain fast kills}
steps=${STEPS:-200} kills=${KILLS:-20} seed=${SEED:-$(date +%s)}
# shellcheck disable=SC2086 # several words
set -- $mpi
first=$1
cat stdlib/*.moe >"$work/text"

train() { # LAUNCHER THREADS MODEL OUT ARGUMENTS...
    launcher=$1 threads=$2 model=$3 out=$4
    shift 4
    OMP_NUM_THREADS=$threads $launcher moec train "tests/mesh_models.moe:$model" --data "$work/text" --out "$out" -q --steps "$steps" "$@" </dev/null
}

steps_of() { grep '"grad_norm"' "$1/log.jsonl" | sed 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/'; }

# The steps of the log, the weights, the optimizer state: equal for every number of processes and threads.
run_bits() {
    for model in ${MODELS:-dense balanced unbalanced balanced_over_step steered dropped recurrent_mixer with_muon averaged rounded frozen}; do
        for zero in 1 0; do
            rm -rf "$work/one"
            train "" 1 "$model" "$work/one" --set train.zero=$zero >/dev/null
            for run in "1 2" "2 1" "2 2" "4 1" "4 2" "8 1" "8 2"; do
                processes=${run% *} launcher=
                [ "$processes" = 1 ] || launcher="$first -n $processes"
                rm -rf "$work/other"
                train "$launcher" "${run#* }" "$model" "$work/other" --set train.zero=$zero >/dev/null
                same "$work/one" "$work/other"
            done
            steps_of "$work/one" >"$work/zero_$zero"
        done
        cmp "$work/zero_0" "$work/zero_1" || wrong "$model: train.zero changes the losses"
        for name in $mpi; do
            rm -rf "$work/other"
            train "$name -n 2" 1 "$model" "$work/other" --set train.zero=0 >/dev/null
            same "$work/one" "$work/other"
        done
        echo "$model: $steps steps, same bits on 1, 2, 4 and 8 processes of 1 and 2 threads, train.zero 0 and 1"
        rm -rf "$work/one"
    done
}

mixtures="eight shared sigmoid grouped uniform chooses one_matrix over_step saved average muon_of_experts frozen_up low_rank twice"

tensors() { tail -c +"$((9 + $(od -An -t u8 -N 8 "$1/last.safetensors")))" "$1/last.safetensors" | cksum; }

# Experts over 2, 4 and 8 processes: the weights, losses, gradient norms and probes of activations of one process.
run_experts() {
    steps=${EXPERT_STEPS:-12}
    for model in ${MODELS:-$mixtures}; do
        rm -rf "$work/one"
        train "" 1 "$model" "$work/one" >/dev/null
        for run in "$first -n 2:expert=2" "$first -n 4:expert=4" "$first -n 4:data=4,expert=2" "${mpi##* } -n 8:expert=8"; do
            rm -rf "$work/other"
            train "${run%:*}" 1 "$model" "$work/other" --mesh "${run##*:}" >/dev/null
            [ "$(log "$work/one")" = "$(log "$work/other")" ] || wrong "$model, $run: other losses, gradients or activations"
            [ "$(tensors "$work/one")" = "$(tensors "$work/other")" ] || wrong "$model, $run: other weights"
        done
        echo "$model: same weights with the experts over 2, 4 and 8 processes"
    done
}

gpu() { # SIM LAUNCHER MODEL OUT ARGUMENTS...
    sim=$1 gpu_launcher=$2 gpu_model=$3 gpu_out=$4
    shift 4
    MOEC_CUDA=$simulator MOEC_CFLAGS=-O0 MOEC_SIM=$sim train "$gpu_launcher" 1 "$gpu_model" "$gpu_out" --device cuda "$@" >"$work/out" 2>&1 ||
        wrong "$gpu_model on GPUs: $(cat "$work/out")"
}

# On simulated GPUs, with small sizes because they are slow; the first step with every access of a kernel checked.
run_devices() {
    small="--batch-size 2 --context-length 8 --set layers=1 --set dim=16"
    for model in ${MODELS:-dense balanced_over_step with_muon rounded}; do
        rm -rf "$work/one"
        gpu unchecked,eight "" "$model" "$work/one" $small
        for processes in ${PROCESSES:-2 4}; do
            rm -rf "$work/other" "$work/undivided"
            gpu unchecked,eight "$first -n $processes" "$model" "$work/other" $small
            same "$work/one" "$work/other"
            gpu unchecked,eight "$first -n $processes" "$model" "$work/undivided" $small --set train.zero=0
            [ "$(log "$work/one")" = "$(log "$work/undivided")" ] || wrong "$model on $processes GPUs with train.zero = 0: another log"
        done
        rm -rf "$work/other"
        gpu eight "$first -n 2" "$model" "$work/other" $small --stop-after 1
        ! grep 'sim: ' "$work/out" || wrong "$model: a report"
        echo "$model: $steps steps on simulated GPUs, same bits on 1 and ${PROCESSES:-2 and 4} processes"
    done
}

# Experts on simulated GPUs: the weights, losses, gradient norms and probes of activations of one process. At other sizes, kernels
# join other equations in one of the two programs, and sums have another order: each model has sizes where they do not.
run_gpu_experts() {
    steps=${EXPERT_STEPS:-2}
    for model in ${MODELS:-$mixtures}; do
        small="--batch-size 2 --context-length 8 --set layers=1 --set dim=16"
        case $model in
        over_step | average | twice) small="--batch-size 4 --context-length 32 --set layers=1 --set dim=64 --set train.eval_interval=0" ;;
        esac
        rm -rf "$work/one"
        gpu unchecked,eight "" "$model" "$work/one" $small
        for processes in ${PROCESSES:-2}; do
            rm -rf "$work/other"
            gpu unchecked,eight "$first -n $processes" "$model" "$work/other" $small --mesh "expert=$processes"
            [ "$(log "$work/one")" = "$(log "$work/other")" ] || wrong "$model on $processes GPUs: other losses, gradients or activations"
            [ "$(tensors "$work/one")" = "$(tensors "$work/other")" ] || wrong "$model on $processes GPUs: other weights"
        done
        echo "$model: same weights with the experts over ${PROCESSES:-2} simulated GPUs"
    done
}

# One process: checkpoints without a launcher, with one, and with a mesh of one process; then texts of all small models under the
# variables that launchers set.
run_plain() {
    steps=6
    for model in ${MODELS:-dense balanced recurrent_mixer with_muon rounded}; do
        rm -rf "$work/one"
        train "" 2 "$model" "$work/one" --set train.reduction_lanes=0 >/dev/null
        for name in none $mpi; do
            launcher=
            [ "$name" = none ] || launcher="$name -n 1"
            for mesh in "" "--mesh data=1" "--mesh data=auto,expert=1"; do
                rm -rf "$work/other"
                # shellcheck disable=SC2086 # no word or two
                train "$launcher" 2 "$model" "$work/other" --set train.reduction_lanes=0 $mesh >/dev/null
                same "$work/one" "$work/other"
            done
        done
        echo "$model: same bytes with one process, with and without a launcher"
    done
    texts=0
    variables="OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4
        PMI_RANK=1 PMI_SIZE=4 PMIX_RANK=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=localhost MASTER_PORT=29500"
    tests/small_models.sh | sed 's/ -c / --context-length /' >"$work/list"
    while read -r line; do
        for mode in train decode; do
            # shellcheck disable=SC2086 # several words
            moec dump $line --after emit --mode $mode >"$work/text_alone" 2>&1 || true
            # shellcheck disable=SC2086
            env $variables moec dump $line --after emit --mode $mode >"$work/text_launched" 2>&1 || true
            cmp "$work/text_alone" "$work/text_launched" || wrong "$line: a launcher changes the text of mode $mode"
            ! grep -q '^/\* run_' "$work/text_alone" || texts=$((texts + 1))
        done
    done <"$work/list"
    [ "$texts" -ge 330 ] || wrong "only $texts texts"
    echo "$texts texts without an effect of a launcher"
}

# Relative difference of the gradients of step 1 over all weights: those in the first moment of the optimizer, which began at 0.
gradients_apart() {
    python3 - "$1/last.safetensors" "$2/last.safetensors" <<'PY'
import array, json, math, struct, sys
def moments(path):
    file = open(path, "rb")
    length, = struct.unpack("<Q", file.read(8))
    tensors = json.loads(file.read(length))
    for name in sorted(tensors):
        if not name.startswith("optimizer.m:"): continue
        start, end = tensors[name]["data_offsets"]
        file.seek(8 + length + start)
        yield from array.array("f", file.read(end - start))
apart = whole = 0
for a, b in zip(moments(sys.argv[1]), moments(sys.argv[2]), strict=True):
    apart, whole = apart + (a - b) ** 2, whole + a * a
print(math.sqrt(apart / whole))
PY
}

losses() { grep '"grad_norm"' "$1/log.jsonl" | sed 's/.*"loss":\([^,]*\),.*/\1/'; }

# `fast` differs by rounding.
run_fast() {
    for model in ${MODELS:-dense recurrent_mixer averaged frozen}; do
        rm -rf "$work/plain" "$work/fast"
        for steps in 1 10; do
            train "" 1 "$model" "$work/plain" --resume --set train.reduction_lanes=1 >/dev/null
            train "$first -n 4" 1 "$model" "$work/fast" --resume --set train.reduction=fast >/dev/null
            [ $steps = 10 ] || apart=$(gradients_apart "$work/plain" "$work/fast")
        done
        losses "$work/plain" >"$work/a"
        off=$(losses "$work/fast" | paste "$work/a" - |
            awk '{ off = $1 / $2 - 1; if (off < 0) off = -off; if (off > most) most = off } END { print most + (NR != 10) }')
        awk -v apart="$apart" -v off="$off" 'BEGIN { exit !(apart > 0 && apart <= 1e-6 && off <= 1e-5) }' ||
            wrong "$model: fast changes the gradient of step 1 by $apart and the losses by $off"
        echo "$model: fast changes the gradient of step 1 by $apart, the losses of 10 steps by $off at most"
    done
}

# The runs that end have the bytes of one that was never killed.
run_kills() {
    train "" 1 balanced "$work/straight" --set train.save_interval=7 >/dev/null
    began=$(date +%s%N)
    rm -rf "$work/timed"
    train "$first -n 4" 1 balanced "$work/timed" --set train.save_interval=7 >/dev/null
    whole=$((($(date +%s%N) - began) / 1000000))
    killed=0 finished=0 tries=0
    echo "seed $seed; a run takes $whole ms"
    while [ "$killed" -lt "$kills" ] || [ "$finished" = 0 ]; do
        set -- $(awk -v seed="$((seed + tries))" -v whole="$whole" 'BEGIN { srand(seed)
            split("1 2 4 8", sizes, " "); size = sizes[1 + int(4 * rand())]; print size, int(size * rand()), 0.9 * whole * rand() / 1000 }')
        launcher="$first -n $1" done=0 tries=$((tries + 1)) # a kill before the start of the process does not count
        (train "$launcher" 1 balanced "$work/killed" --set train.save_interval=7 --resume >"$work/out" 2>&1) &
        child=$!
        if [ "$killed" -lt "$kills" ]; then
            sleep "$3"
            id=$(process "$work/killed" "$2")
            if [ -n "$id" ] && kill -9 "$id" 2>/dev/null; then killed=$((killed + 1)); fi
        fi
        wait $child && done=1 || true
        [ "$1" = 1 ] || [ -z "$(process "$work/killed" 0)" ] || wrong "a process is left"
        [ $done = 1 ] || continue
        same "$work/straight" "$work/killed"
        finished=$((finished + 1))
        rm -rf "$work/killed"
    done
    echo "killed $killed times: $finished finished runs with the same bytes"
}

for part in $parts; do
    case $part in
    bits | experts | devices | gpu_experts | plain | fast | kills) (run_$part) ;;
    *) wrong "unknown part $part: bits, experts, devices, gpu_experts, plain, fast or kills" ;;
    esac
done

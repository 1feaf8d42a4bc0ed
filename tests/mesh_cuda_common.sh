# Sourced after begin.sh and mesh_common.sh by the tests of several processes on GPUs, here simulated. Defines:
#
#   train OUT ARGUMENTS...              trains `model` of $work/small.moe on a GPU; `launcher`: the command before it
#   torch N OUT ARGUMENTS...            the same in N processes with the variables of torchrun; the code of the last that failed
#   begin_torch N OUT ARGUMENTS...      begins them; their ids are in `children`
export MOEC_CUDA="$simulator" MOEC_CFLAGS=-O0 MOEC_SIM=unchecked,eight OMP_NUM_THREADS=1
head -c 4000 stdlib/LANGUAGE.md >"$work/text"
model=small

train() {
    out=$1
    shift
    set -- moec train "$work/small.moe:$model" --device cuda --data "$work/text" --out "$out" "$@"
    $launcher "$@" </dev/null
}

# free_port: `port` is one that no process listens on.
port=$((20000 + $$ % 10000))
free_port() {
    port=$((port + 1))
    while grep -q "$(printf ':%04X ' $port)" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do port=$((port + 1)); done
}

begin_torch() {
    count=$1 children=
    shift
    free_port
    for rank in $(seq 0 $((count - 1))); do
        RANK=$rank WORLD_SIZE=$count LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$count MASTER_ADDR=localhost MASTER_PORT=$port launcher=exec train "$@" &
        children="$children $!"
    done
}

torch() {
    worst=0
    begin_torch "$@"
    for child in $children; do wait "$child" || worst=$?; done
    return $worst
}

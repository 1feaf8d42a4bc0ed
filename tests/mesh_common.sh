# Sourced after begin.sh by the tests of several processes. Defines:
#
#   mpi             the launchers that are installed and start a program of two processes: mpirun.openmpi mpirun.mpich
#   log RUN         the log without durations
#   same RUN RUN    fails unless both runs have the same log and checkpoints
#   process RUN N   the id of the process of rank N that trains RUN, or nothing
#   raise_priority  lets other load have less of the processors, as root; that of the group of a session counts first
# As root, and with more processes than processors, Open MPI starts only with these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# Open MPI 5 has another name for the same request.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

cat >"$work/two_processes.c" <<'EOF'
#include <mpi.h>
int main(int count, char **words) {
    int size = 0;
    return MPI_Init(&count, &words) || MPI_Comm_size(MPI_COMM_WORLD, &size) || MPI_Finalize() || size != 2;
}
EOF
mpi=
for name in mpirun.openmpi mpirun.mpich; do
    compiler=mpicc.${name#mpirun.}
    if ! command -v $name >/dev/null || ! command -v "$compiler" >/dev/null; then continue; fi
    # The processes of MPICH 4.2.0 of Ubuntu 24.04 do not find each other.
    if "$compiler" -o "$work/two_processes" "$work/two_processes.c" && $name -n 2 "$work/two_processes" >"$work/two_processes.log" 2>&1; then
        mpi="$mpi $name"
    else
        echo "$name is left out: it does not start a program of two processes: $(tail -1 "$work/two_processes.log")"
    fi
done

log() { sed 's/,"seconds":[^,}]*//' "$1/log.jsonl"; }

same() {
    for name in last best; do cmp "$1/$name.safetensors" "$2/$name.safetensors" || wrong "$name.safetensors of $2 differs from $1"; done
    [ "$(log "$1")" = "$(log "$2")" ] || wrong "the log of $2 differs from $1"
}

process() {
    for id in $(grep -lzxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$2" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
        { tr '\0' ' ' <"/proc/$id/cmdline"; } 2>/dev/null | grep -q "^[^ ]*moec train .*--out $1 " && echo "$id" && return
    done
    return 0
}

raise_priority() {
    echo -15 2>/dev/null >/proc/self/autogroup || echo "no group of a session with a higher priority"
    renice -n -15 -p $$ >/dev/null || echo "no higher priority"
}

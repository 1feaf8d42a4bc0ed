# Sourced after begin.sh by the tests of several processes. Defines:
#
#   mpi             the launchers that are installed: mpirun.openmpi mpirun.mpich
#   log RUN         the log without durations
#   same RUN RUN    fails unless both runs have the same log and checkpoints
#   process RUN N   the id of the process of rank N that trains RUN, or nothing
#   raise_priority  lets other load have less of the processors, as root; that of the group of a session counts first
mpi=
for name in mpirun.openmpi mpirun.mpich; do
    if command -v $name >/dev/null && command -v mpicc."${name#mpirun.}" >/dev/null; then mpi="$mpi $name"; fi
done
# As root, and with more processes than processors, Open MPI starts only with these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# Open MPI 5 has another name for the same request.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

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

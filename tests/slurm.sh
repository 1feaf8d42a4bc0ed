#!/bin/sh
# With a real Slurm on this machine: a sweep ends with the table of a local sweep; two processes train to the same bits as one. Requires root and Debian's slurm-wlm
# and munge. Starts its own daemons; all their files are in one temporary folder. Not part of `make test`.
. "$(dirname "$0")/begin.sh"
for program in munged slurmctld slurmd sbatch squeue; do
    command -v $program > /dev/null || wrong "$program is missing: apt-get install slurm-wlm munge"
done
host=$(hostname -s)
chmod 755 "$work"
mkdir "$work/state" "$work/spool" "$work/munge"
head -c 1024 /dev/urandom > "$work/munge/key"
chmod 700 "$work/munge"
chmod 600 "$work/munge/key"
cat > "$work/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17817
SlurmdPort=17818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
SchedulerType=sched/backfill
SelectType=select/linear
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
CONF
export SLURM_CONF="$work/slurm.conf"

munged --force --foreground --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge/log" --seed-file="$work/munge/seed" > "$work/munge.out" 2>&1 &
munge=$!
slurmctld -D > "$work/slurmctld.out" 2>&1 &
control=$!
sleep 2
slurmd -D > "$work/slurmd.out" 2>&1 &
node=$!
trap 'kill $node $control $munge 2> /dev/null; sleep 1; rm -rf "$work"' EXIT
tries=0
until sinfo -h -o %T 2> /dev/null | grep -q idle; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || wrong "the daemons do not start: $(tail -5 "$work"/*.log "$work"/*.out "$work/munge/log")"
    sleep 1
done

swept_model small 200 100
cat >> "$work/small.moe" <<'SPEC'
experiment gate { baseline = small, vary attention.gate = [{ at = v }], match params by ffn.hidden_dim, seeds = 2 }
SPEC
cd "$work"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS
moec sweep small.moe --data text --out plain > plain.log 2>&1 || wrong "the sweep failed: $(cat plain.log)"
# Spaces, quotes and sbatch patterns in the name of the folder.
jobs="the jobs %j's"
moec sweep small.moe --data text --out "$jobs" --slurm '--time=10' > jobs.log 2>&1 || wrong "jobs: $(cat jobs.log "$jobs"/slurm_*.txt slurmd.log)"
grep 'is submitted as job' jobs.log
cmp plain/table.json "$jobs/table.json"
[ -e "$jobs/slurm_0.txt" ] || wrong "the output of jobs is in another file: $(ls "$jobs")"
# A run without a finished job is the only one of the next array.
rm "$jobs"/base/seed_2/*
moec sweep small.moe --data text --out "$jobs" --slurm '--time=10' > again.log 2>&1 || wrong "again: $(cat again.log)"
grep -q ': 1 runs' again.log || wrong "not exactly one run is repeated: $(cat again.log)"
cmp plain/table.json "$jobs/table.json"
echo "the same table by jobs of Slurm"
# Training on two processes, started by srun itself (MPICH, PMI-2) and by the launchers in an allocation: the same bits as one process.
cd "$OLDPWD"
. tests/mesh_common.sh
train() { # OUT LAUNCHER...
    out=$1
    shift
    "$@" moec train "$work/small.moe:small" --data "$work/text" --out "$work/$out" --set train.gradient_accumulation_steps=4 --set train.reduction_lanes=4 </dev/null >"$work/log" 2>&1 ||
        { cat "$work/log"; wrong "training by $*"; }
}
train one env
train by_srun srun --mpi=pmi2 -n 2 --overcommit
same "$work/one" "$work/by_srun"
grep -q '^2 processes on 1 host' "$work/log" || { cat "$work/log"; wrong "srun started separate runs"; }
for name in $mpi; do
    train "by_$name" salloc -Q -n 2 --overcommit $name -n 2
    same "$work/one" "$work/by_$name"
done
echo "the same bits by srun and by the launchers in an allocation"

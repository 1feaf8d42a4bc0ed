#!/bin/sh
# Training on two hosts: network namespaces with an address, a host name and a temporary folder of their own, connected by one link.
# The same bits as on one host; data that one host lacks; other data on one host; a link that is taken down during training.
# Needs root and iproute2. Duration: a minute.
#
#   tests/mesh_hosts.sh
#
# STEPS (40) and MODELS of mesh_models.moe (balanced) change the comparison of bits.
. "$(dirname "$0")/begin.sh"
. tests/mesh_common.sh
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null; then
    echo "network namespaces need root and iproute2: skipped"
    exit 0
fi
case $mpi in *openmpi*) ;; *) wrong "no Open MPI: .ci/setup test installs it" ;; esac
steps=${STEPS:-40}
one=moec-$$-a two=moec-$$-b
leave() {
    for space in $one $two; do
        for id in $(ip netns pids $space 2>/dev/null); do kill -9 "$id" 2>/dev/null; done
        ip netns del $space 2>/dev/null
    done
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 1' TERM INT
ip netns add $one
ip netns add $two
ip link add wire netns $one type veth peer name wire netns $two
ip netns exec $one ip address add 10.97.3.1/24 dev wire
ip netns exec $two ip address add 10.97.3.2/24 dev wire
for space in $one $two; do
    ip netns exec $space ip link set wire up
    ip netns exec $space ip link set lo up
done

# Open MPI uses it as ssh: AGENT ADDRESS COMMAND. The second host mounts another file system at $work/own.
mkdir -p "$work/own" "$work/cache"
cat >"$work/agent" <<AGENT
#!/bin/sh
shift
exec ip netns exec $two unshare -u -m sh -c 'hostname beta && mount -t tmpfs none "$work/own" && \\
    { [ ! -e "$work/second" ] || cp "$work/second" "$work/own/text"; } && export MOEC_CACHE="$work/cache" && exec sh -c "\$*"' sh "\$@"
AGENT
chmod +x "$work/agent"
cat stdlib/*.moe >"$work/text"
hosts() { # DATA OUT ARGUMENTS...: 2 processes on each host
    data=$1 out=$2
    shift 2
    ip netns exec $one unshare -u sh -c 'hostname alpha && exec "$@"' sh mpirun.openmpi --mca plm_rsh_agent "$work/agent" \
        --host 10.97.3.1:2,10.97.3.2:2 -n 4 -x OMP_NUM_THREADS=1 -x PATH moec train "tests/mesh_models.moe:$model" --data "$data" --out "$out" -q "$@" </dev/null
}
for model in ${MODELS:-balanced}; do
    rm -rf "$work/alone" "$work/both"
    moec train "tests/mesh_models.moe:$model" --data "$work/text" --out "$work/alone" -q --steps "$steps" >/dev/null
    hosts "$work/text" "$work/both" --steps "$steps" >"$work/log" 2>&1 || { tail -20 "$work/log"; wrong "$model on two hosts"; }
    same "$work/alone" "$work/both"
    echo "$model, $steps steps: the same bits on two hosts of two processes"
done
model=balanced

# Files that the second host lacks, or that differ there: one message that names a process of it.
told() { # WORDS...: the messages of the last run are one error with these words
    [ "$(grep -c '^moec: error' "$work/log")" = 1 ] || { cat "$work/log"; wrong "not one error"; }
    for word; do grep -q -- "$word" "$work/log" || { cat "$work/log"; wrong "the error lacks '$word'"; }; done
}
cp "$work/text" "$work/own/text"
hosts "$work/own/text" "$work/lacking" >"$work/log" 2>&1 && wrong "training without the data of one host"
told beta "own/text"
tr a b <"$work/text" >"$work/second"
hosts "$work/own/text" "$work/differing" >"$work/log" 2>&1 && wrong "training with other data on one host"
told beta "training data"
cp "$work/text" "$work/second"
hosts "$work/own/text" "$work/copied" --steps 20 >"$work/log" 2>&1 || { tail -20 "$work/log"; wrong "training with a copy of the data on each host"; }
echo "data that one host lacks or that differs is reported once"

# The link fails during training: every process ends, one error names process and collective, and the run resumes on one host.
export MOEC_WATCHDOG_TIMEOUT=5
hosts "$work/text" "$work/cut" --steps 40000 >"$work/log" 2>&1 &
child=$!
until [ -e "$work/cut/last.safetensors" ]; do kill -0 $child 2>/dev/null || wrong "the run ended too early"; sleep 0.1; done
ip netns exec $two ip link set wire down
began=$(date +%s)
remaining() { for space in $one $two; do ip netns pids $space; done | while read -r id; do tr '\0' ' ' <"/proc/$id/cmdline" | grep "^moec train" || true; done 2>/dev/null; }
while [ -n "$(remaining)" ]; do
    [ $(($(date +%s) - began)) -le 20 ] || { cat "$work/log"; wrong "processes are left after 20 s: $(remaining)"; }
    sleep 0.2
done
seconds=$(($(date +%s) - began))
[ "$seconds" -le 12 ] || wrong "$seconds s until all processes were gone"
kill -9 $child $(ip netns pids $one) 2>/dev/null # the launcher waits for its own connection
wait $child 2>/dev/null && wrong "the run survived the loss of its link"
told "step" "after collective"
moec train "tests/mesh_models.moe:$model" --data "$work/text" --out "$work/cut" -q --resume --stop-after 1000 >/dev/null || wrong "the run does not resume"
echo "a link that is taken down ends all processes of the run after $seconds s"

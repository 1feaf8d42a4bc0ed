#!/bin/sh
# Exchanges of rows on 4 processes, of which a shared expert hides a part: seconds that overlap saves, measured and predicted. The
# loopback device has a limited rate, in a network namespace, so that exchanges are slower than the work that hides them and leave
# the processors free. Each round measures the same work without a mesh, 4 processes side by side, then training without and with
# overlap; the medians count.
#
# The prediction is `moec explain --machine`. It knows the limit, of which each process has a quarter, and the rate of products of the
# processes without a mesh. At least half of the prediction must be saved. The processes have a higher priority than other load, which
# is printed. Needs root, Open MPI, jq and tc.
#
#   tests/bench/mesh_overlap.sh [ROUNDS [MBIT]]    default: 3 rounds, 400 Mbit/s
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
[ "${mpi#*openmpi}" != "$mpi" ] || wrong "no Open MPI: .ci/setup test installs it"
rounds=${1:-3} mbit=${2:-400} space=moec-$$ steps=2 parts=6
cat stdlib/*.moe >"$work/text"
cat >"$work/mixture.moe" <<SPEC
use decoder
model mixture = decoder {
  vocab_size = 256, dim = 256, layers = 1
  attention = { heads = { q = 4, k = 2, v = 2 }, head_dim = 32 }
  ffn = moe { experts = 8, top_k = 1, expert = swiglu { hidden_dim = 128 }, shared_expert = swiglu { hidden_dim = 1536 } }
  train = { batch_size = 4, context_length = 256, gradient_accumulation_steps = $((4 * parts)), reduction_lanes = 4, steps = $steps, eval_interval = 0, save_interval = 0 }
}
model alone = mixture { train = { gradient_accumulation_steps = $parts, reduction_lanes = 1 } }
SPEC
ip netns add "$space"
trap 'ip netns del "$space"; rm -rf "$work"' EXIT
ip netns exec "$space" ip link set lo up
ip netns exec "$space" tc qdisc add dev lo root tbf rate "${mbit}mbit" burst 256kb limit 256mb
raise_priority
export OMP_NUM_THREADS=1

seconds_of() { jq -s '[.[].seconds // 0] | add' "$1/log.jsonl"; }

# run on|off: appends the seconds of all steps, those of exchanges and those of waiting for them, of process 0, to $work/on or $work/off
run() {
    rm -rf "$work/out"
    MOEC_MESH_OVERLAP=$1 ip netns exec "$space" mpirun.openmpi --mca btl self,tcp --mca btl_tcp_if_include lo -n 4 \
        moec train "$work/mixture.moe:mixture" --data "$work/text" --out "$work/out" --mesh expert=4 -v </dev/null >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    echo "$(seconds_of "$work/out") $(sed -n 's/.* exchanges, .*: \([0-9.]*\) s, of which the program waited for \([0-9.]*\) s/\1 \2/p' "$work/log")" >>"$work/$1"
}

# Appends the mean of the seconds of all steps of 4 processes without a mesh to $work/alone.
run_alone() {
    children=
    for process in 0 1 2 3; do
        rm -rf "$work/out$process"
        moec train "$work/mixture.moe:alone" --data "$work/text" --out "$work/out$process" -q </dev/null >"$work/log$process" 2>&1 &
        children="$children $!"
    done
    for child in $children; do wait "$child" || wrong "$(cat "$work"/log?)"; done
    for process in 0 1 2 3; do seconds_of "$work/out$process"; done | awk '{ sum += $1 } END { print sum / NR }' >>"$work/alone"
}

median() { sort -g -k1 "$work/$1" | sed -n "$(((rounds + 1) / 2))p"; }

run off # fills the cache
run_alone
rm "$work/off" "$work/alone"
for round in $(seq "$rounds"); do
    echo "round $round, load $(cut -d' ' -f1-3 /proc/loadavg) on $(getconf _NPROCESSORS_ONLN) processors"
    run_alone
    run off
    run on
done
alone=$(median alone)
read -r without exchanged _ <<EOF
$(median off)
EOF
read -r with running waited <<EOF
$(median on)
EOF

flops=$(moec check "$work/mixture.moe:alone" --json | jq .flops_per_token.train)
cat >>"$work/mixture.moe" <<SPEC
machine here {
  gflops = $(awk -v flops="$flops" -v tokens=$((1024 * parts * steps)) -v seconds="$alone" 'BEGIN { print flops * tokens / seconds / 1e9 }')
  gbytes = 1e3, memory = 1, network_gbytes = $(awk -v mbit="$mbit" 'BEGIN { print mbit / 8e3 / 4 }'), network_latency = 1e-4
}
SPEC
moec explain "$work/mixture.moe:mixture" --mesh data=4,expert=4 --machine here >"$work/explained"
awk -v parts="$((parts * steps))" -v alone="$alone" -v without="$without" -v exchanged="$exchanged" -v with="$with" -v running="$running" -v waited="$waited" '
    function seconds(at) { return $at * ($(at + 1) ~ /^ms/ ? 1e-3 : $(at + 1) ~ /^s/ ? 1 : 1e-6) }
    /exchanges on here/ { for (i = 1; i < NF; i++) { if ($i == "least") exchanges = parts * seconds(i + 1); if ($i == "which") exposed = parts * seconds(i + 1) } }
    END {
        predicted = exchanges - exposed
        saved = without - with
        printf "without a mesh: %.2f s; without overlap: %.2f s, of which exchanges %.2f s, predicted %.2f s\n", alone, without, exchanged, exchanges
        printf "with overlap: %.2f s; process 0 computed during %.2f s of %.2f s of exchanges\n", with, running - waited, running
        printf "predicted to be hidden: %.2f s; saved: %.2f s, %.2f of that\n", predicted, saved, saved / predicted
        if (predicted < exchanges / 4) print "undecided: the prediction is below a quarter of the exchanges"
        else print (saved >= predicted / 2 ? "pass: at least half" : "fail: less than half")
        exit predicted < exchanges / 4 || saved < predicted / 2 }' "$work/explained"

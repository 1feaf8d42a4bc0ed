#!/bin/sh
# Exchanges of rows on 4 processes whose loopback device has a limited rate, in a network namespace: seconds that computation hides,
# measured and predicted. Alternated rounds with and without overlap; the fastest of each counts. The prediction is `moec explain
# --machine` with the rate of products and of the network in the rounds without overlap. At least half of it must be reached. Needs
# root, Open MPI, jq and tc. Other load on the machine makes both smaller; it is printed. A prediction that is too small to decide is a
# failure, too.
#
#   tests/bench/mesh_overlap.sh [ROUNDS [RATE]]    default: 3 1gbit
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
[ "${mpi#*openmpi}" != "$mpi" ] || wrong "no Open MPI: .ci/setup test installs it"
rounds=${1:-3} rate=${2:-1gbit} space=moec-$$ steps=3 parts=4
cat stdlib/*.moe >"$work/text"
cat >"$work/mixture.moe" <<SPEC
use decoder
model mixture = decoder {
  vocab_size = 256, dim = 256, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 }, head_dim = 32 }
  ffn = moe { experts = 8, top_k = 2, expert = swiglu { hidden_dim = 128 }, shared_expert = swiglu { hidden_dim = 512 } }
  train = { batch_size = 4, context_length = 256, gradient_accumulation_steps = $((4 * parts)), reduction_lanes = 4, steps = $steps, eval_interval = 0, save_interval = 0 }
}
SPEC
ip netns add "$space"
trap 'ip netns del "$space"; rm -rf "$work"' EXIT
ip netns exec "$space" ip link set lo up
ip netns exec "$space" tc qdisc add dev lo root tbf rate "$rate" burst 256kb latency 200ms
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors; loopback at $rate"

# run NAME: appends "seconds of exchanges, seconds of waiting, seconds of all steps" of process 0 to $work/NAME; NAME: on or off
run() {
    rm -rf "$work/out"
    MOEC_MESH_OVERLAP=$1 OMP_NUM_THREADS=1 ip netns exec "$space" mpirun.openmpi --mca btl self,tcp --mca btl_tcp_if_include lo -n 4 \
        moec train "$work/mixture.moe" --data "$work/text" --out "$work/out" --mesh expert=4 -v </dev/null >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    all=$(sed -n 's/.*"seconds":\([0-9.e-]*\).*/\1/p' "$work/out/log.jsonl" | awk '{ sum += $1 } END { print sum }')
    sed -n "s/.* exchanges, .*: \([0-9.]*\) s, of which the program waited for \([0-9.]*\) s/\1 \2 $all/p" "$work/log" >>"$work/$1"
}

run off # fills the cache
rm "$work/off"
for round in $(seq "$rounds"); do
    run on
    run off
done
sort -k3 -g "$work/on" | head -1 >"$work/fast_on"
sort -k3 -g "$work/off" | head -1 >"$work/fast_off"
read -r _ waited with <"$work/fast_on"
read -r exchanged _ without <"$work/fast_off"

# explain GFLOPS GBYTES: seconds of the run on such a machine: all exchanges, the exposed part, the gradients
explain() {
    cat "$work/mixture.moe" - >"$work/rates.moe" <<SPEC
machine here { gflops = $1, gbytes = 1e3, memory = 1, network_gbytes = $2, network_latency = 1e-5 }
SPEC
    moec explain "$work/rates.moe" --mesh data=4,expert=4 --machine here | awk -v parts="$parts" -v steps="$steps" '
        $2 ~ /gradients$/ || $3 ~ /gradients$/ { gradients += $(NF - 3) }
        /exchanges on/ { for (i = 1; i < NF; i++) if ($i == "on") print $(i + 4) * parts * steps / 1e3, $(i + 8) * parts * steps / 1e3, gradients * steps / 1e3 }'
}
gbytes=$(explain 1 1 | awk -v seconds="$exchanged" '{ print $1 / seconds }')
gradients=$(explain 1 "$gbytes" | cut -d' ' -f3)
flops=$(moec check "$work/mixture.moe" --json | jq .flops_per_token.train)
gflops=$(awk -v flops="$flops" -v seconds="$without" -v exchanged="$exchanged" -v gradients="$gradients" -v tokens=$((1024 * parts * steps)) \
    'BEGIN { print flops * tokens / (seconds - exchanged - gradients) / 1e9 }')
explain "$gflops" "$gbytes" | awk -v exchanged="$exchanged" -v waited="$waited" -v with="$with" -v without="$without" '{
    predicted = $1 - $2
    hidden = exchanged - waited
    printf "exchanges: %.2f s without overlap; predicted to be hidden: %.2f s; hidden: %.2f s, %.2f of that\n", exchanged, predicted, hidden, hidden / predicted
    printf "all steps with overlap: %.2f of the time without\n", with / without
    if (predicted < exchanged / 20) print "undecided: the prediction is below 5 % of the exchanges, whose time contains waiting for slower processes"
    exit predicted < exchanged / 20 || hidden < predicted / 2 }'

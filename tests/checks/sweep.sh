#!/bin/sh
# A sweep that is killed goes on and ends with the table of one that was left alone; a run that diverged is told; a folder takes
# one sweep at a time, and only the one that it began with.
. "$(dirname "$0")/../begin.sh"

cat > "$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 16, layers = 1
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn.hidden = 16
  train = { lr = 1e-2, batch = 2, context = 16, steps = 400, evaluate = 100, checkpoint = 20 }
}
experiment gate { base = small, vary attention.gate = [{ at = v }], match params by ffn.hidden, seeds = 2 }
experiment diverging { base = small, vary train.lr = [1e30], seeds = 2, train = { steps = 20, clip = 0 } }
SPEC
cat stdlib/*.moe > "$work/text"
cd "$work"

sweep() { # EXPERIMENT OUT ARGUMENTS...
    name=$1 out=$2
    shift 2
    moec sweep "small.moe:$name" --data text --out "$out" "$@"
}

OMP_NUM_THREADS=1
export OMP_NUM_THREADS
sweep gate whole > whole.log || wrong "a sweep fails: $(cat whole.log)"
[ "$(grep -c 'val_bits_per_byte [0-9]' whole.log)" = 4 ] || wrong "not four runs: $(cat whole.log)"

# Killed in its second run, at a checkpoint; the first run is not made again.
sweep gate killed --jobs 1 > killed.log 2>&1 &
process=$!
until [ -e killed/gate_at_v/seed_1/last.safetensors ]; do
    kill -0 $process 2> /dev/null || wrong "the sweep ended too early: $(cat killed.log)"
    sleep 0.02
done
kill -9 $process 2> /dev/null || wrong "the sweep was over before it could be killed"
wait $process || true
[ -e killed/table.json ] && wrong "the sweep was over before it was killed"
before=$(cat killed/base/seed_1/output.txt)
sweep gate killed --jobs 2 > again.log || wrong "the sweep does not go on: $(cat again.log)"
[ "$before" = "$(cat killed/base/seed_1/output.txt)" ] || wrong "a finished run was made again"
cmp whole/table.json killed/table.json || wrong "another table after a kill"
cmp whole/table.csv killed/table.csv || wrong "another table after a kill"

# The lock held by another process, longer than a sweep waits for it.
flock -o whole/lock sleep 20 &
holder=$!
until ! flock -n whole/lock true; do sleep 0.02; done
sweep gate whole > second.log 2>&1 && wrong "two sweeps in one folder"
grep -q 'another sweep is at work' second.log || wrong "two sweeps: $(cat second.log)"
kill $holder
until flock -n whole/lock true; do sleep 0.1; done

# On a finished folder: the table alone.
sweep gate whole > table.log
grep -q '^gate_at_v seed' table.log && wrong "a finished sweep makes runs"
grep -q '+- ' table.log || wrong "no interval: $(cat table.log)"

sed -i 's/lr = 1e-2/lr = 2e-2/' small.moe
sweep gate whole > changed.log 2>&1 && wrong "a changed spec goes on"
grep -q 'variant base is not the same' changed.log || wrong "changed: $(cat changed.log)"

sweep diverging apart > apart.log 2>&1 || wrong "a sweep in which runs diverge fails: $(cat apart.log)"
grep -q 'diverged: 2 of 2' apart.log || wrong "runs that diverged are not told: $(cat apart.log)"
grep -q '"diverged"' apart/lr_1e30/seed_1/log.jsonl || wrong "the log does not say that the run diverged"

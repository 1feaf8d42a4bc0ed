#!/bin/sh
# A sweep that is killed goes on and ends with the table of one that was left alone; a run that diverged is told; a folder takes
# one sweep at a time, and only the one that it began with. tests/sweep_kill.sh is the longer form of it.
. "$(dirname "$0")/../begin.sh"

swept_model small 400 100
cat >> "$work/small.moe" <<'SPEC'
experiment gate { baseline = small, vary attention.gate = [{ at = v }], match params by ffn.hidden_dim, seeds = 2 }
experiment rates { baseline = small, vary attention.gate = [{ at = v }], tune train.lr = [1e-3, 1e-2, 1e30], train = { steps = 20, grad_clip = 0 } }
experiment halves { baseline = small, vary train.lr = [1e-4, 1e-3, 1e-5], seeds = 2, train = { steps = 40 }, early_stopping = { halve_at = [0.25, 0.5] } }
experiment limit { baseline = small, vary train.lr = [3], train = { steps = 40, grad_clip = 0 }, early_stopping = { diverged_above = 7 } }
experiment named { baseline = small, vary layers = [2], train = { steps = 20 }, metric = { name = grad_norm, goal = maximize } }
experiment missing { baseline = small, train = { steps = 4 }, metric = accuracy }
experiment timed { baseline = small, budget = { seconds = 0.05 } }
experiment pair { baseline = small, seeds = 3, train = { steps = 2, eval_interval = 0, save_interval = 0 } }
experiment diverging { baseline = small, vary train.lr = [1e30], seeds = 2, train = { steps = 20, grad_clip = 0 } }
SPEC
cd "$work"

OMP_NUM_THREADS=1
export OMP_NUM_THREADS
sweep() { # EXPERIMENT OUT ARGUMENTS...
    name=$1 out=$2
    shift 2
    moec sweep "small.moe:$name" --data text --out "$out" "$@"
}

# The process itself, so that it can be killed: $process.
sweep_behind() { # EXPERIMENT OUT LOG ARGUMENTS...
    name=$1 out=$2 log=$3
    shift 3
    moec sweep "small.moe:$name" --data text --out "$out" "$@" > "$log" 2>&1 &
    process=$!
}

sweep gate whole > whole.log 2>&1 || wrong "a sweep fails: $(cat whole.log)"
[ "$(grep -c 'val_bits_per_byte [0-9]' whole.log)" = 4 ] || wrong "not four runs: $(cat whole.log)"

# Killed in its second run, at a checkpoint; the first run is not made again.
sweep_behind gate killed killed.log --jobs 1
until [ -e killed/gate_at_v/seed_1/last.safetensors ]; do
    kill -0 $process 2> /dev/null || wrong "the sweep ended too early: $(cat killed.log)"
    sleep 0.02
done
# Another one in the same folder is refused at once.
sweep gate killed > second.log 2>&1 && wrong "two sweeps in one folder"
grep -q 'another sweep is running' second.log || wrong "two sweeps: $(cat second.log)"
kill -9 $process 2> /dev/null || wrong "the sweep was over before it could be killed"
wait $process || true
[ -e killed/table.json ] && wrong "the sweep was over before it was killed"
before=$(cat killed/base/seed_1/output.txt)

# Now a run is killed and not the sweep, which says so.
sweep_behind gate killed third.log --jobs 2
until run=$(cut -d " " -f 1 "/proc/$process/task/$process/children") && [ -n "$run" ]; do
    kill -0 $process 2> /dev/null || wrong "no run was begun: $(cat third.log)"
    sleep 0.02
done
kill -9 "$run" 2> /dev/null || true
wait $process && wrong "a run was killed and the sweep says nothing: $(cat third.log)"
grep -q 'was killed by signal 9' third.log || wrong "a killed run: $(cat third.log)"

sweep gate killed --resume --jobs 2 > again.log 2>&1 || wrong "the sweep does not go on: $(cat again.log)"
[ "$before" = "$(cat killed/base/seed_1/output.txt)" ] || wrong "a finished run was made again"
cmp whole/table.json killed/table.json || wrong "another table after a kill"
cmp whole/table.csv killed/table.csv || wrong "another table after a kill"

# On a finished folder: the table alone.
sweep gate whole > table.log 2>&1
grep -q '^gate_at_v seed' table.log && wrong "a finished sweep makes runs"
grep -qE '[-+][0-9.]+ \[[-+][0-9.]+, [-+][0-9.]+\]' table.log || wrong "no interval: $(cat table.log)"

# What moec compare says of it, costs, speed and account included; seeds that were trained one by one are one model, too.
moec compare whole --json > found || wrong "no comparison"
grep -q '"paired": true' found || wrong "seeds are not paired: $(cat found)"
grep -qE '"(parameters|flops|cache|speed|seconds|flops_total)": null' found && wrong "no costs: $(cat found)"
grep -q '"--seed",' whole/base/seed_2/run.json || wrong "the account has no command: $(cat whole/base/seed_2/run.json)"
moec compare whole/gate_at_v/seed_2 whole/gate_at_v/seed_1 whole/base > found || wrong "no comparison"
grep -qE '^  gate_at_v +2 ' found || wrong "seeds of one model stand apart: $(cat found)"
grep -qE '^  base +2 .*[-+][0-9.]+ \[[-+][0-9.]+, [-+][0-9.]+\]' found || wrong "no interval: $(cat found)"

sed -i 's/lr = 1e-2, batch/lr = 2e-2, batch/' small.moe
sweep gate whole > changed.log 2>&1 && wrong "a changed spec goes on"
grep -q 'variant base is not the same' changed.log || wrong "changed: $(cat changed.log)"

# Of what is tuned the best counts, and one at the edge is called so.
sweep rates tuned > tuned.log 2>&1 || wrong "a sweep with a tuned setting fails: $(cat tuned.log)"
[ "$(grep -c 'train.lr = 1e-2, best of 3$' tuned.log)" = 2 ] || wrong "not the best of each: $(cat tuned.log)"
grep -q '"tuned": "train.lr = 1e30"' tuned/table.json || wrong "the table leaves out what was tried"

sweep diverging apart > apart.log 2>&1 || wrong "a sweep in which runs diverge fails: $(cat apart.log)"
grep -q '2 of 2 diverged' apart.log || wrong "runs that diverged are not told: $(cat apart.log)"
grep -q '"diverged"' apart/lr_1e30/seed_1/log.jsonl || wrong "the log does not say that the run diverged"

# Halving: of four the two best go on at a quarter, the best at half, and the base; what has stopped is told and not compared.
sweep halves halved > halved.log 2>&1 || wrong "halving fails: $(cat halved.log)"
[ "$(grep -c 'stops at step 10$' halved.log)" = 2 ] || wrong "not half of them stop: $(cat halved.log)"
[ "$(grep -c 'stopped at step' halved.log)" = 3 ] || wrong "not one alone is left: $(cat halved.log)"
[ "$(grep -c 'val_bits_per_byte [0-9]' halved.log)" = 2 ] || wrong "not two runs to the end: $(cat halved.log)"
cp halved/table.json before.json
rm halved/base/seed_2/result.json
sweep halves halved > /dev/null || wrong "halving does not go on"
cmp before.json halved/table.json || wrong "another table when halving goes on"

sweep limit limited > limited.log 2>&1 || wrong "a sweep with a limit fails: $(cat limited.log)"
grep -q 'lr_3 seed 1: diverged' limited.log || wrong "a loss above the limit is not told: $(cat limited.log)"
grep -q 'the loss is .*, more than 7' limited/lr_3/seed_1/output.txt || wrong "the run does not say why it stopped"

sweep named named --tensorboard > named.log 2>&1 || wrong "a metric of the log fails: $(cat named.log)"
grep -q '^  variant .* grad_norm ' named.log || wrong "the metric is not told: $(cat named.log)"
for run in base layers_2; do
    ls named/$run/seed_1/events.out.tfevents.* > /dev/null || wrong "--tensorboard does not reach the runs"
done
sweep missing missing > missing.log 2>&1 && wrong "a metric that is not in the log passes"
grep -q "has no number 'accuracy'" missing.log || wrong "a metric that is not there: $(cat missing.log)"

sweep timed timed > timed.log 2>&1 || wrong "a budget of seconds fails: $(cat timed.log)"
steps=$(sed -n 's/.*"steps": \([0-9]*\).*/\1/p' timed/base/pace.json)
grep -q "\"step\":$steps,\"val_loss" timed/base/seed_1/log.jsonl || wrong "not the steps that were measured: $(cat timed.log)"

# Two devices share the runs out.
MOEC_CUDA=$simulator MOEC_SIM="pair unchecked" MOEC_CFLAGS=-O0 sweep pair shared --device cuda:0,cuda:1 > shared.log 2>&1 ||
    wrong "a sweep on two devices fails: $(cat shared.log)"
for number in 0 1; do
    grep -q "\"cuda:$number\"" shared/*/seed_*/run.json || wrong "no run on cuda:$number"
done

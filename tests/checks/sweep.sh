#!/bin/sh
# A killed sweep resumes and ends with the table of an undisturbed sweep. Diverged runs are reported. A folder accepts one sweep
# at a time, and only the sweep that created it. tests/sweep_kill.sh is the long form.
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
experiment sizes { baseline = small, vary dim = [8, 16, 24, 32], ladder = dim, vary attention.gate = [none, { at = v }], budget = { tokens_per_parameter = 0.1 }, train = { eval_interval = 0, save_interval = 0 }, seeds = 2 }
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

# In this process, which can then be killed: $process.
sweep_behind() { # EXPERIMENT OUT LOG ARGUMENTS...
    name=$1 out=$2 log=$3
    shift 3
    moec sweep "small.moe:$name" --data text --out "$out" "$@" > "$log" 2>&1 &
    process=$!
}

sweep gate whole > whole.log 2>&1 || wrong "the sweep failed: $(cat whole.log)"
[ "$(grep -c 'val_bits_per_byte [0-9]' whole.log)" = 4 ] || wrong "not four runs: $(cat whole.log)"

# Killed in its second run, at a checkpoint; the first run is not repeated.
sweep_behind gate killed killed.log --jobs 1
until [ -e killed/gate_at_v/seed_1/last.safetensors ]; do
    kill -0 $process 2> /dev/null || wrong "the sweep ended too early: $(cat killed.log)"
    sleep 0.02
done
# A second sweep in the same folder is refused at once.
sweep gate killed > second.log 2>&1 && wrong "two sweeps use one folder"
grep -q 'another sweep is running' second.log || wrong "two sweeps: $(cat second.log)"
kill -9 $process 2> /dev/null || wrong "the sweep ended before the kill"
wait $process || true
[ -e killed/table.json ] && wrong "the sweep ended before the kill"
before=$(cat killed/base/seed_1/output.txt)

# Now a run is killed instead of the sweep, which reports it.
sweep_behind gate killed third.log --jobs 2
until run=$(cut -d " " -f 1 "/proc/$process/task/$process/children") && [ -n "$run" ]; do
    kill -0 $process 2> /dev/null || wrong "no run has started: $(cat third.log)"
    sleep 0.02
done
kill -9 "$run" 2> /dev/null || true
wait $process && wrong "the sweep does not report a killed run: $(cat third.log)"
grep -q 'was killed by signal 9' third.log || wrong "a killed run: $(cat third.log)"

sweep gate killed --resume --jobs 2 > again.log 2>&1 || wrong "the sweep does not resume: $(cat again.log)"
[ "$before" = "$(cat killed/base/seed_1/output.txt)" ] || wrong "a finished run was repeated"
cmp whole/table.json killed/table.json || wrong "the table differs after a kill"
cmp whole/table.csv killed/table.csv || wrong "the table differs after a kill"

# On a finished folder: only the table.
sweep gate whole > table.log 2>&1
grep -q '^gate_at_v seed' table.log && wrong "a finished sweep starts runs"
grep -qE '[-+][0-9.]+ \[[-+][0-9.]+, [-+][0-9.]+\]' table.log || wrong "no interval: $(cat table.log)"

# moec compare on the folder, with costs, speed and run.json; runs of one model with separate seeds are one variant.
moec compare whole --json > found || wrong "moec compare failed"
grep -q '"paired": true' found || wrong "seeds are not paired: $(cat found)"
grep -qE '"(parameters|flops|cache|speed|seconds|flops_total)": null' found && wrong "no costs: $(cat found)"
grep -q '"--seed",' whole/base/seed_2/run.json || wrong "run.json lacks the command: $(cat whole/base/seed_2/run.json)"
moec compare whole/gate_at_v/seed_2 whole/gate_at_v/seed_1 whole/base > found || wrong "no comparison"
grep -qE '^  gate_at_v +2 ' found || wrong "seeds of one model are separate variants: $(cat found)"
grep -qE '^  base +2 .*[-+][0-9.]+ \[[-+][0-9.]+, [-+][0-9.]+\]' found || wrong "no interval: $(cat found)"

sed -i 's/lr = 1e-2, batch/lr = 2e-2, batch/' small.moe
sweep gate whole > changed.log 2>&1 && wrong "a sweep with a changed spec resumes"
grep -q 'variant base is not the same' changed.log || wrong "changed: $(cat changed.log)"

# The best of the tuned values counts; a best value at the edge of the range is reported.
sweep rates tuned > tuned.log 2>&1 || wrong "the sweep with a tuned option failed: $(cat tuned.log)"
[ "$(grep -c 'train.lr = 1e-2, best of 3$' tuned.log)" = 2 ] || wrong "not the best of each: $(cat tuned.log)"
grep -q '"tuned": "train.lr = 1e30"' tuned/table.json || wrong "the table lacks a tuned value"

sweep diverging apart > apart.log 2>&1 || wrong "the sweep with diverging runs failed: $(cat apart.log)"
grep -q '2 of 2 diverged' apart.log || wrong "diverged runs are not reported: $(cat apart.log)"
grep -q '"diverged"' apart/lr_1e30/seed_1/log.jsonl || wrong "the log lacks the divergence"

# Successive halving: of four variants the two best continue at a quarter, the best one at half, and the baseline always.
# Stopped variants are reported and not compared.
sweep halves halved > halved.log 2>&1 || wrong "the sweep with halving failed: $(cat halved.log)"
[ "$(grep -c 'stops at step 10$' halved.log)" = 2 ] || wrong "not half of them stop: $(cat halved.log)"
[ "$(grep -c 'stopped at step' halved.log)" = 3 ] || wrong "not exactly one variant remains: $(cat halved.log)"
[ "$(grep -c 'val_bits_per_byte [0-9]' halved.log)" = 2 ] || wrong "not exactly two runs finish: $(cat halved.log)"
cp halved/table.json before.json
rm halved/base/seed_2/result.json
sweep halves halved > /dev/null || wrong "halving does not resume"
cmp before.json halved/table.json || wrong "the table differs after halving resumes"

sweep limit limited > limited.log 2>&1 || wrong "the sweep with a limit failed: $(cat limited.log)"
grep -q 'lr_3 seed 1: diverged' limited.log || wrong "a loss above the limit is not reported: $(cat limited.log)"
grep -q 'the loss is .*, more than 7' limited/lr_3/seed_1/output.txt || wrong "the run does not report the reason of its stop"

sweep named named --tensorboard > named.log 2>&1 || wrong "the sweep with a logged metric failed: $(cat named.log)"
grep -q '^  variant .* grad_norm ' named.log || wrong "the metric is not reported: $(cat named.log)"
for run in base layers_2; do
    ls named/$run/seed_1/events.out.tfevents.* > /dev/null || wrong "--tensorboard does not reach the runs"
done
sweep missing missing > missing.log 2>&1 && wrong "a metric that is not in the log passes"
grep -q "has no number 'accuracy'" missing.log || wrong "a metric that does not exist: $(cat missing.log)"

sweep timed timed > timed.log 2>&1 || wrong "the sweep with a time budget failed: $(cat timed.log)"
steps=$(sed -n 's/.*"steps": \([0-9]*\).*/\1/p' timed/base/pace.json)
grep -q "\"step\":$steps,\"val_loss" timed/base/seed_1/log.jsonl || wrong "not the steps of the measured speed: $(cat timed.log)"

# Two devices share the runs.
MOEC_CUDA=$simulator MOEC_SIM="pair unchecked" MOEC_CFLAGS=-O0 sweep pair shared --device cuda:0,cuda:1 > shared.log 2>&1 ||
    wrong "the sweep on two devices failed: $(cat shared.log)"
for number in 0 1; do
    grep -q "\"cuda:$number\"" shared/*/seed_*/run.json || wrong "no run on cuda:$number"
done

# A changed plan requires a reason. Runs that the new plan has, too, stay; others are set aside. A plan that was changed by hand is
# reported.
sweep pair amended > pair.log 2>&1 || wrong "the sweep of a pair failed: $(cat pair.log)"
grep -q 'registered .* before the first run' pair.log || wrong "the plan is not registered: $(cat pair.log)"
first=$(cat amended/base/seed_1/output.txt)
sed -i 's/seeds = 3, train = { steps = 2,/seeds = 4, train = { steps = 2,/' small.moe
sweep pair amended > refused.log 2>&1 && wrong "a changed plan needs no reason"
grep -q -- "--amend 'REASON'" refused.log || wrong "the reason is not asked for: $(cat refused.log)"
sweep pair amended --amend 'wide interval' > more.log 2>&1 || wrong "no fourth seed: $(cat more.log)"
grep -q 'changed .* after 3 finished runs: wide interval' more.log || wrong "the change is not reported: $(cat more.log)"
[ "$first" = "$(cat amended/base/seed_1/output.txt)" ] && [ -e amended/base/seed_4/result.json ] || wrong "not only a fourth seed"
sed -i 's/seeds = 4, train = { steps = 2,/seeds = 4, train = { steps = 3,/' small.moe
sweep pair amended --amend 'longer' > longer.log 2>&1 || wrong "no longer runs: $(cat longer.log)"
grep -q 'no longer in the plan: base (4 runs)' longer.log || wrong "the earlier runs are not reported: $(cat longer.log)"
grep -q '"step": 2' amended/earlier_plans/*/base/seed_4/result.json || wrong "the earlier runs are lost"
grep -q '"step": 3' amended/base/seed_4/result.json || wrong "the runs are not those of the new plan"

# Other equations of an optimizer are another plan, another comment is not.
cat >> small.moe <<'SPEC'
optimizer plain { update weight = weight - lr * clip * grad }
experiment own { baseline = small, train = { optimizer = plain, steps = 2, eval_interval = 0, save_interval = 0 } }
SPEC
sweep own owned > owned.log 2>&1 || wrong "the sweep with an optimizer failed: $(cat owned.log)"
sed -i 's/^optimizer plain/# without momentum\n&/; s/clip \* grad }/clip * grad\n}/' small.moe
sweep own owned > same.log 2>&1 || wrong "another comment is another plan: $(cat same.log)"
sed -i 's/clip \* grad$/clip * grad * 2/' small.moe
sweep own owned > other.log 2>&1 && wrong "another optimizer is no other plan: $(cat other.log)"
grep -q -- "--amend 'REASON'" other.log || wrong "the changed optimizer: $(cat other.log)"

sed -i 's/"seeds": 4/"seeds": 3/' amended/sweep.json
moec compare amended > edited.log || wrong "no comparison"
grep -q 'is not registered: the file was changed' edited.log || wrong "an edited plan is not reported: $(cat edited.log)"

# A ladder: the largest size is trained last and forecast before; each size is compared with the first curve.
sweep sizes ladder > ladder.log 2>&1 || wrong "the ladder failed: $(cat ladder.log)"
sed -n 's/^\(dim_[0-9]*\)-.* seed .*runs)$/\1/p' ladder.log > order
[ "$(tail -4 order | sort -u)" = dim_32 ] && [ "$(grep -c dim_32 order)" = 4 ] || wrong "the largest size is not last: $(cat order)"
[ "$(grep -c '"parameters"' ladder/forecast.json)" = 2 ] || wrong "not one forecast per curve: $(cat ladder/forecast.json)"
grep -qE '^  attention.gate = \{ at = v \} +4 .*(within|outside)' ladder.log || wrong "the forecast is not checked: $(cat ladder.log)"
[ "$(grep -cE '^  dim_[0-9]*-gate_at_v .*[-+][0-9.]+ \[' ladder.log)" = 4 ] || wrong "not compared per size: $(cat ladder.log)"
[ "$(grep -cE '^  (base|dim_[0-9]*-gate_none) .* baseline' ladder.log)" = 4 ] || wrong "no baseline per size: $(cat ladder.log)"
[ ladder/forecast.json -ot ladder/dim_32-gate_none/seed_1/run.json ] || wrong "the forecast is later than the largest size"

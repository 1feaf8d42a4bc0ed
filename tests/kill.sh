#!/bin/sh
# A training run that is killed N times at random times and resumed each time ends with the same bytes as an undisturbed run.
# Not part of `make test`, which kills a run four times (checks/training.sh).
#
#   tests/kill.sh [N] [SEED]        default: 10 times, with a random seed
. "$(dirname "$0")/begin.sh"
times=${1:-10}
seed=${2:-$(date +%s)}

cat stdlib/*.moe >"$work/text"

train() { # OUT
    exec moec train generated/dense.moe --set vocab_size=256 --set train.eval_interval=5 --set train.save_interval=3 \
        --set train.gradient_accumulation_steps=2 --steps 60 --data "$work/text" --out "$work/$1" --resume >"$work/$1.out" 2>&1
}

same() { # OUT
    for name in last best; do
        cmp "$work/straight/$name.safetensors" "$work/$1/$name.safetensors"
    done
    for folder in straight "$1"; do
        sed 's/,"seconds":[^,}]*//' "$work/$folder/log.jsonl" >"$work/$folder.log"
    done
    cmp "$work/straight.log" "$work/$1.log"
}

(train compiles) # later runs find the program in the cache
began=$(date +%s.%N)
(train straight)
whole=$(awk -v began="$began" -v now="$(date +%s.%N)" 'BEGIN { print now - began }')
echo "seed $seed; a whole run takes $whole s"

killed=0 run=1
while [ "$killed" -lt "$times" ]; do
    (train "run$run") &
    child=$!
    sleep "$(awk -v seed="$seed" -v number="$killed" -v whole="$whole" \
        'BEGIN { srand(1000 * seed + number); print 0.9 * whole * rand() }')"
    if kill -9 "$child" 2>/dev/null; then
        killed=$((killed + 1))
        echo "kill $killed, in run $run: $(cat "$work/run$run/log.jsonl" 2>/dev/null | grep -c '"loss"') steps in the log"
    fi
    wait "$child" 2>/dev/null || true
    [ "$killed" -lt "$times" ] || (train "run$run")
    if grep -q 'done at' "$work/run$run.out"; then
        same "run$run"
        echo "run $run ended with the same bytes"
        run=$((run + 1))
    fi
done
echo "killed $killed times; every run that ended has the same weights, optimizer states and log"

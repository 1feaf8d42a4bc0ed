#!/bin/sh
# sweep_kill.sh [KILLS [SEED]]: a sweep of 12 runs is killed KILLS (3) times at random times: the sweep itself or one of its
# runs. It ends with the table of an undisturbed sweep and repeats no finished run. Not part of `make test`.
. "$(dirname "$0")/begin.sh"
kills=${1:-3} seed=${2:-$$}

swept_model twelve 200 50
cat >> "$work/twelve.moe" <<'SPEC'
experiment twelve { baseline = small, vary attention.gate = [{ at = v }, { at = sdpa }, { at = k }], match params by ffn.hidden_dim, seeds = 3 }
SPEC
cd "$work"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

moec sweep twelve.moe --data text --out whole --jobs 2 > whole.log 2>&1 || wrong "the sweep failed: $(cat whole.log)"
runs=$(grep -c 'val_bits_per_byte [0-9]' whole.log)
[ "$runs" = 12 ] || wrong "$runs runs, not 12"

random() { # NUMBER LIMIT
    awk -v seed="$((seed % 100000))" -v number="$1" -v limit="$2" 'BEGIN { srand(1000 * seed + number); print limit * rand() }'
}

done_runs() { find killed -name result.json 2> /dev/null | sort; }

left=$kills
while [ "$left" -gt 0 ]; do
    before=$(done_runs | while read -r path; do cksum "${path%result.json}output.txt"; done)
    moec sweep twelve.moe --data text --out killed --jobs 2 > killed.log 2>&1 &
    process=$!
    # Each kill waits until some more runs have ended. Early, middle and late kills all occur.
    until [ "$(done_runs | wc -l)" -ge $(((kills - left) * 12 / (kills + 1))) ] || ! kill -0 $process 2> /dev/null; do sleep 0.1; done
    sleep "$(random "$left" 2)"
    run=$(cut -d ' ' -f 1 "/proc/$process/task/$process/children" 2> /dev/null || true)
    if [ $((left % 2)) = 0 ] && [ -n "$run" ]; then
        victim=$run what=run
    else
        victim=$process what=sweep
    fi
    kill -9 "$victim" 2> /dev/null || wrong "the sweep ended before the kill: $(cat killed.log)"
    [ $what = sweep ] || sleep 1
    kill -9 $process 2> /dev/null || true
    wait $process || true
    echo "killed a $what: $(done_runs | wc -l) of 12 runs have ended"
    echo "$before" | while read -r sum bytes path; do
        [ -z "$path" ] || [ "$(cksum "$path")" = "$sum $bytes $path" ] || wrong "$path: a finished run was repeated"
    done
    left=$((left - 1))
done
moec sweep twelve.moe --data text --out killed --jobs 2 > again.log 2>&1 || wrong "the sweep does not resume: $(cat again.log)"
cmp whole/table.json killed/table.json
cmp whole/table.csv killed/table.csv
echo "the same table after $kills kills"

#!/bin/sh
# A masked-diffusion model of a repeated text generates the text; compiled refinements equal their definition.
. "$(dirname "$0")/../begin.sh"
for model in confident random; do
    for device in cpu cuda; do
        MOEC_CUDA=$simulator MOEC_SIM=unchecked MOEC_CFLAGS=-O0 moec verify "tests/refine.moe:$model" --batch-size 2 --context-length 12 --device $device >"$work/verified" ||
            { cat "$work/verified"; exit 1; }
    done
done
cp tests/refine.moe "$work"
cd "$work"
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "abcdefg" }' >text
moec train refine.moe:confident --data text --out run >log 2>&1 || { cat log; exit 1; }
moec eval run --data text --json | awk -F '[:,]' '/bits_per_byte/ { exit !($2 < 0.5) }' || wrong "the loss of refined tokens is too large"

# The prompt stays, and the rest continues it. A text depends on its seed alone.
moec generate run -p cde -n 24 --steps 24 --temperature 0 >greedy
[ "$(cat greedy)" = cdefgabcdefgabcdefgabcdefga ] || wrong "another text: $(cat greedy)"
draw() { moec generate run --token-ids -n 24 --steps 3 --temperature 3 --json "$@"; }
for threads in 1 2; do OMP_NUM_THREADS=$threads draw -p "99 100 101" --seed 7 >drawn$threads; done
cmp drawn1 drawn2
draw -p "99 100 101" --seed 8 | cmp -s - drawn1 && wrong "two seeds, one text"
printf '%s\n' "97 98 99 100" "99 100 101" >prompts
draw --prompts prompts --seed 7 | tail -n 1 | cmp - drawn1
grep -q '"tokens":24,"end":"length"' drawn1 || wrong "the JSON lacks a field: $(cat drawn1)"
moec generate run -p cde --steps 24 --temperature 0 --stop fg | grep -qx cde || wrong "--stop does not end the text"

# At random positions and one refinement per token, most pairs of letters are right: at least 20 of 26 over 24 seeds.
for seed in $(seq 24); do moec generate run -p cde -n 24 --steps 24 --set unmask=random --seed $seed; echo; done >random
awk '{ for (i = 2; i <= 27; i++) right += index("abcdefga", substr($0, i - 1, 2)) > 0 } END { exit !(NR == 24 && right >= 24 * 20) }' random ||
    wrong "the texts are wrong: $(cat random)"

fails "a prompt of 3 tokens and 30 further ones do not fit into 32 positions" moec generate run -p cde -n 30
fails "is not available for a model that refines" moec generate run -p cde --top-k 3
fails "the model refines the tokens 'tokens'" moec sample run --out nowhere
fails "the model refines the tokens 'tokens'" moec emit run --mode sample --out nowhere
fails "it does not generate token by token" moec emit run --out nowhere
fails "it does not generate token by token" moec serve run

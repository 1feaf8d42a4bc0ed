#!/bin/sh
# The counts in examples/tutorial.md equal the output of `moec check`. The image example draws, trains and samples.
. "$(dirname "$0")/../begin.sh"
export OMP_NUM_THREADS=1
for model in start gated moved fewer narrow maps; do
    row=$(moec check --json "examples/tutorial.moe:$model" | awk '
        /"total":/ && !total { total = $2 + 0 }
        /"active":/ && !active { active = $2 + 0 }
        /"cache_bytes_per_token":/ { printf "| %d | %d | %d |\n", total, active, $2 }')
    [ -n "$row" ] || wrong "moec check --json of $model lacks a count"
    grep "^| .$model. " examples/tutorial.md | tr -d , | grep -qF "$row" || wrong "$model: $row"
done
${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Werror -O1 -o "$work/shapes" examples/shapes.c -lm
"$work/shapes" draw 400 "$work/images"
moec train models/dit.moe:dit_small --data "$work/images" --out "$work/run" --steps 60 --set train.eval_interval=30 >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
awk -F '[:,]' '/val_loss/ { last = $4 } END { exit !(last > 0 && last < 1.3) }' "$work/run/log.jsonl" || { cat "$work/run/log.jsonl"; exit 1; }
moec sample "$work/run" --out "$work/drawn" --count 4 --steps 10
[ "$("$work/shapes" show "$work/drawn" | wc -l)" = 8 ]

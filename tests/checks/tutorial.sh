#!/bin/sh
# The costs in the table of examples/tutorial.md are those of `moec check`. Images are generated, learned and drawn.
. "$(dirname "$0")/../begin.sh"
export OMP_NUM_THREADS=1
for model in start gated moved fewer narrow maps; do
    row=$(moec check "examples/tutorial.moe:$model" | awk '
        $1 == "parameters" { total = $2; active = $4 }
        $1 == "decoding" { print "| " total " | " active " | " $(NF - 1) " |" }')
    echo "$row" | grep -qE '^\| [0-9.]+[kM]? \| [0-9.]+[kM]? \| [0-9.]+[kM]? \|$' || wrong "moec check prints no costs of $model: '$row'"
    grep "^| .$model. " examples/tutorial.md | grep -qF "$row" || wrong "$model: $row"
done
${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Werror -O1 -o "$work/shapes" examples/shapes.c -lm
"$work/shapes" draw 400 "$work/images"
moec train models/dit.moe:dit_small --data "$work/images" --out "$work/run" --steps 60 --set train.evaluate=30 >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
awk -F '[:,]' '/val_loss/ { last = $4 } END { exit !(last > 0 && last < 1.3) }' "$work/run/log.jsonl" || { cat "$work/run/log.jsonl"; exit 1; }
moec draw "$work/run" --out "$work/drawn" --count 4 --steps 10
[ "$("$work/shapes" show "$work/drawn" | wc -l)" = 8 ]

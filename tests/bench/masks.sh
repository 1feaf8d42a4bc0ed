#!/bin/sh
# The time and the FLOP of a training step with a mask, compared with those of a choice (`top_k`) of as many rows: at most 1.25.
# Runs alternate, and the fastest step of all rounds counts. "entries" are those that the masks really selected.
#
#   tests/bench/masks.sh [ROUNDS]    default: 5
. "$(dirname "$0")/../begin.sh"
cat stdlib/*.moe >"$work/text"

# step MODEL BY ROWS: the seconds of the fastest step of a run, and the mean number of selected entries if the model has this probe
step() {
    moec train "tests/bench/masks.moe:$1" --data "$work/text" --out "$work/run" --steps 12 --set "ffn.by=$2" ${3:+--set "ffn.rows=$3"} -q >"$work/out"
    awk -F '[:,]' '{ for (i = 1; i < NF; i++) { if ($i ~ /"seconds"/ && (!least || $(i + 1) < least)) least = $(i + 1)
                                                if ($i ~ /"entries"/) entries = $(i + 1) } }
        END { printf "%.4f s%s\n", least, entries ? sprintf(" for %.2f entries", entries) : "" }' "$work/run/log.jsonl"
    rm -r "$work/run"
}

flops() { moec check "tests/bench/masks.moe:$1" --json --set "ffn.by=$2" ${3:+--set "ffn.rows=$3"} | sed -n 's/.*"train": *\([0-9.e+]*\).*/\1/p'; }

while read -r model by rows <&3; do
    for round in $(seq "${1:-5}"); do
        step "$model" "$by" "" >>"$work/$model-$by"
        step "$model" top "$rows" >>"$work/$model-$by-top"
    done
    echo "$model:$by:$(sort -g "$work/$model-$by" | head -1):$(sort -g "$work/$model-$by-top" | head -1):$(flops "$model" "$by" ""):$(flops "$model" top "$rows")" |
        awk -F : '{ split($3, mask, " "); split($4, top, " "); printf "%-9s %-12s %s; top %s; FLOP ratio %.3f, time ratio %.3f\n", $1, $2, $3, $4, $5 / $6, mask[1] / top[1] }'
done 3<<'END' | tee "$work/lines"
experts widths 2
experts null 2
experts null_counted 2
experts least 2
experts hash 1
experts top_p 4
experts relu 4
positions entry
positions factor
positions number
rows keys
END
awk '{ lines++; sub(",", "", $(NF - 3)); bad += $NF > 1.25 || $(NF - 3) > 1.25 } END { exit bad || lines != 11 }' "$work/lines" || wrong "a ratio is above 1.25"

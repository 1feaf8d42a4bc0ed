#!/bin/sh
# Repeats the experiment gates.moe:stability in about two minutes on two cores, and compares its table with
# stability.csv. The command continues where it was interrupted.
#
#     make reproduce-quick
#
# On processors with the same vector instructions the tables are equal byte for byte. Others round sums in another order;
# then every value may differ by 5 %, but which runs diverge, and the verdicts, must be the same.
set -eu
here=$(dirname "$0")
moec=${MOEC:-build/moec}
out=${OUT:-build/reproduce}
mkdir -p "$out"
[ -f "$out/text.txt" ] || sh "$here/text.sh" "$out/text.txt"
"$moec" sweep "$here/gates.moe:stability" --data "$out/text.txt" --out "$out/stability" --jobs 2
"$moec" compare "$out/stability"
if cmp -s "$here/stability.csv" "$out/stability/table.csv"; then
    echo "the table is equal to $here/stability.csv"
    exit 0
fi
awk -F, '
    function apart(a, b) { return a != b && (a !~ /^-?[0-9]/ || b !~ /^-?[0-9]/ || (a - b) ^ 2 > (0.05 * b) ^ 2) }
    FNR == 1 { for (i = 1; i <= NF; i++) name[i] = $i }
    NR == FNR { for (i = 1; i <= NF; i++) expected[FNR, i] = $i; next }
    { for (i = 1; i <= NF; i++)
        if (name[i] ~ /^(variant|loss|diverged|difference_verdict)$/ && apart($i, expected[FNR, i])) {
            printf "%s, %s: %s, expected %s\n", $1, name[i], $i, expected[FNR, i]
            wrong = 1
        } }
    END { if (wrong) exit 1; print "losses within 5 %, the same runs diverge, the same verdicts" }' \
    "$here/stability.csv" "$out/stability/table.csv"

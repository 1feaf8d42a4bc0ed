#!/bin/sh
# The experiments of examples/reproduce/ can be planned. In experiments with equal sizes, every variant differs by less than
# half of one step of the size option.
. "$(dirname "$0")/../begin.sh"

for each in gates:position gates:stability gates:position_large gates:stability_large heads:fewer heads:spent heads:fewer_large \
    heads:spent_large lores:maps lores:maps_large rates:mue rates:standard \
    rates:decay rates:deviation images:draw hybrid:state; do
    file=examples/reproduce/${each%:*}.moe
    moec fmt --check "$file" || wrong "$file: not in the canonical format"
    moec sweep "$file:${each#*:}" --dry-run > "$work/plan" 2>&1 || wrong "$each: $(cat "$work/plan")"
    grep -q "^experiment ${each#*:}," "$work/plan" || wrong "$each: no plan: $(cat "$work/plan")"
done

# The remaining difference is less than half of a step: for gates.moe 3 * 64 weights in each of three layers.
moec sweep examples/reproduce/gates.moe:position --dry-run > "$work/plan"
[ "$(grep -c ' remaining difference ' "$work/plan")" = 11 ] || wrong "not all variants are matched: $(cat "$work/plan")"
sed -n 's/.*remaining difference [+-]\([0-9]*\) parameters.*/\1/p' "$work/plan" | while read -r rest; do
    [ "$rest" -le 288 ] || wrong "a remaining difference of $rest parameters: $(cat "$work/plan")"
done
# For lores.moe, in all experts of three layers: at most 6 * 2 * 64 * 3.
moec sweep examples/reproduce/lores.moe:maps --dry-run > "$work/plan"
sed -n 's/.*remaining difference [+-]\([0-9]*\) parameters.*/\1/p' "$work/plan" | while read -r rest; do
    [ "$rest" -le 1152 ] || wrong "a remaining difference of $rest parameters: $(cat "$work/plan")"
done

# The table of `make reproduce-quick` is compared with the stored one: equal, within the limits, or refused.
stored=examples/reproduce/stability.csv
mkdir -p "$work/bin" "$work/out/stability"
touch "$work/out/text.txt"
printf '#!/bin/sh\n:\n' > "$work/bin/moec"
chmod +x "$work/bin/moec"
quick() {
    MOEC="$work/bin/moec" OUT="$work/out" sh examples/reproduce/quick.sh
}
cp "$stored" "$work/out/stability/table.csv"
quick | grep -q '^the table is equal' || wrong "an equal table is not recognized"
sed 's/^\(gated-lr_0.3,.*\)better/\1worse/; t; s/not significant/better/' "$stored" > "$work/out/stability/table.csv"
quick > "$work/found" && wrong "another verdict is accepted"
grep -q 'difference_verdict: better, expected not significant' "$work/found" || wrong "$(cat "$work/found")"
awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "loss") at = i } NR > 1 && $at { $at *= 1.01 } 1' "$stored" > "$work/out/stability/table.csv"
quick | grep -q '^losses within 5 %' || wrong "another order of sums is refused"
awk -F, -v OFS=, -v at="$(head -1 "$stored" | tr , '\n' | grep -nx loss | cut -d: -f1)" 'NR > 1 && $at { $at *= 1.1 } 1' "$stored" > "$work/out/stability/table.csv"
quick > "$work/found" && wrong "other losses are accepted"

# Another folder continues from the kept logs of a long experiment: no run is repeated, the table is the same.
mkdir "$work/here"
cp examples/reproduce/piece.sh "$work/here"
swept_model here/small 60 20
echo 'experiment pair { baseline = small, vary ffn = [moe { experts = 4, expert.hidden_dim = 8, top_k = 1 }], seeds = 2 }' >> "$work/here/small.moe"
for folder in first second; do
    DATA="$work/text" OUT="$work/$folder" MOEC=moec sh "$work/here/piece.sh" small.moe:pair > "$work/$folder.log" 2>&1 || wrong "piece.sh: $(cat "$work/$folder.log")"
done
grep -q 'pair.tar.xz: 4 finished runs' "$work/second.log" || wrong "not all runs are kept: $(cat "$work/second.log")"
grep -q '(4 of 4 runs)' "$work/second.log" && wrong "a run is repeated: $(cat "$work/second.log")"
grep -q 'is ignored' "$work/second.log" && wrong "a kept log is not readable: $(cat "$work/second.log")"
grep -q '"step":40' "$work"/second/pair/base/seed_1/log.jsonl || wrong "no logs are kept"
cmp "$work/first/pair/table.csv" "$work/second/pair/table.csv" || wrong "another table"
exit 0

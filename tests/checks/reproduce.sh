#!/bin/sh
# The experiments of examples/reproduce/ can be planned. In experiments with equal sizes, every variant differs by less than
# half of one step of the size option.
. "$(dirname "$0")/../begin.sh"

for each in gates:position gates:stability heads:fewer heads:spent lores:maps rates:mue rates:standard; do
    file=examples/reproduce/${each%:*}.moe
    moec fmt --check "$file" || wrong "$file: not in the canonical format"
    moec sweep "$file:${each#*:}" --dry-run > "$work/plan" 2>&1 || wrong "$each: $(cat "$work/plan")"
    grep -q "^experiment ${each#*:}," "$work/plan" || wrong "$each: no plan: $(cat "$work/plan")"
done

# The remaining difference is less than half of a step: for gates.moe 3 * 64 weights in each of three layers.
moec sweep examples/reproduce/gates.moe:position --dry-run > "$work/plan"
[ "$(grep -c ' remaining difference ' "$work/plan")" = 8 ] || wrong "not all variants are matched: $(cat "$work/plan")"
sed -n 's/.*remaining difference [+-]\([0-9]*\) parameters.*/\1/p' "$work/plan" | while read -r rest; do
    [ "$rest" -le 288 ] || wrong "a remaining difference of $rest parameters: $(cat "$work/plan")"
done
# For lores.moe, in all experts of three layers: at most 6 * 2 * 64 * 3.
moec sweep examples/reproduce/lores.moe:maps --dry-run > "$work/plan"
sed -n 's/.*remaining difference [+-]\([0-9]*\) parameters.*/\1/p' "$work/plan" | while read -r rest; do
    [ "$rest" -le 1152 ] || wrong "a remaining difference of $rest parameters: $(cat "$work/plan")"
done

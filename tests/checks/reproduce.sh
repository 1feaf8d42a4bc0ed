#!/bin/sh
# The experiments of examples/reproduce/ can be planned; where they ask for equal sizes, every variant is within half of what one
# unit of the option changes.
. "$(dirname "$0")/../begin.sh"

for each in gates:position gates:stability heads:fewer heads:spent lores:maps rates:mue rates:standard; do
    file=examples/reproduce/${each%:*}.moe
    moec fmt --check "$file" || wrong "$file: not in the one layout"
    moec sweep "$file:${each#*:}" --dry-run > "$work/plan" 2>&1 || wrong "$each: $(cat "$work/plan")"
    grep -q "^experiment ${each#*:}," "$work/plan" || wrong "$each: no plan: $(cat "$work/plan")"
done

# What is left is less than half of a unit: of gates.moe 3 * 64 weights in each of three layers.
moec sweep examples/reproduce/gates.moe:position --dry-run > "$work/plan"
[ "$(grep -c ' remaining difference ' "$work/plan")" = 8 ] || wrong "not all variants are matched: $(cat "$work/plan")"
sed -n 's/.*remaining difference [+-]\([0-9]*\) parameters.*/\1/p' "$work/plan" | while read -r rest; do
    [ "$rest" -le 288 ] || wrong "$rest parameters are left: $(cat "$work/plan")"
done
# And of lores.moe, in all experts of three layers: at most 6 * 2 * 64 * 3.
moec sweep examples/reproduce/lores.moe:maps --dry-run > "$work/plan"
sed -n 's/.*remaining difference [+-]\([0-9]*\) parameters.*/\1/p' "$work/plan" | while read -r rest; do
    [ "$rest" -le 1152 ] || wrong "$rest parameters are left: $(cat "$work/plan")"
done

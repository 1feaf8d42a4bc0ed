#!/bin/sh
# Published ideas in the language alone: at most 40 lines each. The table of README.md states the parameters of each as a sum
# counted by hand, the share of active parameters, and whether it decodes; `moec check` must agree. A few are compiled and
# compared with their definition: losses, gradients, states, decoding. `all`: every one.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
table=examples/ideas/README.md

# cell FILE COLUMN: of the row of the idea.
cell() {
    awk -F ' *[|] *' -v name="\`$1\`" -v column="$2" '$2 == name { print $(column + 1) }' "$table"
}

# number NAME FILE: of the parameters in the JSON of `moec check`.
number() {
    awk -v key="\"$1\":" '$1 == "\"params\":" { inside = 1 } inside && $1 == key { print $2 + 0; exit }' "$2"
}

# The letters that README.md defines; sums are texts that are evaluated.
# shellcheck disable=SC2034,SC2004
D=$((2 * 256 * 32 + 32)) N=$((2 * 32)) A=$((4 * 32 * 32)) F=$((3 * 32 * 64))

# shellcheck disable=SC2004
check_row() {
    stated=$(cell "$1" 3)
    sum=$(echo "$stated" | sed -n 's/^[0-9]* = `\(.*\)`$/\1/p')
    [ -n "$sum" ] || wrong "README.md has no sum of the parameters of $1: '$stated'"
    [ "${stated%% *}" = $(($sum)) ] || wrong "README.md: parameters of $1: $sum = $(($sum)), not ${stated%% *}"
    total=$(number total "$2") active=$(number active "$2")
    [ "$total" = $(($sum)) ] || wrong "$1 has $total parameters, README.md counts $(($sum)) = $sum"
    share="$(((100 * active + total / 2) / total)) %"
    [ "$(cell "$1" 4)" = "$share" ] || wrong "$1 uses $share of its parameters, README.md states '$(cell "$1" 4)'"
    decoding=none
    ! grep -q '"derived": true' "$2" || decoding=derived
    stated=$(cell "$1" 5)
    [ "${stated%%[: ]*}" = "$decoding" ] || wrong "$1: decoding is '$decoding', README.md states '$stated'"
}

count=0
for file in examples/ideas/*.moe; do
    name=$(basename "$file" .moe)
    [ "$(wc -l <"$file")" -le 40 ] || wrong "$file has more than 40 lines"
    moec fmt --check "$file"
    moec check "$file" --json >"$work/output" 2>"$work/warned" || { cat "$work/warned"; wrong "$file is rejected"; }
    ! grep 'depends on the tokens that it predicts' "$work/output" || wrong "an unfounded warning for $file"
    check_row "$name" "$work/output"
    count=$((count + 1))
    case "${1:-} $name" in
    all* | *matrix_lstm | *relu_routing | *titans)
        moec verify "$file" >"$work/output" 2>&1 || { cat "$work/output"; wrong "$file differs from its definition"; } ;;
    esac
done
[ "$(grep -c '^| `' "$table")" = "$count" ] || wrong "README.md has rows without a file"

#!/bin/sh
# Published ideas in the language alone: none takes more than 40 lines, README.md names each and says whether it decodes, and a few
# are compiled and held to what they mean: losses, gradients, states, decoding. `all`: every one.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
for file in examples/ideas/*.moe; do
    name=$(basename "$file" .moe)
    [ "$(wc -l <"$file")" -le 40 ] || wrong "$file has more than 40 lines"
    moec fmt --check "$file"
    moec check "$file" >"$work/said" 2>&1 || { cat "$work/said"; wrong "$file is refused"; }
    ! grep 'depends on the tokens that it predicts' "$work/said" || wrong "$file is warned of without a reason"
    expected=derived
    ! grep -q '^  decoding  *none' "$work/said" || expected=none
    grep -q "^| \`$name\` | .* | $expected" examples/ideas/README.md || wrong "README.md does not say: $name, decoding $expected"
    case "${1:-} $name" in
    all* | *matrix_lstm | *relu_routing | *titans)
        moec verify "$file" >"$work/said" 2>&1 || { cat "$work/said"; wrong "$file is not what it means"; } ;;
    esac
done

#!/bin/sh
# --profile freestanding: gcc and clang accept the file as strict C99 without a library, and it writes the tokens of `moec generate`,
# with weights as arrays and from the assembler. No undefined symbols, no findings of cppcheck, sizeof(Model) as printed.
# tests/freestanding.sh runs it on other machines.
. "$(dirname "$0")/../begin.sh"
strict="-std=c99 -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Werror"

# tokens FOLDER SOURCE...: those after the prompt, by a program with other flags for each compiler.
tokens() (
    cd "$1"
    shift
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        # shellcheck disable=SC2086 # several words
        $cc $strict -O1 -DPROMPT=3,1,4 -DCOUNT=9 -DTEMPERATURE=0.8f -DSEED=3 "$@" -o example
        ./example | sed -n 1p
    done | sort -u
)

# same SPEC SET...: the tokens of the command, of weights as arrays and as bytes.
same() {
    moec init "$@" -o "$work/w.safetensors" --force 2>/dev/null
    moec generate "$work/w.safetensors" --token-ids -p "3 1 4" -n 9 --temperature 0.8 --seed 3 2>/dev/null | sed 's/^3 1 4 //; s/ *$//' >"$work/expected"
    moec emit "$work/w.safetensors" --profile freestanding --out "$work/array" --force 2>"$work/printed"
    moec emit "$work/w.safetensors" --profile freestanding --weights incbin --out "$work/incbin" --force 2>/dev/null
    tokens "$work/array" example.c model.c >"$work/found"
    tokens "$work/incbin" example.c model.c weights.S >>"$work/found"
    [ "$(sort -u "$work/found")" = "$(cat "$work/expected")" ] || wrong "$*: $(cat "$work/found" "$work/expected")"
}

same generated/dense.moe --set inference.weight_dtype=int8
same generated/dense.moe --set inference.weight_dtype=int4 --set inference.head_dtype=int8
same generated/routed.moe --set inference.weight_dtype=int4 --set inference.head_dtype=bf16
grep -q 'MoecInt4 panels' "$work/array/model.c" && grep -q 'MoecBf16 halves' "$work/array/model.c" || wrong "no int4 and bf16"
same generated/routed.moe

ram=$(sed -n 's/.*RAM *\([0-9]*\) bytes.*/\1/p' "$work/printed")
printf '#include "model.h"\nchar right[sizeof(Model) == %s ? 1 : -1];\n' "$ram" >"$work/array/size.c"
cc -std=c99 -c -o "$work/size.o" "$work/array/size.c" || wrong "sizeof(Model) is not $ram"

(cd "$work/array" && gcc $strict -ffreestanding -O2 -c model.c -o "$work/model.o")
nm -u "$work/model.o" | grep -vE ' (mem(cpy|move|set)|_GLOBAL_OFFSET_TABLE_)$' && wrong "it needs other functions"
# Not of arrays: it reads initializers for minutes.
if command -v cppcheck >/dev/null; then
    cppcheck --std=c99 --enable=warning,style,performance,portability --suppress=unusedStructMember --error-exitcode=1 --quiet \
        "$work/incbin/model.c" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
else
    echo "left out: cppcheck is missing"
fi

printf 'use decoder\nmodel small = decoder {\n  dim = 16, layers = 1\n  attention = { heads.q = 1, head_dim = 16, best = 4 }\n}\n' >"$work/best.moe"
cd "$work"
fails "best.moe:4:" moec emit best.moe --profile freestanding --out nowhere
fails "add --set attention.best=0" moec emit best.moe --profile freestanding --out nowhere

# A device that is too small: the missing bytes, and settings that fit.
dense=$OLDPWD/generated/dense.moe
set -- --profile freestanding --flash 100000 --ram 9000
fails "bytes of flash, " moec emit "$dense" "$@" --out nowhere
grep -q 'needs .* bytes of flash, [1-9][0-9]* more than --flash, and .* bytes of RAM, [1-9][0-9]* more than --ram$' out || wrong "$(cat out)"
fitting=$(sed -n 's/^  help: \(--weight-dtype .*\) fits: .*/\1/p' out)
# shellcheck disable=SC2086 # several words
[ -n "$fitting" ] && moec emit "$dense" "$@" $fitting --out fitting >out 2>&1 || wrong "no settings that fit: $(cat out)"
fails "no type of weights fits" moec emit "$dense" --profile freestanding --flash 5000 --out nowhere

# Wrong usage ends with 2.
for flags in "--mode train --profile freestanding" "--target cuda --profile freestanding" "--weights incbin" "--ram 100" "--target web --mode train" "--profile other"; do
    code=0
    # shellcheck disable=SC2086 # several words
    moec emit best.moe $flags --out nowhere >out 2>&1 || code=$?
    [ $code = 2 ] || wrong "exit code $code instead of 2: $flags: $(cat out)"
    [ ! -e nowhere ] || wrong "output was written: $flags"
done

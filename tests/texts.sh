#!/bin/sh
# tests/texts.sh [all | WORD...]: which emitted texts differ from those of the commit before: C and CUDA, hosted and
# stand-alone, every graph. Of a few models; of those whose line contains a WORD; of all. Fails where any differs.
#
# The commit before is HEAD where the compiler has changes that are not committed, else HEAD^; BASE=COMMIT names another. It
# is built once, in build/texts/COMMIT; the hashes of its texts stand beside that. The first texts that differ are shown, at
# most SHOW (3) of them.
. "$(dirname "$0")/begin.sh"

lines() {
    for file in tests/layers.moe tests/attention.moe tests/gpu.moe models/*.moe examples/*.moe generated/*.moe; do
        sed -n "s/^model \([a-z0-9_]*\) = .*/\1/p" "$file" | sed "s|^|$file:|"
    done
}
few() {
    lines | grep -E -e 'layers\.moe:|tiny\.moe:tiny$|tutorial_3|generated' \
        -e ':(gpt2_small|moe_small_sdpa|mue_small_e8a4g2|mue_small_choice|dit_small_e8a4g2)$' \
        -e ':(structmoe_small_gated|gqa4_small_best|sigma_small|moe_15b_sdpa|structmoe_410m)$'
}
case ${1:-} in
'') few ;;
all) lines ;;
*) for word; do lines | grep -F -e "$word"; done ;;
esac >"$work/specs"
echo "$(wc -l <"$work/specs") models"

if [ -z "${BASE:-}" ]; then
    if git diff --quiet HEAD -- compiler stdlib; then BASE=HEAD^; else BASE=HEAD; fi
fi
base=$(git rev-parse --short "$BASE")
old=$PWD/build/texts/$base
compiler=${CC:-cc}
if [ ! -e "$old/texts" ]; then
    rm -rf "$old"
    mkdir -p "$old"
    git archive "$base" | tar -x -C "$old"
    archive=$(sed -n 's|^$(BUILD)/\(.*\.a\): $(COMPILER_OBJECTS)$|build/\1|p' "$old/Makefile")
    make -s -C "$old" -j2 CC="$compiler" BUILD=build SAN= "$archive" >/dev/null
    $compiler -O1 -I"$old/compiler" -o "$old/texts" "$old/tests/texts.c" "$old/$archive" -ljansson -lm
fi
make -s CC="$compiler" "$BUILD/libmoec_compiler.a" BUILD="$BUILD" >/dev/null
$compiler -O1 -Icompiler -o "$work/texts" tests/texts.c "$BUILD/libmoec_compiler.a" -ljansson -lm

key=$(cat "$work/specs" tests/texts.c tests/*.moe models/*.moe examples/*.moe generated/*.moe | cksum | tr ' ' _)
[ -e "$old/$key" ] || { "$old/texts" <"$work/specs" >"$old/$key.part" && mv "$old/$key.part" "$old/$key"; }
"$work/texts" <"$work/specs" >"$work/now"
total=$(wc -l <"$work/now")
if cmp -s "$old/$key" "$work/now"; then
    echo "$total texts, all as in $base"
    exit 0
fi
diff "$old/$key" "$work/now" | sed -n 's/^[<>] [0-9a-f]* //p' | sort -u >"$work/differ"
echo "$total texts, $(wc -l <"$work/differ") differ from those of $base:"
cut -d' ' -f1 "$work/differ" | sort | uniq -c
mkdir "$work/before" "$work/after"
head -n "${SHOW:-3}" "$work/differ" | while read -r spec name; do
    grep "^$spec\( \|\$\)" "$work/specs" >"$work/one"
    "$old/texts" "$work/before" <"$work/one" >/dev/null
    "$work/texts" "$work/after" <"$work/one" >/dev/null
    file=$(echo "${spec}_$name" | tr '/:' '__')
    diff -u "$work/before/$file" "$work/after/$file" | head -n "${LINES:-40}"
done
exit 1

#!/bin/sh
# Emitted folders build without warnings with every compiler at hand, generate what `moec generate` generates, train as
# `moec train` trains, can be called from C, and return errors for broken weights.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME="$folder/cache" OMP_NUM_THREADS=2
strict="-O1 -march=native -Wshadow -Wstrict-prototypes -Werror"
small="--set dim=32 --set layers=2 --set train.context=64 --set train.batch=4 --set train.steps=20 --set attention.head_dim=8"
for i in 1 2 3 4 5 6 7 8; do cat stdlib/LANGUAGE.md; done >"$folder/text"

losses() { sed -n 's/.*"loss":[ ]*\([-+0-9.e]*\).*/\1/p' "$1"; }

# same MODEL COMPILER: what the two folders give is what the command gives.
same() {
    "$folder/c/generate" --weights "$folder/c/weights.bin" --prompt "The " --tokens 40 >"$folder/alone"
    [ "$(cat "$folder/hosted")" = "$(cat "$folder/alone")" ] || { echo "$1, $2: other text"; exit 1; }
    (cd "$folder/t" && ./train --data "$folder/text" --steps 20) | sed 's/.* loss //' >"$folder/losses"
    losses "$folder/run/log.jsonl" | paste - "$folder/losses" | awk -v what="$1, $2" '
        { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-4 * $1) bad = 1 }
        END { if (bad || NR != 20) { print what ": other losses"; exit 1 } }'
}

compilers="gcc clang"
for model in examples/first.moe models/tiny.moe:tiny_lore models/gpt2.moe:gpt2_small; do
    rm -rf "$folder/run" "$folder/c" "$folder/t"
    moec train "$model" $small --data "$folder/text" --out "$folder/run" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    moec generate "$folder/run" --prompt "The " --tokens 40 --temperature 0 >"$folder/hosted"
    moec emit "$folder/run" --target c --graph decode --out "$folder/c"
    moec emit "$model" $small --target c --graph train --out "$folder/t"
    for cc in $compilers; do
        command -v $cc >/dev/null || continue
        for part in c t; do
            make -s -C "$folder/$part" clean
            make -s -C "$folder/$part" CC=$cc CFLAGS="$strict"
        done
        same "$model" $cc
    done
    compilers=gcc
done

cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$folder/c" -o "$folder/bits" examples/from_c/main.c \
    "$folder/c/model.o" "$folder/c/program.o" "$folder/c/weights.o" "$folder/c/blocks.o" -fopenmp -lm
"$folder/bits" "$folder/c/weights.bin" "the text" | grep -q 'bits a byte'

cp "$folder/c/weights.bin" "$folder/whole"
for size in 0 20 10000; do
    head -c $size "$folder/whole" >"$folder/c/weights.bin"
    "$folder/bits" "$folder/c/weights.bin" "the text" >"$folder/message" 2>&1 && { echo "broken weights were accepted"; exit 1; }
    grep -qE 'damaged|belongs to another' "$folder/message"
done

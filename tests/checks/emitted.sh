#!/bin/sh
# Emitted folders build without warnings with every compiler at hand, generate what `moec generate` generates, draw what
# `moec draw` draws, train as `moec train` trains, can be called from C, and return errors for broken weights and data.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME="$folder/cache" OMP_NUM_THREADS=2
strict="-O1 -march=native -Wshadow -Wstrict-prototypes -Werror"
small="--set dim=32 --set layers=2 --set train.context=64 --set train.batch=4 --set train.steps=20 --set attention.head_dim=8"
for i in 1 2 3 4 5 6 7 8; do cat stdlib/LANGUAGE.md; done >"$folder/text"

losses() { sed -n 's/.*"loss":[ ]*\([-+0-9.e]*\).*/\1/p' "$1"; }

# same_losses MODEL DATA: the folder trains as the command trained.
same_losses() {
    (cd "$folder/t" && ./train --data "$2" --steps 20) | sed 's/.* loss //' >"$folder/losses"
    losses "$folder/run/log.jsonl" | paste - "$folder/losses" | awk -v what="$1" '
        { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-4 * $1) bad = 1 }
        END { if (bad || NR != 20) { print what ": other losses"; exit 1 } }'
}

# The numbers of a safetensors file, one a line.
numbers() {
    header=$(od -An -tu8 -N8 "$1")
    tail -c +$((header + 9)) "$1" | od -An -v -w4 -tfF
}

# as_command KIND MODEL: what the folder writes is what the command wrote.
as_command() {
    if [ "$1" = text ]; then
        "$folder/c/generate" --weights "$folder/c/weights.bin" --prompt "The " --tokens 40 >"$folder/alone"
        [ "$(cat "$folder/hosted")" = "$(cat "$folder/alone")" ] || { echo "$2: other text"; exit 1; }
    else
        "$folder/c/draw" --weights "$folder/c/weights.bin" --out "$folder/alone" --count 11 --steps 20 --seed 5
        numbers "$folder/alone" >"$folder/drawn"
        numbers "$folder/hosted" | paste - "$folder/drawn" | awk -v what="$2" '
            { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-5 * (1 + ($1 < 0 ? -$1 : $1))) bad = 1 }
            END { if (bad || NR != 11 * 65) { print what ": other images"; exit 1 } }'
    fi
}

# emitted KIND MODEL DATA COMPILERS SET...: trains MODEL, emits it twice, builds and compares both folders.
emitted() {
    kind=$1 model=$2 data=$3 compilers=$4
    shift 4
    rm -rf "$folder/run" "$folder/c" "$folder/t"
    moec train "$model" "$@" --data "$data" --out "$folder/run" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    if [ "$kind" = text ]; then
        moec generate "$folder/run" --prompt "The " --tokens 40 --temperature 0 >"$folder/hosted"
        moec emit "$folder/run" --target c --graph decode --out "$folder/c"
    else
        moec draw "$folder/run" --out "$folder/hosted" --count 11 --steps 20 --seed 5
        moec emit "$folder/run" --target c --graph draw --out "$folder/c"
    fi
    moec emit "$model" "$@" --target c --graph train --out "$folder/t"
    for cc in $compilers; do
        command -v "$cc" >/dev/null || continue
        for part in c t; do
            make -s -C "$folder/$part" clean
            make -s -C "$folder/$part" CC="$cc" CFLAGS="$strict"
        done
        as_command "$kind" "$model, $cc"
        same_losses "$model, $cc" "$data"
    done
}

cc -O1 -o "$folder/shapes" examples/shapes.c -lm
"$folder/shapes" draw 300 "$folder/images"
pictures="--set layers=2 --set train.batch=4 --set train.accumulate=2 --set train.steps=20"
emitted images models/dit.moe:dit_small "$folder/images" gcc $pictures
emitted images models/dit.moe:dit_small_choice "$folder/images" "gcc clang" $pictures
refuses() {
    (cd "$folder/t" && ./train --data "$1" --steps 1 >"$folder/message" 2>&1) && { echo "broken examples were accepted"; exit 1; }
    grep -q "$2" "$folder/message" || { cat "$folder/message"; exit 1; }
}
head -c 5000 "$folder/images" >"$folder/short"
sed 's/"label"/"Label"/' "$folder/images" >"$folder/renamed"
refuses "$folder/short" 'cut off'
refuses "$folder/renamed" 'no tensor for an input'
refuses "$folder/text" 'no safetensors file'
refuses "$folder/nothing" 'cannot be opened'

emitted text examples/first.moe "$folder/text" "gcc clang" $small
emitted text models/tiny.moe:tiny_lore "$folder/text" gcc $small
emitted text models/gpt2.moe:gpt2_small "$folder/text" gcc $small

cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$folder/c" -o "$folder/bits" examples/from_c/main.c \
    "$folder/c/model.o" "$folder/c/program.o" "$folder/c/weights.o" "$folder/c/blocks.o" -fopenmp -lm
"$folder/bits" "$folder/c/weights.bin" "the text" | grep -q 'bits a byte'

cp "$folder/c/weights.bin" "$folder/whole"
for size in 0 20 10000; do
    head -c $size "$folder/whole" >"$folder/c/weights.bin"
    "$folder/bits" "$folder/c/weights.bin" "the text" >"$folder/message" 2>&1 && { echo "broken weights were accepted"; exit 1; }
    grep -qE 'damaged|belongs to another' "$folder/message"
done

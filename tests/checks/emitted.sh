#!/bin/sh
# Emitted folders build without warnings with every installed compiler. They generate as `moec generate`, sample as `moec
# sample` and train as `moec train`. They can be called from C, and return errors for damaged weights and data.
. "$(dirname "$0")/../begin.sh"
export OMP_NUM_THREADS=2
strict="-O1 -march=native -Wshadow -Wstrict-prototypes -Werror"
small="--set dim=32 --set layers=2 --set train.context_length=64 --set train.batch_size=4 --set train.steps=20 --set attention.head_dim=8"
for i in 1 2 3 4 5 6 7 8; do cat stdlib/LANGUAGE.md; done >"$work/text"

losses() { sed -n 's/.*"loss":[ ]*\([-+0-9.e]*\).*/\1/p' "$1"; }

# same_losses MODEL DATA: the emitted program trains as the command did.
same_losses() {
    (cd "$work/t" && ./train --data "$2" --steps 20) | sed 's/.* loss //' >"$work/losses"
    losses "$work/run/log.jsonl" | paste - "$work/losses" | awk -v what="$1" '
        { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-4 * $1) bad = 1 }
        END { if (bad || NR != 20) { print what ": other losses"; exit 1 } }'
}

# The numbers of a safetensors file, one per line.
numbers() {
    header=$(od -An -tu8 -N8 "$1")
    tail -c +$((header + 9)) "$1" | od -An -v -w4 -tfF
}

# as_command KIND MODEL: the emitted program writes the output of the command.
as_command() {
    if [ "$1" = text ]; then
        for sampled in "--temperature 0" "--temperature 0.9 --seed 5" "--temperature 2 --top-k 9 --top-p 0.8 --min-p 0.01"; do
            # shellcheck disable=SC2086 # several words
            moec generate "$work/run" --prompt "The " -n 40 $sampled >"$work/hosted"
            # shellcheck disable=SC2086
            "$work/c/generate" --weights "$work/c/weights.bin" --prompt "The " -n 40 $sampled >"$work/alone"
            [ "$(cat "$work/hosted")" = "$(cat "$work/alone")" ] || { echo "$2 $sampled: the texts differ"; exit 1; }
        done
    else
        "$work/c/draw" --weights "$work/c/weights.bin" --out "$work/alone" --count 11 --steps 20 --seed 5
        numbers "$work/alone" >"$work/drawn"
        numbers "$work/hosted" | paste - "$work/drawn" | awk -v what="$2" '
            { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-5 * (1 + ($1 < 0 ? -$1 : $1))) bad = 1 }
            END { if (bad || NR != 11 * 65) { print what ": other images"; exit 1 } }'
    fi
}

# emitted KIND MODEL DATA COMPILERS SET...: trains MODEL, emits it twice, builds and compares both folders.
emitted() {
    kind=$1 model=$2 data=$3 compilers=$4
    shift 4
    rm -rf "$work/run" "$work/c" "$work/t"
    moec train "$model" "$@" --data "$data" --out "$work/run" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    if [ "$kind" = text ]; then
        moec emit --force "$work/run" --target c --mode decode --out "$work/c"
    else
        moec sample "$work/run" --out "$work/hosted" --count 11 --steps 20 --seed 5 --json >"$work/sampled"
        grep -q '"samples": 11' "$work/sampled" || { cat "$work/sampled"; exit 1; }
        moec emit --force "$work/run" --target c --mode sample --out "$work/c"
    fi
    moec emit --force "$model" "$@" --target c --mode train --out "$work/t"
    for cc in $compilers; do
        command -v "$cc" >/dev/null || continue
        for part in c t; do
            make -s -C "$work/$part" clean
            make -s -C "$work/$part" CC="$cc" CFLAGS="$strict"
        done
        as_command "$kind" "$model, $cc"
        same_losses "$model, $cc" "$data"
    done
}

cc -O1 -o "$work/shapes" examples/shapes.c -lm
"$work/shapes" draw 300 "$work/images"
pictures="--set layers=2 --set train.batch_size=4 --set train.gradient_accumulation_steps=2 --set train.steps=20"
emitted images models/dit.moe:dit_small "$work/images" gcc $pictures
emitted images models/dit.moe:dit_small_choice "$work/images" "gcc clang" $pictures
refuses() {
    (cd "$work/t" && ./train --data "$1" --steps 1 >"$work/message" 2>&1) && { echo "damaged samples were accepted"; exit 1; }
    grep -q "$2" "$work/message" || { cat "$work/message"; exit 1; }
}
head -c 5000 "$work/images" >"$work/short"
sed 's/"label"/"Label"/' "$work/images" >"$work/renamed"
refuses "$work/short" 'truncated'
refuses "$work/renamed" 'lacks a tensor for an input'
refuses "$work/text" 'must be a safetensors file'
refuses "$work/nothing" 'cannot open'

emitted text examples/first.moe "$work/text" "gcc clang" $small
emitted text models/tiny.moe:tiny_lore "$work/text" gcc $small
emitted text models/gpt2.moe:gpt2_small "$work/text" gcc $small

cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$work/c" -o "$work/bits" examples/from_c/main.c \
    "$work/c/model.o" "$work/c/program.o" "$work/c/weights.o" "$work/c/streams.o" "$work/c/blocks.o" -fopenmp -lm
"$work/bits" "$work/c/weights.bin" "the text" | grep -q 'bits/byte'

cp "$work/c/weights.bin" "$work/whole"
for size in 0 20 10000; do
    head -c $size "$work/whole" >"$work/c/weights.bin"
    "$work/bits" "$work/c/weights.bin" "the text" >"$work/message" 2>&1 && { echo "damaged weights were accepted"; exit 1; }
    grep -qE 'damaged|belongs to another' "$work/message"
done

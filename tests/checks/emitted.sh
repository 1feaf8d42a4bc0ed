#!/bin/sh
# Emitted folders build without warnings with every compiler at hand, generate what `moec generate` generates, train as
# `moec train` trains, and return errors for broken weights.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME="$folder/cache"
small="--set dim=32 --set layers=2 --set train.context=64 --set train.batch=4 --set train.steps=20 --set attention.head_dim=8"
for i in 1 2 3 4 5 6 7 8; do cat compiler/LANGUAGE.md; done >"$folder/text"

losses() { sed -n 's/.*"loss":[ ]*\([-+0-9.e]*\).*/\1/p' "$1"; }

for model in examples/first.moe models/tiny.moe:tiny models/tiny.moe:tiny_lore models/gpt2.moe:gpt2_small; do
    rm -rf "$folder/run" "$folder/c" "$folder/t"
    moec train "$model" $small --data "$folder/text" --out "$folder/run" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    moec emit "$folder/run" --target c --graph decode --out "$folder/c"
    moec emit "$model" $small --target c --graph train --out "$folder/t"
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        for part in c t; do
            make -s -C "$folder/$part" clean
            make -s -C "$folder/$part" CC=$cc CFLAGS="-O2 -march=native -Wshadow -Wstrict-prototypes -Werror"
        done
        moec generate "$folder/run" --prompt "The " --tokens 40 --temperature 0 >"$folder/hosted"
        (cd "$folder/c" && ./generate --prompt "The " --tokens 40) >"$folder/alone"
        [ "$(cat "$folder/hosted")" = "$(cat "$folder/alone")" ] || { echo "$model, $cc: other text"; exit 1; }
        (cd "$folder/t" && ./train --data "$folder/text" --steps 20) | sed 's/.* loss //' >"$folder/losses"
        losses "$folder/run/log.jsonl" | paste - "$folder/losses" | awk -v what="$model, $cc" '
            { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || gap > 1e-4 * $1) bad = 1 }
            END { if (bad || NR != 20) { print what ": other losses"; exit 1 } }'
    done
done

cp "$folder/c/weights.bin" "$folder/whole"
head -c 10000 "$folder/whole" >"$folder/c/weights.bin"
(cd "$folder/c" && ./generate --prompt "The ") 2>"$folder/message" && { echo "damaged weights were accepted"; exit 1; }
grep -q damaged "$folder/message"

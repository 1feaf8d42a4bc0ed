#!/bin/sh
# Makes the trained model of models/english.moe: text, tokenizer, training (interrupted or not), weights in int8.
#
#     make english
#
# The text is the King James Bible and the World English Bible (public domain), from packages of Debian. Results are in $OUT.
# STEPS=20 makes the training shorter, for a trial.
set -eu
here=$(dirname "$0")
moec=${MOEC:-build/moec}
out=${OUT:-build/english}
mkdir -p "$out"
[ -f "$out/text.txt" ] || sh "$here/reproduce/text.sh" "$out/text.txt" kjv web
[ -f "$out/tokenizer.json" ] || "$moec" tokenizer train "$out/text.txt" --vocab-size 4096 --out "$out/tokenizer.json"
"$moec" train "$here/../models/english.moe" --data "$out/text.txt" --tokenizer "$out/tokenizer.json" --out "$out/run" --resume \
    ${STEPS:+--steps "$STEPS"}
rm -rf "$out/int8"
"$moec" quantize "$out/run" --type int8 --out "$out/int8"
"$moec" generate "$out/int8" --prompt "And God said" -n 60 --temperature 0.7

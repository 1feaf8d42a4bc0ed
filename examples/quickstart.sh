#!/bin/sh
# The whole way: real text, a model that learns, a model that talks, the model as C that needs nothing of ours.
#
# The text is the King James Bible (1611, public domain) from Debian's package bible-kjv; 4.1 MB without the verse numbers.
set -eu
cd "$(dirname "$0")/.."
moec=${BUILD:-build}/moec
out=quickstart
mkdir -p "$out"

step() { printf '\n==> %s\n' "$*"; }

step "real text"
if [ ! -s "$out/text.txt" ]; then
    bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* *//' >"$out/text.part"
    mv "$out/text.part" "$out/text.txt"
fi
size=$(wc -c <"$out/text.txt")
[ "$size" -gt 1000000 ] || { echo "quickstart: $out/text.txt has only $size bytes" >&2; exit 1; }
echo "$out/text.txt: $size bytes of English"

step "the model: examples/first.moe"
$moec check examples/first.moe

step "training it"
rm -rf "$out/run"
$moec train examples/first.moe --data "$out/text.txt" --out "$out/run"

prompt="And God said"
step "generating from '$prompt'"
$moec generate "$out/run" --prompt "$prompt" -n 110 --temperature 0.7 --seed 1

step "the model as stand-alone C: $out/c"
rm -rf "$out/c"
$moec emit "$out/run" --target c --mode decode --out "$out/c"
make -s -C "$out/c"

step "the same text from both, greedily"
$moec generate "$out/run" --prompt "$prompt" -n 100 --temperature 0 >"$out/hosted.txt"
(cd "$out/c" && ./generate --prompt "$prompt" --tokens 100 --temperature 0) >"$out/standalone.txt"
cat "$out/standalone.txt"
echo
if [ "$(cat "$out/hosted.txt")" = "$(cat "$out/standalone.txt")" ]; then
    echo "both wrote the same text"
else
    echo "quickstart: the two texts differ" >&2
    exit 1
fi

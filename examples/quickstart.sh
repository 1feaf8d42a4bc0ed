#!/bin/sh
# Trains a small model on text, generates text with it, and exports it as a C program that writes the same text.
#
#     sh examples/quickstart.sh
#
# Needs a shell only, on Debian or Ubuntu as root or with sudo: installs missing packages and builds moec first. The text is the
# King James Bible (1611, public domain) from the package bible-kjv. All results are in the folder quickstart/.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac

run() {
    printf '\n$ %s\n' "$1"
    eval "$1"
}

run "sh .ci/setup quickstart"
start=$(date +%s)
printf '\nThe build takes about a minute or more and prints nothing.\n'
run "make -s ${JOBS--j$(nproc)} all"
built=$(date +%s)
run "export PATH=\"$build:\$PATH\""
run "mkdir -p quickstart && cd quickstart && rm -rf run model_c"
run "bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* *//' >text.txt"
run "moec tokenizer train text.txt --vocab-size 1024 --out tokenizer.json"
run "moec check ../examples/guides/dense.moe"
run "moec train ../examples/guides/dense.moe --data text.txt --tokenizer tokenizer.json --out run"
run "moec generate run --prompt 'And God said' -n 80 --temperature 0.7"
run "moec generate run --prompt 'And God said' -n 24 --temperature 0 >moec.txt"
run "moec emit run --target c --mode decode --out model_c"
run "make -s -C model_c"
run "(cd model_c && ./generate --prompt 'And God said' --tokens 24 --temperature 0) >c.txt"
run "cat c.txt"
run 'test "$(cat moec.txt)" = "$(cat c.txt)"' || { echo "quickstart: moec and the exported program wrote different texts" >&2; exit 1; }
end=$(date +%s)
printf '\nThe exported program quickstart/model_c/generate wrote the same text as moec.\n'
echo "total time without packages: $((end - start)) s (build $((built - start)) s)"

#!/bin/sh
# tests/web.sh: a page of `moec emit --target web` writes the text of `moec generate`, greedy and sampled, in node and in headless
# Chromium without a network; it makes no request. Its speed is at least 25 % of a standalone program with one thread, medians of
# alternated runs. Needs clang, lld, wasi-libc and node; Chromium by Playwright, in a folder of its own (WORK, /tmp/moec_browser),
# unless BROWSER=no.
PACKAGES=${WORK:-/tmp/moec_browser}
. "$(dirname "$0")/begin.sh"
for tool in clang wasm-ld node; do command -v $tool >/dev/null || wrong "$tool is missing: apt install clang lld wasi-libc libclang-rt-14-dev-wasm32 nodejs"; done

for i in 1 2 3 4; do cat stdlib/*.md; done >"$work/text"
moec tokenizer train "$work/text" --vocab-size 600 --out "$work/tokenizer.json" >/dev/null 2>&1
sets="--set dim=64 --set layers=2 --set train.steps=60 --set train.batch_size=4 --set train.context_length=96 --set attention.head_dim=16"
# shellcheck disable=SC2086 # several words
moec train examples/first.moe $sets --set vocab_size=600 --data "$work/text" --tokenizer "$work/tokenizer.json" --out "$work/run" >"$work/log" 2>&1 ||
    wrong "$(cat "$work/log")"
moec emit "$work/run" --target web --out "$work/web" 2>"$work/log" || wrong "$(cat "$work/log")"
grep -qE 'https?://' "$work/web/index.html" && wrong "the page has an address"

# same TEMPERATURE SEED: the command, node and the browser write one text.
same() {
    prompt="The options of a “layer” are"
    moec generate "$work/run" -p "$prompt" -n 40 --temperature "$1" --seed "$2" >"$work/expected" 2>"$work/log"
    node tests/web/page.mjs "$work/web/index.html" "$prompt" 40 "$1" "$2" >"$work/found" 2>"$work/log" || wrong "$(cat "$work/log")"
    cmp -s "$work/expected" "$work/found" || wrong "node: $(cat "$work/found" "$work/expected")"
    [ "${BROWSER:-yes}" = yes ] || return 0
    "${PYTHON:-python3}" tests/web/browser.py "$work/web/index.html" "$prompt" 40 "$1" "$2" >"$work/found" 2>"$work/log" || wrong "$(cat "$work/log")"
    cmp -s "$work/expected" "$work/found" || wrong "Chromium: $(cat "$work/found" "$work/expected")"
    echo "temperature $1: equal in node and Chromium ($(cat "$work/log"))"
}

if [ "${BROWSER:-yes}" = yes ]; then
    [ -d "$PACKAGES/playwright" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$PACKAGES" playwright
    PYTHONPATH=$PACKAGES
    export PYTHONPATH
    if [ -z "${CHROMIUM:-}" ]; then
        command -v chromium >/dev/null || [ "$(id -u)" != 0 ] || apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 || true
        CHROMIUM=$(command -v chromium) && export CHROMIUM || { unset CHROMIUM && "${PYTHON:-python3}" -m playwright install chromium; }
    fi
else
    echo "left out: Chromium"
fi
same 0 1
same 0.9 5

# The middle of three numbers.
middle() { sort -n | sed -n 2p; }

# speed NAME SET...: the page against one thread of a standalone program, on weights that are read from memory.
speed() {
    name=$1
    shift
    moec emit generated/dense.moe "$@" --set vocab_size=256 -c 512 --target web --out "$work/page" --force 2>"$work/log" || wrong "$(cat "$work/log")"
    moec emit generated/dense.moe "$@" --set vocab_size=256 -c 512 --out "$work/native" --force 2>"$work/log" || wrong "$(cat "$work/log")"
    make -s -C "$work/native" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    for i in 1 2 3; do
        (cd "$work/native" && OMP_NUM_THREADS=1 ./generate -p A -n 150 --perf --temperature 0 2>&1 >/dev/null | sed 's/.*, \([0-9.]*\) tokens.*/\1/') >>"$work/native.$name"
        node tests/web/page.mjs "$work/page/index.html" A 150 0 1 2>&1 >/dev/null | sed 's/.* //' >>"$work/web.$name"
    done
    paste -d ' ' "$work/web.$name" "$work/native.$name" | awk '{ print $1 / $2 }' | middle | awk -v name="$name" '
        { printf "%s: %.0f %% of the speed of one thread\n", name, 100 * $1; exit $1 < 0.25 }'
}
speed small --set dim=128 --set layers=4 --set attention.head_dim=32
speed large --set dim=512 --set layers=8 --set attention.head_dim=64

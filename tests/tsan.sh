#!/bin/sh
# ThreadSanitizer over the parts of moec that use threads: `moec serve` under load. Every report fails. Not part of `make test`:
# the build needs minutes.
#
#   tests/tsan.sh [SECTION...]     sections: server (default: all)
. "$(dirname "$0")/begin.sh"
sections=${*:-server}
tsan=$PWD/build/tsan
# One thread per parallel region: gcc's libgomp is not instrumented, and each of its barriers would be reported as missing.
export OMP_NUM_THREADS=1
# Reports go to files: some processes print nothing else.
export TSAN_OPTIONS="exitcode=0 second_deadlock_stack=1 log_path=$work/tsan suppressions=$work/suppressions"
: >"$work/suppressions"

# build TARGET...: instrumented programs.
build() {
    make -s -j"$(nproc)" CC="${CC:-cc}" BUILD="$tsan" CFLAGS="-O1 -g1 -fsanitize=thread" LDFLAGS=-fsanitize=thread "$@"
}

# clean SECTION: fails if there is a report.
clean() {
    for report in "$work"/tsan.*; do
        [ ! -e "$report" ] || wrong "$1: $(ls "$work"/tsan.* | wc -l) processes with reports; first report: $(head -60 "$report")"
    done
    echo "$1: no reports"
}

# ---- server: concurrent completions, events, rejected requests and clients that disconnect ----
server() {
    build "$tsan/moec"
    PATH=$tsan:$PATH
    . tests/serve/server.sh
    small_model 5
    moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    for batch in 1 4; do
        serve "tsan$batch" -c 200 --parallel $batch --max-queue 40 --client-timeout 2 --timeout 20
        load "$at"
        refuse 200 '"ok"' "$at/health"
        refuse 200 '"choices"' "$at/v1/completions" -d '{"prompt":"a","max_tokens":2}'
        made=$(curl -sS "$at/metrics" | sed -n 's/^moec_generated_tokens_total //p')
        [ "$made" -gt 3000 ] || wrong "the load generated only $made tokens"
        # The server stops during requests.
        curl -s -m 20 -H "$json" "$at/v1/completions" -d '{"prompt":"a","max_tokens":190,"n":20,"stream":true}' >/dev/null &
        sleep 0.2
        ended "tsan$batch"
    done
    clean server
}

# load ADDRESS: 300 requests, 24 at a time.
load() {
    mkdir -p "$work/load"
    for i in $(seq 300); do
        limit=$((i % 7 * 12 + 1))
        body="{\"prompt\":\"layer $i\",\"max_tokens\":$limit,\"n\":$((i % 3 + 1)),\"logprobs\":$((i % 4))}"
        case $((i % 6)) in
        0) echo "-m 20 -d '$body' $1/v1/completions" ;;
        1) echo "-m 20 -d '{\"stream\":true,${body#?}' $1/v1/completions" ;;
        2) echo "-m 0.0$((i % 9 + 1)) -d '{\"stream\":true,${body#?}' $1/v1/completions" ;;
        3) echo "-m 0.$((i % 9 + 1)) -d '$body' $1/v1/completions" ;;
        4) echo "-m 20 $1/metrics" ;;
        5) echo "-m 20 -d '{\"prompt\":\"x\",\"promt\":1}' $1/v1/completions" ;;
        esac
    done >"$work/load/arguments"
    # shellcheck disable=SC2016 # the words of each line
    xargs -P 24 -L 1 curl -s -o /dev/null -H "$json" <"$work/load/arguments" || true
}

for section in $sections; do
    case $section in
    server) "$section" ;;
    *) wrong "unknown section '$section'" ;;
    esac
done

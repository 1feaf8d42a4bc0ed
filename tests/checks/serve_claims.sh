#!/bin/sh
# moec serve with every kind of cache: answers in company equal those alone, requests join running ones, a saved prompt is used
# again with the same answer, also its recurrent state, and the memory of caches has a limit. tests/serve/claims.sh is the long form.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
. tests/serve/server.sh
# The address sanitizer keeps released memory for a while, which is not growth.
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1 ASAN_OPTIONS=quarantine_size_mb=1
sed 's/dim  *= 256/dim = 32/; s/layers  *= 4/layers = 2/; s/head_dim = 64/head_dim = 8/; s/768/48/; s/384/16/; s/window = 64/window = 24/; s/1280/2200/' \
    tests/serve/kinds.moe >"$work/kinds.moe"
run=$work/run.safetensors

# cached BODY: how many tokens of the prompt were not computed again.
cached() { post "$1" | sed 's/.*"cached_tokens":\([0-9]*\).*/\1/'; }
# answer BODY: the completions alone.
answer() { post "$1" | sed 's/"created".*"choices"//; s/"usage".*//; s/"id":"[^"]*"//'; }
long=$(printf 'abcdefgh%.0s' $(seq 20)) # 160 tokens

for kind in dense routed window latent recurrent; do
    moec init "$work/kinds.moe:$kind" -o "$run" -q --force
    serve "$kind" --parallel 4
    python3 tests/serve/claims.py "$at" company 12 $server >"$work/out" || wrong "$kind: $(cat "$work/out")"
    python3 tests/serve/claims.py "$at" join 2000 >"$work/out" || wrong "$kind: $(cat "$work/out")"
    ended "$kind"

    serve "$kind" --parallel 2
    tail='"max_tokens":9,"temperature":0,"logprobs":2}'
    first=$(answer "{\"prompt\":\"${long}xyz\",$tail")
    # Nothing is known of these prompts; the first repeats only the beginning of the longer one.
    same "$kind: a new prompt" "$(cached "{\"prompt\":\"y${long}\",$tail")" 0
    same "$kind: all of a prompt" "$(cached "{\"prompt\":\"${long}xyz\",$tail")" 160
    same "$kind: the answer after it" "$(answer "{\"prompt\":\"${long}xyz\",$tail")" "$first"
    same "$kind: a longer prompt" "$(cached "{\"prompt\":\"${long}$long\",$tail")" 160
    same "$kind: at least one token is left" "$(cached "{\"prompt\":\"${long}\",$tail")" "$(case $kind in window | recurrent) echo 0 ;; *) echo 128 ;; esac)"
    same "$kind: log-probabilities of the prompt" "$(cached "{\"prompt\":\"${long}xyz\",\"echo\":true,$tail")" 0
    # A part of a prompt: at once where caches can be cut, else when its state has been saved at the second use.
    part="$(printf %.100s "$long")" # 96 in blocks
    same "$kind: a part" "$(cached "{\"prompt\":\"${part}2$part\",$tail")" "$(case $kind in window | recurrent) echo 0 ;; *) echo 96 ;; esac)"
    same "$kind: a part again" "$(cached "{\"prompt\":\"${part}3$part\",$tail")" 96
    ended "$kind"
done

# Prompts share the memory that the running sequences leave; the oldest goes.

moec init "$work/kinds.moe:dense" -o "$run" -q --force
moec serve "$run" --port 0 --parallel 2 --cache-memory 100000 >"$work/out" 2>&1 && wrong "too little memory for caches is accepted"
grep -q -- '--cache-memory is 100 kB, but the caches of 2 sequences of 2200 tokens need 2.25 MB' "$work/out" || wrong "$(cat "$work/out")"
serve limited --parallel 1 --cache-memory 1230000 # 1,126,400 for the sequence, 81,920 for 160 tokens
tail='"max_tokens":1}'
for letter in a b c a; do same "a prompt that was dropped" "$(cached "{\"prompt\":\"$letter$long\",$tail")" 0; done
same "the last prompt" "$(cached "{\"prompt\":\"a$long\",$tail")" 160
held=$(curl -sS "$at/metrics" | sed -n 's/^moec_prefix_bytes //p')
same "memory of prompts" "$held" 81920
python3 tests/serve/claims.py "$at" flat $server 200 >"$work/out" || wrong "$(cat "$work/out")"
ended limited

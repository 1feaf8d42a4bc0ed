#!/bin/sh
# Inputs that are far too large are rejected within seconds and with a message: a prompt of 1 MB, 200,000 tensors in a file.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
small_model 1
cd "$work" || exit 1

# soon SECONDS TEXT COMMAND...: the command is rejected with TEXT within SECONDS of CPU time.
soon() {
    seconds=$1 text=$2
    shift 2
    code=0
    (ulimit -t "$seconds" && exec timeout 120 "$@") >output 2>&1 </dev/null || code=$?
    [ $code = 1 ] || { head -c 500 output; wrong "$*: exit code $code"; }
    grep -qF -- "$text" output || { head -c 500 output; wrong "$*: the message lacks '$text'"; }
}

moec train small.moe --data text --out run >output 2>&1 || wrong "$(cat output)"
yes 'hello world' | tr '\n' ' ' | head -c 1000000 >prompt
soon 10 'the prompt has 1000000 tokens' moec generate run/last.safetensors --prompts prompt -n 2
grep -q -e '-c 1000000' output || wrong "the message does not name the option"
head -c 5000 prompt >shorter
moec generate run/last.safetensors --prompts shorter -n 2 >output 2>&1 || wrong "$(head -c 500 output)"

# The header has a name, a type and an offset per tensor. The length of the header is before it, little-endian.
awk 'BEGIN { printf "{"
    for (i = 0; i < 200000; i++)
        printf "%s\"block.%d.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", i, 4 * i, 4 * i + 4
    printf "}" }' >header
length=$(wc -c <header)
for i in 0 1 2 3 4 5 6 7; do
    printf "\\$(printf %03o $((length >> 8 * i & 255)))"
done >many.safetensors
cat header >>many.safetensors
head -c 800000 /dev/zero >>many.safetensors
soon 10 'does not contain its spec' moec generate many.safetensors --prompt x
soon 10 'tensor' moec forward small.moe --weights many.safetensors --input text --outputs loss --out out.safetensors

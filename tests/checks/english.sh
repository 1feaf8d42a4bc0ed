#!/bin/sh
# The commands of `make english`, with another text and two steps: the run, its int8 weights, generated text. The second call
# continues the first one.
. "$(dirname "$0")/../begin.sh"
mkdir "$work/out"
cat stdlib/*.moe stdlib/*.md examples/guides/*.md >"$work/out/text.txt"
for steps in 1 2; do
    STEPS=$steps OUT=$work/out MOEC=moec sh examples/english.sh >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    [ "$(grep -c '"step":' "$work/out/run/log.jsonl")" -ge $steps ] || wrong "step $steps: $(cat "$work/log")"
    grep -q '^And God said' "$work/log" || wrong "no text: $(cat "$work/log")"
    size=$(wc -c <"$work/out/int8/last.safetensors")
    [ "$size" -gt 7000000 ] && [ "$size" -lt 12000000 ] || wrong "int8: $size bytes"
done

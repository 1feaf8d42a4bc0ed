#!/bin/sh
# Numbers that are not finite: training stops with a message, the last good checkpoint stays, and the log keeps every value. No
# command then prints a measurement, samples or text.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
cat stdlib/*.moe >"$work/text"
cc -O1 -o "$work/shapes" examples/shapes.c -lm && "$work/shapes" draw 40 "$work/images" || wrong "no images"
cp models/dit.moe "$work/"
cd "$work" || exit 1
cat >small.moe <<'SPEC'
use decoder
layer odd(x[s, d]) -> y[s, d] {
  y[s, d] = x[s, d]
  probe hollow = log(0 * sum[s, d] x[s, d]^2)
}
model small = decoder {
  dim = 16, layers = 1
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = swiglu { hidden_dim = 8 }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 6, eval_interval = 2, save_interval = 3 }
}
model probed = small { ffn = odd }
SPEC

# ends CODE WORDS COMMAND...: the command ends with CODE and prints WORDS
ends() {
    code=$1 words=$2
    shift 2
    "$@" >out 2>log </dev/null
    found=$?
    [ $found -eq "$code" ] || { cat out log; wrong "$*: exit code $found, not $code"; }
    [ -z "$words" ] || grep -qF -- "$words" log || { cat log; wrong "$*: no '$words'"; }
}

ends 0 "" moec train small.moe:small --data text --out run
for rate in 1e300 1e38 1e20; do
    cp -r run exploded
    ends 1 "is not a finite number; training has stopped" moec train small.moe:small --data text --out exploded \
        --resume --steps 12 --set train.lr=$rate
    grep -q 'free some disk space' log && { cat log; wrong "the disk is blamed for a rate of $rate"; }
    cmp -s run/last.safetensors exploded/last.safetensors || wrong "a rate of $rate has replaced the good checkpoint"
    grep -qv '^{.*}$' exploded/log.jsonl && wrong "the log of a rate of $rate is not JSON"
    rm -r exploded
done

# A logged value that is not finite is in the log and is reported once.
ends 0 "hollow is not a finite number" moec train small.moe:probed --data text --out probed
[ "$(grep -c hollow log)" -eq 1 ] || wrong "a probe is reported more than once"
[ "$(grep -c '"hollow":null' probed/log.jsonl)" -eq 6 ] || wrong "a probe that is not finite is not in the log"

# spoil FILE COPY: the same weights with one number that is not finite; a file without a checksum may be changed.
spoil() {
    sed 's/"checksum"/"checksun"/' "$1" >"$2"
    printf '\0\0\300\177' | dd of="$2" bs=1 seek=$(($(wc -c <"$2") - 4)) conv=notrunc 2>/dev/null
}
moec init small.moe:small --seed 1 --out fresh
spoil fresh spoilt
ends 1 "the loss is not a finite number" moec eval spoilt --data text
ends 1 "the loss is not a finite number" moec eval spoilt --data text --json
grep -q '"loss": null' out || wrong "the JSON lacks a loss that is not finite"
ends 1 "a logit is not a finite number" moec generate spoilt --prompt x -n 5
moec init dit.moe:dit_small --set layers=1 --seed 1 --out fresh --force
spoil fresh spoilt
ends 1 "a sampled value is not a finite number" moec sample spoilt --out drawn --count 1 --steps 2
[ -e drawn ] && wrong "sampling has written a file"
exit 0

#!/bin/sh
# moec train --watch stops at the step in which a tensor exceeds its limit, with the state before that step.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
cat stdlib/LANGUAGE.md >"$work/text"
cd "$work"
cat >small.moe <<'SPEC'
use decoder
model small = decoder {
  dim = 16, layers = 2
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = swiglu { hidden_dim = 8 }
  train = { lr = 1e-1, batch_size = 2, context_length = 16, steps = 12, gradient_accumulation_steps = 2 }
}
SPEC
# Limits that are not reached change nothing.
moec train small.moe -d text -o free -q >free.out 2>&1
moec train small.moe -d text -o watched --watch block.1.ffn.h=1e9 --watch ffn.y=1e9 -q
for run in free watched; do grep -o '"loss":[0-9.]*' $run/log.jsonl | cut -c1-12 >$run.losses; done
cmp -s free.losses watched.losses || wrong "watching changes the losses"

fails ', the limit is 16; training has stopped' moec train small.moe -d text -o run --watch 'block.*.ffn.h=16'
grep -q 'step [0-9]*: block.[01].ffn.h\[[01],[0-9]*,[0-7]\] is' out || wrong "$(cat out)"
grep -q 'note: its equation is in std/mlp.moe:' out || wrong "$(cat out)"
step=$(sed -n 's/.*error.*step \([0-9]*\):.*/\1/p' out)
[ "$step" -gt 1 ] || wrong "the limit of the test is too small: $(cat out)"
grep -q "the checkpoint of step $((step - 1)) is kept in run" out || wrong "$(cat out)"
grep -q "{\"step\":$step,\"watched\":\"block" run/log.jsonl || wrong "$(tail -1 run/log.jsonl)"
moec train small.moe -d text -o run --resume --stop-after "$step" -q
found=$(sed -n "s/^{\"step\":$step,\"loss\":\([0-9.]*\),.*/\1/p" run/log.jsonl | tail -1)
grep -q "^{\"step\":$step,\"loss\":$found," free/log.jsonl || wrong "the checkpoint is not the state before step $step: $found"

fails "--watch expects NAME=LIMIT, got 'ffn.h'" moec train small.moe -d text -o nowhere --watch ffn.h
fails "did you mean 'block.0.ffn.h'" moec train small.moe -d text -o nowhere --watch block.0.ffn.hh=1

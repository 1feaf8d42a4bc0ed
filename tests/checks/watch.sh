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
moec train small.moe -d text -o watched --watch block.1.ffn.h=1e9 --watch ffn.y=1e9 --watch loss=1e9 --watch grad_norm=1e9 \
    --watch 'gradient:*=1e9' --watch block.0.ffn.up=1e9 -q
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

# stops LIMIT TEXT: the step ends at the limit, with the text; the checkpoint is that of the step before.
stops() {
    rm -rf run
    fails ", the limit is ${1##*=}; training has stopped" moec train small.moe -d text -o run --set ffn="$experts" --watch "$1" ${on:-}
    step=$(sed -n 's/.*error.*step \([0-9]*\):.*/\1/p' out)
    grep -qF "step $step: $2" out && grep -q "the checkpoint of step $((step - 1)) is kept in run" out || wrong "$1: $(cat out)"
}
experts='moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 4 }, aux_loss_coef = 0.1 }'
stops loss=5 'loss is 5.'
stops balance=0.1 'balance is 0.'
stops max_expert_load=1 'block.0.ffn.max_expert_load is '
stops grad_norm=0.1 'grad_norm is '
stops block.1.ffn.router=0.01 'block.1.ffn.router[0,0] is '
stops 'gradient:block.*.ffn.router=0.0001' 'gradient:block.0.ffn.router[0,0] is '
grep -q 'note: the weight is first read in std/moe.moe:' out || wrong "$(cat out)"
found=$(grep -o 'router.* is [^,]*' out | cut -c1-24)
on_simulator
on='--device cuda'
stops 'gradient:block.*.ffn.router=0.0001' 'gradient:block.0.ffn.router[0,0] is '
[ "$found" = "$(grep -o 'router.* is [^,]*' out | cut -c1-24)" ] || wrong "another gradient than $found: $(cat out)"
fails "did you mean 'block.0.ffn.router'" moec train small.moe -d text -o nowhere --set ffn="$experts" --watch gradient:block.0.ffn.ruter=1
fails "--watch expects NAME=LIMIT, got 'grad_norm=x'" moec train small.moe -d text -o nowhere --watch grad_norm=x

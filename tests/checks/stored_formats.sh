#!/bin/sh
# Weights stored in the formats of train.precision: fp8, mxfp8, mxfp4, nvfp4. A quantized run has the loss and the text of the rounded
# weights, as have emitted programs. The unit test of panels checks that weights of these formats keep their values.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat >"$work/small.moe" <<'END'
use decoder

model small = decoder {
  vocab_size = 256, dim = 128, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 }, head_dim = 32 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 96 } }
  train = { batch_size = 2, context_length = 64, steps = 6, eval_interval = 0, lr = 1e-2 }
}
END
cat stdlib/*.moe >"$work/text"
head -c 1500 "$work/text" >"$work/short"
cd "$work"
loss() { moec eval "$@" --data short --json 2>log | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'; }
text() { moec generate "$@" --prompt 'layer ' -n 24 --temperature 0 2>log || wrong "$(cat log)"; }
moec train small.moe:small --data text --steps 2 --out run >log 2>&1 || wrong "$(cat log)"

for type in fp8 mxfp8 mxfp4 nvfp4; do
    moec verify small.moe:small -b 1 -c 16 --forms --set inference.weight_dtype=$type >log 2>&1 || wrong "$type: $(cat log)"
    grep -q "forms .*, $type weights" log && grep -q '^  decoding' log || wrong "$type: not compared: $(cat log)"

    # a run with this precision: no weight of a product is in another type
    moec verify small.moe:small -b 1 -c 16 --set inference.weight_dtype=$type --set train.precision=$type >log 2>&1 || wrong "$type: $(cat log)"
    moec check small.moe:small --set train.precision=$type --weight-dtype $type >log || wrong "$type: $(cat log)"
    grep -q "decoding weights .*: $type .* kB, f32 .* kB with embedding, block.{i}.ffn.router$" log || wrong "$type: $(cat log)"
    moec check small.moe:small --set train.precision=$type --weight-dtype int4 | grep -q 'decoding weights .*int8' || wrong "$type as int4"

    moec quantize run --type $type --out small.$type >log 2>&1 || wrong "$type: $(cat log)"
    moec tensors small.$type | grep -qi "^block.0.ffn.expert.up *$type *\[4, 128, 96\]" || wrong "$type: $(moec tensors small.$type)"
    expected=$(loss run --weight-dtype $type)
    [ -n "$expected" ] && [ "$expected" = "$(loss small.$type)" ] || wrong "$type: loss $(loss small.$type), rounded when loaded $expected"
    [ "$expected" != "$(loss run)" ] || wrong "$type: the weights are not rounded"
    text small.$type >expected && text run --weight-dtype $type | cmp - expected || wrong "$type: another text of the quantized run"

    moec emit run --mode decode --weight-dtype $type --out c.$type >log 2>&1 || wrong "$type: $(cat log)"
    make -s -C c.$type CFLAGS="-O0 -march=native -Wall -Wextra -Werror" >log 2>&1 || wrong "$type: $(cat log)"
    found=$(cd c.$type && ./generate --prompt 'layer ' --tokens 24 --temperature 0)
    [ "$found" = "$(cat expected)" ] || wrong "$type: the emitted program generates another text"
    for weights in array $([ $type != nvfp4 ] || echo incbin); do
        moec emit run --profile freestanding --weight-dtype $type --head-dtype int8 --weights $weights --force --out free >log 2>&1 || wrong "$type: $(cat log)"
        grep -q "Moec[A-Za-z0-9]* ${type}s" free/model.c || wrong "no $type"
        moec generate run --token-ids --prompt "3 1 4" -n 9 --temperature 0.8 --seed 3 --weight-dtype $type --head-dtype int8 2>/dev/null |
            sed 's/^3 1 4 //; s/ *$//' >tokens
        sources=model.c
        [ "$weights" = array ] || sources="model.c weights.S"
        # shellcheck disable=SC2086 # several files
        found=$(cd free && cc -std=c99 -Wall -Wextra -Werror -O1 -DPROMPT=3,1,4 -DCOUNT=9 -DTEMPERATURE=0.8f -DSEED=3 example.c $sources -o example &&
            ./example | sed -n 1p)
        [ "$found" = "$(cat tokens)" ] || wrong "$type: other tokens of the freestanding program"
    done
done
fails "is already quantized: its weights are fp8" moec quantize small.fp8 --type int4 --out nowhere
fails "inference.weight_dtype = mxfp4 is available on CPUs only" moec emit run --target cuda --mode decode --weight-dtype mxfp4 --out nowhere

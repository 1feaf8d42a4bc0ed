#!/bin/sh
# LoRA: only its matrices are trained; moec merge stores the weights that it computes, with the same loss, also after export to and
# import from other formats; its spec keeps all other settings of parameters; errors.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O1 OMP_NUM_THREADS=1
cat >"$work/small.moe" <<'EOF'
use decoder
use lora

model base = decoder {
  vocab_size = 256, dim = 64, layers = 3, tie_embeddings = true
  attention = { heads = { q = 4, k = 2, v = 2 } }
  ffn = swiglu { hidden_dim = 64 }
  train = { lr = 1e-2, batch_size = 4, context_length = 32, steps = 30, eval_interval = 0 }
}

model tuned = base {
  parameters = [
    { of = "*", freeze = true },
    { of = "block.*", apply = lora { rank = 4 } },
    { of = "*_norm.weight", freeze = false, lr = 0.5 },
    { of = "*.lora.b", lr = 2 },
  ]
}
EOF
cat stdlib/*.moe >"$work/text"
head -c 6000 "$work/text" >"$work/short"
cd "$work"
loss() { moec eval "$1" --data short --json 2>log | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'; }
# Two losses that differ by at most 1e-6.
equal() {
    [ -n "$2" ] && awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-6 && d > -1e-6) }' || wrong "$3: loss '$2', tuned '$1'"
}
tensors() { moec tensors "$1" 2>log | awk 'NF > 2 { print $1 }' | sort; }

moec train small.moe:base --data text --out base >log 2>&1 || wrong "$(cat log)"
moec train small.moe:tuned --init-from base --init-missing --data text --out tuned >log 2>&1 || wrong "$(cat log)"
moec merge tuned --out merged >log 2>&1 || wrong "$(cat log)"
grep -q "^merged/last.safetensors: model 'tuned', 21 of 29 tensors merged" log || wrong "$(cat log)"
expected=$(loss tuned)
equal "$expected" "$(loss merged)" merged
[ "$expected" != "$(loss base)" ] || wrong "the tuned run has the loss of its base"
tensors base >expected
tensors merged | diff expected - || wrong "the merged run has other tensors than its base"
moec verify tuned >log 2>&1 && moec verify merged >log 2>&1 || wrong "$(cat log)"
moec merge tuned --out json --json 2>log | grep -q '"tensors": 21' || wrong "$(cat log)"

for format in llama gguf; do
    moec export merged --format $format --out $format >log 2>&1 || wrong "$(cat log)"
    from=$format
    [ $format = llama ] || from=gguf/model.gguf
    moec import $from --out again_$format >log 2>&1 || wrong "$(cat log)"
    equal "$expected" "$(loss again_$format)" $format
    fails "the run stores the parameters of a layer" moec export tuned --format $format --out nowhere
    grep -q '^small.moe:14:31:' out && grep -q 'help: moec merge tuned --out DIR stores' out || wrong "$(cat out)"
done
moec quantize merged --type int8 --out small >log 2>&1 || wrong "$(cat log)"
fails "moec merge tuned" moec quantize tuned --type int8 --out nowhere

# The unmerged run generates, as emitted C too, is one file with its spec, and continues.
moec generate tuned --prompt 'layer ' -n 24 --temperature 0 >expected 2>log || wrong "$(cat log)"
moec generate merged --prompt 'layer ' -n 24 --temperature 0 2>log | cmp expected - || wrong "another text of the merged run"
moec emit tuned --mode decode --out c >log 2>&1 && make -s -C c CFLAGS=-O1 >log 2>&1 || wrong "$(cat log)"
[ "$(cat expected)" = "$(cd c && ./generate --prompt 'layer ' --tokens 24 --temperature 0)" ] || wrong "another text of the emitted program"
moec export tuned --format gguf_moec --out own >log 2>&1 && moec import own/model.gguf --out own_run >log 2>&1 || wrong "$(cat log)"
equal "$expected" "$(loss own_run)" gguf_moec
moec train small.moe:tuned --data text --resume --steps 32 --out tuned >log 2>&1 || wrong "$(cat log)"

# A run that is killed and resumed ends with the bytes of one that is not.
sed -i 's/^  parameters/  train = { steps = 60, save_interval = 5 }\n&/' small.moe
set -- moec train small.moe:tuned --init-from base --init-missing --data text --out
"$@" straight >log 2>&1 || wrong "$(cat log)"
"$@" killed >log 2>&1 &
process=$!
until [ -e killed/last.safetensors ]; do
    kill -0 $process 2>/dev/null || wrong "the run ended too early: $(cat log)"
    sleep 0.01
done
kill -9 $process || wrong "the run ended before the kill"
wait $process || true
[ "$(grep -c . killed/log.jsonl)" -lt 60 ] || wrong "the run ended before the kill"
"$@" killed --resume >log 2>&1 || wrong "$(cat log)"
cmp straight/last.safetensors killed/last.safetensors || wrong "the weights of a resumed run differ"

# Frozen weights have no gradients and no optimizer state.
bytes() { moec check "$1" --json | sed -n 's/.*"gradients": *\([0-9]*\).*/\1/p'; }
[ "$(bytes merged)" = 1792 ] || wrong "the merged run does not train the norms alone: $(bytes merged) bytes of gradients"
[ "$(bytes small.moe:tuned)" = 41728 ] || wrong "$(bytes small.moe:tuned) bytes of gradients"
# With the last norm alone trained, the gradient needs few operations.
echo 'model last = base { parameters = [{ of = "*", freeze = true }, { of = "final_norm.*", freeze = false }] }' >>small.moe
moec check small.moe:last --json | tr -d ' ,"' | awk -F: '$1 == "forward" { f = $2 } $1 == "train" { t = $2 } END { exit !(t > f && t < 1.5 * f) }' ||
    wrong "the operations of training count gradients of frozen weights"

fails "base has no layers to merge" moec merge base --out nowhere
fails "merged has no layers to merge" moec merge merged --out nowhere
fails "already contains a run" moec merge tuned --out merged
fails "cannot read missing" moec merge missing --out nowhere
moec merge tuned >log 2>&1 && wrong "moec merge without --out"
grep -q 'moec merge requires --out' log || wrong "$(cat log)"

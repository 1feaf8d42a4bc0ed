#!/bin/sh
# Optimizers that see a matrix: a run that is stopped and goes on ends with the same bytes, what it kept of the matrices is in
# its checkpoint and of no use to anything else, and an emitted program trains as the hosted one does.
. "$(dirname "$0")/../begin.sh"
cat >"$work/spec.moe" <<'END_OF_SPEC'
use adafactor
use decoder
use muon

# Each kind of parameter has an optimizer of its own.
optimizer by_kind {
  option embeddings: layer = adafactor
  option matrices:   layer = muon { ns_steps = 3 }
  option rest:       layer = adamw
  if embedding { by = embeddings } else if matmul { by = matrices } else { by = rest }
}

model m = decoder {
  dim = 16, layers = 2, attention.heads.q = 2, ffn.hidden_dim = 24
  train = { batch_size = 2, context_length = 16, steps = 6, optimizer = by_kind, save_interval = 3, precision = bf16 }
}
END_OF_SPEC
head -c 3000 README.md >"$work/text"
moec train "$work/spec.moe" --data "$work/text" --out "$work/whole" >"$work/log"
moec train "$work/spec.moe" --data "$work/text" --out "$work/parts" --steps 3 >"$work/log.parts"
moec train "$work/spec.moe" --data "$work/text" --out "$work/parts" --steps 6 --resume >"$work/log.parts"
cmp "$work/whole/last.safetensors" "$work/parts/last.safetensors" || wrong "it does not go on as it was"
moec tensors "$work/whole/last.safetensors" >"$work/weights"
for name in m:block.1.ffn.up row:embedding column:embedding v:final_norm.weight; do
    grep -q "^optimizer.$name " "$work/weights" || wrong "the checkpoint lacks $name"
done
! grep -q "^optimizer.v:block.1.ffn.up" "$work/weights" || wrong "AdamW keeps what is not its own"
moec train "$work/spec.moe" --data "$work/text" --out "$work/next" --steps 1 --init-from "$work/whole" >"$work/log.next" 2>&1
! grep -q "does not have" "$work/log.next" || wrong "states of another run are told of"
moec emit "$work/spec.moe" --target c --mode train --out "$work/emitted" >"$work/log.emitted"
make -s -C "$work/emitted" CFLAGS="-O1 -Werror=discarded-qualifiers" 2>"$work/log.make" || wrong "it is not built"
"$work/emitted/train" --data "$work/text" --weights "$work/emitted/weights.bin" --out "$work/trained.bin" >"$work/steps"
hosted=$(sed -n 's/.*"step":6,.*"loss":\([0-9.]*\).*/\1/p' "$work/whole/log.jsonl")
emitted=$(sed -n 's/step 6 loss //p' "$work/steps")
awk -v a="$hosted" -v b="$emitted" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-7) }' ||
    wrong "the emitted program has a loss of $emitted, not $hosted"

#!/bin/sh
# Installs TensorBoard and pandas into a separate folder (WORK, /tmp/moec_tensorboard) and reads the logs of two runs with them.
# One run was killed and resumed from its checkpoint; one diverged. Not part of `make test`; see read_logs.py.
PACKAGES=${WORK:-/tmp/moec_tensorboard}
. "$(dirname "$0")/begin.sh"
[ -d "$PACKAGES/tensorboard" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$PACKAGES" tensorboard pandas
PYTHONPATH=$PACKAGES
export PYTHONPATH
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 16, layers = 2, attention = { heads = { q = 2 }, head_dim = 8, probes = true }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 } }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 60, eval_interval = 20, save_interval = 25 }
}
SPEC
cat stdlib/*.moe >"$work/text"
train() { moec train "$work/small.moe" --data "$work/text" --tensorboard "$@" >"$work/output" 2>&1; }
train --out "$work/run" --steps 50 || wrong "training fails: $(cat "$work/output")"
# As after a kill at step 59: the checkpoint is from step 50, the event file has later steps.
cp "$work/run/last.safetensors" "$work/kept"
train --out "$work/run" --resume --steps 59 || wrong "the run does not resume: $(cat "$work/output")"
cp "$work/kept" "$work/run/last.safetensors"
train --out "$work/run" --resume || wrong "the run does not resume: $(cat "$work/output")"
train --out "$work/diverged" --set train.lr=1e30 --set train.grad_clip=0 && wrong "nothing diverges"
for run in run diverged; do "${PYTHON:-python3}" tests/read_logs.py "$work/$run" "$BUILD/moec"; done

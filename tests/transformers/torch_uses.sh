#!/bin/sh
# Uses of a folder of `moec emit --target torch`: a run continues in PyTorch, lm-evaluation-harness measures it, torch.export and ONNX
# Runtime execute it, torch.compile compiles it, padded batches generate. Installs the packages into FOLDER (default
# build/torch) unless they are there: see torch_uses.py. Not part of `make test`.
. "$(dirname "$0")/../begin.sh"
folder=${FOLDER:-build/torch}
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/python" -c 'import torch, transformers, lm_eval, onnxruntime, onnxscript, tokenizers, accelerate' 2>/dev/null ||
    "$folder/bin/pip" install -q torch "transformers>=5,<6" lm-eval onnx onnxruntime onnxscript tokenizers accelerate
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME="$work" MOEC="$BUILD/moec"
exec "$folder/bin/python" tests/transformers/torch_uses.py "$work"

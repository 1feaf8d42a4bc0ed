#!/bin/sh
# Installs torch and the transformers library into FOLDER (default build/torch) unless it exists, and compares models that
# `moec emit --target torch` writes with moec: see torch_models.py. Prints a line per model and `N passed, N failed`. FULL=1
# compiles the programs of moec instead of running its interpreter and compares 64 tokens that moec generates. Not part of
# `make test`.
#
#     tests/transformers/torch_models.sh [WORD...]      only models whose line contains a WORD
. "$(dirname "$0")/../begin.sh"
folder=${FOLDER:-build/torch}
[ -x "$folder/bin/python" ] || {
    python3 -m venv "$folder"
    "$folder/bin/pip" install -q torch "transformers>=5,<6" ruff
}
models_of() { sed -n "s/^model \([a-z0-9_]*${2:-}[a-z0-9_]*\) =.*/\1/p" "$1" | sed "s|^|$1:|; s|\$| train.batch_size=2 ${3:-}|"; }
context=train.context_length=$([ -n "${FULL:-}" ] && echo 72 || echo 20)
{
    models_of tests/layers.moe "" "$context"
    models_of tests/ideas.moe "" "$context"
    models_of tests/ideas_blocks.moe "" "$context"
    models_of models/tiny.moe "" "$context dim=48 layers=2"
    for family in gated_attention sigma structmoe complete_mue; do
        models_of models/$family.moe _small "$context"
    done
    for models in losses inputs names applied; do models_of tests/transformers/$models.moe "" "$context"; done
    for family in gpt2 hybrid; do models_of models/$family.moe "" "$context dim=64 layers=2"; done
    for idea in examples/ideas/*.moe; do
        models_of "$idea" "" "$context"
    done
} | grep -vE ":(ahead_|expert_router_coupling )" >"$work/all" # losses of training alone are not exported
if [ $# = 0 ]; then cat "$work/all"; else for word; do grep -F -e "$word" "$work/all" || wrong "no model has '$word' in its line" >&2; done; fi >"$work/list"
export HF_HUB_OFFLINE=1 HF_HOME="$work" MOEC="$BUILD/moec"
exec "$folder/bin/python" tests/transformers/torch_models.py <"$work/list" 2>"$work/errors"

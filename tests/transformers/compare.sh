#!/bin/sh
# Installs torch and the transformers library into a separate folder (WORK, /tmp/moec_transformers) and compares: see
# compare.py. If PYTHON has torch, only the rest is installed.
#
#     tests/transformers/compare.sh [FAMILY...]      not part of `make test`
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/moec_transformers}
PYTHON=${PYTHON:-python3}
export PYTHONPATH="$WORK/site" HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$PYTHON" -c 'import torch' 2>/dev/null || "$PYTHON" -m pip install --quiet --target "$WORK/site" torch
"$PYTHON" -c 'import transformers' 2>/dev/null || "$PYTHON" -m pip install --quiet --target "$WORK/site" "transformers>=5,<6"
make "${BUILD:-build}/moec"
PATH=$PWD/${BUILD:-build}:$PATH exec "$PYTHON" tests/transformers/compare.py "$@"

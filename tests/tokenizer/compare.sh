#!/bin/sh
# Installs the tokenizers library into a separate folder (WORK, /tmp/moec_tokenizers) and compares: see compare.py.
#
#     tests/tokenizer/compare.sh [STRINGS [KIND...]]      default: 100000 of all kinds; not part of `make test`
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/moec_tokenizers}
export WORK
[ -d "$WORK/site/tokenizers" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$WORK/site" "tokenizers>=0.23,<0.24" sentencepiece
make "${BUILD:-build}/tests/unit/test_tokenizer" "${BUILD:-build}/moec"
PYTHONPATH=$WORK/site exec "${PYTHON:-python3}" tests/tokenizer/compare.py "$@"

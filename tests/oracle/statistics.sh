#!/bin/sh
# Installs SciPy into a folder of its own (WORK, /tmp/moec_scipy) and holds the committed statistics to it: see statistics.py.
# Not part of `make test`, whose unit/test_statistics holds ours to what is committed.
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/moec_scipy}
[ -d "$WORK/scipy" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$WORK" scipy
PYTHONPATH=$WORK exec "${PYTHON:-python3}" tests/oracle/statistics.py "$@"

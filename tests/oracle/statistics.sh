#!/bin/sh
# Installs SciPy and statsmodels into a separate folder (WORK, /tmp/moec_scipy) and compares the committed statistics: see statistics.py. Not
# part of `make test`; unit/test_statistics compares the results of moec with the committed numbers.
set -eu
cd "$(dirname "$0")/../.."
WORK=${WORK:-/tmp/moec_scipy}
[ -d "$WORK/statsmodels" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$WORK" scipy statsmodels
PYTHONPATH=$WORK exec "${PYTHON:-python3}" tests/oracle/statistics.py "$@"

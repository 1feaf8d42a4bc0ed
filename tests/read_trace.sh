#!/bin/sh
# Installs Perfetto into a separate folder (WORK, /tmp/moec_perfetto) and reads traces of `moec bench` with its trace processor, which
# it downloads. Not part of `make test`; see read_trace.py.
PACKAGES=${WORK:-/tmp/moec_perfetto}
. "$(dirname "$0")/begin.sh"
[ -d "$PACKAGES/perfetto" ] || "${PYTHON:-python3}" -m pip install --quiet --target "$PACKAGES" perfetto
PYTHONPATH=$PACKAGES
export PYTHONPATH
small_model 4
moec bench "$work/small.moe" --quick --trace "$work/cpu.json" --json >"$work/report"
"${PYTHON:-python3}" tests/read_trace.py "$work/cpu.json" "$work/report"
export MOEC_CUDA="$simulator" MOEC_SIM=unchecked
moec bench "$work/small.moe" --quick --device cuda --trace "$work/gpu.json" --json >"$work/report"
"${PYTHON:-python3}" tests/read_trace.py "$work/gpu.json" "$work/report"

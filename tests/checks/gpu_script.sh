#!/bin/sh
# tests/gpu.sh runs to its end on the simulated driver, with tiny sizes: every part gives a row, and the report holds them.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no Python for the report" && exit 0; }
MOEC_CUDA=$BUILD/libmoec_sim.so MOEC_SIM=unchecked MOEC_CFLAGS=-O0 QUICK=1 MODELS=layers.moe:even SECONDS_IN_ALL=850 \
    tests/gpu.sh "$work" >"$work/out" 2>&1 || { cat "$work/out" && exit 1; }

wrong() {
    cat "$work/report.md"
    echo "$*"
    exit 1
}
grep -q '^2 of 2 programs were compared .* 0 disagree' "$work/report.md" || wrong "not everything was compared"
grep -q 'Two runs: the same bits' "$work/report.md" || wrong "two runs were not compared"
! grep -q 'not told' "$work/report.md" || wrong "a measurement is missing"
python3 - "$work/report.json" <<'END' || wrong "the figures are not all there"
import json, sys
report = json.load(open(sys.argv[1]))
assert len(report["speeds"]) == 8 and all(row["result"]["kernels"] for row in report["speeds"])
assert len(report["targets"]) == 9 and sum(row["measured"] is not None for row in report["targets"]) == 7
END

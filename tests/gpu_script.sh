#!/bin/sh
# The folder of `make gpu-kit` runs tests/gpu.sh to its end on the simulated driver with tiny sizes. Every stage writes its
# rows, and the report contains them. A stage that exceeds its time limit is stopped and reported, and its results so far are
# kept.
#
#   tests/gpu_script.sh        without `steps` and `large`, which differ from `kernels` only in their sizes
#   tests/gpu_script.sh all
. "$(dirname "$0")/begin.sh"
stages="units first bits nccl memory models kernels start heads" speeds=6 kernels=6 measured=5
[ "${1:-}" != all ] || stages="units first bits nccl memory models kernels steps start heads large" speeds=13 kernels=7 measured=7
export stages speeds kernels measured
command -v python3 >/dev/null || { echo "no Python for the report" && exit 0; }
make -s KIT="$work/kit" gpu-kit >"$work/make" 2>&1 || { cat "$work/make"; exit 1; }
cd "$work/kit"
! ldd build/moec | grep -E 'jansson|dnnl|pcre' || wrong "the kit needs libraries that are not on a bare machine"
[ "$(du -sm . | cut -f1)" -lt 40 ] || wrong "the kit is larger than 40 MB"
unset BUILD
export MOEC_CUDA="$simulator" MOEC_NCCL="$simulator" MOEC_SIM=unchecked,hopper MOEC_CFLAGS=-O0 QUICK=1 MODELS=layers.moe:even
# shellcheck disable=SC2086 # several words
tests/gpu.sh -o "$work/all" $stages >"$work/out" 2>&1 || { cat "$work/out" "$work/all/report.md" && exit 1; }

report=$work/all/report.md
wrong() {
    cat "$report"
    echo "$*"
    exit 1
}
grep -q '^7 of 7 programs were compared .* 0 disagree' "$report" || wrong "not every program was compared"
grep -q '^## 32/4/16 and 32/16/16 heads' "$report" || wrong "the heads are not compared"
grep -q '^2 of 2 unit tests passed' "$report" || wrong "the unit tests did not run"
grep -q 'Two runs: the same ' "$report" || wrong "two runs were not compared"
! grep -q 'not reported' "$report" || wrong "a measurement is missing"
! grep -q 'stopped at its time limit' "$report" || wrong "a stage did not finish"
python3 - "$work/all/report.json" <<'END' || wrong "figures are missing"
import json, os, sys
report = json.load(open(sys.argv[1]))
assert [row["stage"] for row in report["stages"]] == os.environ["stages"].split()
speeds = report["speeds"]
assert len(speeds) == int(os.environ["speeds"]) and sum("kernels" in row["result"] for row in speeds) == int(os.environ["kernels"])
assert len(report["starts"]) == 1 and all(row["result"]["start_cold_seconds"] > 0 for row in report["starts"])
assert len(report["targets"]) == 11 and sum(row["measured"] is not None for row in report["targets"]) == int(os.environ["measured"])
END

CLOCK_kernels=3 tests/gpu.sh -o "$work/cut" kernels >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
report=$work/cut/report.md
grep -q '^| kernels | stopped at its time limit' "$report" || wrong "the report does not name the stopped stage"
PYTHON=none MOEC_CUDA="$work/no_driver" tests/gpu.sh -o "$work/bad" models >"$work/out" 2>&1 && wrong "failures are not counted without Python"
grep -q '2 programs do not agree or did not run' "$work/out" || wrong "failures are not reported without Python"
tests/gpu.sh -o "$work/none" nonsense >/dev/null 2>&1 && wrong "an unknown stage is accepted"
[ ! -e "$work/none" ] || wrong "wrong usage creates a folder"

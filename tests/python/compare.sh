#!/bin/sh
# The Python package, installed by pip into FOLDER (default build/python): wrong arguments of every function; threads, processes
# and signals; arrays without copies; logs. A gated attention layer of the standard library in a PyTorch model must train like
# the same layer in PyTorch, and faster. Not part of `make test`.
#
#   tests/python/compare.sh [FOLDER]
. "$(dirname "$0")/../begin.sh"
packages=${1:-build/python}
[ -e "$packages/bin/python" ] || {
    python3 -m venv "$packages"
    "$packages/bin/pip" install -q numpy pandas torch --extra-index-url https://download.pytorch.org/whl/cpu
}
cp -r runtime/python "$work/package"
"$packages/bin/pip" install -q "$work/package"
small_model 40
moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
export MOEC_LIBRARY="$BUILD/libmoec.so"
"$packages/bin/python" tests/python/wrong_arguments.py "$work"
OMP_NUM_THREADS=2 "$packages/bin/python" tests/python/concurrency.py "$work"
"$packages/bin/python" tests/python/compare.py "$work"

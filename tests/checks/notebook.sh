#!/bin/sh
# Runs, comparisons and specs of the Python package as HTML, and the cell magic, with plain Python. tests/python/notebook.sh runs a
# notebook in Jupyter.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
root=$PWD
small_model 12
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
cd "$work"
sed -i 's/steps = 12/&, eval_interval = 4/' small.moe
moec train small.moe --data text --out one -q >out 2>&1 || wrong "$(cat out)"
moec train small.moe --data text --out two -q --set train.lr=1e-3 >out 2>&1 || wrong "$(cat out)"
python3 -c 'import numpy' 2>/dev/null || packages=:$root/tests/stand_in
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/runtime/python${packages:-} MOEC_LIBRARY=$BUILD/libmoec.so \
    python3 "$root/tests/notebook.py" small.moe one two >printed 2>&1 || wrong "$(cat printed)"
grep -q "^-:[0-9]*:[0-9]*: error.*has no option 'layer_s'" printed && grep -q "did you mean 'layers'" printed || wrong "$(cat printed)"

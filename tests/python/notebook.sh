#!/bin/sh
# A notebook in Jupyter: %load_ext moec, %%moe, a run, a comparison and a model, with the HTML of each cell. nbclient, IPython and NumPy
# are installed by pip into FOLDER (default build/notebook). Not part of `make test`.
#
#   tests/python/notebook.sh [FOLDER]
. "$(dirname "$0")/../begin.sh"
packages=${1:-build/notebook}
[ -e "$packages/bin/python" ] || python3 -m venv "$packages"
"$packages/bin/python" -c 'import ipykernel, nbclient, numpy' 2>/dev/null || "$packages/bin/pip" install -q ipython ipykernel nbclient numpy
small_model 12
export MOEC_LIBRARY="$BUILD/libmoec.so" PYTHONPATH="$PWD/runtime/python" PYTHONDONTWRITEBYTECODE=1
"$packages/bin/python" tests/python/notebook.py "$work"
# The quick test again, with arrays.
(cd "$work" && for lr in 1e-2 1e-3; do moec train small.moe --data text --out "run$lr" -q --set train.lr=$lr --set train.eval_interval=4 >log 2>&1; done)
"$packages/bin/python" tests/notebook.py "$work/small.moe" "$work/run1e-2" "$work/run1e-3"

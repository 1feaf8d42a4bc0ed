#!/bin/sh
# Models on the simulated CUDA device beside their definition: outputs, every gradient by name, decoding token by token; f32
# within 1e-5 (gradients 1e-4), bf16 within twice what rounding alone costs (`moec compare`).
#
#   tests/checks/cuda_models.sh          all models of tests/layers.moe, every eighth small one of models/
#   tests/checks/cuda_models.sh all      all of both; minutes
#   tests/checks/cuda_models.sh WORD...  those whose FILE:MODEL contains a word
#
# Kernels run without the simulator's checks of every access, which unit/test_emit_cuda.c has. JOBS: so many at a time.
# With MOEC_CUDA set to something else than the simulator, say to "", this is a test of that device.
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
PATH=$BUILD:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=$work
MOEC_CFLAGS=-O0
MOEC_SIM=unchecked
MOEC_CUDA=${MOEC_CUDA-$BUILD/libmoec_sim.so}
OMP_NUM_THREADS=1
export PATH XDG_CACHE_HOME MOEC_CFLAGS MOEC_SIM MOEC_CUDA OMP_NUM_THREADS

models_of() { sed -n "s/^model \([a-z0-9_]*$2[a-z0-9_]*\) = .*/\1/p" "$1" | sed "s|^|$1:|"; }
small() {
    for family in gated_attention sigma structmoe complete_mue dit; do
        models_of models/$family.moe _small
    done
}
tiny() { models_of models/tiny.moe ""; }
layers() { models_of tests/layers.moe ""; }

case ${1:-} in
all) layers && tiny && small ;;
"") layers && { tiny && small; } | awk 'NR % 8 == 1' ;;
*)
    for word; do { layers && tiny && small; } | grep -F -e "$word"; done
    ;;
esac >"$work/models"
[ -s "$work/models" ] || { echo "no such model" && exit 2; }

# Those of tiny.moe are small enough to train, not to be simulated in a moment.
cat >"$work/one" <<'END'
case $1 in models/tiny.moe:*) sets="--set dim=48 --set layers=2" ;; esac
moec compare "$1" --device cuda --set train.precision=$2 ${sets:-} >"$3/$$" 2>&1 || touch "$3/failed"
cat "$3/$$"
END
while read -r model; do printf '%s f32\n%s bf16\n' "$model" "$model"; done <"$work/models" |
    xargs -P "${JOBS:-$(nproc)}" -I '{}' sh -c "sh '$work/one' {} '$work'"
[ ! -e "$work/failed" ]

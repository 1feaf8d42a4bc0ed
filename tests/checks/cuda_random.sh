#!/bin/sh
# Random models on the simulated CUDA device beside their meaning, as unit/test_models.c does it on the CPU: outputs, gradients,
# states, optimizer steps, decoding. MOEC_MODELS=500 MOEC_SEED=1000 tests/checks/cuda_random.sh: that many, from that seed.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MOEC_DEVICE=cuda MOEC_CUDA="$BUILD/libmoec_sim.so" MOEC_SIM=unchecked MOEC_CFLAGS=-O0 XDG_CACHE_HOME="$work" OMP_NUM_THREADS=1
MOEC_MODELS=${MOEC_MODELS:-20} "$BUILD/tests/unit/test_models"

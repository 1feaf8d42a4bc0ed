#!/bin/sh
# Published systems on the simulated CUDA device beside PyTorch's numbers (tests/oracle/): logits, loss, every gradient by
# name, decoding, ten steps of the optimizer, as unit/test_oracle.c has it on the CPU.
#
#   tests/checks/cuda_oracle.sh          one row of each idea
#   tests/checks/cuda_oracle.sh all      every row; minutes
#   tests/checks/cuda_oracle.sh ROW...   those
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MOEC_DEVICE=cuda MOEC_CUDA="$BUILD/libmoec_sim.so" MOEC_SIM=unchecked MOEC_CFLAGS=-O0 XDG_CACHE_HOME="$work" OMP_NUM_THREADS=1
case ${1:-} in
all) set -- ;;
"") set -- moe_small_sdpa sigma_small structmoe_small_top2 mue_small_e16a8g4s1 dit_small_e8a3s1 ;;
esac
"$BUILD/tests/unit/test_oracle" compiled "$@"

#!/bin/sh
# Random models on the simulated CUDA device beside their meaning, as unit/test_models.c does it on the CPU: outputs, gradients,
# states, optimizer steps, decoding. MOEC_MODELS=500 MOEC_SEED=1000 tests/checks/cuda_random.sh: that many, from that seed.
. "$(dirname "$0")/../begin.sh"
on_simulator
MOEC_MODELS=${MOEC_MODELS:-8} "$BUILD/tests/unit/test_models"

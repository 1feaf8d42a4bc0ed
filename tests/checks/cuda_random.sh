#!/bin/sh
# Random models on the simulated CUDA device against the interpreter, as in unit/test_models.c on the CPU: outputs, gradients,
# states, optimizer steps, decoding. MOEC_MODELS and MOEC_SEED set their number and the first seed.
. "$(dirname "$0")/../begin.sh"
on_simulator
MOEC_MODELS=${MOEC_MODELS:-8} "$BUILD/tests/unit/test_models"

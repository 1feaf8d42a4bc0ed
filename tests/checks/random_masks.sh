#!/bin/sh
# Random models whose sums select entries by masks of any equations, compared with the interpreter; a few of them on the simulated
# device. Masks on the rows of other masks are among them. For 1,000 models, and how many of each form run on rows: tests/long.sh
# random_masks.
. "$(dirname "$0")/../begin.sh"
MOEC_MODELS=${MOEC_MODELS:-8} MOEC_SEED=100 "$BUILD/tests/unit/test_models" masks
on_simulator
MOEC_MODELS=2 MOEC_SEED=270 "$BUILD/tests/unit/test_models" masks

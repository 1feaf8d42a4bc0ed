#!/bin/sh
# Random models of all statement forms with affine subscripts, compared with the interpreter and, for derivatives, with differences
# of the loss; a few of them on the simulated device. For more: tests/long.sh random_forms.
. "$(dirname "$0")/../begin.sh"
MOEC_MODELS=${MOEC_MODELS:-50} "$BUILD/tests/unit/test_models" forms
on_simulator
MOEC_MODELS=4 MOEC_SEED=501 "$BUILD/tests/unit/test_models" forms

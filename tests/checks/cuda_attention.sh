#!/bin/sh
# Attention on the simulated device against the interpreter: forward, backward and a training step, in f32 and bf16. The models
# of tests/attention.moe have every mask, biases, several head counts and widths; one and two tiles per warp. Decoding of several
# positions at once.
set -eu
check() {
    printf '%s: ' "$*"
    "$BUILD/tests/unit/test_emit_cuda" tests/attention.moe "$@"
}
check masks train train.precision=bf16
check masks train train.precision=f32
check biases train train.precision=bf16
check biases train train.precision=f32
MOEC_SIM=unchecked
export MOEC_SIM
check masks train train.precision=bf16 train.context_length=110 train.batch_size=1
check widths train train.precision=bf16 train.context_length=33
check widths train train.precision=f32 train.batch_size=1
# With warpgroups, every access checked.
VARIANT=_wgmma MOEC_SIM=hopper
export VARIANT MOEC_SIM
check masks train train.precision=bf16 train.context_length=140 train.batch_size=1
check widths train train.precision=bf16 train.context_length=90 train.batch_size=1
check groups train train.precision=bf16
# Two blocks per multiprocessor, and one.
check groups train train.precision=bf16 train.context_length=256
VARIANT=_wide check groups train train.precision=bf16 train.context_length=256
printf 'what the store computes: '
"$BUILD/tests/unit/test_emit_cuda" models/tiny.moe tiny_sdpa_gate train dim=24 layers=2 vocab=19 train.batch_size=1 train.context_length=70 \
    train.precision=bf16
unset VARIANT
MOEC_SIM=unchecked
for POSITION in 0 77 299; do
    export POSITION
    check steps decode train.precision=bf16
done
check steps decode train.precision=f32

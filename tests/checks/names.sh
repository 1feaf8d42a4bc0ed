#!/bin/sh
# Names in a spec never collide with names of the generated code, of C or of CUDA. Every identifier of generated programs and
# their headers is used as the name of an object. The objects are parameters, states, tensors, probes, axes, indices,
# applications, optimizer states, schedule tensors, outputs, options, layers, models, inputs and repeats. The models run on the
# CPU and on the simulated device and are compared with their definition.
#
#   tests/checks/names.sh        each in one role; on the CPU, names of loop/names.c and lower-case macros in two roles
#   tests/checks/names.sh all    each in every role on both
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0

printf '#include "kernels.h"\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n' >"$work/headers.c"
headers() { "${CC:-cc}" -std=gnu11 -fopenmp -Iruntime/kernels -Iruntime/abi -E "$@" "$work/headers.c"; }
identifiers() { grep -oE '\b[A-Za-z_][A-Za-z0-9_]*' | sort -u; }
{
    headers -dM | sed 's/^#define \([A-Za-z0-9_]*\).*/\1/'
    headers | grep -v '^#'
    cat generated/*.c runtime/abi/abi.h runtime/kernels/*.h
} | identifiers >"$work/c"
cat generated/*.cu runtime/kernels/cuda/*.cuh runtime/device/sim/cuda_sim.h compiler/loop/names.c | identifiers >"$work/cuda"

{
    grep -oE -h '"[a-z_][A-Za-z0-9_]*"' compiler/loop/names.c compiler/lower/lower_names.c
    headers -dM | sed 's/^#define \([A-Za-z0-9_]*\).*/\1/' | grep '^[a-z]' | grep -v moec
    echo loss_scale position seed threads host weights inputs outputs arena cache
} | identifiers >"$work/words"

# try DEVICE NAMES ROTATION...: a spec per 300 names and rotation; without rotations, one that depends on the names.
try() {
    device=$1 names=$2 number=0
    shift 2
    rm -f "$work"/part.*
    grep -vxE "$(sed -n '/^static const Keyword/,/};/p' compiler/syntax/lexer.l | grep -oE '"[a-z]+"' | tr -d '"' | paste -sd'|')" "$names" |
        grep -vxE '[xp][0-9]+_|x0|given_|in_|out_|at_|of_|dd|vv|ss|toks|goals|wte|logits|whole|scaled|kept|slow|batch|last|rms_norm' |
        split -l 300 - "$work/part."
    for part in "$work"/part.*; do
        number=$((number + 1))
        for rotation in ${*:-$number}; do
            awk -v rotation="$rotation" -f tests/checks/names.awk "$part" >"$work/names.moe"
            moec verify "$work/names.moe" --device "$device" >"$work/out" 2>&1 && grep -q outputs "$work/out" ||
                wrong "$device, rotation $rotation of $part ($(head -1 "$part") to $(tail -1 "$part")): $(cut -c1-300 "$work/out" | head -20)"
        done
    done
}

roles="0 8" some=
[ "${1:-}" != all ] || roles=$(seq 0 14) some=$(seq 0 14)
try cpu "$work/words" $roles
try cpu "$work/c" $some
on_simulator
try cuda "$work/words" $some
try cuda "$work/cuda" $some

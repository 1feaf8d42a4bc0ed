#!/bin/sh
# tests/small_models.sh [WORD...]: prints the models that are compared on devices, one per line: FILE:MODEL and options that
# make it small. They are the models of tests/layers.moe and models/tiny.moe, one of tests/gpu.moe, every published row at its
# small size, and the ideas of tests/ideas.moe and tests/ideas_blocks.moe. With WORDs, only lines that contain one of them.
set -eu
cd "$(dirname "$0")/.."

models_of() { sed -n "s/^model \([a-z0-9_]*$2[a-z0-9_]*\) = .*/\1/p" "$1" | sed "s|^|$1:|; s|\$|${3:-}|"; }
all() {
    models_of tests/layers.moe ""
    models_of models/tiny.moe "" " --set dim=48 --set layers=2 -b 2 -c 12"
    models_of tests/gpu.moe _experts
    for family in gated_attention sigma structmoe complete_mue dit; do
        models_of models/$family.moe _small " -b 2 -c 12"
    done
    models_of tests/ideas.moe ""
    models_of tests/ideas_blocks.moe ""
}

if [ $# = 0 ]; then all; else for word; do all | grep -F -e "$word" || true; done; fi

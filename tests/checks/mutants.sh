#!/bin/sh
# A few mutated specs and hostile files with a fixed seed: no crash, no internal error, no excessive time. For more:
# tests/fuzz/run specs, tests/fuzz/run files.
. "$(dirname "$0")/../begin.sh"
FOUND=$work/specs "$BUILD/tests/fuzz/mutate_specs" --texts few --seed 1 --count 60
MOEC=$BUILD/moec "$BUILD/tests/fuzz/mutate_files" --seed 1 --count 12

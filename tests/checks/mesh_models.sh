#!/bin/sh
# Programs of all processes of a mesh against the global program, both in the interpreter: random models on random meshes, and
# published mixtures. Experts are divided in some of the random models. For more: tests/mesh_models.sh, tests/long.sh mesh_models.
. "$(dirname "$0")/../begin.sh"
models=${MOEC_MODELS:-16}
MOEC_MODELS=$models MOEC_SEED=500 "$BUILD/tests/unit/test_models" mesh >"$work/random" 2>/dev/null || wrong "$(cat "$work/random")"
grep -q '^[1-9][0-9]* models with divided experts, 0 refused; [1-9][0-9]* collectives$' "$work/random" || wrong "$(cat "$work/random")"
for kind in forms recurrences; do
    MOEC_MODELS=$((models / 4)) "$BUILD/tests/unit/test_models" mesh $kind >"$work/random" 2>/dev/null || wrong "$(cat "$work/random")"
done
found=$(tests/mesh_models.sh data=4,expert=2 moe:tiny_moe moe:tiny_sigmoid moe:mixture_nodes)
[ "$found" = "3 agree" ] || wrong "$found"

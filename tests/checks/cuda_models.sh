#!/bin/sh
# Models on the simulated CUDA device against their definition: outputs, every gradient by name, decoding token by token. The
# limits are 1e-5 in f32 (gradients 1e-4), and twice the effect of rounding in bf16 (`moec verify`).
#
#   tests/checks/cuda_models.sh          every sixth model of tests/layers.moe (half of them in bf16) and of tests/ideas.moe,
#                                        every 48th small one of models/, top-k values, some with smaller caches
#   tests/checks/cuda_models.sh all      all of both; minutes
#   tests/checks/cuda_models.sh WORD...  models whose FILE:MODEL contains one of the words
#
# The simulator does not check each access, which unit/test_emit_cuda.c tests. JOBS: number of parallel processes. With
# MOEC_CUDA set to another driver, also if empty, this tests that device.
. "$(dirname "$0")/../begin.sh"
set +e
JOBS=${JOBS:-$(nproc)} # before OMP_NUM_THREADS, which changes the result of nproc
on_simulator

case ${1:-} in
all) tests/small_models.sh ;;
"")
    tests/small_models.sh | awk '
        /layers.moe:gates_two/ { $0 = $0 " --set inference.kv_cache_dtype=bf16" }
        /layers.moe:(documents|pattern)$|gqa4_small_best/ { $0 = $0 " --set inference.kv_cache_dtype=int8" }
        /layers.moe|ideas/ ? NR % 6 == 1 : NR % 48 == 1 || /gqa4_small_best/'
    ;;
*) tests/small_models.sh "$@" ;;
esac >"$work/models"
[ -s "$work/models" ] || { echo "no such model" && exit 2; }

# ONE PRECISION MODEL [OPTION...]: with fewer tokens if some selections are close to a tie.
cat >"$work/one" <<'END'
precision=$1
shift
compare() { moec verify "$@" --device cuda --set train.precision="$precision" >"$work/$$" 2>&1 && grep -q outputs "$work/$$"; }
compare "$@" || { grep -q 'or fewer tokens' "$work/$$" && compare "$@" -b 1 -c 5; } ||
    { touch "$work/failed" && echo "failed: $*"; }
cat "$work/$$"
END
export work
[ $# = 0 ] && few=1 || few=0
awk -v few="$few" '{ print "f32", $0 } !few || !/layers.moe/ || NR % 2 == 1 { print "bf16", $0 }' "$work/models" |
    xargs -P "$JOBS" -I '{}' sh -c "sh '$work/one' {}"
[ ! -e "$work/failed" ]

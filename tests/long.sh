#!/bin/sh
# tests/long.sh [WORD...]: runs the tests that are too long for tests/run one after the other, or those whose line contains a WORD.
# Prints the start time, name and command of each, then its result and its duration. The output of a failed test follows. The last
# line is `N passed, N failed`. `make test-all` runs tests/run first; .ci/run includes the first two tests.
#
# A test is one line of the list below: NAME COMMAND. Nothing here needs a GPU; torch_models installs
# PyTorch from a package index unless build/torch has it. Duration: some hours on two cores.
. "$(dirname "$0")/begin.sh"
unit=$BUILD/tests/unit
cat >"$work/list" <<END
slow_tests tests/run -s
published_rows $unit/test_oracle meaning
more_models MOEC_SEED=17 MOEC_MODELS=14 $unit/test_models
more_programs MOEC_SEED=12 MOEC_PROGRAMS=12 $unit/test_emit
compare_models tests/compare_models.sh
random_models MOEC_SEED=7000 MOEC_MODELS=2000 $unit/test_models
random_recurrences MOEC_MODELS=500 $unit/test_models recurrences
random_meshes MOEC_MODELS=2000 $unit/test_models mesh
random_mesh_forms MOEC_MODELS=1000 $unit/test_models mesh forms
random_mesh_recurrences MOEC_MODELS=200 $unit/test_models mesh recurrences
mesh_models tests/mesh_models.sh data=2
mesh_models_two tests/mesh_models.sh data=4,expert=2
mesh_models_four tests/mesh_models.sh data=4,expert=4
random_programs MOEC_SEED=1 MOEC_PROGRAMS=2000 $unit/test_emit
random_programs_device MOEC_SEED=1 MOEC_PROGRAMS=300 $unit/test_emit_cuda
random_forms MOEC_SEED=10001 MOEC_MODELS=2000 $unit/test_models forms
random_forms_device MOEC_CUDA=$BUILD/libmoec_sim.so MOEC_DEVICE=cuda MOEC_SEED=5000 MOEC_MODELS=300 $unit/test_models forms
random_masks MOEC_MODELS=1000 $unit/test_models masks
random_masks_device MOEC_CUDA=$BUILD/libmoec_sim.so MOEC_DEVICE=cuda MOEC_MODELS=100 $unit/test_models masks
random_emitted tests/random_emitted.sh 60
freestanding tests/freestanding.sh
web tests/web.sh
recurrences tests/checks/recurrences.sh all
bf16 tests/checks/bf16.sh all
products tests/checks/products.sh all
names tests/checks/names.sh all
cuda_models tests/checks/cuda_models.sh all
cuda_oracle tests/checks/cuda_oracle.sh all
ideas tests/checks/ideas.sh all
fresh_ideas tests/checks/fresh_ideas.sh all
gpu_script tests/gpu_script.sh all
planted tests/planted.sh
new_kernel tests/new_kernel.sh
checks_fail tests/checks_fail.sh
analyze tests/analyze.sh
clang make -s -j2 CC=clang WERROR=1 BUILD=build/with_clang all units
docs tests/docs.sh
torch_models FULL=1 tests/transformers/torch_models.sh
tsan tests/tsan.sh
tsan_library tests/tsan_library.sh
serve_claims tests/serve/claims.sh
kill tests/kill.sh 10
mesh_bits tests/mesh.sh bits
mesh_experts tests/mesh.sh experts
mesh_devices tests/mesh.sh devices
mesh_plain tests/mesh.sh plain
mesh_fast tests/mesh.sh fast
mesh_kills tests/mesh.sh kills
mesh_cost tests/bench/mesh.sh
mesh_overlap tests/bench/mesh_overlap.sh
mesh_equations tests/checks/mesh_equations.sh all
mesh_memory tests/mesh_memory.sh
mesh_hosts tests/mesh_hosts.sh
sweep_kill tests/sweep_kill.sh 3
mutated_specs tests/fuzz/run specs 1200 7
mutated_files tests/fuzz/run files 1200 7
END

passed=0 failed=0
while read -r name command; do
    if [ $# -gt 0 ]; then
        wanted=
        for word; do case "$name $command" in *"$word"*) wanted=1 ;; esac; done
        [ -n "$wanted" ] || continue
    fi
    echo "$(date '+%F %T') $name: $command"
    start=$(date +%s) code=0
    sh -c "$command" >"$work/output" 2>&1 </dev/null || code=$?
    seconds=$(($(date +%s) - start))
    if [ $code = 0 ]; then
        passed=$((passed + 1))
        tail -n "$([ "$name" = compare_models ] && echo 100 || echo 1)" "$work/output"
        echo "$(date '+%F %T') $name: passed after $seconds s"
    else
        failed=$((failed + 1))
        cat "$work/output"
        echo "$(date '+%F %T') $name: FAILED with exit code $code after $seconds s"
    fi
done <"$work/list"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]

#!/bin/sh
# Ideas of 2025 and 2026, tests/ideas.moe and tests/ideas_blocks.moe: each has at most 40 lines, is accepted, and decodes except for
# those named below. Compiled models are compared with their definition (losses, gradients, states, decoding token by token), then
# trained for a few steps, in two parts. Every seventh model; `all`: every one. Gradients: unit/test_layers.c. The simulated device:
# checks/cuda_models.sh. PyTorch: checks/torch.sh.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
seq 1 400 | tr '0-9\n' '\001-\013' >"$work/text" # tokens below 16
ahead='^(mixture_of_sparse_attention|expert_race)$'
undecoded="^(multi_token_attention|mixture_of_sparse_attention|expert_race)\$"

# check_one FILE:MODEL NAME
check_one() {
    moec check "$1" --json >"$work/output" 2>"$work/warned" || { cat "$work/warned"; wrong "$1 is rejected"; }
    found=$(grep -c 'depends on the tokens that it predicts' "$work/output" || true)
    expected=$(echo "$2" | grep -cE "$ahead" || true)
    [ "$found" = "$expected" ] || { cat "$work/output"; wrong "$1: $found warnings about later tokens, not $expected"; }
    found=$(grep -c '"derived": true' "$work/output" || true)
    expected=$(echo "$2" | grep -cvE "$undecoded" || true)
    [ "$found" = "$expected" ] || wrong "$1: decoding step derived: $found, not $expected"
}

# run_one FILE:MODEL
run_one() {
    moec verify "$1" >"$work/output" 2>&1 || { cat "$work/output"; wrong "$1 differs from its definition"; }
    rm -rf "$work/run" "$work/parts"
    for run in 'run' 'parts --stop-after 2' 'parts --resume'; do
        # shellcheck disable=SC2086 # several words
        moec train "$1" --data "$work/text" --val-data "$work/text" --steps 4 -q --out "$work/"$run >"$work/log" 2>&1 ||
            { cat "$work/log"; wrong "$1 does not train"; }
    done
    cmp "$work/run/last.safetensors" "$work/parts/last.safetensors" || wrong "$1: a resumed run ends with other weights"
}

count=0
for file in tests/ideas.moe tests/ideas_blocks.moe; do
    moec fmt --check "$file"
    awk '/^#/ && !start { start = FNR }
        /^model / && start { if (FNR - start >= 40) { print FILENAME ":" start ": more than 40 lines"; wrong = 1 }; start = 0 }
        END { exit wrong }' "$file"
    for model in $(sed -n 's/^model \([a-z0-9_]*\) =.*/\1/p' "$file"); do
        check_one "$file:$model" "$model"
        [ "${1:-}" != all ] && [ $((count % 7)) != 0 ] || run_one "$file:$model"
        count=$((count + 1))
    done
done
[ "$count" -ge 40 ] || wrong "only $count models"

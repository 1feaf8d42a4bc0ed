#!/bin/sh
# tests/compare_models.sh [WORD...]: compares models with their definition (`moec verify`), all or those whose line contains a
# WORD: every model of models/, every idea, every layer of tests/layers.moe and tests/ideas.moe. Models of up to 3 million parameters run at their own
# batch and context, and with batch 2 at contexts of 64, 96, 128 and 192. Larger ones run with settings that make them small.
# Options that change the form of a program, and the simulated device, run on a few models.
#
# Prints each failure, the number of comparisons that reached each form of program (`moec verify --forms`), and last
# `N comparisons, N failed, N forms reached by none`. Fails when one of the last two is not 0. LIST=1 prints the lines alone.
# JOBS sets how many run at a time. Duration: about an hour on two cores.
. "$(dirname "$0")/begin.sh"
JOBS=${JOBS:-$(nproc)}
export MOEC_CFLAGS="${MOEC_CFLAGS--O1}" OMP_NUM_THREADS=1 work simulator
mkdir "$work/reports" "$work/logs"

# small FILE:MODEL: up to 3 million parameters.
small() {
    moec check "$1" --json | awk '/"total"/ { gsub(",", ""); exit !($2 <= 3000000) }'
}
# Each line: FILE:MODEL OPTION...
at_sizes() {
    echo "$1"
    for context in 64 96 128 192; do echo "$1 -b 2 -c $context"; done
}
# The first of these sizes that the model accepts.
shrunken() {
    for sizes in "--set vocab_size=256 --set attention.head_dim=16" "--set vocab_size=256" "--set attention.head_dim=16" ""; do
        sizes="--set dim=64 --set layers=2 $sizes"
        # shellcheck disable=SC2086 # several words
        moec check "$1" $sizes >/dev/null 2>&1 && break
    done
    echo "$1 -b 2 -c 16 $sizes"
}
models_of() { grep -o '^model [a-z0-9_]*' "$1" | cut -c7- | sed "s|^|$1:|"; }
sizes() {
    for file in models/*.moe examples/ideas/*.moe tests/layers.moe tests/ideas.moe tests/ideas_blocks.moe tests/forms.moe; do
        for model in $(models_of "$file"); do
            if small "$model"; then at_sizes "$model"; else shrunken "$model"; fi
        done
    done
}
options() {
    for model in models/hybrid.moe:hybrid_small models/hybrid.moe:mamba2_small models/hybrid.moe:rwkv7_small models/tiny.moe:tiny_moe \
        models/tiny.moe:tiny_lore models/gpt2.moe:gpt2; do
        for set in train.precision=bf16 train.activation_checkpointing=layer train.logits_chunk_size=32 train.scan_chunk_size=16 \
            train.scan_chunk_size=1 inference.weight_dtype=int8 inference.weight_dtype=bf16 inference.kv_cache_dtype=int8 \
            inference.kv_cache_dtype=bf16; do
            echo "$model -b 2 -c 80 --set dim=64 --set layers=4 --set vocab_size=256 --set $set"
        done
    done
    for model in hybrid_small retnet_small rwkv7_small gated_delta_small; do
        for shape in '16 --set train.scan_chunk_size=16' '72 --set train.scan_chunk_size=16' '72 --set train.scan_chunk_size=16 --set train.logits_chunk_size=1'; do
            echo "models/hybrid.moe:$model -b 2 -c $shape"
        done
    done
}
devices() {
    echo "tests/rows.moe:rows --device cuda"
    for precision in f32 bf16; do
        tests/small_models.sh | awk 'NR % 4 == 1' | sed "s/\$/ --device cuda --set train.precision=$precision/"
        for model in hybrid_small retnet_small gated_delta_small rwkv7_small; do
            echo "models/hybrid.moe:$model -b 2 -c 48 --device cuda --set train.scan_chunk_size=16 --set train.precision=$precision"
        done
    done
}
{
    sizes
    options
    devices
} >"$work/all"
if [ $# = 0 ]; then cp "$work/all" "$work/lines"; else for word; do grep -F -e "$word" "$work/all" || true; done >"$work/lines"; fi
[ -s "$work/lines" ] || wrong "no such model"
[ -z "${LIST:-}" ] || { cat "$work/lines"; exit 0; }

# With fewer tokens if some selections are close to a tie with every seed.
cat >"$work/one" <<'END'
number=$1
shift
export MOEC_CUDA=$simulator MOEC_SIM=unchecked
report=$work/reports/$number log=$work/logs/$number
compare() { timeout 1800 moec verify "$@" --forms --json >"$report" 2>"$log"; }
own() { sed -n 's/.*batch \([0-9]*\), context \([0-9]*\) (from train) needs about.*/-b \1 -c \2/p' "$log"; }
# A stated size has no time limit.
compare "$@" || { [ -n "$(own)" ] && compare "$@" $(own); } || { grep -q 'or fewer tokens' "$log" && compare "$@" -b 1 -c 5; } ||
    { mv "$report" "$report.failed" && echo "failed: moec verify $*" && cat "$log" "$report.failed"; }
END
awk '{ print NR, $0 }' "$work/lines" | xargs -P "$JOBS" -I '{}' sh -c "sh '$work/one' {}"

# Form: count.
count=$(wc -l <"$work/lines")
failed=$(find "$work/reports" -name '*.failed' | wc -l)
find "$work/reports" -type f ! -name '*.failed' -exec cat {} + | awk '
    /"forms": \{/ { forms = 1; next }
    /\}/ { forms = 0 }
    forms { split($0, part, "\""); reached[part[2]] += /true/ }
    END { for (form in reached) printf "%6d  %s\n", reached[form], form }' | sort -k2 >"$work/forms"
cat "$work/forms"
missed=$(awk '$1 == 0' "$work/forms" | wc -l)
echo "$count comparisons, $failed failed, $missed forms reached by none"
[ "$failed" = 0 ] && { [ $# -gt 0 ] || [ "$missed" = 0 ]; }

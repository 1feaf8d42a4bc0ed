#!/bin/sh
# bf16 products on the CPU: small models against their definition, with bf16 instructions, as pairs, and without either. A run
# that resumes in the other precision; the same bits on one and two threads; an emitted model; memory.
#
#   tests/checks/bf16.sh          small models of each kind
#   tests/checks/bf16.sh all      all models of tests/small_models.sh; minutes
. "$(dirname "$0")/../begin.sh"
export OMP_NUM_THREADS=1

case ${1:-} in
all) tests/small_models.sh ;;
*) tests/small_models.sh | awk '/models\/tiny.moe/ && NR % 6 == 1 || NR % 80 == 1 || /gqa4_small_best/' ;;
esac >"$work/models"

# As in cuda_models.sh: with fewer tokens if some selections are close to a tie.
compare() { moec verify "$@" --set train.precision=bf16 >"$work/out" 2>&1; }
while read -r model; do
    # shellcheck disable=SC2086
    compare $model || { grep -q 'or fewer tokens' "$work/out" && compare $model -b 1 -c 5; } ||
        wrong "$model: $(cat "$work/out")"
    grep -q 'products of bf16' "$work/out" || wrong "not rounded: $(cat "$work/out")"
done <"$work/models"

# As pairs if vectors support them, at any speed. Otherwise the results are the same, and a note reports it.
for flag in -DMOEC_FAST_PAIRS=1 -mno-avx512bf16; do
    [ "$(uname -m)" = x86_64 ] || break
    export MOEC_CFLAGS=$flag DNNL_MAX_CPU_ISA=AVX2
    for model in tiny tiny_moe; do
        compare models/tiny.moe:$model --set dim=48 --set layers=2 -b 2 -c 12 || wrong "$flag: $(cat "$work/out")"
        [ "$(grep -c 'products of bf16 (train.precision) save memory but no time' "$work/out")" = 1 ] || wrong "no note: $(cat "$work/out")"
    done
    unset MOEC_CFLAGS DNNL_MAX_CPU_ISA
done

# The plan is smaller, and checkpoints are those of f32.
small="models/tiny.moe:tiny_moe --set vocab_size=256 --set dim=48 --set layers=2 --set train.batch_size=4 --set train.context_length=64"
temporaries() { moec check $small --set train.precision=$1 --json | sed -n 's/.*"temporaries": *\([0-9]*\).*/\1/p'; }
[ "$(temporaries bf16)" -lt "$(temporaries f32)" ] || wrong "temporaries: bf16 $(temporaries bf16), f32 $(temporaries f32)"
cat stdlib/*.moe >"$work/text"
train() { # FOLDER PRECISION STEPS THREADS [OPTION...]
    folder=$1 precision=$2 steps=$3 threads=$4
    shift 4
    # shellcheck disable=SC2086
    OMP_NUM_THREADS=$threads moec train $small --set train.eval_interval=4 --data "$work/text" --out "$work/$folder" \
        --set train.precision=$precision --steps $steps "$@" >"$work/out" 2>&1 || wrong "training in $precision: $(cat "$work/out")"
}
train one bf16 4 1
grep -q 'tokens/s  bf16' "$work/out" || wrong "the progress line lacks the precision: $(cat "$work/out")"
train two bf16 4 2
cmp "$work/one/last.safetensors" "$work/two/last.safetensors" || wrong "one and two threads compute different bits"
train one f32 8 1 --resume
grep -q 'tokens/s  f32' "$work/out" || wrong "the progress line lacks the precision: $(cat "$work/out")"

# eval reports the cost of rounding as perplexity.
perplexity() { moec eval "$work/two" --data "$work/text" --set train.precision=$1 --json | sed -n 's/.*"perplexity": *\([0-9.e+]*\).*/\1/p'; }
awk -v a="$(perplexity f32)" -v b="$(perplexity bf16)" 'BEGIN { exit !(a > 1 && b / a < 1.01 && a / b < 1.01) }' ||
    wrong "perplexity: f32 $(perplexity f32), bf16 $(perplexity bf16)"

# The emitted program generates the text of `moec generate`.
hosted() { moec generate "$work/two" --prompt "layer " -n 24 --temperature 0 --set train.precision=bf16; }
hosted >"$work/hosted" || wrong "generating in bf16"
moec emit "$work/two" --mode decode --out "$work/c" --set train.precision=bf16
make -s -C "$work/c" CFLAGS="-O1 -march=native -Wall -Wextra -Werror" >"$work/out" 2>&1 || wrong "$(cat "$work/out")"
(cd "$work/c" && ./generate --prompt "layer " --tokens 24 --temperature 0) >"$work/emitted"
[ "$(cat "$work/hosted")" = "$(cat "$work/emitted")" ] || wrong "the emitted program generates another text"
moec emit "$work/two" --mode train --out "$work/t" --set train.precision=bf16
make -s -C "$work/t" CFLAGS="-O1 -march=native -Wall -Wextra -Werror" >"$work/out" 2>&1 || wrong "$(cat "$work/out")"
(cd "$work/t" && ./train --data "$work/text" --steps 3) | grep -q '^step 3 loss [0-9.]*$' || wrong "emitted training"

#!/bin/sh
# tests/random_emitted.sh [COUNT [SEED]]: random models of all statement forms as standalone C. Each is trained for five steps;
# the emitted training program must report the same losses, the emitted decoder must write the same text. Needs `make all units`.
# Not part of `make test`. Prints one line per difference, then `N passed, N failed`.
set -u
cd "$(dirname "$0")/.."
BUILD=${BUILD:-$PWD/build}
PATH=$BUILD:$PATH
export OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=${1:-50} seed=${2:-1}
passed=0 failed=0
cp stdlib/LANGUAGE.md "$work/text"

losses() { sed -n 's/.*"loss":[ ]*\([-+0-9.e]*\).*/\1/p' "$1"; }

# step COMMAND...: runs the command and keeps its output for the report of a failure.
step() { "$@" >"$work/output" 2>&1; }

# same_losses: the emitted training program against the log of the run.
same_losses() {
    step moec emit --force "$work/spec.moe" --target c --mode train --out "$work/train" &&
        step make -s -C "$work/train" CFLAGS="-O1 -march=native" &&
        (cd "$work/train" && ./train --data "$work/text" --steps 5) 2>&1 | sed -n 's/.* loss //p' >"$work/alone" &&
        losses "$work/run/log.jsonl" | paste - "$work/alone" | awk '
            { gap = $1 - $2; if (gap < 0) gap = -gap; if (NF != 2 || !(gap <= 1e-4 * $1)) bad = 1 }
            END { exit bad || NR != 5 }'
}

# same_text: the emitted decoder against `moec generate`; a model that cannot be decoded passes.
same_text() {
    moec check "$work/spec.moe" 2>/dev/null | grep -q '^  decoding  *not possible' && return
    step moec emit --force "$work/run" --target c --mode decode --out "$work/decode" &&
        step make -s -C "$work/decode" CFLAGS="-O1 -march=native" &&
        moec generate "$work/run" --prompt "The " -n 8 --temperature 0 >"$work/hosted" 2>"$work/output" &&
        "$work/decode/generate" --weights "$work/decode/weights.bin" --prompt "The " --tokens 8 >"$work/alone" 2>"$work/output" &&
        [ "$(cat "$work/hosted")" = "$(cat "$work/alone")" ]
}

end=$((seed + count))
while [ "$seed" -lt "$end" ]; do
    rm -rf "$work/run" "$work/train" "$work/decode"
    MOEC_SHOW=only MOEC_MODELS=1 MOEC_SEED=$seed "$BUILD/tests/unit/test_models" forms |
        sed '/^[0-9]* of [0-9]* models/,$d; s/^  axis v = .*/  axis v = 256/; s/context_length = [0-9]*/context_length = 16/; s/{ batch/{ steps = 5, eval_interval = 0, batch/' >"$work/spec.moe"
    if grep -q '^  input \(numbers\|source\|label\)' "$work/spec.moe"; then
        :
    elif step moec train "$work/spec.moe" --data "$work/text" --out "$work/run" && same_losses && same_text; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "seed $seed: the emitted program differs or a command failed:"
        tail -n 5 "$work/output"
    fi
    seed=$((seed + 1))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

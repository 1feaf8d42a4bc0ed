#!/bin/sh
# tests/models_train.sh [ROW...]: trains every small row of the published systems, or those, for 200 steps on the text of this
# repository, then resumes, generates, and builds what `moec emit` writes. By hand: it takes half an hour. `moec` on the PATH.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat compiler/*.c runtime/*.c >"$work/text"

loss() { sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$1" | "$2" -n 1; }

# An image model learns from images that examples/shapes.c draws, and draws some.
image_row() {
    name=$2 run=$work/$2
    moec train "models/dit.moe:$name" --data "$work/images" --out "$run" --steps 400 || return 1
    first=$(loss "$run/log.jsonl" head) last=$(loss "$run/log.jsonl" tail)
    awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a - 0.5) }' || { echo "the loss went from $first to $last"; return 1; }
    moec train "models/dit.moe:$name" --data "$work/images" --out "$run" --steps 420 --resume || return 1
    moec draw "$run" --out "$work/drawn" --count 4 || return 1
    "$work/shapes" show "$work/drawn"
}

# One row through all of it; the last line of what failed is shown.
row() {
    family=$1 name=$2 run=$work/$2
    moec train "models/$family.moe:$name" --data "$work/text" --out "$run" --steps 200 || return 1
    first=$(loss "$run/log.jsonl" head) last=$(loss "$run/log.jsonl" tail)
    awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a - 0.5) }' || { echo "the loss went from $first to $last"; return 1; }
    moec train "models/$family.moe:$name" --data "$work/text" --out "$run" --steps 220 --resume || return 1
    case $name in *_choice) return 0 ;; esac # experts that choose tokens do not decode
    moec generate "$run" --prompt "static int " --tokens 20 || return 1
    moec emit "$run" --target c --graph decode --out "$run/emitted" || return 1
    make -C "$run/emitted" || return 1
}

${CC:-cc} -O2 -o "$work/shapes" examples/shapes.c -lm
"$work/shapes" draw 4000 "$work/images"
passed=0 failed=0
for family in gated_attention sigma structmoe complete_mue dit; do
    for name in $(sed -n 's/^model  *\([a-z0-9_]*small[a-z0-9_]*\) .*/\1/p' "models/$family.moe"); do
        case " $* " in *" $name "*) ;; "  ") ;; *) continue ;; esac
        kind=row
        [ "$family" != dit ] || kind=image_row
        if $kind "$family" "$name" >"$work/log" 2>&1; then
            passed=$((passed + 1))
            echo "$name: loss $first -> $last"
        else
            failed=$((failed + 1))
            echo "$name: FAILED: $(tail -n 1 "$work/log")"
        fi
        rm -rf "${work:?}/$name"
    done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

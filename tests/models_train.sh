#!/bin/sh
# tests/models_train.sh [ROW...]: trains the small rows of the published systems, or only ROWs, for 200 steps. The data is the
# text of this repository, and for image rows the output of examples/shapes.c. The loss must fall. A run that is stopped and
# resumed must end in the same bytes. The output of `moec emit` must build, generate or sample the same as the command, and
# train the same. Models with expert-choice routing cannot decode; the test compares the message. Manual test: it runs for an
# hour. `moec` must be on the PATH.
. "$(dirname "$0")/begin.sh"
cat compiler/*/*.c runtime/*/*.c >"$work/text"

losses() { sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$1"; }

# The numbers of a safetensors file whose metadata is not longer than its header, one per line.
numbers() {
    header=$(od -An -tu8 -N8 "$1")
    tail -c +$((header + 9)) "$1" | od -An -v -w4 -tfF
}

# close LIMIT ONE OTHER: both files have the same count of numbers, which differ by at most LIMIT (relative above 1).
close() {
    paste "$2" "$3" | awk -v limit="$1" '
        function size(x) { return x < 0 ? -x : x }
        NF != 2 || size($1 - $2) > limit * (size($1) > 1 ? size($1) : 1) { bad = 1 }
        END { exit bad || NR == 0 }'
}

# Stopped in the middle and resumed: the same weights and optimizer state, bit by bit.
resumed() {
    model=$1 data=$2
    moec train "$model" --data "$data" --out "$row/again" --steps 200 &
    child=$!
    until [ -f "$row/again/log.jsonl" ] && [ "$(losses "$row/again/log.jsonl" | wc -l)" -ge 80 ]; do
        sleep 0.05
        kill -0 "$child" 2>/dev/null || break
    done
    code=0
    kill -TERM "$child" && wait "$child" || code=$?
    [ "$code" = 143 ] || wrong "a terminated run ends with $code"
    moec train "$model" --data "$data" --out "$row/again" --steps 200 --resume
    cmp "$row/run/last.safetensors" "$row/again/last.safetensors" || wrong "a resumed run ends with other weights"
}

build() { make -s -C "$1" CFLAGS="-O1 -march=native -Werror"; }

generates() {
    moec generate "$row/run" --prompt "static int " -n 20 --temperature 0 >"$row/hosted"
    moec emit --force "$row/run" --target c --mode decode --out "$row/c"
    build "$row/c"
    "$row/c/generate" --weights "$row/c/weights.bin" --prompt "static int " --tokens 20 --temperature 0 >"$row/alone"
    [ "$(cat "$row/hosted")" = "$(cat "$row/alone")" ] || wrong "the emitted program generates another text"
}

draws() {
    moec sample "$row/run" --out "$row/hosted" --count 6
    moec emit --force "$row/run" --target c --mode sample --out "$row/c"
    build "$row/c"
    "$row/c/draw" --weights "$row/c/weights.bin" --out "$row/alone" --count 6
    numbers "$row/hosted" >"$row/hosted.numbers"
    numbers "$row/alone" >"$row/alone.numbers"
    close 1e-4 "$row/hosted.numbers" "$row/alone.numbers" || wrong "the emitted program draws other images"
}

cannot_decode() {
    code=0
    moec generate "$row/run" --prompt "static int " 2>"$row/message" || code=$?
    [ "$code" = 1 ] || wrong "a model that cannot decode gives exit code $code"
    grep -q 'cannot decode: this compares all positions of the sequence' "$row/message" || wrong "the message does not say why it cannot decode"
}

trains_alone() {
    model=$1 data=$2
    moec train "$model" --data "$data" --out "$row/five" --steps 5
    moec emit --force "$model" --target c --mode train --out "$row/t"
    build "$row/t"
    (cd "$row/t" && ./train --data "$data" --steps 5) | sed 's/.* loss //' >"$row/alone"
    losses "$row/five/log.jsonl" >"$row/hosted"
    close 1e-4 "$row/hosted" "$row/alone" || wrong "the emitted program trains differently"
}

whole_row() {
    family=$1 name=$2 data=$work/text model=models/$1.moe:$2
    [ "$family" != dit ] || data=$work/images
    moec train "$model" --data "$data" --out "$row/run" --steps 200
    losses "$row/run/log.jsonl" | sed -n '1p;$p' | xargs >"$row/falls"
    awk '{ exit !($2 < $1 - 0.5) }' "$row/falls" || wrong "the loss went from $(cat "$row/falls")"
    resumed "$model" "$data"
    trains_alone "$model" "$data"
    case $family:$name in
    dit:*) draws ;;
    *_choice) cannot_decode ;;
    *) generates ;;
    esac
}

${CC:-cc} -O2 -o "$work/shapes" examples/shapes.c -lm
"$work/shapes" draw 4000 "$work/images"
passed=0 failed=0 row=$work/row
for family in gated_attention sigma structmoe complete_mue dit; do
    for name in $(sed -n 's/^model  *\([a-z0-9_]*small[a-z0-9_]*\) .*/\1/p' "models/$family.moe"); do
        case " $* " in *" $name "*) ;; "  ") ;; *) continue ;; esac
        rm -rf "$row"
        mkdir "$row"
        whole_row "$family" "$name" >"$work/log" 2>&1 & # where set -e holds
        if wait $!; then
            passed=$((passed + 1))
            echo "$name: loss $(sed 's/ / -> /' "$row/falls")"
        else
            failed=$((failed + 1))
            echo "$name: FAILED: $(tail -n 1 "$work/log")"
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/bin/sh
# CLI.md equals the output of the generator, groff accepts the man pages, shells parse the completion scripts, and every
# environment variable of the code is documented. UPDATE=1 writes CLI.md.
. "$(dirname "$0")/../begin.sh"
status=0

# page NAME: the man page of a command, without a warning of groff.
page() {
    moec reference man $1 >"$work/page.1" || wrong "moec reference man $1 ends with $?"
    grep -q '^\.TH ' "$work/page.1" || wrong "moec reference man $1 prints no page"
    ! command -v groff >/dev/null || groff -man -Tascii -ww "$work/page.1" >/dev/null 2>"$work/groff" && [ ! -s "$work/groff" ] ||
        wrong "man page of moec $1: $(cat "$work/groff")"
}

commands=$(moec help | sed -n 's/^  [A-Z][a-z]*: *//p')
[ "$(echo $commands | wc -w)" -ge 25 ] || wrong "moec help lists too few commands: $commands"
[ "$(moec help | wc -l)" -le 24 ] || wrong "moec help has more than 24 lines"
moec reference cli >"$work/CLI.md" || wrong "moec reference cli ends with $?"
if [ -n "${UPDATE:-}" ]; then cp "$work/CLI.md" runtime/CLI.md; fi
diff -u runtime/CLI.md "$work/CLI.md" >"$work/diff" || {
    head -20 "$work/diff"
    echo "run: UPDATE=1 sh tests/checks/reference.sh"
    status=1
}
page ""
for command in $commands; do
    page "$command"
    moec "$command" --help >"$work/help" || wrong "moec $command --help ends with $?"
    [ "$(grep -c "^  moec $command" "$work/help")" = 2 ] || wrong "moec $command --help has no two examples"
done
# Examples that read only specs of this repository run as they are printed.
for command in check plan doc dump transfer; do
    moec "$command" --help | sed -n "s/^  \(moec $command .*\)/\1/p" >"$work/examples"
    while read -r example; do
        sh -c "$example" >"$work/out" 2>&1 </dev/null && ! grep -q "no mesh can be used" "$work/out" ||
            wrong "$example: $(cat "$work/out")"
    done <"$work/examples"
done
for shell in bash zsh fish; do
    moec completion $shell >"$work/$shell" && [ -s "$work/$shell" ] || wrong "moec completion $shell prints nothing"
    ! command -v $shell >/dev/null || $shell -n "$work/$shell" || wrong "$shell does not parse its completion script"
done

# completes LINE EXPECTED...: bash offers these words, among others, at the end of the line.
completes() {
    line=$1
    shift
    bash -c '. "$0"; COMP_LINE=$1 COMP_POINT=${#1}; _moec; printf "%s\n" "${COMPREPLY[@]}"' "$work/bash" "$line" >"$work/words" 2>"$work/errors"
    for word; do grep -qxF -- "$word" "$work/words" || wrong "'$line' does not offer $word: $(cat "$work/words" "$work/errors")"; done
}
completes 'moec tr' train transfer
completes 'moec train x --st' --steps --stop-after
completes 'moec dump x --mode ' forward decode
completes 'moec check x --precision b' bf16
completes 'moec check models/tiny.moe --set train.l' train.lr=
completes 'moec train models/gpt2.moe:gpt2_s' gpt2_small
completes 'moec check models/gpt2.mo' models/gpt2.moe

# Every old flag is accepted, and the note names the new one.
moec reference renamed >"$work/renamed"
[ "$(wc -l <"$work/renamed")" -ge 45 ] || wrong "too few old flags: $(cat "$work/renamed")"
while read -r command old new; do
    moec "$command" "$old" >"$work/output" 2>&1 </dev/null && wrong "moec $command $old succeeds without an argument"
    grep -qE -- "error(\[E[0-9]*\])?: ($new requires a value|moec $command requires)" "$work/output" || wrong "moec $command $old: $(cat "$work/output")"
done <"$work/renamed"

# Every variable that the code reads is in the table, and each row of the table is read.
grep -rhoE '(getenv|environ.get|cuda_off|seconds_limit)\("[A-Z_]*"' compiler runtime --include='*.c' --include='*.py' | sed 's/.*"\(.*\)"/\1/' | sort -u >"$work/read"
sed -n '/^## Environment/,/^## Prec/s/^| `\([A-Z_]*\)` .*/\1/p' runtime/CLI.md | sort -u >"$work/listed"
grep -vxF -f "$work/listed" "$work/read" && wrong "these variables are not in runtime/tools/command/line/help.c"
grep -vxF -f "$work/read" "$work/listed" | grep -vx OMP_NUM_THREADS && wrong "nothing reads these variables"
exit $status

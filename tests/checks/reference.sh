#!/bin/sh
# CLI.md, the man pages and the completion scripts equal the output of the generator, shells parse the scripts, and every
# environment variable of the code is documented. UPDATE=1 writes the files.
. "$(dirname "$0")/../begin.sh"
man=runtime/tools/command/man scripts=runtime/tools/command/completion status=0

# same FILE COMMAND...: the file equals the output of the command.
same() {
    file=$1
    shift
    "$@" >"$work/made" || wrong "$* ends with $?"
    [ -s "$work/made" ] || wrong "$* prints nothing"
    if [ -n "${UPDATE:-}" ]; then cp "$work/made" "$file"; fi
    diff -u "$file" "$work/made" >"$work/diff" && return
    head -20 "$work/diff"
    echo "run: UPDATE=1 sh tests/checks/reference.sh"
    status=1
}

commands=$(moec help | sed -n 's/^  [A-Z][a-z]*: *//p')
[ "$(echo $commands | wc -w)" -ge 25 ] || wrong "moec help lists too few commands: $commands"
[ "$(moec help | wc -l)" -le 24 ] || wrong "moec help has more than 24 lines"
same runtime/CLI.md moec reference cli
same $man/moec.1 moec reference man
for command in $commands; do
    same "$man/moec-$command.1" moec reference man "$command"
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
for page in "$man"/moec-*.1; do
    name=${page##*/moec-}
    case " $(echo $commands) " in *" ${name%.1} "*) ;; *) wrong "$page is about no command" ;; esac
    ! command -v groff >/dev/null || groff -man -Tascii -ww "$page" >/dev/null 2>"$work/groff" && [ ! -s "$work/groff" ] || wrong "$page: $(cat "$work/groff")"
done
same $scripts/moec.bash moec completion bash
same $scripts/_moec moec completion zsh
same $scripts/moec.fish moec completion fish
bash -n $scripts/moec.bash || wrong "bash does not parse moec.bash"
! command -v zsh >/dev/null || zsh -n $scripts/_moec || wrong "zsh does not parse _moec"
! command -v fish >/dev/null || fish -n $scripts/moec.fish || wrong "fish does not parse moec.fish"

# completes LINE EXPECTED...: bash offers these words, among others, at the end of the line.
completes() {
    line=$1
    shift
    bash -c '. '"$scripts"'/moec.bash; COMP_LINE=$1 COMP_POINT=${#1}; _moec; printf "%s\n" "${COMPREPLY[@]}"' - "$line" >"$work/words" 2>"$work/errors"
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

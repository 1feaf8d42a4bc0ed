#!/bin/sh
# stdlib/OPTIONS.md and stdlib/BUILTINS.md equal the output of `moec doc --markdown`. UPDATE=1 writes them.
. "$(dirname "$0")/../begin.sh"
sign='<!-- Generated below this line'

# page FILE GROUP...: the head of the file up to the sign, then the groups.
page() {
    file=$1
    shift
    awk -v sign="$sign" '{ print } index($0, sign) == 1 { found = 1; exit } END { exit !found }' "$file" ||
        wrong "$file has no line '$sign'"
    for group in "$@"; do
        printf '\n'
        moec doc "$group" --markdown || wrong "moec doc $group fails"
    done
}

status=0
# holds FILE GROUP...: the file equals the page
holds() {
    page "$@" >"$work/page"
    [ "$(grep -cE '^(### |\| `.* \| `)' "$work/page")" -ge 30 ] || wrong "$1: fewer than 30 entries"
    if [ -n "${UPDATE:-}" ]; then cat "$work/page" >"$1"; fi
    diff -u "$1" "$work/page" || { echo "UPDATE=1 sh tests/checks/options.sh writes $1"; status=1; }
}

holds stdlib/OPTIONS.md layers optimizers schedules parametrizations
holds stdlib/BUILTINS.md functions
! grep -n '|  |$' stdlib/OPTIONS.md || wrong "an option has no text"
exit $status

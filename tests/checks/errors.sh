#!/bin/sh
# Every error message has a code in compiler/base/errors.def, and compiler/ERRORS.md is the page of those codes. UPDATE=1 assigns codes
# to new messages and writes the page.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
[ -z "${UPDATE:-}" ] || python3 tests/errors.py update
python3 tests/errors.py check || exit 1

# A code is printed as text and as JSON.
! moec doc no_such_name_anywhere >"$work/out" 2>&1 || wrong "moec doc accepts an unknown name"
grep -qF "error[E0001]: " "$work/out" || wrong "the message of E0001 has no code: $(cat "$work/out")"

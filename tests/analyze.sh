#!/bin/sh
# tests/analyze.sh [FILE...]: clang-tidy (.clang-tidy) and cppcheck over the C files of compiler/ and runtime/, or over FILE...
# Fails on a finding that is not in tests/analyze.known; UPDATE=1 writes that list. Duration: a minute on two cores. A tool that is
# not installed is reported and skipped.
. "$(dirname "$0")/begin.sh"
[ -e compile_commands.json ] || make -s compile_commands.json
if [ $# -gt 0 ]; then printf '%s\n' "$@"; else sed -n 's/.*"file": "\([^"]*\)".*/\1/p' compile_commands.json; fi >"$work/files"
: >"$work/found"
tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [ -n "$tidy" ]; then
    xargs -P "$(nproc)" -n 8 "$tidy" -quiet -p . <"$work/files" 2>/dev/null | sed "s|$PWD/||" |
        grep -E '^[a-z_/0-9]+\.[chly]:[0-9]+:[0-9]+: (error|warning): ' >>"$work/found" || true
else
    echo "clang-tidy is not installed: skipped"
fi
if command -v cppcheck >/dev/null; then
    xargs cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=0 -Icompiler -Iruntime -Iruntime/abi \
        --template='{file}:{line}:{column}: warning: {message} [cppcheck-{id}]' <"$work/files" 2>>"$work/found" || true
else
    echo "cppcheck is not installed: skipped"
fi
# Without line numbers: a finding stays the same when lines above it change.
sed -E 's/^([^:]*):[0-9]+:[0-9]+: [a-z]+: /\1: /; s/,-warnings-as-errors\]$/]/' "$work/found" | grep ' \[' | sort -u >"$work/now"
if [ -n "${UPDATE:-}" ]; then
    cp "$work/now" tests/analyze.known
    exit
fi
sort tests/analyze.known >"$work/known"
if comm -23 "$work/now" "$work/known" | grep .; then
    wrong "new findings; fix them, or UPDATE=1 tests/analyze.sh adds them to the list of known ones"
fi
echo "no new findings in $(wc -l <"$work/files") files; $(wc -l <"$work/known") are known"

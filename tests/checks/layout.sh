#!/bin/sh
# The format of the source: 100 columns, files of at most 700 lines, functions of at most 60 lines, and the format of
# clang-format 14 if it is installed. Tables of the grammar may have 128 columns. The functions of runtime/kernels/ may be
# longer.
. "$(dirname "$0")/../begin.sh"
git ls-files 'compiler/*.[chly]' 'compiler/*.def' 'runtime/*.[ch]' 'runtime/*.cu' 'runtime/*.cuh' 2>/dev/null >"$work/files" || :
[ -s "$work/files" ] || find compiler runtime -name '*.[chly]' -o -name '*.cu' -o -name '*.cuh' >"$work/files"
grep -v "\.def\$" "$work/files" >"$work/ours"
# A diagram in a comment is indented by five columns and keeps its own lines; prose starts in the first column. A diagram line
# that a formatter has joined starts in the first column without an empty line before it.
# shellcheck disable=SC2046 # names without spaces
awk '
    FNR == 1 || /\/\*|\*\// { diagram = 0 }
    diagram && /^ \* [^ \/]/ { print FILENAME ":" FNR ": two lines of a diagram are joined"; wrong = 1 }
    { diagram = /^ \*     / && / [ ]+-->? | [^ ]+ [^=]*= .*  +[^ ]/ }
    END { exit wrong }' $(cat "$work/ours") || wrong "diagrams with joined lines"
# shellcheck disable=SC2046 # names without spaces
awk '
    FNR == 1 { begin = 0 }
    FNR == 701 { print FILENAME ": more than 700 lines"; wrong = 1 }
    { text = $0; gsub(/[\200-\277]/, "", text) }
    length(text) > (FILENAME ~ "syntax/(tree.h|parser.y|lexer.l)$" ? 128 : 100) { print FILENAME ":" FNR ": too many columns"; wrong = 1 }
    /^[a-zA-Z].*\)( \{)?$/ || /^ .*\) \{$/ && !begin { begin = FNR }
    /^}/ && begin { if (FNR - begin > 60 && FILENAME !~ "^runtime/kernels/") { print FILENAME ":" begin ": a function of more than 60 lines"; wrong = 1 } begin = 0 }
    END { exit wrong }' $(cat "$work/ours") || wrong "this script lists the rules"
case $(clang-format --version 2>/dev/null) in
*' 14.'*)
    grep -E '\.([ch]|cuh?)$' "$work/ours" | xargs clang-format --dry-run --Werror >"$work/found" 2>&1 || {
        head -20 "$work/found"
        wrong "clang-format -i fixes it"
    }
    ;;
*) echo "no clang-format 14: the format was not checked" ;;
esac

#!/bin/sh
# The layout of the source: 100 columns, files of at most 700 lines, functions of at most 60, and, where clang-format 14 is at
# hand, its layout. The tables of the grammar may have 128 columns; a kernel of a device is one function, however long.
. "$(dirname "$0")/../begin.sh"
git ls-files 'compiler/*.[chly]' 'compiler/*.def' 'runtime/*.[ch]' 'runtime/*.cu' 'runtime/*.cuh' 2>/dev/null >"$work/files"
[ -s "$work/files" ] || find compiler runtime -name '*.[chly]' -o -name '*.cu' -o -name '*.cuh' >"$work/files"
grep -v "\.def\$" "$work/files" >"$work/ours"
# A diagram is indented by five columns in its comment, in columns of its own; prose goes on in the first column. What a
# formatter has joined begins in the first column without having been parted from the diagram by an empty line.
# shellcheck disable=SC2046 # names without spaces
awk '
    FNR == 1 || /\/\*|\*\// { diagram = 0 }
    diagram && /^ \* [^ \/]/ { print FILENAME ":" FNR ": a line of a diagram was joined with another one"; wrong = 1 }
    { diagram = /^ \*     / && / [ ]+-->? | [^ ]+ [^=]*= .*  +[^ ]/ }
    END { exit wrong }' $(cat "$work/ours") || wrong "a diagram keeps its lines"
# shellcheck disable=SC2046 # names without spaces
awk '
    FNR == 1 { begin = 0 }
    FNR == 701 { print FILENAME ": more than 700 lines"; wrong = 1 }
    { text = $0; gsub(/[\200-\277]/, "", text) }
    length(text) > (FILENAME ~ "syntax/(tree.h|parser.y|lexer.l)$" ? 128 : 100) { print FILENAME ":" FNR ": too many columns"; wrong = 1 }
    /^[a-zA-Z].*\)( \{)?$/ || /^ .*\) \{$/ && !begin { begin = FNR }
    /^}/ && begin { if (FNR - begin > 60 && FILENAME !~ "^runtime/kernels/") { print FILENAME ":" begin ": a function of more than 60 lines"; wrong = 1 } begin = 0 }
    END { exit wrong }' $(cat "$work/ours") || wrong "see the rules of the layout in this file"
case $(clang-format --version 2>/dev/null) in
*' 14.'*)
    grep -E '\.([ch]|cuh?)$' "$work/ours" | xargs clang-format --dry-run --Werror >"$work/found" 2>&1 || {
        head -20 "$work/found"
        wrong "clang-format -i mends it"
    }
    ;;
*) echo "no clang-format 14: its layout was not looked at" ;;
esac

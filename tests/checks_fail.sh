#!/bin/sh
# Every check of tests/checks can fail: with a `moec` that does nothing and ends with 0, with one that prints wrong numbers, and
# with changed sources for checks that do not call `moec`. Prints the checks that pass regardless.
#
#   tests/checks_fail.sh           all; minutes
#   tests/checks_fail.sh WORD...   those whose name contains a word
. "$(dirname "$0")/begin.sh"
set +e
real=$BUILD
passed=0 tried=0

# stub NAME: a copy of the build whose `moec` is the script on standard input.
stub() {
    mkdir "$work/$1"
    for file in "$real"/*; do ln -s "$file" "$work/$1/"; done
    rm "$work/$1/moec"
    cat >"$work/$1/moec"
    chmod +x "$work/$1/moec"
}
printf '#!/bin/sh\nexit 0\n' | stub silent
# Changes the digits of the output; files and exit codes are correct.
printf '#!/bin/bash\nset -o pipefail\n"%s/moec" "$@" | tr 123456789 912345678\n' "$real" | stub other

# must_fail MUTATION CHECK [FOLDER]: the check fails in that folder (default: the current one).
must_fail() {
    tried=$((tried + 1))
    (cd "${3:-.}" && BUILD=$build timeout "${TEST_SECONDS:-900}" "tests/checks/$2.sh") >"$work/log" 2>&1 </dev/null || return 0
    echo "$2 passes with $1"
    passed=$((passed + 1))
}

# The checks that do not call `moec`, or call it only with a device or with headers.
elsewhere=" api arrows calls cuda_abi json layout links maps prose questions opencl unique cuda_attention cuda_oracle cuda_random
    random_forms sass "
for check in tests/checks/*.sh; do
    name=$(basename "$check" .sh)
    case "$elsewhere" in *" $name "*) continue ;; esac
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    build=$work/silent
    must_fail "a moec that does nothing" "$name"
done

# Checks that compare numbers of `moec`.
for name in tutorial specs granularity tokenizer_run; do
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    build=$work/other
    must_fail "a moec that prints other numbers" "$name"
done

# changed CHECK FILE COMMAND: the check passes in a copy of the sources, and fails once the command has changed the file.
wanted=$*
changed() {
    case " ${wanted:-$1} " in *" $1 "*) ;; *) return ;; esac
    rm -rf "$work/tree"
    mkdir "$work/tree"
    cp -R compiler runtime tests stdlib examples models generated Makefile README.md LICENSE .clang-format .ci "$work/tree"
    if ! (cd "$work/tree" && BUILD=$real "tests/checks/$1.sh") >"$work/log" 2>&1; then
        echo "$1 fails in an unchanged copy: $(tail -3 "$work/log")"
        passed=$((passed + 1))
        return
    fi
    (cd "$work/tree" && sed -i "$3" "$2")
    must_fail "$2 changed by $3" "$1" "$work/tree"
}
build=$real
changed api runtime/python/moec/__init__.py 's/Returns the loss/Returns a loss/'
changed layout runtime/base/files.c '1s/$/ more than one hundred columns in one line of a source file, which is not the layout of the source/'
changed maps runtime/base/README.md '/lazy_library/d'
changed json runtime/base/files.c '$a char *surplus(json_t *json) { return json_dumps(json, 0); }'
changed prose runtime/FILES.md '$a The place of what a run writes is the folder.'
changed calls compiler/ir/print.c '$a int surplus = CALL_TOP;'
changed unique compiler/base/arena.c '$s/$/\nstruct Tensor {\n};/'
changed arrows runtime/base/files.c '1i #include "model/model.h"'
changed links README.md 's/02-first-model/02-frist-model/'
changed questions examples/guides/12-troubleshooting.md 's/out of memory/no memory/I'
changed opencl tests/opencl/opencl.c '$a int surplus = ;'
echo "$tried tried, $passed passed"
[ "$passed" = 0 ]

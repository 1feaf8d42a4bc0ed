#!/bin/sh
# tests/arrows.sh [ROOT [OBJECTS...]]: every include and every call of compiler/ and runtime/ that goes against the direction of the
# folders, and every circle of more than two files that call each other. A folder may include and call itself and what is before it
# in its list (tests/arrows.awk); print/ calls nothing but the module and its terms; kernels/ and sim/ include abi/ alone. The runtime
# calls the compiler by its public headers. Calls are those of the object files in OBJECTS (default BUILD, then build); without
# objects, includes alone are read. tests/arrows.known lists the faults that are known; they may only become fewer. Exits 1 when
# there is one.
root=${1:-$(dirname "$0")/..}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- "${BUILD:-$root/build}"
lists=$(cd "$(dirname "$0")" && pwd)

# Symbols of the objects whose source exists, and of generated ones.
symbols() {
    for objects; do
        { find "$objects/compiler" "$objects/runtime" -name '*.o' && find "$objects" -maxdepth 1 -name '*.o'; } 2>/dev/null | while read -r object; do
            path=${object#"$objects"/}
            case $path in
            parser.o | lexer.o | *_text.o | commit.o | *own_product_v[34].o) echo "$object" ;;
            */*) [ ! -e "$root/${path%.o}.c" ] || echo "$object" ;;
            esac
        done | xargs -r nm -A | sed -n "s|^$objects/\(.*\):.* \([TDBRVCU]\) \([^ ]*\)\$|\2 \1 \3|p"
    done | sed 's/^U /use /; s/^[TDBRVC] /define /'
}

{
    sed -n 's/^[a-z]/known &/p' "$lists/arrows.known"
    (
        cd "$root" || exit 2
        find compiler runtime -name '*.[chly]' -o -name '*.cuh' -o -name '*.cu' -o -name '*.def' | sed 's/^/file /'
        cat compiler/moec.h runtime/abi/*.h | grep -o '[a-z_0-9]*(' | sort -u | sed 's/^/public /; s/($//'
        find compiler runtime -name '*.[chly]' -o -name '*.cuh' -o -name '*.cu' | sort |
            xargs grep -n '^#include "' | sed 's/^\([^:]*\):\([0-9]*\):#include "\([^"]*\)".*/include \1 \2 \3/'
    )
    symbols "$@"
} | awk -f "$lists/arrows.awk"

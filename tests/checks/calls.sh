#!/bin/sh
# The compiler names an operation with a kernel of its own in calls/ and where it creates one, and nowhere else; every row of
# calls/ sets every member, so no hook has a default. Planted faults of both kinds are found. A new operation needs a row of
# call.def and a file of calls/: a planted one compiles.
. "$(dirname "$0")/../begin.sh"

# Other files that create calls.
creators="compiler/elaborate/attend/attend_call.c compiler/elaborate/extern_layer.c compiler/ir/scan.c
    compiler/transform/route/relation.c
    compiler/transform/route/split_choice.c compiler/transform/mesh/mesh.c"

members() {
    sed -n '/^struct CallRow {/,/^};/p' compiler/ir/call.h | sed '1d; $d' | tr '\n' ' ' | sed -E 's@/\*([^*]|\*[^/])*\*/@@g' |
        tr ';' '\n' | sed -E 's/.*\(\*([a-z_]+)\)\(.*/\1/; s/^ *CallFunction//' | tr ',' '\n' | grep -oE '[a-z_]+ *$' | tr -d ' ' | sort
}

# faults ROOT: the faults in that copy, one per line.
faults() (
    cd "$1" || exit
    rows=$(sed -n 's/^CALL(\([A-Z_]*\), \([a-z_]*\))$/\1 \2/p' compiler/ir/call.def)
    [ -n "$rows" ] || echo "call.def has no rows"
    for file in $(grep -rlwE "$(echo "$rows" | sed 's/\(.*\) .*/CALL_\1/' | paste -sd'|')" compiler --include='*.[chly]'); do
        case " $(echo $creators) " in *" $file "*) continue ;; esac
        case $file in compiler/calls/*) ;; *) echo "$file names a call" ;; esac
    done
    members >"$work/members"
    [ "$(wc -l <"$work/members")" -ge 20 ] || echo "the members of CallRow are not found"
    for row in $(echo "$rows" | cut -d' ' -f2); do
        find compiler/calls -name '*.c' -exec sed -n "/^const CallRow $row = {/,/^};/p" {} + |
            sed -n 's/^    \.\([a-z_]*\) = .*/\1/p' | sort | diff "$work/members" - >"$work/difference" ||
            echo "$row: $(grep '^[<>]' "$work/difference" | tr '\n' ' ')"
    done
)

faults . >"$work/found"
[ ! -s "$work/found" ] || wrong "$(cat "$work/found")"

# planted FILE SED TEXT: a copy with the change has a fault with that text.
planted() {
    rm -rf "$work/copy"
    mkdir "$work/copy"
    cp -R compiler "$work/copy"
    sed -i "$2" "$work/copy/$1"
    cmp -s "$1" "$work/copy/$1" && wrong "nothing was planted in $1"
    faults "$work/copy" | grep -qF "$3" || wrong "not found in $1: $3"
}
planted compiler/analysis/cost.c '$a if (statement->call == CALL_TOP) return 1;' "cost.c names a call"
planted compiler/calls/top.c '/    \.gradient/d' "call_top: < gradient"
planted compiler/ir/call.h 's/^    bool selects;/    bool selects, hides;/' "call_scan: < hides"

rm -rf "$work/copy"
mkdir "$work/copy"
cp -R compiler runtime "$work/copy"
echo "CALL(PLANTED, call_planted)" >>"$work/copy/compiler/ir/call.def"
sed 's/call_top/call_planted/' compiler/calls/top.c >"$work/copy/compiler/calls/planted.c"
faults "$work/copy" >"$work/found"
[ ! -s "$work/found" ] || wrong "a new operation: $(cat "$work/found")"
for file in planted call_table; do
    (cd "$work/copy" && ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Werror -fsyntax-only -Icompiler -Iruntime "compiler/calls/$file.c") ||
        wrong "a new operation does not compile"
done

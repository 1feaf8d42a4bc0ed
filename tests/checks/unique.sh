#!/bin/sh
# One name, one meaning: functions whose name occurs in more than one file of compiler/ and runtime/, and type names with
# more than one definition. unique.counts holds the number of each, which can only fall; UPDATE=1 stores lower numbers. Kernels
# and standalone exports are texts of their own and do not count.
. "$(dirname "$0")/../begin.sh"
counts=tests/checks/unique.counts
judge=$PWD/tests/checks/unique.awk
status=0

# Two files share `begin`; `Slot` is a struct and an enumeration.
for number in 1 2; do
    printf 'static int begin(int a) {\n    if (a) {\n        return end(a);\n    }\n    return 0;\n}\n' >"$work/$number.c"
    [ $number = 1 ] || printf 'Value *end(int a,\n           int b) {\n}\nint begin(int a);\n' >>"$work/$number.c"
done
printf 'typedef struct Slot {\n    int a;\n} Slot;\ntypedef struct Other Other;\n' >>"$work/1.c"
printf 'typedef enum {\n    LEFT\n} Slot;\n' >>"$work/2.c"
(cd "$work" && awk -f "$judge" ./[12].c) | sort >"$work/found"
cat >"$work/expected" <<'END'
functions begin: ./1.c ./2.c
types Slot: ./1.c ./2.c
END
diff "$work/expected" "$work/found" || wrong "the rules do not match the sample"

find compiler runtime -name '*.[chly]' ! -path '*/kernels/*' ! -path '*/standalone/*' ! -path '*/build/*' | sort | xargs awk -f "$judge" | sort >"$work/found"
while read -r limit kind; do
    grep "^$kind " "$work/found" >"$work/names" || :
    count=$(wc -l <"$work/names")
    if [ "$count" -gt "$limit" ]; then
        cut -d' ' -f2- "$work/names"
        echo "$count $kind have a name with several meanings, at most $limit in $counts: give the new one a name of its own"
        status=1
    elif [ "$count" -lt "$limit" ]; then
        echo "$count $kind have a name with several meanings, fewer than $limit: UPDATE=1 tests/checks/unique.sh"
        limit=$count
    fi
    echo "$limit $kind" >>"$work/counts"
done <$counts
[ -z "${UPDATE:-}" ] || [ $status = 1 ] || cp "$work/counts" $counts
exit $status

#!/bin/sh
# runtime/base/build.h has the version. Every copy of it is the same; UPDATE=1 writes those in files.
. "$(dirname "$0")/../begin.sh"
version=$(sed -n 's/^.define MOEC_VERSION "\(.*\)"/\1/p' runtime/base/build.h)
minor=${version%.*}
case $version in
[0-9]*.[0-9]*.[0-9]*) ;;
*) wrong "runtime/base/build.h has no version: '$version'" ;;
esac

number='[0-9][0-9]*\.[0-9][0-9]*'
status=0
# copy FILE BEFORE AFTER: the file has BEFORE, the version, AFTER on one line; BEFORE and AFTER are basic regular expressions.
copy() {
    file=$1 before=$2 after=$3
    [ -z "${UPDATE:-}" ] || sed -i "s/\($before\)$number\.[0-9][0-9]*\($after\)/\1$version\2/" "$file"
    grep -q "$before$version$after" "$file" || { echo "$file has another version than $version: $(grep "$before" "$file")"; status=1; }
}
copy runtime/python/moec/library.py '__version__ = "' '"'
copy runtime/library/moec.h 'library, "' '"'
copy README.md 'version ' '[ .]'
[ -z "${UPDATE:-}" ] || sed -i "s/(libmoec\.so\.$number)/(libmoec.so.$minor)/" runtime/library/moec.h
[ -z "${UPDATE:-}" ] || sed -i "s/\`libmoec\.so\.$number\`/\`libmoec.so.$minor\`/" runtime/CHANGELOG.md
grep -qF "(libmoec.so.$minor)" runtime/library/moec.h || wrong "runtime/library/moec.h has another SONAME"
grep -qF "\`libmoec.so.$minor\`" runtime/CHANGELOG.md || wrong "runtime/CHANGELOG.md has another SONAME"
first=$(grep -m1 '^## \[[0-9]' runtime/CHANGELOG.md)
case $first in
"## [$version] - "*) ;;
*) wrong "the first release of runtime/CHANGELOG.md is '$first', not $version" ;;
esac

case $(moec --version) in
"moec $version" | "moec $version "*) ;;
*) wrong "moec --version prints $(moec --version)" ;;
esac
cat >"$work/version.c" <<'END'
#include "moec.h"
#include <stdio.h>
int main(void) { return puts(moec_version()) < 0; }
END
if [ -e "$BUILD/libmoec.so" ]; then
    ${CC:-cc} "$work/version.c" -Iruntime/library -L"$BUILD" -lmoec -Wl,-rpath,"$BUILD" -o "$work/version"
    [ "$("$work/version")" = "$version" ] || wrong "moec_version() is $("$work/version")"
    # The program names the SONAME, which the build folder has.
    readelf -d "$work/version" | grep -qF "[libmoec.so.$minor]" || wrong "the SONAME is $(readelf -d "$work/version" | grep moec)"
    if command -v python3 >/dev/null; then
        MOEC_LIBRARY=$BUILD/libmoec.so python3 -c 'import runpy; runpy.run_path("runtime/python/moec/library.py")' ||
            wrong "the Python package does not accept the library"
    fi
fi
small_model 1
moec emit "$work/small.moe" --out "$work/emitted" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
grep -qF "moec $version" "$work/emitted/README.md" || wrong "the README of an emitted folder has no version"
exit $status

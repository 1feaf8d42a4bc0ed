#!/bin/sh
# make install: the command, the pages and three libraries, which programs find by pkg-config or CMake. The example in C prints the same with
# the shared library and with the static one, whose names are those of moec.h alone; a program that uses the compiler links with it.
. "$(dirname "$0")/../begin.sh"
[ -e "$BUILD/libmoec.so" ] || { echo "no libmoec.so in $BUILD"; exit 0; }
command -v pkg-config >/dev/null || { echo "no pkg-config"; exit 0; }
export OMP_NUM_THREADS=1
make -s -o all install BUILD="$BUILD" PREFIX="$work/prefix" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
for file in bin/moec lib/libmoec.so lib/libmoec.a lib/libmoec_compiler.a include/moec.h include/moec/compiler.h \
    share/man/man1/moec.1 share/man/man1/moec-train.1 share/bash-completion/completions/moec lib/pkgconfig/moec.pc lib/pkgconfig/moec-compiler.pc lib/cmake/moec/moec-config.cmake; do
    [ -s "$work/prefix/$file" ] || wrong "no $file"
done
version=$(pkg-config --modversion moec)
[ "$("$work/prefix/bin/moec" --version | sed 's/^moec \([^ ]*\).*/\1/')" = "$version" ] || wrong "moec.pc has version $version"
[ "$(pkg-config --modversion moec-compiler)" = "$version" ] || wrong "moec-compiler.pc has another version"
flags=$(pkg-config --libs moec)
[ "${flags% }" = "-L$work/prefix/lib -lmoec" ] || wrong "flags: $flags"

small_model 2
moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
# shellcheck disable=SC2046 # several flags
${CC:-cc} examples/library.c $(pkg-config --cflags --libs moec) -Wl,-rpath,"$work/prefix/lib" -o "$work/shared"
# shellcheck disable=SC2046
${CC:-cc} examples/library.c $(pkg-config --cflags moec) $(pkg-config --static --libs moec | sed 's/-lmoec /-l:libmoec.a /') -o "$work/static"
! readelf -d "$work/static" | grep -q libmoec || wrong "the static program needs libmoec.so"
for kind in shared static; do "$work/$kind" "$work/run" "layer x" >"$work/$kind.out" || wrong "$kind: $(cat "$work/$kind.out")"; done
grep -q '^loss ' "$work/shared.out" && cmp "$work/shared.out" "$work/static.out" || wrong "the static library prints: $(cat "$work/static.out")"
nm -g --defined-only "$work/prefix/lib/libmoec.a" | sed -n 's/.* [A-Z] //p' | sort >"$work/static.names"
nm -D --defined-only "$work/prefix/lib/libmoec.so" | sed -n 's/.* [A-Z] //p' | sort >"$work/shared.names"
[ "$(wc -l <"$work/shared.names")" -ge 20 ] && cmp "$work/static.names" "$work/shared.names" || wrong "libmoec.a exports other names than libmoec.so"

cat >"$work/check.c" <<'END'
#include <moec/compiler.h>
#include <stdio.h>
int main(int argc, char **argv) {
    MoecCompiler *compiler = moec_open(argv[argc - 1], NULL, NULL, 0, NULL);
    int failed = !compiler || moec_failed(compiler);
    puts(failed ? "errors" : moec_model(compiler));
    moec_close(compiler);
    return failed;
}
END
# shellcheck disable=SC2046
${CC:-cc} "$work/check.c" $(pkg-config --cflags --libs moec-compiler) -o "$work/check"
[ "$("$work/check" "$work/small.moe")" = small ] || wrong "the program with the compiler prints $("$work/check" "$work/small.moe")"

# The same programs by CMake; a request for another minor version fails.
command -v cmake >/dev/null || { echo "no cmake"; exit 0; }
mkdir "$work/project"
cp examples/library.c "$work/check.c" "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(outside C)
find_package(moec ${WANTED} REQUIRED)
add_executable(shared library.c)
target_link_libraries(shared PRIVATE moec::moec)
add_executable(static library.c)
target_link_libraries(static PRIVATE moec::static)
add_executable(check check.c)
target_link_libraries(check PRIVATE moec::compiler)
END
build() { cmake -S "$work/project" -B "$work/made" -DCMAKE_PREFIX_PATH="$work/prefix" -DWANTED="$1" >"$work/log" 2>&1; }
! build 0.1 || wrong "version 0.1 was accepted"
grep -q "version: $version" "$work/log" || wrong "$(cat "$work/log")"
build "${version%.*}" && cmake --build "$work/made" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
for kind in shared static; do
    "$work/made/$kind" "$work/run" "layer x" >"$work/out" && cmp "$work/out" "$work/shared.out" || wrong "$kind by CMake: $(cat "$work/out")"
done
[ "$("$work/made/check" "$work/small.moe")" = small ] || wrong "the program with the compiler, by CMake, prints $("$work/made/check" "$work/small.moe")"

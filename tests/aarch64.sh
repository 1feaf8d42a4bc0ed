#!/bin/sh
# tests/aarch64.sh [WORD...]: the command and the library for ARM64: built by the cross compiler of Debian, run by qemu-user in a
# Debian root folder that debootstrap unpacks. Unit tests of kernels (or those of the WORDS), training, decoding with each type of
# weights, a served request, an emitted program; the vector instructions of the kernels. Needs root for debootstrap, or the root
# folder of an earlier run in AARCH64_ROOT. As root, missing packages are installed. CC=clang builds with clang.
. "$(dirname "$0")/begin.sh"
root=${AARCH64_ROOT:-$work/root}
build=$PWD/build/aarch64
native=$BUILD/moec
[ -x "$native" ] || wrong "build first: make"

# have COMMAND PACKAGE...: the command, if need be after an installation.
have() {
    command -v "$1" >/dev/null && return
    wanted=$1
    shift
    [ "$(id -u)" = 0 ] && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1
    command -v "$wanted" >/dev/null || wrong "$wanted is missing (packages $*)"
}
have aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
have qemu-aarch64 qemu-user
have debootstrap debootstrap

# Packages are unpacked, not configured: no ARM64 program of them runs.
if [ ! -e "$root/usr/include/jansson.h" ]; then
    debootstrap --foreign --arch=arm64 --variant=minbase \
        --include=libjansson-dev,libpcre2-dev,libutf8proc-dev,libxxhash-dev,libmicrohttpd-dev,libcmocka-dev,libgomp1,libc6-dev \
        bookworm "$root" >"$work/log" 2>&1 || wrong "$(tail -5 "$work/log")"
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
fi

# The compiler of moec, which qemu starts as a program of this machine, has no -march=native of ARM64.
mkdir "$work/bin"
cross="aarch64-linux-gnu-gcc --sysroot=$root"
case ${CC:-} in clang*) cross="$CC --target=aarch64-linux-gnu --sysroot=$root" ;; esac
cat >"$work/bin/cross" <<END
#!/bin/sh
for word; do
    shift
    case \$word in -march=native) word=${AARCH64_MARCH:--march=armv8.2-a+dotprod} ;; esac
    set -- "\$@" "\$word"
done
exec $cross "\$@"
END
cat >"$work/bin/moec" <<END
#!/bin/sh
exec qemu-aarch64 -L $root $build/moec "\$@"
END
chmod +x "$work/bin/cross" "$work/bin/moec"
PATH=$work/bin:$PATH
export MOEC_CC=cross OMP_NUM_THREADS=2

tests=${*:-test_kernels test_int4 test_rounded test_panels test_scalars test_tokenizer test_emit test_models}
# shellcheck disable=SC2046,SC2086 # several words
make -s -j"$(nproc)" BUILD="$build" CC=cross BUILD_CC=cc LD=aarch64-linux-gnu-ld AR=aarch64-linux-gnu-ar OBJCOPY=aarch64-linux-gnu-objcopy \
    WERROR=1 "$build/moec" "$build/libmoec.so" $(for name in $tests; do echo "$build/tests/unit/$name"; done) >"$work/log" 2>&1 ||
    wrong "$(tail -30 "$work/log")"
for name in $tests; do
    MOEC_MODELS=4 MOEC_PROGRAMS=40 qemu-aarch64 -L "$root" "$build/tests/unit/$name" >"$work/log" 2>&1 || wrong "$name: $(tail -30 "$work/log")"
    echo "$name: $(tail -1 "$work/log")"
done

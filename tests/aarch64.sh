#!/bin/sh
# tests/aarch64.sh [WORD...]: the command and the library for ARM64: built by the cross compiler of Debian, run by qemu-user in a
# Debian root folder that debootstrap unpacks. Unit tests (or those of the WORDS; test_kernels: an hour), training, decoding with each type of
# weights, emitted programs, a C program with the library; the vector instructions of the kernels. Needs root for debootstrap, or the root
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

tests=${*:-test_packed test_panels test_tokenizer}
# shellcheck disable=SC2046,SC2086 # several words
make -s -j"$(nproc)" BUILD="$build" CC=cross BUILD_CC=cc LD=aarch64-linux-gnu-ld AR=aarch64-linux-gnu-ar OBJCOPY=aarch64-linux-gnu-objcopy \
    WERROR=1 "$build/moec" "$build/libmoec.so" $(for name in $tests; do echo "$build/tests/unit/$name"; done) >"$work/log" 2>&1 ||
    wrong "$(tail -30 "$work/log")"
for name in $tests; do
    MOEC_MODELS=4 MOEC_PROGRAMS=40 qemu-aarch64 -L "$root" "$build/tests/unit/$name" >"$work/log" 2>&1 || wrong "$name: $(tail -30 "$work/log")"
    echo "$name: passed"
done

# The losses and texts of this machine, up to rounding errors of sums in another order. bf16 stores 8 bits of each operand.
small_model 6
sed -i 's/dim = 8,/dim = 64,/; s/heads = { q = 1 }, head_dim = 8/heads = { q = 2, k = 1, v = 1 }, head_dim = 32/; s/hidden_dim = 8/hidden_dim = 64/' "$work/small.moe"
head -c 4000 "$work/text" >"$work/short"
cd "$work"
loss() { sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' "$1"; }
near() { # FOUND EXPECTED NAME RELATIVE_LIMIT
    awk -v a="$1" -v b="$2" -v limit="$4" -v name="$3" 'BEGIN { d = a / b - 1; print name ": loss " a ", on this machine " b; exit !(a > 0 && d < limit && d > -limit) }' ||
        wrong "$3: another loss"
}
for precision in f32 bf16; do
    moec train small.moe --data text --out $precision --set train.precision=$precision >log 2>&1 || wrong "train: $(cat log)"
    MOEC_CC=cc "$native" train small.moe --data text --out native_$precision --set train.precision=$precision >log 2>&1 || wrong "$(cat log)"
    moec eval $precision --data short --json >found 2>log && MOEC_CC=cc "$native" eval native_$precision --data short --json >expected 2>log || wrong "$(cat log)"
    limit=1e-5
    [ $precision = f32 ] || limit=3e-4
    near "$(loss found)" "$(loss expected)" "train in $precision" "$limit"
done
echo "training: f32 and bf16 as on this machine"
for type in bf16 int8 int4; do
    MOEC_CC=cc "$native" eval native_f32 --data short --weight-dtype $type --json >expected 2>log || wrong "$(cat log)"
    moec eval native_f32 --data short --weight-dtype $type --json >found 2>log || wrong "$type: $(cat log)"
    near "$(loss found)" "$(loss expected)" "$type" 1e-5
    MOEC_CC=cc "$native" generate native_f32 --prompt 'layer ' -n 12 --temperature 0 --weight-dtype $type >expected 2>log
    moec generate native_f32 --prompt 'layer ' -n 12 --temperature 0 --weight-dtype $type 2>log | cmp - expected || wrong "$type: another text: $(cat log)"
    moec emit native_f32 --mode decode --weight-dtype $type -c 32 --out emitted --force >log 2>&1 || wrong "$(cat log)"
    # the flags of the Makefile, for this processor
    make -s -C emitted CC=cross CFLAGS="-O3 -march=armv8.2-a+dotprod -ffp-contract=fast -fno-math-errno -fno-trapping-math" >log 2>&1 || wrong "emitted: $(cat log)"
    (cd emitted && qemu-aarch64 -L "$root" ./generate --prompt 'layer ' --tokens 12 --temperature 0) >found || wrong "$type: the emitted program fails"
    echo >>expected # the program ends its text with a newline
    cmp found expected || wrong "$type: another text of the emitted program"
    # Vectors of floats in the product kernels, and vectors of smaller weights that become floats.
    case $type in
    bf16) widened='[us]?(xtl|shll)[[:space:]]+v[0-9]+\.4s, v[0-9]+\.4h' ;;
    int8) widened='sxtl[[:space:]]+v[0-9]+\.8h, v[0-9]+\.8b' ;;
    int4) widened='sshr[[:space:]]+v[0-9]+\.4s, v[0-9]+\.4s, #28' ;;
    esac
    aarch64-linux-gnu-objdump -d emitted/generate >code
    vectors=$(grep -cE '[[:space:]]fml[as][[:space:]]+v[0-9]+\.4s' code) wide=$(grep -cE "[[:space:]]$widened" code) || :
    [ "$vectors" -gt 100 ] && [ "$wide" -gt 20 ] || wrong "$type: only $vectors multiply-adds of vectors, $wide vectors of weights"
    echo "$type: text as on this machine, $vectors vector multiply-adds, $wide vectors of weights"
done
cat >client.c <<'END'
#include <moec.h>
#include <stdio.h>
int main(void) {
    return puts(moec_version()) < 0;
}
END
cross -I"$OLDPWD/runtime/library" client.c -o client "$build/libmoec.so" -Wl,--allow-shlib-undefined && qemu-aarch64 -L "$root" -E LD_LIBRARY_PATH="$build" ./client >/dev/null ||
    wrong "libmoec.so cannot be used"

#!/bin/sh
# tests/new_kernel.sh: an operation with a hand-written kernel for processors and GPUs needs at most nine files, its tests and its
# documentation included. tests/add_norm.patch adds one, after compiler/CONTRIBUTING.md: forward and backward pass, definition,
# function of the language. The patch is applied to a copy of the sources and of the build; the copy passes the checks that
# CONTRIBUTING names, and agrees with the definition on the processor and on the simulated device.
. "$(dirname "$0")/begin.sh"

files=$(grep -c '^+++ ' tests/add_norm.patch)
[ "$files" -le 9 ] || wrong "the patch changes $files files"
mkdir "$work/tree"
cp -Rp compiler runtime tests stdlib examples models generated Makefile README.md LICENSE .clang-format .ci "$work/tree"
cp -Rp "$BUILD" "$work/tree/build"
cd "$work/tree"
patch -s -p1 <tests/add_norm.patch || wrong "the patch no longer applies"
export BUILD=build COMMIT=new_kernel
PATH=$PWD/build:$PATH
make -s -j2 WERROR=1 all build/tests/unit/test_kernels build/tests/unit/test_doc >/dev/null
for check in calls maps layout options; do sh "tests/checks/$check.sh" || wrong "$check"; done
for test in test_kernels test_doc; do "build/tests/unit/$test" >out 2>&1 || wrong "$(cat out)"; done
for device in cpu cuda; do
    MOEC_CUDA=build/libmoec_sim.so moec verify tests/forms.moe:forms_add_norm --forms --device $device >out || wrong "$(cat out)"
    grep -q 'forms .*, sum and norm' out || wrong "the kernel did not run: $(cat out)"
done
echo "$files files"

#!/bin/sh
# The names, arguments, numbers and structures that runtime/device/cuda/cuda_library.h declares equal those of CUDA's headers.
# Installed libraries have every name. Without CUDA's headers the test does nothing,
# without nccl.h it leaves out NCCL.
. "$(dirname "$0")/../begin.sh"
toolkit=${CUDA_HOME:-/usr/local/cuda}
headers=$toolkit/include
for file in cuda.h nvrtc.h cublasLt.h; do
    [ -e "$headers/$file" ] || { echo "no $headers/$file" && exit 0; }
done
command -v "${CXX:=c++}" >/dev/null || { echo "no C++ compiler" && exit 0; }
library=runtime/device/cuda/cuda_library.h
sed -n 's/^#define CUDA_\([A-Z_]*\)CALLS(CALL).*/@\1/p; s/^ *CALL(\([a-z_]*\), "\([A-Za-z0-9_]*\)".*/\1 \2/p' $library | while read -r first second; do
    case $first in
    @*DRIVER_) part=CudaDriver ;;
    @COMPILER_) part=CudaCompiler ;;
    @BLAS_) part=CudaBlas ;;
    @NCCL_) part=CudaNccl ;;
    *) echo "SAME($part, $first, $second)" ;;
    esac
done >"$work/all.h"
grep -v 'SAME(CudaNccl' "$work/all.h" >"$work/calls.h"
grep 'SAME(CudaNccl' "$work/all.h" >"$work/nccl_calls.h"
nccl=
for folder in ${NCCL_HOME:+"$NCCL_HOME/include"} "$headers" /usr/include; do
    if [ -z "$nccl" ] && [ -e "$folder/nccl.h" ]; then nccl="-DHAVE_NCCL -I$folder"; fi
done
[ -n "$nccl" ] || echo "no nccl.h: NCCL_HOME/include can have it"
[ "$(wc -l <"$work/calls.h")" -ge 59 ] || wrong "$library has fewer functions than it had"
# shellcheck disable=SC2086 # several words
"$CXX" -std=c++17 -fpermissive -w -fsyntax-only -I"$work" -Iruntime -I"$headers" $nccl tests/stand_in/cuda_abi.cpp || wrong "declared otherwise"
command -v nm >/dev/null || exit 0
for file in "$toolkit"/lib64/stubs/libcuda.so "$toolkit"/lib64/libnvrtc.so "$toolkit"/lib64/libcublasLt.so; do
    [ ! -e "$file" ] || nm -D --defined-only "$file"
done | sed 's/.* //; s/@.*//' | sort -u >"$work/there"
sed 's/.*, \(.*\))/\1/' "$work/calls.h" | while read -r name; do
    case $name in cu[A-Z]*) file=stubs/libcuda.so ;; nvrtc*) file=libnvrtc.so ;; *) file=libcublasLt.so ;; esac
    [ ! -e "$toolkit/lib64/$file" ] || grep -qx "$name" "$work/there" || wrong "$file has no $name"
done

#!/bin/sh
# tests/gpu_bare.sh [SUITE]: runs the kit of `make gpu-kit` in a separate root folder with only a C and a C++ compiler. The
# simulated driver needs the C++ compiler because there is no NVRTC. There is no flex, bison, jansson, oneDNN, Python or network.
# debootstrap creates the root folder, which requires root and some minutes. Not part of `make test`.
set -eu
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
BUILD=${BUILD:-build}
root=$(mktemp -d)
trap 'umount "$root/proc" 2>/dev/null || true; rm -rf "$root"' EXIT
command -v debootstrap >/dev/null || { echo "tests/gpu_bare.sh: apt install debootstrap" >&2; exit 2; }
make -s BUILD="$BUILD" all units gpu-kit
debootstrap --variant=minbase --include=g++ "$suite" "$root" >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; exit 1; }
rm -f "$root.log"
cp -r "$BUILD/gpu-kit" "$root/kit"
cp "$BUILD/libmoec_sim.so" "$root/kit"
mount -t proc proc "$root/proc"
# shellcheck disable=SC2016 # for the shell inside
chroot "$root" env -i PATH=/usr/bin:/bin QUICK=1 MODELS=layers.moe:even MOEC_SIM=unchecked,hopper MOEC_CFLAGS=-O0 unshare -n sh -euc '
    cd /kit
    ! command -v flex bison python3
    MOEC_CUDA=/kit/libmoec_sim.so tests/gpu.sh -o /kit/results first models start'
grep -c '"agrees": true' "$root/kit/results/results.jsonl" | sed 's/$/ programs agree in a bare root/'

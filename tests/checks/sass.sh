#!/bin/sh
# The machine code of the kernels for sm_90a; sass.awk has the rules. A kernel reads only streams of weights before earlier
# kernels have ended. It keeps its values in registers and stores 16 bytes with one instruction. Kernels of warpgroups use
# their tensor cores. Needs NVRTC and nvdisasm, but no GPU.
#
#     tests/checks/sass.sh                          NVRTC and nvdisasm of this machine; does nothing if one is missing
#     tests/checks/sass.sh 12.4 12.9 13.0 13.5      these versions of NVRTC, installed into a separate folder (WORK, /tmp/moec_sass)
#
# NVRTC 12.4 serializes the products in the attention of warpgroups, which is a finding.
. "$(dirname "$0")/../begin.sh"
packages=${WORK:-/tmp/moec_sass}

# install FOLDER PACKAGE...
install() {
    [ -d "$packages/$1" ] || "${PYTHON:-python3}" -m pip install --quiet --no-deps --target "$packages/$1" "$2"
}

# program NAME WARPGROUPS WIDE SPLIT LOCAL: its kernels of warpgroups and 16-byte stores, at least; its split stores and its
# kernels with local memory, at most.
program() {
    "$nvdisasm" -c "$work/$1.cubin" >"$work/$1.sass" 2>"$work/log" || wrong "$(cat "$work/log")"
    awk -v program="$1" -v warpgroups="$2" -v wide="$3" -v split_limit="$4" -v local="$5" \
        -f tests/checks/sass.awk "$work/$1.sass" || status=1
}

check() {
    rm -f "$work"/*.cubin
    # It fails if products of warpgroups are serialized.
    "$BUILD/tests/unit/test_nvrtc" images "$work" >"$work/log" 2>&1 || {
        grep -E 'serialized|spills|: error' "$work/log" || cat "$work/log"
        status=1
    }
    if grep -q 'no NVRTC here' "$work/log"; then
        echo "skipped: no NVRTC"
        exit 0
    fi
    program every_program 0 1 0 0
    program gpt2 8 60 0 0
    program moe_layer 16 75 4 0
    # Threads of recurrences also store rows element by element.
    program recurrences 0 600 320 1
    program wide 0 45 0 0
    program standard_1b5 8 50 0 0
    # Products in 8 bits. Capability 9.0 has them for warpgroups alone: it converts to f16.
    "$nvdisasm" -c "$work/units_sm_89.cubin" >"$work/units.sass"
    for formats in E4M3.E4M3 E5M2.E4M3 E4M3.E5M2; do
        grep -q "QMMA.16832.F32.$formats" "$work/units.sass" || { echo "  sm_89: no product of $formats"; status=1; }
    done
}

status=0
if [ $# -gt 0 ]; then
    install nvdisasm nvidia-cuda-nvdisasm
    PATH=$(dirname "$(find "$packages/nvdisasm" -type f -name nvdisasm)"):$PATH
fi
nvdisasm=$(command -v nvdisasm || echo /usr/local/cuda/bin/nvdisasm)
if [ ! -x "$nvdisasm" ]; then
    echo "skipped: no nvdisasm"
    exit 0
fi
[ $# -gt 0 ] || check
for version; do
    package=nvidia-cuda-nvrtc
    case $version in 12.*) package=nvidia-cuda-nvrtc-cu12 ;; esac
    install "nvrtc-$version" "$package==$version.*"
    library=$(find "$packages/nvrtc-$version" -name 'libnvrtc.so.1?')
    ln -sf "$(basename "$library")" "$(dirname "$library")/libnvrtc.so"
    echo "NVRTC $version"
    LD_LIBRARY_PATH=$(dirname "$library")
    export LD_LIBRARY_PATH
    check
done
exit $status

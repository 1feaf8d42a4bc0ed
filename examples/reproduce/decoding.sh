#!/bin/sh
# Time and bytes of a decoded token after prefixes of 0 to 32,768 tokens, for the model of Sigma with 1.5 billion parameters and for its
# baseline with as many keys as values (Sigma, table 8). Writes decoding.csv and the block `decoding` of README.md.
#
#     sh examples/reproduce/decoding.sh
#
# Both models have plain queries, int8 weights and a bf16 cache. The runs alternate; each value is the median of three. Needs 8 GB.
set -eu
here=$(dirname "$0")
moec=${MOEC:-build/moec}
part=$here/decoding.part

# speed MODEL PREFIX: tokens per second and bytes per token
speed() {
    "$moec" bench "$here/../../models/sigma.moe:$1" --mode decode --prefix-length "$2" -c $(($2 + 512)) --set attention.augment=none \
        --weight-dtype int8 --kv-cache-dtype bf16 --json -q |
        awk -F '[:,]' '/"tokens_per_second"/ { speed = $2 } /"bytes_per_token"/ { bytes = $2 } /"ceiling_gbytes/ { peak = $2 } END { print speed, bytes, peak }'
}
for prefix in 0 2048 4096 8192 16384 32768; do
    for round in 1 2 3; do
        echo "$prefix" "$(speed standard_1b5 $prefix)" "$(speed sigma_1b5 $prefix)"
    done
done | tee "$part" | awk '{ printf "prefix %d: %.1f and %.1f ms\n", $1, 1000 / $2, 1000 / $5 }' >&2

sort -k1,1n -k2,2n "$part" | awk '
    { count[$1]++; standard[$1, count[$1]] = 1000 / $2; bytes[$1] = $3; its[$1] = $6; ratio[$1, count[$1]] = $2 / $5; sigma[$1, count[$1]] = 1000 / $5
      if (!seen[$1]++) order[++rows] = $1 }
    function middle(a, at,   x, y, z) { x = a[at, 1]; y = a[at, 2]; z = a[at, 3]
        return x > y ? (y > z ? y : x > z ? z : x) : (x > z ? x : y > z ? z : y) }
    END { print "prefix,standard_ms,sigma_ms,time_ratio,standard_bytes,sigma_bytes,byte_ratio"
        for (i = 1; i <= rows; i++) { p = order[i]
            printf "%d,%.1f,%.1f,%.3f,%.0f,%.0f,%.3f\n", p, middle(standard, p), middle(sigma, p), middle(ratio, p), bytes[p], its[p], its[p] / bytes[p] } }' >"$here/decoding.csv"
awk -F, '
    NR == 1 { print "| prefix | standard ms | Sigma ms | time ratio | standard MB | Sigma MB | byte ratio |"; print "|--:|--:|--:|--:|--:|--:|--:|"; next }
    { printf "| %s | %s | %s | %s | %.0f | %.0f | %s |\n", $1, $2, $3, $4, $5 / 1e6, $6 / 1e6, $7 }' "$here/decoding.csv" >"$part"
sh "$here/block.sh" decoding "$part"
rm "$part"

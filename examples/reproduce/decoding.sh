#!/bin/sh
# Time, bytes and FLOP of a decoded token after prefixes of 0 to 32,768 tokens, for 6 of the 26 layers of Sigma (1.5 billion parameters)
# and for its baseline with as many keys as values (Sigma, table 8). Writes the block `decoding` of README.md.
#
#     sh examples/reproduce/decoding.sh
#
# Both models have plain queries, a vocabulary of 4,096, int8 weights and a bf16 cache. Of three alternated rounds, the one with the
# median ratio of times is written. About 20 minutes on an idle machine.
set -eu
here=$(dirname "$0")
moec=${MOEC:-build/moec}
part=$here/decoding.part

# model NAME COMMAND WORD...: the command for that model of Sigma
model() {
    name=$1 command=$2
    shift 2
    "$moec" "$command" "$here/../../models/sigma.moe:$name" --set attention.augment=none --set layers=6 --set vocab_size=4096 --json -q "$@"
}
number() { sed -n "s/.*\"$1\": *\([0-9.e+]*\).*/\1/p" | tail -1; }
# speed NAME PREFIX: tokens per second and bytes per token
speed() {
    model "$1" bench --mode decode --prefix-length "$2" -c $(($2 + 512)) --weight-dtype int8 --kv-cache-dtype bf16 >"$part.speed"
    echo "$(number tokens_per_second <"$part.speed") $(number bytes_per_token <"$part.speed")"
}
flops() { model "$1" check --set train.context_length=$(($2 > 0 ? $2 : 1)) | number flops_per_token; }

{
    echo "| prefix | baseline ms | Sigma ms | ratio of times | baseline MB | Sigma MB | ratio of bytes | ratio of FLOP |"
    echo "|--:|--:|--:|--:|--:|--:|--:|--:|"
    for prefix in 0 2048 4096 8192 16384 32768; do
        flops="$(flops standard_1b5 $prefix) $(flops sigma_1b5 $prefix)"
        for _ in 1 2 3; do
            echo "$(speed standard_1b5 $prefix) $(speed sigma_1b5 $prefix) $flops"
        done | awk -v prefix=$prefix '{ printf "%.3f | %d | %.2f | %.2f | %.3f | %.0f | %.0f | %.3f | %.3f |\n",
            $1 / $3, prefix, 1000 / $1, 1000 / $3, $1 / $3, $2 / 1e6, $4 / 1e6, $4 / $2, $6 / $5 }' | sort -n | sed -n '2s/^[^|]*//p'
        echo "prefix $prefix" >&2
    done
} >"$part"
sh "$here/block.sh" decoding "$part"
rm "$part" "$part.speed"

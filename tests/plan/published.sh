#!/bin/sh
# Compares `moec plan` with the published training runs N1 to N9: tokens/s per device, the ratio to a run on fewer devices, or GB/s of an
# exchange of rows, and the relative error. Numbers marked * calibrate the machines: the fraction of the peak that products reach, and the
# spread of the time of a step. B200 and H200 have the fractions of H100.
#
# The frameworks shard the weights (FSDP), which moves as many bytes as train.zero = 1, and overlap; so times are without the part that
# can be hidden. Sequences per device are assumed where they are not published: 1 for N1 to N3, 2 and 4 for N4 and N5, 16 for N6, whose
# predictions need a batch that hides the gradients (with 1, the ratios are 0.3 to 0.6). Needs jq.
#
# Prints a table and how many runs agree: at least half of their numbers are within 15 %, ratios within 5 %. Exits 1 without a prediction,
# if a ratio is off by more, and if fewer than 7 of the 9 runs agree.
#
# Sources: N1, N2 torchtitan, performance of Llama 3.1 8B with compile on H100; N3 PyTorch FSDP2, A100; N4 IBM fms-fsdp, 128 A100 and 96
# H100; N5 OLMo-core, H100; N6 torchtitan, Qwen3-30B-A3B, experts divided over the 8 devices of a node, B200; N7 DeepEP version 1, dispatch
# of 4,096 tokens of 7,168 numbers to 8 of 256 experts, H800 with ports of 50 GB/s: it sends a token once to each node, moec to each expert,
# so only rates are compared; N9 KempnerForge, benchmarks/mfu_scaling of 2026-04-05, 4 H200 per node. Not predicted: N8 and the 7B model of
# N9 on 8 devices, which divide tensors, and its run on 2 devices (0.89 of one device each, less than with 4).
set -eu
cd "$(dirname "$0")/../.."
moec=${BUILD:-build}/moec specs=tests/plan/published.moe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Seconds of a step per sequence of a device: MODEL MACHINE RANKS EXPERT SEQUENCES CONTEXT
seconds() {
    "$moec" plan "$specs:$1" --machine "$2" --ranks "$3" -c "$6" --set train.batch_size=$(($3 * $5)) --json |
        jq -e "[.meshes[] | select(.expert == $4 and .refused == null) | .seconds - .hideable] | min / $5"
}

# compare LIMIT FORMAT NAME PUBLISHED PREDICTED: prints a row and notes whether it is within LIMIT percent
compare() {
    awk -v limit="$1" -v format="$2" -v name="$3" -v published="$4" -v found="$5" -v runs="$work/runs" 'BEGIN {
        off = 100 * (found / published - 1)
        printf "%-38s " format " " format " %+7.1f %%\n", name, published, found, off
        split(name, words, /[ *]/)
        print words[1], (off >= -limit && off <= limit), limit >>runs }'
}

# NAME MODEL MACHINE RANKS EXPERT SEQUENCES CONTEXT PUBLISHED: tokens/s per device
row() {
    one=$(seconds "$2" "$3" "$4" "$5" "$6" "$7")
    compare 15 %10.0f "$1" "$8" "$(echo "$7 $one" | awk '{ print $1 / $2 }')"
}

# NAME MODEL MACHINE FEWER MORE EXPERT SEQUENCES CONTEXT PUBLISHED: tokens/s per device on more devices, relative to fewer
ratio() {
    one=$(seconds "$2" "$3" "$4" "$6" "$7" "$8")
    other=$(seconds "$2" "$3" "$5" "$6" "$7" "$8")
    compare 5 %10.3f "$1" "$9" "$(echo "$one $other" | awk '{ print $1 / $2 }')"
}

# NAME RANKS PUBLISHED: GB/s of the first dispatch through the slowest connection of a device
dispatch() {
    "$moec" explain "$specs:dispatched" --mesh "data=$2,expert=$2" --machine h800 --set train.batch_size="$2" >"$work/exchanges"
    compare 15 %10.0f "$1" "$3" "$(awk -v ranks="$2" '$3 == "dispatch" && $7 == "MB" {
        print $6 * (ranks > 8 ? (ranks - 8) / ranks : (ranks - 1) / ranks) / $10; exit }' "$work/exchanges")"
}

printf '%-38s %10s %10s %9s\n' run published predicted error
ratio 'N1* Llama 3.1 8B, 8 to 128 H100, ratio' llama_3_8b h100 8 128 1 1 8192 0.977
row   'N1* 8 H100' llama_3_8b h100 8 1 1 8192 6667
row   'N2 Llama 3.1 8B, 128 H100' llama_3_8b h100 128 1 1 8192 6514
row   'N3* Llama 3 8B, 64 A100' llama_3_8b a100 64 1 1 8192 2938
row   'N4 Llama 2 7B, 128 A100' llama_2_7b a100 128 1 2 4096 3700
row   'N4 Llama 2 13B, 128 A100' llama_2_13b a100 128 1 2 4096 1800
row   'N4 Llama 2 34B, 128 A100' llama_2_34b a100 128 1 2 4096 700
row   'N4 Llama 2 7B, 96 H100' llama_2_7b h100 96 1 2 4096 7500
row   'N4 Llama 2 13B, 96 H100' llama_2_13b h100 96 1 2 4096 3800
row   'N4 Llama 2 34B, 96 H100' llama_2_34b h100 96 1 2 4096 1550
row   'N5 OLMo 2 1B, 64 H100' olmo_2_1b h100 64 1 4 4096 46000
row   'N5 OLMo 2 7B, 64 H100' olmo_2_7b h100 64 1 2 4096 9850
row   'N5 OLMo 2 13B, 64 H100' olmo_2_13b h100 64 1 2 4096 4500
ratio 'N6 Qwen3-30B-A3B, 8 to 16 B200, ratio' qwen3_30b_a3b b200 8 16 8 16 4096 0.972
ratio 'N6 8 to 32 B200' qwen3_30b_a3b b200 8 32 8 16 4096 0.965
ratio 'N6 8 to 64 B200' qwen3_30b_a3b b200 8 64 8 16 4096 0.953
ratio 'N6 8 to 128 B200' qwen3_30b_a3b b200 8 128 8 16 4096 0.936
dispatch 'N7 DeepEP, 8 H800, GB/s' 8 153
dispatch 'N7 16 H800' 16 43
dispatch 'N7 32 H800' 32 58
dispatch 'N7 64 H800' 64 51
ratio 'N9 Llama 3 8B, 1 to 4 H200, ratio' llama_3_8b h200 1 4 1 8 4096 0.931
row   'N9 Llama 3 13B, 8 H200' llama_3_13b h200 8 1 16 4096 4426

awk '{ rows[$1]++; near[$1] += $2; wrong += $3 == 5 && !$2 }
    END {
        for (run in rows) agree += near[run] >= rows[run] / 2
        print agree " of 9 runs agree"
        if (wrong) print wrong " ratios are off by more than 5 %"
        exit wrong || agree < 7 }' "$work/runs"

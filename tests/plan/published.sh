#!/bin/sh
# Compares `moec plan` with published training runs: tokens/s per device, or the ratio to a run on fewer devices, and the relative error.
# Runs marked * calibrate the machines: the fraction of the peak that products reach, and the spread of the time of a step. B200 has the
# numbers of H100.
# Their frameworks shard the weights (FSDP), which moves as many bytes as train.zero = 1, and overlap; so times are without the part
# that can be hidden. Sequences per device are assumed where they are not published: 1 for N3, 2 and 4 for N4 and N5, 16 for N6, whose
# predictions need a batch that hides the gradients (with 1, the ratios are 0.3 to 0.6). Needs jq. Prints a table; exits 1 without a
# prediction, and if a ratio is off by more than 5 %.
#
# Sources: N1 torchtitan, performance of Llama 3.1 8B with compile on H100; N3 PyTorch FSDP2, A100; N4 IBM fms-fsdp, 128 A100 and 96
# H100; N5 OLMo-core, H100; N6 torchtitan, Qwen3-30B-A3B, experts divided over the 8 devices of a node, B200.
set -eu
cd "$(dirname "$0")/../.."
moec=${BUILD:-build}/moec

# Seconds of a step per sequence of a device: MODEL MACHINE RANKS EXPERT SEQUENCES SETS...
seconds() {
    model=$1 machine=$2 ranks=$3 expert=$4 sequences=$5
    shift 5
    "$moec" plan "tests/plan/published.moe:$model" --machine "$machine" --ranks "$ranks" --set train.batch_size=$((ranks * sequences)) "$@" --json |
        jq -e "[.meshes[] | select(.expert == $expert and .refused == null) | .seconds - .hideable] | min / $sequences"
}

# NAME MODEL MACHINE RANKS EXPERT SEQUENCES CONTEXT PUBLISHED: tokens/s per device
row() {
    one=$(seconds "$2" "$3" "$4" "$5" "$6")
    awk -v name="$1" -v time="$one" -v context="$7" -v published="$8" \
        'BEGIN { found = context / time; printf "%-34s %10.0f %10.0f %+7.1f %%\n", name, published, found, 100 * (found / published - 1) }'
}

# NAME MODEL MACHINE FEWER MORE EXPERT SEQUENCES PUBLISHED: tokens/s on more devices, relative to fewer
ratio() {
    one=$(seconds "$2" "$3" "$4" "$6" "$7")
    other=$(seconds "$2" "$3" "$5" "$6" "$7")
    awk -v name="$1" -v a="$one" -v b="$other" -v published="$8" \
        'BEGIN { found = a / b; off = 100 * (found / published - 1); printf "%-34s %10.3f %10.3f %+7.1f %%\n", name, published, found, off
                 exit off < -5 || off > 5 }'
}

printf '%-34s %10s %10s %9s\n' run published predicted error
row   'N1* Llama 3.1 8B, 8 H100' llama_3_8b h100 8 1 1 8192 6667
ratio 'N1* 8 to 128 H100, ratio' llama_3_8b h100 8 128 1 1 0.977
row   'N1 128 H100' llama_3_8b h100 128 1 1 8192 6514
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
ratio 'N6 Qwen3-30B-A3B, 8 to 16 B200' qwen3_30b_a3b b200 8 16 8 16 0.972
ratio 'N6 8 to 32 B200' qwen3_30b_a3b b200 8 32 8 16 0.965
ratio 'N6 8 to 64 B200' qwen3_30b_a3b b200 8 64 8 16 0.953
ratio 'N6 8 to 128 B200' qwen3_30b_a3b b200 8 128 8 16 0.936

#!/bin/sh
# Coordinate checks: activations and their changes over widths, depths and numbers of experts, with rules that preserve them and
# without rules. With `all`: at full size, and 8 of 64 experts, whose means need many random initializations (minutes). SHOW=1
# prints the tables. Largest factor of size and change at full size:
#
#                                        size    change   largest in
#   width 64 to 1024   complete_mue      1.12      1.13            head = multiplier
#                      completep         1.12      1.13
#                      complete_mue     17.1      17.1    logits   head = both: as published, smaller and slower with width
#                      standard        105       196      block.0.attention.query
#   4 to 32 layers     complete_mue      1.33      1.36
#                      standard         10.1      17.1    block.0.attention.output
#   2 to 64 experts,   complete_mue      1.20      1.29
#   half of them       standard         32.1      43.7    block.0.ffn.expert.down
#   active, as fine
#   dense to 64        complete_mue      1.13      1.21
#   experts, all
#   8 of 8 to 8 of 64  complete_mue      1.11      1.45      means of 32 initializations, of four 1.42 to 1.51; 1.48 with a
#                                                            batch 8 and 32 times as large: tokens of an expert are similar
. "$(dirname "$0")/../begin.sh"

wide="--vary dim=64,256 --vary attention.heads.q=2,8 --vary ffn.hidden_dim=64,256 --set layers=2"
deep="--vary layers=4,16"
experts="--vary ffn.experts=2,16 --vary ffn.top_k=1,8 --vary ffn.expert.hidden_dim=256,32 --set layers=2"
mixed="--vary ffn.experts=1,64 --vary ffn.top_k=1,64 --vary ffn.expert.hidden_dim=512,8 --set layers=2"
sparse= several=2
if [ "${1:-}" = all ]; then
    several=4
    wide="--vary dim=64,128,256,512,1024 --vary attention.heads.q=2,4,8,16,32
          --vary ffn.hidden_dim=64,128,256,512,1024 --set layers=2"
    deep="--vary layers=4,8,16,32"
    experts="--vary ffn.experts=2,4,8,16,32,64 --vary ffn.top_k=1,2,4,8,16,32
             --vary ffn.expert.hidden_dim=256,128,64,32,16,8 --set layers=2"
    mixed="--vary ffn.experts=1,8,64 --vary ffn.top_k=1,8,64 --vary ffn.expert.hidden_dim=512,64,8 --set layers=2"
    sparse="--vary ffn.experts=8,16,32,64 --vary ffn.top_k=8,8,8,8 --set ffn.expert.hidden_dim=64 --set layers=2"
fi

export MOEC_CFLAGS=-O0

# verdict DRAWS MODEL EXPECTED OPTIONS...: compares the last line, without its numbers, with EXPECTED
verdict() {
    draws=$1 model=$2 expected=$3
    shift 3
    moec coordcheck "tests/transfer.moe:coordinates_$model" --num-seeds "$draws" "$@" >"$work/table" 2>&1 || true
    found=$(tail -n 1 "$work/table" | sed 's/, whose \([a-z]*\) .*/, \1/')
    [ -z "${SHOW:-}" ] || cat "$work/table"
    [ "$found" = "$expected" ] || { cat "$work/table"; wrong "$model: '$found', not '$expected'"; }
}

keeps="stays within a factor 1.5"
verdict $several mue "$keeps" $wide
verdict $several completep "$keeps" $wide
verdict 1 both "at fault: logits, size" $wide
verdict 1 standard "at fault: block.0.attention.query, size" $wide
verdict $several mue "$keeps" $deep
verdict 1 standard "at fault: block.0.attention.output+, size" $deep
verdict $several experts "$keeps" $experts
verdict $several experts "$keeps" $mixed
verdict 1 experts_standard "at fault: block.0.ffn.expert.down+, size" $experts
[ -z "$sparse" ] || verdict 16 experts "$keeps" $sparse

#!/bin/sh
# bench --kernels launches each kernel of a GPU many times; a kernel that changes its own input is launched once. A routed layer
# whose groups have many rows; every memory access is checked.
. "$(dirname "$0")/../begin.sh"
on_simulator
unset MOEC_SIM
moec bench tests/gpu.moe:moe_layer --device cuda --kernels --json --set dim=8 --set ffn.experts=4 --set ffn.top_k=2 \
    --set ffn.expert.hidden_dim=8 -b 1 -c 40 >"$work/report" 2>"$work/log" || wrong "$(cat "$work/log")"
for kernel in moec_pack_sum_in_place moec_pack_fill moec_pack_list; do
    grep -q "\"name\": \"$kernel\"" "$work/report" || wrong "$kernel is not timed"
done

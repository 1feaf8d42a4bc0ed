#!/bin/sh
# Finer experts with the same activated size need no more memory for the backward pass. The saved activations of the routed
# layers do not grow with the number of experts. Total memory grows only by the working memory of one layer.
. "$(dirname "$0")/../begin.sh"
cat >"$work/fine.moe" <<'MODEL'
use decoder

model fine = decoder {
  vocab_size = 64, dim = 128, layers = 16
  attention = { heads = { q = 4 }, head_dim = 32 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 256 }, route_norm = top_k }
  train = { batch_size = 2, context_length = 64 }
}
MODEL
# measure TARGET PRECISION FINE: bytes of the saved activations of the experts, and total bytes, with experts that are FINE
# times finer.
measure() {
    moec dump "$work/fine.moe" --mode train --after plan --target "$1" --set train.precision="$2" --set ffn.experts=$((4 * $3)) \
        --set ffn.top_k=$((2 * $3)) --set ffn.expert.hidden_dim=$((256 / $3)) >"$work/plan"
    awk '/bytes total/ { all = $1 } $5 ~ /^(expert|act)_/ && $4 - $3 > 30 { kept += $2 } END { print kept, all }' "$work/plan"
}

# same TARGET PRECISION MOST: finer experts save no more; total memory is at most MOST % of the original.
same() {
    most=$3
    set -- "$1" "$2"
    read -r kept all <<END
$(measure "$@" 1)
END
    [ "$kept" -gt 0 ] || wrong "$*: no activation of the experts is saved"
    for fine in 2 4 8; do
        read -r kept_fine all_fine <<END
$(measure "$@" "$fine")
END
        [ "$kept_fine" -le $((kept * 102 / 100)) ] ||
            wrong "$*: $fine times finer experts save $kept_fine bytes instead of $kept"
        [ "$all_fine" -le $((all * most / 100)) ] ||
            wrong "$*: $fine times finer experts use $all_fine bytes total instead of $all"
        echo "$*: $fine times finer: $kept_fine of $kept, $all_fine of $all"
    done
}
same c f32 105
# On a device all dispatched rows of a layer are in memory at once.
same cuda f32 110
same cuda bf16 110

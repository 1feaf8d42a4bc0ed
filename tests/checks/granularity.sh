#!/bin/sh
# Finer experts of the same active size keep no more for the way back: what lives from the forward to the backward pass of
# the routed layers does not grow with their number, and all memory grows by what one layer needs at a time.
. "$(dirname "$0")/../begin.sh"
cat >"$work/fine.moe" <<'MODEL'
use decoder

model fine = decoder {
  vocab = 64, dim = 128, layers = 16
  attention = { heads = { q = 4 }, head_dim = 32 }
  ffn = moe { experts = 4, top = 2, expert = swiglu { hidden = 256 }, weights = renormalised }
  train = { batch = 2, context = 64 }
}
MODEL
# Bytes of what is kept of the experts, and of everything.
measure() {
    moec dump "$work/fine.moe" --graph train --after plan --set ffn.experts=$((4 * $1)) --set ffn.top=$((2 * $1)) \
        --set ffn.expert.hidden=$((256 / $1)) >"$work/plan"
    awk '/bytes in all/ { all = $1 } $5 ~ /^(expert|act)_/ && $4 - $3 > 30 { kept += $2 } END { print kept, all }' "$work/plan"
}
read -r kept all <<END
$(measure 1)
END
[ "$kept" -gt 0 ] || { echo "nothing is kept of the experts"; exit 1; }
for fine in 2 4 8; do
    read -r kept_fine all_fine <<END
$(measure "$fine")
END
    if [ "$kept_fine" -gt $((kept * 102 / 100)) ]; then
        echo "$fine times finer experts keep $kept_fine bytes instead of $kept"
        exit 1
    fi
    if [ "$all_fine" -gt $((all * 104 / 100)) ]; then
        echo "$fine times finer experts want $all_fine bytes in all instead of $all"
        exit 1
    fi
done

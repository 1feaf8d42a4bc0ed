#!/bin/sh
# Prints the table of models/README.md: the rows of the published systems with the counts of `moec check` and of the papers.
# Fails if a count differs without a stated reason. Runs in any directory; `moec` must be on the PATH.
#
# A stated size is total parameters within 2 % (15B), with activated parameters (15B/2.54B), an addition to the first spec of
# the group (+201: million, with the digits of the paper), or an equality (=SPEC or =SPEC+N). It is - if the paper states none.
# the group (+201: million, with the digits of the paper), an equality (=SPEC or =SPEC+N), or - if the paper states none.
set -eu
cd "$(dirname "$0")/.."

rows() {
    cat <<'END'
# Gated Attention
gated_attention:moe_15b | table 1, row 1: baseline | 15B/2.54B | moe_small | nominal size; table 7 with a vocabulary of 151936 has 15.58 and 1.99 activated: 8 of 128 experts, both embeddings
gated_attention:moe_15b_k8 | row 2: 8 key and value heads | +50 | moe_small_k8 |
gated_attention:moe_15b_q48 | row 3: 48 query heads | +201 | moe_small_q48 |
gated_attention:moe_15b_experts | row 4: 4 more experts | +400 | moe_small_experts | 24 layers of 4 experts of 3 * 2048 * 768
gated_attention:moe_15b_sdpa | row 5: SDPA, element | +201 | moe_small_sdpa |
gated_attention:moe_15b_v | row 6: value, element | +25 | moe_small_v |
gated_attention:moe_15b_k | row 7: key, element | +25 | moe_small_k |
gated_attention:moe_15b_q | row 8: query, element | +201 | moe_small_q |
gated_attention:moe_15b_out | row 9: output | +100 | moe_small_out | 24 matrices of 2048 * 2048; truncated, 101 if rounded
gated_attention:moe_15b_sdpa_head | row 10: SDPA, head | +1.6 | moe_small_sdpa_head |
gated_attention:moe_15b_v_head | row 11: value, head | +0.2 | moe_small_v_head |
gated_attention:moe_15b_sdpa_shared | row 12: SDPA, shared | +201 | moe_small_sdpa_shared |
gated_attention:moe_15b_v_shared | row 13: value, shared | +25 | moe_small_v_shared |
gated_attention:moe_15b_sdpa_add | row 14: SDPA, additive SiLU | +201 | moe_small_sdpa_add |
gated_attention:moe_15b_sdpa_silu | row 15: SDPA, SiLU | +201 | moe_small_sdpa_silu |
gated_attention:moe_15b_group_norm | table 3: norm of each head | - | moe_small_group_norm |
gated_attention:moe_15b_itself | table 3: SiLU without parameters | =moe_15b | moe_small_itself |
gated_attention:moe_15b_identity | table 3: additive identity | =moe_15b_sdpa | moe_small_identity |
gated_attention:moe_15b_no_input | table 4: input-independent | =moe_15b+98304 | moe_small_no_input |
gated_attention:moe_15b_ns_sigmoid | table 4: NS-sigmoid | =moe_15b_sdpa | moe_small_ns_sigmoid |
gated_attention:dense_28 | table 2, row 1 | 1.7B | dense_small |
gated_attention:dense_28_sdpa | row 2: SDPA, element | 1.7B | dense_small_sdpa |
gated_attention:dense_28_3t | row 3 | =dense_28 | dense_small |
gated_attention:dense_28_3t_sdpa | row 4 | =dense_28_sdpa | dense_small_sdpa |
gated_attention:dense_28_3t_32k | table 5: 32k | =dense_28 | dense_small |
gated_attention:dense_28_3t_32k_sdpa | table 5: 32k, SDPA, element | =dense_28_sdpa | dense_small_sdpa |
gated_attention:dense_28_3t_yarn | table 5: YaRN, 128k | =dense_28 | dense_small_yarn |
gated_attention:dense_28_3t_yarn_sdpa | table 5: YaRN, 128k, SDPA, element | =dense_28_sdpa | dense_small_yarn |
gated_attention:dense_48 | row 5 | 1.7B | dense_small |
gated_attention:dense_48_fast | row 6: rate 8e-3 | =dense_48 | dense_small |
gated_attention:dense_48_sandwich | row 7: sandwich norm | =dense_48+147456 | dense_small_sandwich |
gated_attention:dense_48_sdpa | row 8: SDPA, element | 1.7B | dense_small_sdpa |
gated_attention:dense_48_head | row 9: SDPA, head | 1.7B | dense_small_head |
gated_attention:dense_48_sdpa_fast | row 10: rate 8e-3 | =dense_48_sdpa | dense_small_sdpa |
gated_attention:dense_48_1t | row 11 | =dense_48 | dense_small |
gated_attention:dense_48_1t_fast | row 12: rate 8e-3 | =dense_48 | dense_small |
gated_attention:dense_48_1t_sdpa | row 13 | =dense_48_sdpa | dense_small_sdpa |
gated_attention:dense_48_1t_sdpa_fast | row 14: rate 8e-3 | =dense_48_sdpa | dense_small_sdpa |
# Sigma
sigma:sigma_1b5 | 1.5B | 1.5B | sigma_small | nominal size without the augmented queries: 26 layers of 18.87 million
sigma:sigma_10b | 10B | 10B | sigma_small_wide |
sigma:standard_1b5 | Std | =sigma_1b5-449839104 | standard_small |
sigma:mha | table 1: 32 keys, 32 values | 1B | mha_small | nominal size; 1.13 without the embedding
sigma:mha_v16 | 16 values | =mha-46137344 | mha_small_v16 |
sigma:mha_k16 | 16 keys | =mha_v16 | mha_small_k16 |
sigma:gqa16 | 16 of both | - | gqa16_small |
sigma:gqa16_v4 | 4 values | - | gqa16_small_v4 |
sigma:gqa16_k4 | 4 keys | =gqa16_v4 | gqa16_small_k4 |
sigma:gqa4 | 4 of both | - | gqa4_small |
sigma:gqa4_v1 | 1 value | - | gqa4_small_v1 |
sigma:gqa4_k1 | 1 key | =gqa4_v1 | gqa4_small_k1 |
sigma:mha_half | table 2: half K width | - | mha_small_half |
sigma:gqa16_half | half K width | - | gqa16_small_half |
sigma:gqa4_half | half K width | - | gqa4_small_half |
sigma:mha_best | table 3: top 100 values | =mha | mha_small_best |
sigma:gqa16_best | top 100 values | =gqa16 | gqa16_small_best |
sigma:gqa4_best | top 100 values | =gqa4 | gqa4_small_best |
sigma:mha_q | table 4: AugQ 5632 | - | mha_small_q |
sigma:gqa16_q | AugQ 3072 | =gqa16_f | gqa16_small_q |
sigma:gqa16_q4096 | AugQ 4096 | - | gqa16_small_q64 |
sigma:gqa16_q5632 | AugQ 5632 | - | gqa16_small_q88 |
sigma:gqa4_q | AugQ 5632 | - | gqa4_small_q |
sigma:gqa16_f | table 5: AugF | =gqa16+415236096 | gqa16_small_f |
sigma:gqa16_2f | 2 AugF | =gqa16+830472192 | gqa16_small_2f |
sigma:gqa16_3f | 3 AugF | - | gqa16_small_3f |
sigma:gqa16_5f | 5 AugF | - | gqa16_small_5f |
sigma:gqa16_f_q | AugF, AugQ | =gqa16_2f | gqa16_small_f_q |
sigma:gqa16_2f_q | 2 AugF, AugQ | =gqa16_3f | gqa16_small_2f_q |
sigma:gqa16_3f_q | 3 AugF, AugQ | - | gqa16_small_3f_q |
sigma:gqa16_q_k4 | table 6: AugQ, 4 keys | =gqa16_q-34603008 | gqa16_small_q_k4 |
sigma:gqa16_q_half | AugQ, half K width | - | gqa16_small_q_half |
sigma:gqa16_k4_half | 4 keys, half K width | - | gqa16_small_k4_half |
sigma:gqa16_q_k4_half | AugQ, 4 keys, half K width | - | gqa16_small_q_k4_half |
# StructMoE
structmoe:baseline_410m | 410M activated: 13 experts | 2B/410M | baseline_small | nominal sizes; 2.72 and 0.26 of untied embeddings; 302 million activated and 263 of embeddings
structmoe:structmoe_410m | 8 experts, 8 LoREs of rank 128 | =baseline_410m+1449984 | structmoe_small |
structmoe:structmoe_410m_paper | 32 LoREs of rank 64 | - | structmoe_small_paper |
structmoe:structmoe_410m_free | no LoRE router | =baseline_410m-122880 | structmoe_small_free |
structmoe:baseline_125m | 125M activated: 10 experts | 710M/125M | baseline_small_ten | nominal sizes; 0.59 and 0.05 of untied embeddings; 85 million activated and 49 of embeddings
structmoe:structmoe_125m | 7 experts, 8 LoREs of rank 64 | =baseline_125m-4230144 | structmoe_small_seven |
structmoe:structmoe_125m_free | no LoRE router | - | structmoe_small_seven_free |
structmoe:structmoe_125m_apart | not entangled | =baseline_125m-101376 | structmoe_small_apart |
structmoe:structmoe_410m_top2 | open: two experts per token | =structmoe_410m | structmoe_small_top2 |
structmoe:structmoe_410m_fine | open: 32 experts | - | structmoe_small_fine |
structmoe:structmoe_410m_gated | open: SwiGLU | - | structmoe_small_gated |
# Complete-muE
complete_mue:mue_tuned | tuned model | - | mue_small_dense |
complete_mue:mue_dense | dense, same activated width | - | mue_small_dense |
complete_mue:mue_e128a8s1 | 128e8a1s | 6.3B/0.62B | mue_small_e8a3s1 | 103 of the 658 million are two embeddings; 0.61 with one
complete_mue:mue_e128a8g4s1 | 128e8a4g1s | =mue_e128a8s1 | mue_small_e16a8g4s1 |
complete_mue:mue_proxy_dense | proxy, dense | - | mue_small_dense |
complete_mue:mue_proxy | 16e4a | - | mue_small |
complete_mue:mue_proxy_e32a4 | capacity | - | mue_small_e16a4 |
complete_mue:mue_proxy_e64a4 | capacity | - | mue_small_e16a4 |
complete_mue:mue_proxy_e32a8 | granularity | - | mue_small_e16a8 |
complete_mue:mue_proxy_e64a16 | granularity | - | mue_small_e16a8 |
complete_mue:mue_proxy_e16a1 | activated experts, bridge II | =mue_proxy | mue_small |
complete_mue:mue_proxy_e16a2 | activated experts, bridge II | =mue_proxy | mue_small |
complete_mue:mue_proxy_e16a8 | activated experts, bridge II | =mue_proxy | mue_small_e16a8 |
complete_mue:mue_proxy_e4a4 | dense mixture, bridge I | - | mue_small |
complete_mue:mue_proxy_e8a8 | dense mixture, bridge I | - | mue_small |
complete_mue:mue_proxy_e16a3s1 | shared expert | - | mue_small_e8a3s1 |
complete_mue:mue_proxy_e16a4g2 | groups | =mue_proxy | mue_small_e8a4g2 |
complete_mue:mue_proxy_choice | expert-choice routing | =mue_proxy | mue_small_choice |
complete_mue:mue_proxy_w256 | width | - | mue_small |
complete_mue:mue_proxy_w512 | width | - | mue_small |
complete_mue:mue_proxy_w1024 | width | - | mue_small |
complete_mue:mue_proxy_l4 | depth | - | mue_small |
complete_mue:mue_proxy_l8 | depth | - | mue_small |
complete_mue:mue_proxy_l16 | depth | - | mue_small |
complete_mue:mue_proxy_batch | batch | =mue_proxy | mue_small |
complete_mue:mue_proxy_long | duration | =mue_proxy | mue_small |
dit:dit_tuned | images, tuned model | - | dit_small |
dit:dit_dense | images, dense | - | dit_small |
dit:dit_e128a8s1 | images, 128e8a1s | 6.3B | dit_small_e8a3s1 |
dit:dit_e128a8g4s1 | images, 128e8a4g1s | =dit_e128a8s1 | dit_small_e8a4g2 |
dit:dit_proxy_dense | images, proxy, dense | - | dit_small |
dit:dit_proxy | images, 16e4a | - | dit_small_e8a3s1 |
dit:dit_choice | images, expert-choice routing | =dit_e128a8s1 | dit_small_choice |
END
}

# "spec total active cache" of every full row.
count_rows() {
    rows | sed -n 's/^\([a-z_]*\):\([a-z0-9_]*\) .*/\1 \2/p' | while read -r family spec; do
        moec check --json "models/$family.moe:$spec" | awk -v spec="$spec" '
            /"total":/ && !total { total = $2 + 0 }
            /"active":/ && !active { active = $2 + 0 }
            /"cache_bytes_per_token":/ { cache = $2 + 0 }
            END { printf "%s %.0f %.0f %.0f\n", spec, total, active, cache }'
    done
}

table() {
    awk -F ' *[|] *' '
        function number(text) { return text ~ /B/ ? text * 1e9 : text * 1e6 }
        function short(n) { return n < 1e9 ? sprintf("%.1fM", n / 1e6) : sprintf("%.3fB", n / 1e9) }
        function wrong(spec, says) { print spec ": " says > "/dev/stderr"; bad = 1 }
        FNR == NR { split($0, part, " "); total[part[1]] = part[2]; active[part[1]] = part[3]; cache[part[1]] = part[4]; next }
        /^#/ {
            printf "\n## %s\n\n| spec | row of the paper | parameters | stated | activated | KV cache, B/token | verified by | difference |\n|---|---|---|---|---|---|---|---|\n", substr($0, 3)
            base = ""
            next
        }
        {
            spec = $1; sub(/.*:/, "", spec); stated = $3; why = $5; ours = short(total[spec]); visits = ""
            if (split(stated, both, "/") == 2) {
                stated = both[1]; visits = both[2]; share = active[spec] / number(visits)
                if ((share < 0.98 || share > 1.02) && why == "") wrong(spec, short(active[spec]) " activated parameters are not within 2 % of " visits)
                visits = " (" visits ")"
            }
            if (base == "") base = spec
            if (stated ~ /^[+]/) {
                digits = index(stated, ".") ? length(stated) - index(stated, ".") : 0
                added = (total[spec] - total[base]) / 1e6
                difference = added - substr(stated, 2)
                ours = sprintf("+%.*fM", digits + 2, added)
                if ((difference < 0 ? -difference : difference) > 0.5 * 10 ^ -digits && why == "") wrong(spec, "adds " added " million, not " stated)
                stated = stated "M"
            } else if (stated ~ /^=/) {
                other = substr(stated, 2); more = 0
                if (match(other, /[+-][0-9]+$/)) { more = substr(other, RSTART) + 0; other = substr(other, 1, RSTART - 1) }
                if (total[spec] != total[other] + more) wrong(spec, total[spec] - total[other] " more than " other ", not " more)
                stated = "as `" other "`" (more ? sprintf(" %s %d", more < 0 ? "-" : "+", more < 0 ? -more : more) : "")
            } else if (stated != "-") {
                share = total[spec] / number(stated)
                if ((share < 0.98 || share > 1.02) && why == "") wrong(spec, ours " is not within 2 % of " stated)
            }
            keeps = cache[spec] ? cache[spec] : $1 ~ /^dit:/ ? "sampled" : "none"
            printf "| `%s` | %s | %s | %s | %s | %s | `%s` | %s |\n", spec, $2, ours, stated, short(active[spec]) visits, keeps, $4, why
        }
        END {
            if (cache["sigma_1b5"] * 8 != cache["standard_1b5"] * 5) wrong("sigma_1b5", "the cache is not 37.5 % below Std")
            exit bad
        }' "$1" -
}

counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
count_rows >"$counts"
rows | table "$counts"

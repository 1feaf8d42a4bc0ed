#!/bin/sh
# Deprecated names work and print their note once; names that users try get a suggestion; a checkpoint with old names loads
# without a note and resumes to the same numbers. The deprecated names are read from the declarations; the second list is
# independent of them.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0
spec=$work/spec.moe
cat >"$spec" <<'EOF'
use decoder
use recurrent
use latent
use muon
use adafactor
use shampoo
model m = decoder { dim = 32, layers = 1, attention.heads.q = 2, ffn.hidden_dim = 32, train = { batch_size = 2, context_length = 16 } }
EOF

# notes COUNT PATTERN: COUNT lines of $work/log begin with the note.
notes() {
    found=$(grep -cF "note: $2" "$work/log") || :
    [ "$found" = "$1" ] || wrong "$found notes instead of $1: '$2': $(cat "$work/log")"
}

# ---- every name that the standard library declares as deprecated ----

# "LAYER OPTION OLD" for each name, without values and paths.
cat stdlib/*.moe | awk '
    /^(layer|optimizer|schedule) / { layer = $2; sub(/\(.*/, "", layer) }
    /^  option / { option = $2; sub(/:$/, "", option) }
    /probe .* was \[/ { next }
    { text = text " " $0 }
    match($0, /was \[[^]]*\]/) {
        count = split(substr($0, RSTART + 5, RLENGTH - 6), names, /, */)
        for (i = 1; i <= count; i++) if (names[i] !~ /=>|\./ && $0 !~ /^layer/) print layer, option, names[i]
    }' >"$work/declared"
[ "$(wc -l <"$work/declared")" -ge 110 ] || wrong "only $(wc -l <"$work/declared") deprecated names are declared"

for layer in $(cut -d' ' -f1 "$work/declared" | sort -u); do
    given=$(awk -v layer="$layer" '$1 == layer { printf "%s = 1 ", $3 }' "$work/declared")
    case $layer in
    decoder)
        set --
        for old in $(awk '$1 == "decoder" { print $3 }' "$work/declared"); do set -- "$@" --set "$old=1"; done
        ;;
    train) set -- --set "train={ $given }" ;;
    adamw | sgd | muon | adafactor | shampoo) set -- --set "train.optimizer=$layer { $given }" ;;
    constant | cosine | wsd) set -- --set "train.schedule=$layer { $given }" ;;
    attention | latent_attention | lstm | min_gru | linear_attention | retention | gated_delta | mamba2 | gla | rwkv7)
        set -- --set "attention=$layer { $given }" ;;
    conv) set -- --set "attention=gated_delta { conv = $layer { $given } }" ;;
    gate | augment) set -- --set "attention.$layer=$layer { $given }" ;;
    widen) set -- --set "attention.key_expansion=$layer { $given }" ;;
    *rotary | plain_frequency) set -- --set "attention.rotary=$layer { $given }" ;;
    *) set -- --set "ffn=$layer { $given }" ;;
    esac
    moec check "$spec" "$@" >/dev/null 2>"$work/log" || :
    awk -v layer="$layer" '$1 == layer' "$work/declared" | while read -r _ option old; do
        notes 1 "option '$old' is now '$option'; the old name will be removed in version"
    done
done

# ---- an independent list, in whole models: old names and values have the same effect as new ones ----

# same OLD NEW: both records make the same model, the first with notes.
same() {
    printf 'use decoder\nuse recurrent\nuse latent\nuse muon\nuse adafactor\nuse shampoo\nmodel m = decoder {\n%s\n}\n' "$1" >"$work/old.moe"
    printf 'use decoder\nuse recurrent\nuse latent\nuse muon\nuse adafactor\nuse shampoo\nmodel m = decoder {\n%s\n}\n' "$2" >"$work/new.moe"
    moec check "$work/old.moe" --json >"$work/one" 2>"$work/log" || wrong "$1: $(cat "$work/log" "$work/one")"
    moec check "$work/new.moe" --json >"$work/other" 2>"$work/new" || wrong "$2: $(cat "$work/new")"
    grep -q 'note: .* is now' "$work/log" || wrong "no note: $1"
    ! grep -q 'note: .* is now' "$work/new" || wrong "a note for new names: $(cat "$work/new")"
    sed -i '/"\(file\|column\|end_column\)"/d' "$work/one" "$work/other"
    cmp -s "$work/one" "$work/other" || wrong "another model: $1: $(diff "$work/one" "$work/other")"
    moec dump "$work/old.moe" --after elaborate --graph train >"$work/one" 2>/dev/null
    moec dump "$work/new.moe" --after elaborate --graph train >"$work/other" 2>/dev/null
    cmp -s "$work/one" "$work/other" || wrong "another program: $1"
    cp "$work/old.moe" "$work/formatted.moe"
    moec fmt "$work/formatted.moe" 2>/dev/null
    moec check "$work/formatted.moe" >/dev/null 2>"$work/log" || wrong "fmt: $(cat "$work/log")"
    ! grep -q 'note: option .train' "$work/log" || :
    if ! grep -q 'weights = \(bf16\|f32\|int8\)' "$work/formatted.moe"; then
        ! grep -q 'note: .* is now' "$work/log" || wrong "fmt left an old name: $(cat "$work/log" "$work/formatted.moe")"
    fi
}
small="dim = 32, layers = 2"
same "$small, vocab = 64, tied = true, drop = 0.1, cap = 20, spread = 0.1, amplify = 2, sandwich = true, separator = 3
  train = { batch = 2, context = 16, accumulate = 2, clip = 0.5, average = 0.9, evaluate = 5, checkpoint = 6, remat = layer, chunk = 64, places = 8 }" \
    "$small, vocab_size = 64, tie_embeddings = true, dropout = 0.1, softcap = 20, init_std = 0.1, embedding_scale = 2, post_norm = true, document_start_token = 3
  train = { batch_size = 2, context_length = 16, gradient_accumulation_steps = 2, grad_clip = 0.5, ema_decay = 0.9, eval_interval = 5, save_interval = 6, activation_checkpointing = layer, logits_chunk_size = 64, scan_chunk_size = 8 }"
same "$small, before = false, sandwich = true, parallel = true, positions = learned, attention.rotary = none, mixers = [attention, gla { temperature = 4 }], ffns = [mlp { hidden = 24, shrink = 0.5, spread = 0.1 }], first = 1, first_ffn = swiglu { hidden = 8 }" \
    "$small, pre_norm = false, post_norm = true, parallel_residual = true, position_embedding = learned, attention.rotary = none, token_mixers = [attention, gla { gate_logit_normalizer = 4 }], ffn_layers = [mlp { hidden_dim = 24, output_init_scale = 0.5, init_std = 0.1 }], dense_layers = 1, dense_ffn = swiglu { hidden_dim = 8 }"
same "$small, attention = { heads.q = 2, cap = 5, best = 4, shrink = 0.5, bias = true, out_bias = false, key_dim = 8, widen = { hidden = 6 }, rotate = kept, out_norm = true, out_scale = head
    gate = [{ at = sdpa, reads = itself }, { at = v, spread = 0.2 }], rotary = { base = 500, dim = 4, pairs = neighbours, amplify = 0.5 } }" \
    "$small, attention = { heads.q = 2, softcap = 5, top_values = 4, output_init_scale = 0.5, bias = true, output_projection_bias = false, cached_key_dim = 8, key_expansion = { hidden_dim = 6 }, rope_on = cached, output_norm = true, output_norm_scale = head
    gate = [{ at = sdpa, source = self }, { at = v, init_std = 0.2 }], rotary = { theta = 500, rotary_dim = 4, pairs = interleaved, output_scale = 0.5 } }"
same "$small, attention = { heads.q = 2, qk_wide = true, wide_norm.eps = 1e-4, key_dim = 8, rotate = wide, gate = { reads = nothing }, rotary = llama3_rotary { base = 900, low = 1, high = 3, factor = 2, original = 8, pairs = halves } }" \
    "$small, attention = { heads.q = 2, qk_norm_all_heads = true, qk_norm_all_heads_layer.eps = 1e-4, cached_key_dim = 8, rope_on = expanded, gate = { source = constant }, rotary = llama3_rotary { theta = 900, low_freq_factor = 1, high_freq_factor = 3, factor = 2, original_context_length = 8, pairs = half } }"
same "$small, attention = latent_attention { heads = 2, head_dim = 8, rank = 12, query_rank = 8, shrink = 0.5, rotary = yarn_rotary { factor = 4, original = 8, fast = 16, slow = 2, magnitude = 1.5 } }" \
    "$small, attention = latent_attention { heads = 2, head_dim = 8, kv_lora_rank = 12, q_lora_rank = 8, output_init_scale = 0.5, rotary = yarn_rotary { factor = 4, original_context_length = 8, beta_fast = 16, beta_slow = 2, attention_factor = 1.5 } }"
same "$small, ffn = moe { experts = 8, top = 2, groups = 2, shared = swiglu, shared_gate = true, route = 2, weights = grouped, choice = token, balance = 0.1, balance_over = step, z = 0.01, spread = 0.1, steer = 0.001, expert = lore_mlp { hidden = 8, top = 2, shrink = 0.5, spread = 0.1 } }" \
    "$small, ffn = moe { experts = 8, top_k = 2, uniform_groups = 2, shared_expert = swiglu, shared_expert_gate = true, route_scale = 2, route_norm = group, routing = token_choice, aux_loss_coef = 0.1, aux_loss_scope = global_batch, z_loss_coef = 0.01, init_std = 0.1, bias_update_rate = 0.001, expert = lore_mlp { hidden_dim = 8, top_k = 2, output_init_scale = 0.5, init_std = 0.1 } }"
same "$small, ffn = moe { experts = 8, top = 2, nodes = 2, top_nodes = 1, weights = renormalised, balance = 0.1, balance_over = batch }, attention = mamba2 { heads = 2, states = 4, conv.width = 3 }" \
    "$small, ffn = moe { experts = 8, top_k = 2, expert_groups = 2, top_k_groups = 1, route_norm = top_k, aux_loss_coef = 0.1, aux_loss_scope = micro_batch }, attention = mamba2 { heads = 2, state_size = 4, conv.kernel_size = 3 }"
same "$small, ffn = moe { choice = expert, weights = raw }, train = { schedule = cosine { warmup = 3, floor = 0.2 }, optimizer = adamw { decay = 0.3, decays = all } }" \
    "$small, ffn = moe { routing = expert_choice, route_norm = none }, train = { schedule = cosine { warmup_steps = 3, min_lr_ratio = 0.2 }, optimizer = adamw { weight_decay = 0.3, weight_decay_scope = all } }"
same "$small, train = { schedule = wsd { share = 0.3 }, optimizer = muon { iterations = 3, adjust = shape, decay = 0.2, other = sgd { decay = 0.1 } } }" \
    "$small, train = { schedule = wsd { decay_ratio = 0.3 }, optimizer = muon { ns_steps = 3, adjust_lr = original, weight_decay = 0.2, fallback = sgd { weight_decay = 0.1 } } }"
same "$small, train.optimizer = adafactor { power = 0.7, least = 1e-2, limit = 2, decay = 0.1 }" \
    "$small, train.optimizer = adafactor { decay_exponent = 0.7, min_scale = 1e-2, clip_threshold = 2, weight_decay = 0.1 }"
same "$small, train.optimizer = shampoo { memory = 0.9, largest = 64, spread = 0.1, other = muon { adjust = rms } }" \
    "$small, train.optimizer = shampoo { beta2 = 0.9, max_dim = 64, update_rms = 0.1, fallback = muon { adjust_lr = match_rms_adamw } }"
same "$small, train = { weights = bf16, cache = int8 }" "$small, inference = { weight_dtype = bf16, kv_cache_dtype = int8 }"
same "$small, parameters = [{ of = \"block.*\", decay = 0 }]" "$small, parameters = [{ of = \"block.*\", weight_decay = 0 }]"

# The later of an old and a new name counts, wherever they are.
# size_is N ARGUMENT...
size_is() {
    moec dump "$spec" --after elaborate --graph forward "$2" "$3" "$4" "$5" 2>/dev/null | grep -q "input tokens\[batch=$1," || wrong "not the later of: $*"
}
size_is 5 --set train.batch=3 --set train.batch_size=5
size_is 3 --set train.batch_size=5 --set train.batch=3

# The language, and options of custom layers.
moec check tests/old_run/old.moe >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
for pair in "type 'real' is now 'float'" "type 'flag' is now 'bool'" "type 'word' is now 'enum'" \
    "input kind 'next' is now 'next_token'" "function 'top' is now 'top_k'" "function 'stop' is now 'stop_gradient'" \
    "option 'cap' is now 'softcap'" "option 'context' is now 'context_length'"; do
    notes 1 "$pair"
done
cat >"$work/own.moe" <<'EOF'
use decoder
layer part(x[s,d]) -> y[s,d] was [piece] suggest [fragment] {
  option scale: float = 1 "factor" was [gain] suggest [multiplier]
  option kind: enum in [one, two] = one "kind" was [uno => one]
  y = scale * x
  if kind == two { y = 2 * y }
}
layer mixer(x[s,d]) -> y[s,d] {
  option documents: any = none
  y = x
  if documents != none { y[s,d] = x[s,d] * (documents[s] > 0) }
}
parametrization rule {
  kind head if product and last { forward = forward / fan_in, }
}
model m = decoder { ffn = piece { gain = 2, kind = uno }, attention = mixer, separator = 3 }
EOF
sed -i 's/ \/ fan_in, }/ \/ fan_in }/' "$work/own.moe"
moec check "$work/own.moe" >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
for pair in "layer 'piece' is now 'part'" "option 'gain' is now 'scale'" "option 'kind': value 'uno' is now 'one'" \
    "option 'documents' is now 'document_ids'" "condition 'product' is now 'matmul'" "setting 'forward' is now 'multiplier'"; do
    notes 1 "$pair"
done
cat >"$work/experiment.moe" <<'EOF'
use decoder
model m = decoder { dim = 32, layers = 1, ffn = moe { experts = 4 }, train = { batch_size = 2, context_length = 16, steps = 2 } }
experiment e {
  base = m
  vary ffn.top = [1, 2]
  metric = { name = loss, better = high }
  keep = { diverged_above = 100 }
}
EOF
moec sweep "$work/experiment.moe" --out "$work/none" --dry-run >"$work/plan" 2>"$work/log" || wrong "$(cat "$work/log")"
for pair in "entry 'base' is now 'baseline'" "entry 'keep' is now 'early_stopping'" "entry 'better' is now 'goal'" "value 'high' is now 'maximize'"; do
    notes 1 "$pair"
done

# Probes of experiments: the numbers of the log, and of validation data.
cat stdlib/*.moe | sed -n 's/.*probe \([a-z_]*\).* was \[\([a-z_]*\)\].*/\2 \1/p' | sort -u >"$work/probes"
[ "$(wc -l <"$work/probes")" -ge 4 ] || wrong "only these deprecated probes are declared: $(cat "$work/probes")"
while read -r old now; do
    sed "s/name = loss, better = high/name = \"val_$old.layer.1\"/" "$work/experiment.moe" >"$work/probed.moe"
    moec sweep "$work/probed.moe" --out "$work/none" --dry-run >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
    notes 1 "metric 'val_$old.layer.1' is now 'val_$now.layer.1'"
    moec fmt "$work/probed.moe" 2>"$work/log"
    grep -q "val_$now.layer.1" "$work/probed.moe" || wrong "fmt left val_$old.layer.1: $(cat "$work/probed.moe" "$work/log")"
done <"$work/probes"
grep -q 'top_k' "$work/plan" || wrong "a variant has an old name: $(cat "$work/plan")"

# ---- suggestions ----

# suggests TEXT NAME...: each name, set to 1 without a path, gets a help line with the text.
suggests() {
    text=$1
    shift
    for name; do
        case $name in *=*) set=$name ;; *) set=$name=1 ;; esac
        ! moec check "$spec" $routed --set "$set" >/dev/null 2>"$work/log" || wrong "$set is not an error"
        grep "^ *help: " "$work/log" | grep -qF -- "$text" || wrong "$set: no '$text': $(cat "$work/log")"
    done
}
routed=
suggests "'dim'" d_model hidden_size n_embd embed_dim
suggests "'layers'" n_layer num_layers num_hidden_layers depth
suggests "'attention.heads.q'" num_heads n_head num_attention_heads attention.num_heads attention.n_head
suggests "'attention.heads.k' and 'attention.heads.v'" num_key_value_heads n_kv_heads kv_heads
suggests "'ffn.hidden_dim'" intermediate_size d_ff ffn_dim ffn.intermediate_size
suggests "'ffn.act'" hidden_act activation
suggests "'train.context_length'" seq_len max_seq_len block_size n_ctx max_position_embeddings train.seq_len
suggests "'train.batch_size'" batch_size micro_batch_size per_device_train_batch_size batch
suggests "'train.gradient_accumulation_steps'" global_batch_size grad_accum accumulate_grad_batches
suggests "'train.steps" max_steps max_iters num_steps epochs
suggests "batch_size * context_length" epochs
suggests "'train.lr'" learning_rate max_lr
suggests "'train.schedule.min_lr_ratio'" min_lr
suggests "'train.schedule.warmup_steps'" warmup_steps warmup_iters num_warmup_steps
suggests "'train.schedule'" lr_scheduler scheduler
suggests "use one of the schedules: constant, cosine, wsd" lr_scheduler
suggests "'train.optimizer.weight_decay'" weight_decay
suggests "'train.optimizer.beta1' and 'train.optimizer.beta2'" betas
suggests "'train.optimizer.beta1'" adam_beta1
suggests "'train.grad_clip'" max_grad_norm clip_grad
suggests "'train.eval_interval'" eval_every eval_steps train.eval_every
suggests "'train.save_interval'" save_every save_steps
suggests "'train.activation_checkpointing'" gradient_checkpointing recompute
suggests "'train.precision'" dtype torch_dtype bf16 mixed_precision amp
suggests "'tie_embeddings'" tie_word_embeddings
suggests "'init_std'" initializer_range
suggests "'norm.eps'" rms_norm_eps
suggests "'attention.rotary.theta'" rope_theta attention.rope_theta
suggests "'attention.window'" sliding_window window_size
suggests "'attention.bias'" qkv_bias attention_bias
for routed in "" "--set ffn=moe"; do
    suggests "'ffn.experts'" num_experts n_routed_experts
    suggests "'ffn.top_k'" num_experts_per_tok moe_top_k
    suggests "'ffn.aux_loss_coef'" router_aux_loss_coef
    suggests "route_norm = top_k'" norm_topk_prob
    suggests "'ffn.shared_expert'" n_shared_experts
done
routed=
suggests "'silu'" ffn.act=swish
suggests "'adamw'" train.optimizer=adam
suggests "'wsd { decay_ratio = 1 }'" train.schedule=linear
suggests "'rms_norm'" norm=rmsnorm
suggests "'f32'" train.precision=float32
suggests "'bf16'" train.precision=bfloat16 inference.weight_dtype=bfloat16
suggests "write tie_embeddings = true" tie_embeddings=yes

# ---- a run of an earlier version ----

mkdir "$work/run"
base64 -d tests/old_run/last.safetensors.gz.base64 | gunzip >"$work/run/last.safetensors"
awk 'BEGIN { x = 7; for (i = 0; i < 600; i++) { x = (x * 137 + 61) % 1009; printf "%c", 1 + x % 31 } }' >"$work/text"
moec eval "$work/run" --data "$work/text" >"$work/out" 2>"$work/log" || wrong "$(cat "$work/log")"
! grep -q 'is now' "$work/log" || wrong "a note for a checkpoint: $(cat "$work/log")"
moec train tests/old_run/old.moe --data "$work/text" --out "$work/run" --resume >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
sed -n 's/.*"step":\([0-9]*\),"loss":\([0-9.]*\).*/\1 \2/p' "$work/run/log.jsonl" >"$work/losses"
printf '4 3.74705946\n5 3.7083745\n6 3.66053951\n' |
    awk 'NR == FNR { loss[$1] = $2; next } { d = loss[$1] - $2; if (d < 0) d = -d; if (!($1 in loss) || d > 1e-5) exit 1; seen++ } END { if (seen != 3) exit 1 }' - "$work/losses" ||
    wrong "the resumed run has other losses: $(cat "$work/losses")"

# A mixture of experts: the results of the version that trained it. Its probes were called load and busiest.
mkdir "$work/moe"
base64 -d tests/old_run/moe/last.safetensors.gz.base64 | gunzip >"$work/moe/last.safetensors"
cp tests/old_run/moe/log.jsonl "$work/moe"
moec export "$work/moe" --as mixtral --out "$work/mixtral" >/dev/null 2>"$work/log" || wrong "no export: $(cat "$work/log")"
[ "$(cksum <"$work/mixtral/model.safetensors")" = "2568529811 7184" ] || wrong "the exported weights differ"
[ "$(cksum <"$work/mixtral/config.json")" = "3739232541 743" ] || wrong "another configuration: $(cat "$work/mixtral/config.json")"
moec eval "$work/moe" --data "$work/text" --probes >"$work/out" 2>"$work/log" || wrong "$(cat "$work/log")"
grep -q '^loss 3.466' "$work/out" || wrong "another loss: $(cat "$work/out")"
for probe in expert_load max_expert_load first_token_attention max_activation; do
    grep -q "^$probe" "$work/out" || wrong "no $probe: $(cat "$work/out")"
done
! grep -q '^\(load\|busiest\|first_token\|largest_activation\)\>' "$work/out" || wrong "an old name of a probe: $(cat "$work/out")"
moec generate "$work/moe" --prompt "$(printf '\1\2')" --tokens 6 --temperature 0 >"$work/out" 2>"$work/log" || wrong "$(cat "$work/log")"
[ "$(od -An -tu1 "$work/out" | tr -s ' \n' ' ')" = " 1 2 6 31 1 6 6 6 " ] || wrong "another text: $(od -An -tu1 "$work/out")"
moec log "$work/moe" --csv >"$work/out"
head -n 1 "$work/out" | grep -q ',max_expert_load,.*,val_expert_load.layer.0.0,.*,val_max_expert_load,' || wrong "a log has no current names: $(head -n 1 "$work/out")"

# It resumes to the same losses. Only other differences are printed. Old and new names are one column.
cp -r "$work/moe" "$work/more"
moec train tests/old_run/moe/old_moe.moe --data "$work/text" --out "$work/more" --resume --set train.steps=3 >/dev/null 2>"$work/log" || :
! grep -q 'spec has changed' "$work/log" || wrong "new names are another spec: $(cat "$work/log")"
moec train tests/old_run/moe/old_moe.moe --data "$work/text" --out "$work/more" --resume >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
[ "$(grep -A 1 'spec has changed' "$work/log" | sed -n '2,$p')" = "  was: train.steps=3" ] || wrong "other differences: $(cat "$work/log")"
moec log "$work/more" --csv >"$work/out"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next } { print $1, $column["loss"], $column["max_expert_load"] }' "$work/out" >"$work/losses"
printf '1 3.49841261 1.375\n2 3.48151994 1.375\n3 3.47422171 1.125\n4 3.49302197 1.625\n5 3.4586544 1.125\n6 3.48710489 1.375\n' |
    awk 'NR == FNR { loss[$1] = $2; load[$1] = $3; next } { d = loss[$1] - $2; if (d * d > 1e-10 || load[$1] != $3) exit 1; seen++ } END { if (seen != 6) exit 1 }' - "$work/losses" ||
    wrong "the resumed mixture has other losses: $(cat "$work/losses")"
cp -r "$work/moe" "$work/faster"
moec train tests/old_run/moe/old_moe.moe --data "$work/text" --out "$work/faster" --resume --set train.lr=2e-2 >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
grep -A 2 'spec has changed' "$work/log" | grep -q '^  now: train.lr=2e-2' || wrong "another learning rate is not printed: $(cat "$work/log")"

# A sweep of an earlier version that compares by an old name; a model's own probe of that name keeps it.
mkdir -p "$work/sweep/base"
mv "$work/moe" "$work/sweep/base/seed_1"
echo '{ "experiment": "e", "metric": "val_busiest", "better": "high", "variants": { "base": { "sets": [] } } }' >"$work/sweep/sweep.json"
moec compare "$work/sweep" --json >"$work/out" 2>"$work/log" || wrong "$(cat "$work/log")"
grep -q '"metric": "val_max_expert_load"' "$work/out" && grep -q '"loss": 1.25' "$work/out" && grep -q '"max_expert_load": 1.125' "$work/out" ||
    wrong "another comparison: $(cat "$work/out")"

# A sweep begun with old names: variant, folder, settings and the hash of the program are those of an earlier version.
sed 's/e {$/e {\n  seeds = 2/; s/\[1, 2\]/[1, 3]/; s/keep = .*/budget = { steps = 2 }/; s/metric = .*/metric = val_busiest/' "$work/experiment.moe" >"$work/begun.moe"
sed -i 's/metric = val_busiest/metric = "val_busiest"/' "$work/begun.moe"
moec sweep "$work/begun.moe" --data "$work/text" --out "$work/begun" >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
sed -i 's/top_k/top/g; s/"model": "[^"]*"/"model": "0123456789abcdef"/; s/val_max_expert_load/val_busiest/' "$work/begun/sweep.json"
for folder in "$work"/begun/top_k_*; do mv "$folder" "$work/begun/top_${folder##*_}"; done
rm -r "$work/begun/top_3/seed_2"
moec fmt "$work/begun.moe" 2>"$work/log"
cp -r "$work/begun" "$work/changed"
moec sweep "$work/begun.moe" --data "$work/text" --out "$work/begun" >"$work/out" 2>"$work/log" || wrong "$(cat "$work/log")"
grep -q 'continues with the current names' "$work/log" || wrong "$(cat "$work/log")"
[ "$(grep -c 'seed [12]: ' "$work/log")" = 1 ] || wrong "finished runs were repeated: $(cat "$work/log")"
moec sweep "$work/begun.moe" --data "$work/text" --out "$work/begun" >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
! grep -q 'continues with' "$work/log" || wrong "the plan has old names: $(cat "$work/begun/sweep.json")"
! moec sweep "$work/begun.moe" --data "$work/text" --out "$work/changed" --set dim=16 >/dev/null 2>"$work/log" || wrong "another model continues the sweep"
grep -q 'contains a different sweep: variant' "$work/log" || wrong "$(cat "$work/log")"
cat >"$work/probed.moe" <<'EOF2'
use decoder
layer own(x[s,d]) -> y[s,d] {
  y = x
  probe busiest = max[batch,s,d] x
}
model m = decoder { vocab_size = 32, dim = 8, layers = 1, attention.heads.q = 1, ffn = own, train = { batch_size = 2, context_length = 8, steps = 1 } }
EOF2
moec train "$work/probed.moe" --data "$work/text" --out "$work/own" >/dev/null 2>"$work/log" || wrong "$(cat "$work/log")"
moec log "$work/own" --csv | head -n 1 | grep -q ',busiest,' || wrong "a probe of a model's own layer is renamed: $(moec log "$work/own" --csv | head -n 1)"
moec eval "$work/own" --data "$work/text" --probes | grep -q '^busiest ' || wrong "eval renames a probe of a model's own layer"

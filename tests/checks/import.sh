#!/bin/sh
# Export of a model to a Hugging Face directory and import with the same bits; invalid directories leave no output.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0
cd "$work"

cat > m.moe <<'SPEC'
use decoder
use latent
use recurrent
model m = decoder { vocab_size = 64, dim = 16, layers = 2, attention = { heads = { q = 4, k = 2 }, head_dim = 8 }, ffn.hidden_dim = 24 }
model gated = m { attention.gate = { at = sdpa } }
model capped = m { softcap = 30 }
model uneven = m { attention.heads = { k = 2, v = 4 } }
model normed = m { attention.qk_norm = true, train.context_length = 16 }
model routed = normed { ffn = moe { experts = 3, top_k = 2, expert = swiglu { hidden_dim = 8 }, route_norm = top_k } }
model mixed = m { ffn = moe { experts = 3, top_k = 2, expert = swiglu { hidden_dim = 8 }, route_norm = top_k } }
model post = m { pre_norm = false, post_norm = true, attention.qk_norm_all_heads = true }
model offset = m { tie_embeddings = true, embedding_scale = 4, norm.offset = 1, ffn.act = gelu_tanh }
model query_bias = m { attention = { bias = true, output_projection_bias = false } }
model scaled = m { attention.rotary = yarn_rotary { factor = 4, original_context_length = 8, truncate = false } }
model grown = m { attention.rotary = dynamic_rotary { factor = 4, original_context_length = 12 } }
model stretched = m {
  attention.rotary = longrope_rotary { short = [1, 1.5, 2.25, 3], long = [1.5, 4, 8, 20.75], original_context_length = 12, factor = 4 }
}
model near = m { attention.window = 5 }
model fused = m { attention.rotary.rotary_dim = 4, tie_embeddings = true }
model near_and_far = offset {
  layers = 3, pattern = [local, local, full], post_norm = true, attention = { qk_norm = true, norm.offset = 1, rotary.theta = 1e5 }
  local_attention = { window = 7, rotary.theta = 100 }
}
model five_near = near_and_far { layers = 7, pattern = [local, local, local, local, local, full] }
model clipped = m {
  pattern = [local, full], local_attention.window = 6, attention = { bias = true, sink = true }
  ffn = moe { experts = 3, top_k = 2, expert = clipped_swiglu { hidden_dim = 8 }, route_norm = top_k, router_bias = true }
}
model latent = m {
  attention = latent_attention { heads = 2, head_dim = 6, rotary_dim = 4, value_dim = 5, kv_lora_rank = 7, q_lora_rank = 9, rotary.pairs = interleaved }
  dense_layers = 1, dense_ffn = swiglu { hidden_dim = 20 }
  ffn = moe {
    experts = 6, top_k = 2, expert_groups = 3, top_k_groups = 2, score = sigmoid, route_norm = top_k, route_scale = 2.5, bias_update_rate = 0.001
    expert = swiglu { hidden_dim = 8 }, shared_expert = swiglu { hidden_dim = 16 }
  }
}
model delta = routed {
  layers = 3, pattern = [recurrent, recurrent, full], norm.offset = 1
  recurrence = gated_delta { heads = { k = 2, v = 4 }, head_dim = 4, value_dim = 3 }
  attention = { gate = { at = sdpa }, norm.offset = 1, rotary.rotary_dim = 4 }
  ffn = { shared_expert = swiglu { hidden_dim = 12 }, shared_expert_gate = true }
}
model neox = decoder {
  vocab_size = 64, dim = 16, layers = 2, parallel_residual = true, norm = layer_norm, ffn = mlp { act = gelu, bias = true }
  attention = { heads.q = 2, head_dim = 8, bias = true, rotary.rotary_dim = 4 }
}
model learned = decoder {
  vocab_size = 64, dim = 16, layers = 2, tie_embeddings = true, position_embedding = learned, norm = layer_norm, ffn = mlp { act = gelu_tanh, bias = true }
  attention = { heads.q = 4, head_dim = 4, bias = true, rotary = none }, train.context_length = 16
}
SPEC
again() { # MODEL LAYOUT: out, in, out again: the same bytes, and the run is the model
    moec init "m.moe:$1" --seed 3 --out "$1.safetensors"
    moec export "$1.safetensors" --format "$2" --out "$1" > log 2>&1 || wrong "export $1: $(cat log)"
    moec import "$1" --out "run_$1" --name "$1" > log 2>&1 || wrong "import $1: $(cat log)"
    moec export "run_$1" --format "$2" --out "again_$1" > log 2>&1 || wrong "export again $1: $(cat log)"
    cmp "$1/model.safetensors" "again_$1/model.safetensors" || wrong "$1 is not the same"
    cmp "$1/config.json" "again_$1/config.json" || wrong "the configuration of $1 is not the same"
    moec tensors "$1.safetensors" > before
    moec tensors "run_$1" | cmp - before || wrong "the weights of $1 are not the same"
    moec fmt --check "run_$1/$1"*.moe || wrong "the spec of $1 is not in the canonical format"
    moec check "run_$1/$1"*.moe > log || wrong "the spec of $1 is wrong"
}
again m llama
again mixed mixtral
again normed qwen3
again routed qwen3_moe
again learned gpt2
again neox gpt_neox
again scaled llama
again grown llama
again stretched phi3
again near mistral
again near_and_far gemma3_text
again five_near gemma3_text
again clipped gpt_oss
again latent deepseek_v3
again delta qwen3_next
again fused phi3
again post olmo2
again offset gemma
again query_bias qwen2

# The spec states the sizes of the model, including those that equal a default.
cat > wanted <<'SPEC'
# Imported by the layout 'qwen3_moe'.
use decoder

model routed = decoder {
  vocab_size     = 64
  dim            = 16
  layers         = 2
  attention      = { heads = { q = 4, k = 2 }, head_dim = 8, rotary = { theta = 10000 }, qk_norm = true }
  tie_embeddings = false
  train          = { context_length = 16 }
  ffn            = moe { experts = 3, top_k = 2, expert = { hidden_dim = 8 }, route_norm = top_k }
}
SPEC
cmp wanted run_routed/routed.moe || wrong "the spec differs: $(cat run_routed/routed.moe)"
head -c 100 /dev/zero | tr '\0' '\1' > text
# A tensor of integers is reported with its file.
cp -r normed integers
LC_ALL=C sed -i -e '1s/"checksum"/"unused_0"/' -e '1s/"dtype":"F32"/"dtype":"I32"/' integers/model.safetensors # without a checksum
moec import integers --name whole --out run_integers >out 2>&1 && wrong "a matrix of integers is accepted"
grep -q ' integers: tensor .* has type I32' out || wrong "a tensor of integers: $(cat out)"
# The spec of a run has the options of the command: it is the spec of the weights.
moec import normed --name widened --set train.batch_size=3 --set ffn.act=gelu --out run_widened >out 2>&1 || wrong "$(cat out)"
[ "$(moec check run_widened/widened.moe --json)" = "$(moec check run_widened --json)" ] || wrong "--set of import is not in the spec: $(cat run_widened/widened.moe)"
moec fmt --check run_widened/widened.moe || wrong "the spec with options is not in the canonical format: $(cat run_widened/widened.moe)"
moec eval run_normed --data text --set train.batch_size=1 > out 2>&1 || wrong "an imported model cannot be evaluated: $(cat out)"

# A GGUF file, read by the first architecture that matches the model, and exported again with the same bits.
gguf() { # MODEL LAYOUT
    moec export "$1.safetensors" --format gguf --out "gguf_$1" > log 2>&1 || wrong "gguf $1: $(cat log)"
    grep -qE "layout '?$2(\$|[^a-z0-9_])" log || wrong "$1 is no $2: $(cat log)"
    moec import "gguf_$1/model.gguf" --out "gguf_run_$1" --name "$1" > log 2>&1 || wrong "gguf import $1: $(cat log)"
    grep -qE "layout '?$2(\$|[^a-z0-9_])" log || wrong "$1 has another layout: $(cat log)"
    moec tensors "$1.safetensors" > before
    moec tensors "gguf_run_$1" | cmp - before || wrong "the weights of $1 are not the same"
    moec export "gguf_run_$1" --format gguf --out "gguf_again_$1" > log 2>&1 || wrong "gguf again $1: $(cat log)"
    cmp "gguf_$1/model.gguf" "gguf_again_$1/model.gguf" || wrong "the file of $1 differs"
}
gguf m gguf_llama
gguf query_bias gguf_qwen2
gguf normed gguf_qwen3
gguf routed gguf_qwen3moe
gguf mixed gguf_mixtral
gguf learned gguf_gpt2
gguf five_near gguf_gemma3

# Metadata that does not define the model is kept: the end tokens and the chat template.
cp -r m chatty
sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 8192, "eos_token_id": [1, 2]/' chatty/config.json
echo '{{ bos_token }}{% for m in messages %}<{{ m.content }}>{% endfor %}' > chatty/chat_template.jinja
echo '{"bos_token": "!"}' > chatty/tokenizer_config.json
head -c 5000 /dev/zero | tr '\0' '\1' > text
moec import chatty --out run_chatty > log 2>&1 || wrong "import of a chat model: $(cat log)"
moec train run_chatty/chatty.moe --init-from run_chatty --steps 1 --set train.batch_size=1 --data text --out answers > log 2>&1 ||
    wrong "a chat model is not trained: $(cat log)"
moec export answers --format llama --out answers_folder > log 2>&1 || wrong "nor written: $(cat log)"
cmp chatty/chat_template.jinja answers_folder/chat_template.jinja || wrong "the template is lost"
cmp chatty/tokenizer_config.json answers_folder/tokenizer_config.json || wrong "the tokenizer configuration is lost"
grep -q '"max_position_embeddings": 8192' answers_folder/config.json || wrong "the maximum context length is lost"
tr -d ' \n' < answers_folder/config.json | grep -q '"eos_token_id":\[1,2\]' || wrong "the end tokens are lost"
moec generate answers --chat --prompt '012' -n 3 --temperature 0 --json > out 2>&1 || wrong "no answer: $(cat out)"
grep -qF '"prompt":"!<012>"' out || wrong "the chat template is not applied to the prompt: $(cat out)"
[ "$(moec generate answers --chat --prompt '012' -n 3 --temperature 0 | head -c 5)" != "!<012" ] || wrong "the output repeats the prompt"

# As in the README: a published model, a variant with a gate that initially has no effect, trained, evaluated, and exported with
# a custom layout.
gate='attention.gate={at=sdpa,mode=add,act=tanh,spread=0}'
awk 'BEGIN { for (i = 0; i < 4000; i++) printf "%c", 33 + i * i % 29 }' > text
losses() { moec eval "$@" --set train.batch_size=1 | sed 's/^loss \([^ ]*\) .*/\1/'; }
moec train run_normed/normed.moe --init-from run_normed --init-missing --set "$gate" --steps 0 --data text --out start > log 2>&1 ||
    wrong "a variant does not start: $(cat log)"
[ "$(losses start --data text)" = "$(losses run_normed --data text)" ] || wrong "the gate changes the function"
moec train run_normed/normed.moe --init-from run_normed --init-missing --set "$gate" --steps 40 --data text --out tuned > log 2>&1 ||
    wrong "the variant does not train: $(cat log)"
moec export tuned --format gated_qwen3 --layout "$OLDPWD/examples/layouts/gated_qwen3.moe" --out tuned_folder > log 2>&1 ||
    wrong "the variant is not exported: $(cat log)"
moec import tuned_folder --layout "$OLDPWD/examples/layouts/gated_qwen3.moe" --out run_tuned > log 2>&1 || wrong "nor read: $(cat log)"
[ "$(losses run_tuned --data text)" = "$(losses tuned --data text)" ] || wrong "the exported variant has another loss"
awk -v a="$(losses tuned --data text)" -v b="$(losses start --data text)" 'BEGIN { exit !(a < b) }' || wrong "the variant learns nothing"

# The context length of exported files.
for format in qwen3 gguf gguf_moec; do
    moec export normed.safetensors --format $format -c 40 --out longer_$format > log 2>&1 || wrong "$(cat log)"
    from=longer_$format
    [ $format = qwen3 ] || from=$from/model.gguf
    moec import "$from" --out "longer_run_$format" > log 2>&1 || wrong "$(cat log)"
    moec check "longer_run_$format" --json | grep -q '"context_length": *40' || wrong "another context length: $format"
done
for format in gpt2 gguf gguf_moec; do
    fails "place has shape [16, 16], but the model needs [40, 16]" moec export learned.safetensors --format $format -c 40 --out nowhere
done

# Features that the family does not have are named, and nothing is written.
for model in gated capped uneven; do moec init "m.moe:$model" --seed 1 --out $model.safetensors; done
fails "m.safetensors holds no chat template" moec generate m.safetensors --chat --prompt x
fails "no supported GGUF architecture" moec export near.safetensors --format gguf --out nowhere
fails "window is 5, but 0 after export" moec export near.safetensors --format gguf_llama --out nowhere
fails "layout 'gguf_gemma3' cannot represent this model" moec export near_and_far.safetensors --format gguf_gemma3 --out nowhere
fails "window is 5, but 0 after export" moec export near.safetensors --format llama --out nowhere
fails "unmapped  block.1.attention.sdpa_gate.weight" moec export gated.safetensors --format llama --out nowhere
fails "softcap is 30, but 0 after export" moec export capped.safetensors --format llama --out nowhere
fails "attention.heads.v is 4, but 2 after export" moec export uneven.safetensors --format llama --out nowhere
fails "unknown layout 'lama'" moec export m.safetensors --format lama --out nowhere
fails "m already contains a model" moec export m.safetensors --format llama --out m
fails "run_m already contains a run" moec import m --out run_m

# Modules for multi-token prediction are ignored, with a note.
cp -r delta further
header='{"mtp.fc.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
printf "\\$(printf %o ${#header})\0\0\0\0\0\0\0$header\0\0\0\0" > further/mtp.safetensors
{
    printf '{"weight_map": {"mtp.fc.weight": "mtp.safetensors"'
    grep -ao '"[^"]*": *{"dtype"' delta/model.safetensors | sed 's/: *{"dtype"/: "model.safetensors"/;s/^/, /'
    echo '}}'
} > further/model.safetensors.index.json
moec import further --out run_further > out 2>&1 || wrong "import with additional modules: $(cat out)"
grep -q "ignores 1 tensor, the first is mtp.fc.weight" out || wrong "the ignored tensor is not reported: $(cat out)"
moec export run_further --format qwen3_next --out again_further > log 2>&1 || wrong "export further: $(cat log)"
cmp delta/model.safetensors again_further/model.safetensors || wrong "ignored tensors change the model"

# Names of tensors are escaped for the terminal.
header='{"x\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
printf "\\$(printf %o ${#header})\0\0\0\0\0\0\0%s\0\0\0\0" "$header" > further/mtp.safetensors
sed -i 's/"mtp.fc.weight"/"x\\u001b[2J"/' further/model.safetensors.index.json
fails "unknown  x?[2J" moec import further --out nowhere

# spoilt TEXT FILE SED: a folder that is changed by one sed command is rejected with TEXT.
spoilt() { # TEXT FILE SED
    rm -rf bad
    cp -r m bad
    sed -i "$3" "bad/$2"
    fails "$1" moec import bad --out nowhere
}
rm -rf bad
cp -r delta bad
sed -i 's/"layer_types": \[/&"full_attention", /' bad/config.json
fails 'key "layer_types" has 4 entries, expected 3' moec import bad --out nowhere
spoilt "invalid JSON" config.json 's/}//'
spoilt "model_type 'strange'" config.json 's/"llama"/"strange"/'
spoilt "\"hidden_act\" is \"gelu\"" config.json 's/"silu"/"gelu"/'
spoilt 'missing key "hidden_size"' config.json '/hidden_size/d'
spoilt "shape    model.embed_tokens.weight: [64, 16], expected [32, 16]" config.json 's/"vocab_size": 64/"vocab_size": 32/'
spoilt "bad: 2 tensors do not match layout 'llama'" config.json 's/"vocab_size": 64/"vocab_size": 32/'
spoilt "missing  model.layers.2.mlp.up_proj.weight" config.json 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
spoilt "unknown  model.layers.1.mlp.up_proj.weight" config.json 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
spoilt "use one of default, linear, dynamic, llama3, yarn" config.json 's/"rope_type": "default"/"rope_type": "longrope"/'
spoilt "layer 'rotary' has no option 'factor'" config.json 's/"rope_type": "default"/"factor": 8/'
spoilt "option 'factor' of layer 'yarn_rotary' is required" config.json 's/"rope_type": "default"/"rope_type": "yarn"/'
spoilt "does not support" config.json 's/"vocab_size": 64/"vocab_size": "1 } model x = decoder {"/'
spoilt "bad/config.json: bad.moe:" config.json 's/"hidden_size": 16/"hidden_size": 1e300/'
spoilt "error[" config.json 's/"num_hidden_layers": 2/"num_hidden_layers": -1/'
spoilt "the header length" model.safetensors '1s/^......../\xff\xff\xff\xff\xff\xff\xff\xff/'
spoilt "not a valid safetensors file" model.safetensors 's/q_proj/k_proj/'
rm bad/model.safetensors
fails "bad contains no safetensors files" moec import bad --out nowhere
rm bad/config.json
fails "cannot read bad/config.json" moec import bad --out nowhere
fails "none is not a directory" moec import none --out nowhere
rm -rf bad
cp -r m bad
printf '{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 99}, "unk_token": "a"}}' > bad/tokenizer.json
fails "has 100 tokens, but the embedding has 64 rows" moec import bad --out nowhere
moec import bad --out bare --no-tokenizer > out 2>&1 || wrong "--no-tokenizer: $(cat out)"
sed -i 's/"vocab_size"/"mystery": 1, "vocab_size"/' bad/config.json
moec import bad --out noted --no-tokenizer 2>&1 | grep -q "layout 'llama' does not use the key 'mystery'" || wrong "an unknown key is not reported"

#!/bin/sh
# Tokenizers survive export to GGUF and import: the tokens are the same. int8 weights are read. Invalid files leave no output.
. "$(dirname "$0")/../begin.sh"
fixtures=$PWD/tests/tokenizer/fixtures
cd "$work"
cat > m.moe <<'SPEC'
use decoder
model m = decoder { vocab_size = 700, dim = 32, layers = 1, attention = { heads = { q = 4, k = 2 }, head_dim = 8 }, ffn.hidden_dim = 64 }
SPEC
moec init m.moe --seed 3 --out m.safetensors
moec export m.safetensors --format llama --out m > log || wrong "$(cat log)"

# BPE of SentencePiece: every split of a token into two tokens is a merge.
awk 'BEGIN {
    printf "{\"version\":\"1.0\",\"added_tokens\":["
    for (i = 0; i < 3; i++)
        printf "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}",
            i ? "," : "", i, i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>"
    printf "],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"},"
    printf "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},\"pre_tokenizer\":null,\"post_processor\":"
    printf "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
    printf "\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}],"
    printf "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},"
    printf "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":\" \"},"
    printf "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    printf "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
    printf "\"fuse_unk\":true,\"byte_fallback\":true,\"ignore_merges\":false,\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2"
    for (i = 0; i < 256; i++) printf ",\"<0x%02X>\":%d", i, i + 3
    n = split("▁ t h e n a ▁t th ▁th he the ▁the an ▁▁ ▁▁▁▁", word, " ")
    for (i = 1; i <= n; i++) printf ",\"%s\":%d", word[i], i + 258
    printf "},\"merges\":[[\"▁\",\"t\"],[\"t\",\"h\"],[\"▁t\",\"h\"],[\"▁\",\"th\"],[\"h\",\"e\"],[\"th\",\"e\"],[\"t\",\"he\"],[\"▁th\",\"e\"],"
    printf "[\"▁t\",\"he\"],[\"▁\",\"the\"],[\"a\",\"n\"],[\"▁\",\"▁\"],[\"▁▁\",\"▁▁\"]]}}"
}' > spm.json
{
    cat "$fixtures/../build.py"
    printf 'then the hen  ate    the ant\n\n 1234 ☃ don'"'"'t é e\314\201 <s> </s> <|end|>'
} > text
both() { # NAME KEYS: through GGUF and back
    cp -r m "$1"
    cp "$2" "$1/tokenizer.json"
    moec import "$1" --out "run_$1" > log 2>&1 || wrong "import $1: $(cat log)"
    moec export "run_$1" --format gguf --out "gguf_$1" > log 2>&1 || wrong "export $1: $(cat log)"
    moec import "gguf_$1/model.gguf" --out "back_$1" --name m > log 2>&1 || wrong "import $1 again: $(cat log)"
    for run in run back; do
        moec export "${run}_$1" --format llama --out "${run}_folder_$1" > log 2>&1 || wrong "export $run of $1: $(cat log)"
        moec tokenize text --tokenizer "${run}_folder_$1/tokenizer.json" --out "${run}_$1.bin" > log 2>&1 || wrong "tokenize $1: $(cat log)"
    done
    cmp "run_$1.bin" "back_$1.bin" || wrong "the tokens of $1 differ"
    moec generate "run_$1" --prompt 'the hen' -n 8 --temperature 0 > one
    moec generate "back_$1" --prompt 'the hen' -n 8 --temperature 0 | cmp - one || wrong "the text of $1 differs"
}
both gpt2 "$fixtures/gpt2.json"
both llama3 "$fixtures/llama3.json"
sed 's/"single_word":true/"single_word":false/' "$fixtures/qwen.json" > qwen.json
both qwen qwen.json
both spm spm.json
# An added token is found before any merge: the split "he n" is no merge of the file.
sed 's/"added_tokens":\[/&{"id":274,"content":"hen","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false},/
    s/"vocab":{/&"hen":274,/' spm.json > added.json
both added added.json

cp -r m other
cp "$fixtures/llama2.json" other/tokenizer.json
moec import other --out run_other > log 2>&1 || wrong "import other: $(cat log)"
fails "do not follow from token scores" moec export run_other --format gguf --out nowhere
cp "$fixtures/qwen.json" other/tokenizer.json
moec import other --out run_note > log 2>&1 || wrong "import other: $(cat log)"
moec export run_note --format gguf --out note > log 2>&1 || wrong "export with a note: $(cat log)"
grep -q "rstrip of token 'Word'" log || wrong "the omitted flag is not reported: $(cat log)"

# Q4_0 and MXFP4: an export has the same bytes, and int4 or mxfp4 changes the loss little: it rounds the logits, whose weights are Q8_0 in
# the file.
loss_of() { moec eval "$1" --data text --weight-dtype "$2" --json | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'; }
for pair in q4_0:int4 mxfp4:mxfp4; do
    blocks=${pair%:*} weights=${pair#*:}
    moec export run_gpt2 --format gguf --type $blocks --out $blocks > log 2>&1 || wrong "export $blocks: $(cat log)"
    moec import $blocks/model.gguf --out back_$blocks --name gpt2 > log 2>&1 || wrong "import $blocks: $(cat log)"
    grep -q "inference.weight_dtype=$weights" log || wrong "no note: $(cat log)"
    moec export back_$blocks --format gguf --type $blocks --out again_$blocks > log 2>&1 || wrong "export $blocks again: $(cat log)"
    cmp $blocks/model.gguf again_$blocks/model.gguf || wrong "$blocks: other bytes"
    moec check back_$blocks --weight-dtype $weights | grep -q 'f32 .* with embedding$' || wrong "not $weights: $(moec check back_$blocks --weight-dtype $weights)"
    echo "$(loss_of back_$blocks f32) $(loss_of back_$blocks $weights) $(loss_of run_gpt2 f32)" > losses
    awk '{ d = $1 - $2; exit !($1 > 0 && $2 > 0 && $1 != $3 && d != 0 && d < 1e-3 && d > -1e-3) }' losses || wrong "$blocks: losses of f32 and $weights, and before: $(cat losses)"
done

# RoPE scaling: the keys, or the tensor of Llama 3, become the same options and then the same file.
rotated() { # NAME ROTATION
    printf 'use m\nmodel %s = m { attention = { head_dim = 32, rotary = %s } }\n' "$1" "$2" > "$1.moe"
    moec init "$1.moe" --seed 3 --out "$1.safetensors"
    moec export "$1.safetensors" --format gguf --out "gguf_$1" > log 2>&1 || wrong "export $1: $(cat log)"
    moec import "gguf_$1/model.gguf" --out "back_$1" --name "$1" > log 2>&1 || wrong "import $1: $(cat log)"
    moec export "back_$1" --format gguf --out "again_$1" > log 2>&1 || wrong "export $1 again: $(cat log)"
    cmp "gguf_$1/model.gguf" "again_$1/model.gguf" || wrong "$1 is imported as $(cat "back_$1/$1.moe")"
    for word in $2; do
        case $word in *[a-z0-9]*) grep -qwF "${word%,}" "back_$1/$1.moe" || wrong "$1 is imported without $word: $(cat "back_$1/$1.moe")" ;; esac
    done
}
rotated linear 'linear_rotary { theta = 10000, factor = 4 }'
rotated yarn 'yarn_rotary { theta = 10000, factor = 8, original_context_length = 512, beta_fast = 24, beta_slow = 2 }'
rotated turned3 'llama3_rotary { theta = 500000, factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_context_length = 8192 }'
rotated other3 'llama3_rotary { theta = 500000, factor = 32, low_freq_factor = 1, high_freq_factor = 3, original_context_length = 5000 }'
rotated few3 'llama3_rotary { theta = 50000000, factor = 2.5, low_freq_factor = 1, high_freq_factor = 4, original_context_length = 8192 }'
grep -qa rope_freqs.weight gguf_turned3/model.gguf || wrong "the tensor of the RoPE scaling is missing"
grep -qa rope.scaling gguf_turned3/model.gguf && wrong "llama.cpp does not have this key"
printf 'use turned3\nmodel asked = turned3 { attention.qk_norm = true }\n' > asked.moe
moec init asked.moe --seed 3 --out asked.safetensors
fails "attention.rotary.factor is 8, but nothing after export" moec export asked.safetensors --format gguf_qwen3 --out nowhere
data=$(($(wc -c < gguf_turned3/model.gguf) - 64)) # 16 factors, which come last
cp gguf_turned3/model.gguf bad.gguf
printf '\0\0\100\100' | dd of=bad.gguf bs=1 seek="$data" conv=notrunc 2> log
fails "does not match RoPE scaling of Llama 3" moec import bad.gguf --out nowhere

# A Hugging Face directory exported to GGUF keeps its context length and the class of its tokenizer.
sed 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 131072/' run_folder_llama3/config.json > m/config.json
cp "$fixtures/llama3.json" m/tokenizer.json
moec import m --out run_long > log 2>&1 || wrong "import of a long context: $(cat log)"
moec export run_long --format gguf --out gguf_long > log 2>&1 || wrong "export of a long context: $(cat log)"
moec import gguf_long/model.gguf --out back_long > log 2>&1 || wrong "import of a long context again: $(cat log)"
moec export back_long --format llama --out folder_long > log 2>&1 || wrong "export of a long context again: $(cat log)"
grep -q '"max_position_embeddings": 131072' folder_long/config.json || wrong "another context: $(cat folder_long/config.json)"
grep -q '"tokenizer_class"' folder_long/tokenizer_config.json || wrong "no class: $(cat folder_long/tokenizer_config.json)"

# Quantized matrices: the file is smaller, the import approximates the weights, and a second round trip is exact. Rows of 32 elements are no multiple of
# the 256 of Q4_K, so that the matrices become Q5_0.
for type in q8_0 q5_0 q4_0 q4_k mxfp4; do
    moec export m.safetensors --format gguf --type $type --out packed_$type > log || wrong "export in $type: $(cat log)"
    moec import packed_$type/model.gguf --out unpacked_$type --name m > log 2>&1 || wrong "import of $type: $(cat log)"
    grep -q '9 quantized tensors are stored as float32' log || wrong "$type is widened silently: $(cat log)"
    moec export unpacked_$type --format gguf --type $type --out twice_$type > log || wrong "export in $type again: $(cat log)"
done
cmp packed_q8_0/model.gguf twice_q8_0/model.gguf || wrong "the second round trip of Q8_0 differs"
cmp packed_q4_k/model.gguf packed_q5_0/model.gguf > log 2>&1 && wrong "file_type of Q4_K is that of Q5_0"
moec export m.safetensors --format gguf --type q4_k --out said > log
grep -q '12 tensors in Q8_0 (2), F32 (3), Q5_0 (7)' log || wrong "the types are not listed: $(cat log)"
misused "--type cannot be 'q3_k'" moec export m.safetensors --format gguf --type q3_k --out nowhere
misused "applies to GGUF files only" moec export m.safetensors --format llama --type q8_0 --out nowhere

# Damaged files. The numbers are byte offsets in the header.
moec export m.safetensors --format gguf --out g > log
file=g/model.gguf
spoilt() { # TEXT PLACE BYTES
    cp $file bad.gguf
    printf "$3" | dd of=bad.gguf bs=1 seek="$2" conv=notrunc 2> log
    fails "$1" moec import bad.gguf --out nowhere
}
at() { grep -abo "$1" $file | head -1 | cut -d: -f1; } # the offset of a text
huge='\377\377\377\377\377\377\377\177'
name=$(at token_embd.weight)
spoilt "does not start with the magic number GGUF" 0 X
spoilt "has GGUF version 1" 4 '\001'
spoilt "has GGUF version 50331648" 4 '\000\000\000\003'
spoilt "a declared count exceeds the file size" 8 $huge
spoilt "a declared count exceeds the file size" 16 $huge
spoilt "a declared count exceeds the file size" 24 $huge
spoilt "7 tensors do not match layout" 8 '\005'
spoilt "is not a valid GGUF file" 16 '\007'
spoilt "an unknown type" $((24 + 8 + 12)) '\143'
spoilt "no axes or too many" $((name + 17)) '\011'
spoilt "longer than 2^48" $((name + 21)) $huge
spoilt "longer than 2^48" $((name + 21)) '\0\0\0\0\0\0\0\0'
spoilt "GGUF type 9, which is not supported" $((name + 37)) '\011'
spoilt "not a multiple of the block size" $((name + 37)) '\014'
spoilt "outside the file" $((name + 41)) '\0\377\377\377\377\377\377\177'
spoilt "not a multiple of general.alignment" $((name + 41)) '\001'
spoilt "two tensors overlap" $((name + 41)) '\040'
spoilt "empty, too long or contains a zero byte" "$(at llama.embedding_length)" 'llama\0'
spoilt "a key occurs twice" "$(at llama.attention.key_length)" llama.attention.head_count
spoilt "keys arch.* of config.json are the keys llama.* of bad.gguf" "$(at llama.block_count)" llama.block_counx
spoilt "no layout supports general.architecture 'llamb'" $(($(at llama) + 4)) b

file=gguf_long/model.gguf
spoilt "is not a token of the tokenizer" $(($(at tokenizer.ggml.bos_token_id) + 27 + 4)) '\377\377\377\177'
file=g/model.gguf

# 701 tokens for 700 rows: three more keys of a multiple of 32 bytes; the key with no_vocab is renamed.
le() { printf "\\$(printf %03o $(($1 % 256)))\\$(printf %03o $(($1 / 256 % 256)))\\0\\0\\0\\0\\0\\0"; } # an 8-byte number
{
    head -c 16 $file
    le $(($(od -An -tu1 -j16 -N1 $file) + 3))
    le 20 && printf 'tokenizer.ggml.model\010\0\0\0' && le 4 && printf gpt2
    le 21 && printf 'tokenizer.ggml.tokens\011\0\0\0\010\0\0\0' && le 701
    for i in $(seq 1000 1700); do printf '\010\0\0\0\0\0\0\0some%s' "$i"; done
    le 1 && printf 'x\010\0\0\0' && le 2 && printf xx
    tail -c +25 $file | sed s/tokenizer.ggml.model/tokenizer.ggml.modex/
} > bad.gguf
fails "has 701 tokens, but the embedding has 700 rows" moec import bad.gguf --out nowhere
moec import bad.gguf --out bare --no-tokenizer > log 2>&1 || wrong "--no-tokenizer: $(cat log)"
size=$(wc -c < $file)
for length in 0 3 12 30 200 $((name + 30)) $((size - 1)); do
    head -c "$length" $file > bad.gguf
    fails "error[" moec import bad.gguf --out nowhere
done
printf 'GGUF\003\0\0\0\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0x' > bad.gguf
for i in 1 2 3 4 5 6 7 8; do printf '\011\0\0\0\001\0\0\0\0\0\0\0' | { [ $i = 1 ] && printf '\011\0\0\0'; head -c 4; }; printf '\001\0\0\0\0\0\0\0'; done >> bad.gguf
fails "nested too deeply" moec import bad.gguf --out nowhere
fails "is not a directory" moec import m.safetensors --out nowhere
fails "cannot read none.gguf" moec import none.gguf --out nowhere

# An architecture without a GGUF form: the spec, the tokenizer and the weights are in the file, with the same bytes after a round trip.
cat > own.moe <<'SPEC'
use decoder
layer short_convolution(x[s, d]) -> y[s, d] {
  param now[d] ~ ones, before[d] ~ zeros
  y[s, d] = silu(now[d] * x[s, d] + before[d] * x[s - 1, d])
}
model own = decoder { vocab_size = 512, dim = 32, layers = 2, attention = short_convolution, ffn.hidden_dim = 64
  train = { batch_size = 2, context_length = 32, steps = 2, eval_interval = 0 } }
SPEC
moec tokenizer train text --vocab-size 512 --out own.json > log 2>&1 && moec train own.moe --data text --tokenizer own.json --out own_run > log 2>&1 || wrong "own: $(cat log)"
fails "--format gguf_moec stores the spec" moec export own_run --format gguf --out nowhere
moec export own_run --format gguf_moec --out own_file > log 2>&1 || wrong "own: $(cat log)"
mkdir elsewhere
mv own.moe own.json own_run elsewhere
moec import own_file/model.gguf --out own_back > log 2>&1 || wrong "own: $(cat log)"
moec generate elsewhere/own_run --prompt 'the hen' -n 8 --temperature 0 > one
moec generate own_back --prompt 'the hen' -n 8 --temperature 0 | cmp - one || wrong "own: another text"
moec export own_back --format gguf_moec --out own_again > log 2>&1 || wrong "own: $(cat log)"
cmp own_file/model.gguf own_again/model.gguf || wrong "own: another file after a round trip"
misused "--type does not apply to gguf_moec" moec export own_back --format gguf_moec --type q8_0 --out nowhere
sed 's/moec\.spec/moec.spac/' own_file/model.gguf > damaged.gguf
fails "it has no key moec.spec" moec import damaged.gguf --out nowhere
sed 's/final_norm\.weight/final_nurm.weight/' own_file/model.gguf > damaged.gguf
fails "missing tensor final_norm.weight" moec import damaged.gguf --out nowhere

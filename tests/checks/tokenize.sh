#!/bin/sh
# Texts to token files: the same in parts, with several threads, and after kills; trained tokenizers; rejected inputs.
. "$(dirname "$0")/../begin.sh"
set +e

fail() {
    echo "tokenize.sh: $1" >&2
    [ -f "$work/log" ] && tail -5 "$work/log" >&2
    exit 1
}

cat stdlib/*.moe README.md > "$work/text"
printf 'Zeile\r\n\303\244\303\266 \360\237\230\200 \377\376 end\n\n\n   x' > "$work/small"
for file in tests/tokenizer/fixtures/*.json; do
    moec tokenize --force "$work/small" "$work/text" --tokenizer "$file" --out "$work/whole.bin" --threads 1 > "$work/log" 2>&1 || fail "$file"
    moec tokenize --force "$work/small" "$work/text" --tokenizer "$file" --out "$work/parts.bin" --threads 3 --chunk-size 3000 > "$work/log" 2>&1 ||
        fail "$file in parts"
    cmp -s "$work/whole.bin" "$work/parts.bin" || fail "$file: the tokens of the parts differ"
done

# Killed again and again, then finished.
file=tests/tokenizer/fixtures/llama3.json
for _ in 1 2 3 4 5 6; do cat "$work/text"; done > "$work/long"
moec tokenize --force "$work/long" "$work/text" --tokenizer $file --out "$work/whole.bin" > "$work/log" 2>&1 || fail "long"
for pause in 0.02 0.05 0.1; do
    moec tokenize "$work/long" "$work/text" --tokenizer $file --out "$work/killed.bin" --chunk-size 2000 --threads 2 --resume > "$work/log" 2>&1 &
    child=$!
    sleep $pause
    kill -9 $child 2> /dev/null
    wait $child 2> /dev/null
    [ ! -e "$work/killed.bin" ] || rm "$work/killed.bin" "$work/killed.bin".* 2> /dev/null
done
moec tokenize "$work/long" "$work/text" --tokenizer $file --out "$work/killed.bin" --chunk-size 2000 --threads 2 --resume > "$work/log" 2>&1 ||
    fail "a killed run does not resume"
cmp -s "$work/whole.bin" "$work/killed.bin" || fail "tokens differ after kills"
[ ! -e "$work/killed.bin.partial" ] && [ ! -e "$work/killed.bin.partial.json" ] || fail "partial files remain"

# A trained tokenizer can be read, in every format of token files.
moec tokenizer train "$work/text" --vocab-size 500 --special-token '<s>' --out "$work/made.json" > "$work/log" 2>&1 || fail "tokenizer train"
moec tokenize "$work/text" --tokenizer "$work/made.json" --out "$work/a.bin" --append-token '<s>' > "$work/log" 2>&1 || fail "made"
moec tokenize "$work/text" --tokenizer "$work/made.json" --out "$work/b.bin" --append-token '<s>' --token-bits 32 > "$work/log" 2>&1 || fail "width"
tail -c +1025 "$work/a.bin" > "$work/plain.u16"
count=$(($(wc -c < "$work/plain.u16") / 2))
header="{'descr': '<u2', 'fortran_order': False, 'shape': ($count,), }"
{ printf '\223NUMPY\001\000v\000%-117s\n' "$header"; cat "$work/plain.u16"; } > "$work/c.npy"
cat > "$work/m.moe" <<'SPEC'
use decoder
model m = decoder { vocab_size = 500, dim = 16, layers = 1, attention = { heads = { q = 2 }, head_dim = 8 }, ffn = swiglu { hidden_dim = 16 }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 2 } }
SPEC
for data in a.bin b.bin c.npy "uint16:$work/plain.u16"; do
    case $data in uint16:*) path=$data ;; *) path=$work/$data ;; esac
    rm -rf "$work/run"
    moec train "$work/m.moe" --data "$path" --out "$work/run" > "$work/log" 2>&1 || fail "$data is not read"
    cp "$work/run/last.safetensors" "$work/$(basename "$data").run"
    cmp -s "$work/a.bin.run" "$work/$(basename "$data").run" || fail "$data trains differently"
done

moec train "$work/m.moe" --data "$work/text" --out "$work/bytes" > "$work/log" 2>&1 && fail "bytes are accepted for a model with 500 tokens"
grep -q "the model has 500 tokens and no tokenizer, so the bytes of .* are not its tokens" "$work/log" || fail "the bytes are not reported"

# Each line of JSON is one document.
printf '{"id": 1, "text": "one two"}\n{"text": "three\\nfour"}\n' > "$work/lines"
printf 'one two' > "$work/1"
printf 'three\nfour' > "$work/2"
moec tokenize "$work/lines" --json-field text --tokenizer "$work/made.json" --out "$work/lines.bin" --append-token '<s>' > "$work/log" 2>&1 || fail "field"
moec tokenize "$work/1" "$work/2" --tokenizer "$work/made.json" --out "$work/two.bin" --append-token '<s>' > "$work/log" 2>&1 || fail "two"
cmp -s "$work/lines.bin" "$work/two.bin" || fail "the tokens of --json-field differ"

# refuses WORDS ARGUMENTS...: tokenize ends with 1, prints WORDS and leaves no files.
refuses() {
    words=$1
    shift
    moec tokenize "$@" --out "$work/none.bin" > "$work/log" 2>&1
    [ $? -eq 1 ] || fail "no refusal: $words"
    grep -qF -- "$words" "$work/log" || fail "no '$words'"
    [ ! -e "$work/none.bin" ] || fail "a file was written: $words"
}
change() { sed "s/$1/$2/" "$work/made.json" > "$work/changed.json"; }
change '"normalizer": null' '"normalizer": {"type": "Rot13"}'
refuses "the normalizer 'Rot13' is not supported" "$work/text" --tokenizer "$work/changed.json"
change '"post_processor": null' '"post_processor": {"type": "Odd"}'
refuses "the post_processor 'Odd' is not supported" "$work/text" --tokenizer "$work/changed.json"
change '"normalizer": null' '"normalizer": {"type": "Replace", "pattern": {"Regex": "(?<name>a)"}, "content": "b"}'
refuses "an unsupported group (?..." "$work/text" --tokenizer "$work/changed.json"
added() { change '"post_processor": null' "\"post_processor\": $1"; }
around() { added "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"a\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"a\": {\"ids\": [$1]}}}"; }
around 500
refuses "adds token 500, which does not exist" "$work/text" --tokenizer "$work/changed.json"
for token in -1 '"x"' 9223372036854775807 4294967297; do
    around "$token"
    refuses "'post_processor' is malformed" "$work/text" --tokenizer "$work/changed.json"
done
added '{"type": "BertProcessing", "sep": ["b", 7], "cls": ["a", 600]}'
refuses "adds token 600, which does not exist" "$work/text" --tokenizer "$work/changed.json"
for tokens in 7 '{"a": 1}' '[7]' '[{"id": -1, "content": "x"}]' '[{"id": 1, "content": 2}]'; do
    printf '{"added_tokens": %s, "model": {"type": "WordLevel", "vocab": {"a": 0}}}' "$tokens" > "$work/changed.json"
    refuses "'added_tokens' is malformed" "$work/text" --tokenizer "$work/changed.json"
done
for unknown in -2 1 4294967296; do
    printf '{"model": {"type": "Unigram", "unk_id": %s, "vocab": [["a", -1.5]]}}' $unknown > "$work/changed.json"
    refuses "'unk_id' is malformed" "$work/text" --tokenizer "$work/changed.json"
done
change '"dropout": null' '"dropout": 0.5'
refuses "the option 'dropout' is not supported" "$work/text" --tokenizer "$work/changed.json"
head -c 3000 "$work/made.json" > "$work/changed.json"
refuses "invalid JSON" "$work/text" --tokenizer "$work/changed.json"
refuses "has no token '<none>'" "$work/text" --tokenizer "$work/made.json" --append-token '<none>'
refuses "cannot read" "$work/none" --tokenizer "$work/none.json"
: > "$work/empty"
refuses "the texts contain no tokens" "$work/empty" --tokenizer "$work/made.json"
refuses "a line is not a JSON object with a text field 'text'" "$work/text" --json-field text --tokenizer "$work/made.json"
exit 0

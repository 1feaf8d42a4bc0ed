#!/bin/sh
# A tokenizer in a run: text trains the same as its tokens, the checkpoint contains the tokenizer, eval and generate use it.
. "$(dirname "$0")/../begin.sh"
set +e

fail() {
    echo "tokenizer_run.sh: $1" >&2
    [ -f "$work/log" ] && tail -5 "$work/log" >&2
    exit 1
}

cat > "$work/m.moe" <<'SPEC'
use decoder
model m = decoder { vocab_size = 400, dim = 16, layers = 1, attention = { heads = { q = 2 }, head_dim = 8 }, ffn = swiglu { hidden_dim = 16 }
  train = { lr = 1e-2, batch_size = 4, context_length = 32, steps = 60, save_interval = 30 } }
SPEC
cat stdlib/*.moe > "$work/words"
moec tokenizer train "$work/words" --vocab-size 400 --out "$work/t.json" > "$work/log" 2>&1 || fail "tokenizer train"
moec tokenize "$work/words" --tokenizer "$work/t.json" --out "$work/text.bin" > "$work/log" 2>&1 || fail "tokenize"
train() { # OUT ARGUMENTS...
    out=$1
    shift
    moec train "$work/m.moe" --out "$work/$out" "$@" > "$work/log" 2>&1
}
train text --data "$work/words" --tokenizer "$work/t.json" || fail "text does not train"
train tokens --data "$work/text.bin" --tokenizer "$work/t.json" || fail "tokens do not train"
cmp -s "$work/text/last.safetensors" "$work/tokens/last.safetensors" || fail "text trains differently from its tokens"
train plain --data "$work/text.bin" || fail "tokens without a tokenizer do not train"
train again --data "$work/words" --tokenizer "$work/t.json" --steps 30 || fail "30 steps"
train again --data "$work/words" --resume || fail "the tokenizer is not in the checkpoint"
cmp -s "$work/text/last.safetensors" "$work/again/last.safetensors" || fail "a resumed run differs"

# The loss of the text is that of its tokens, and is also reported per byte.
moec eval "$work/text" --data "$work/words" --json > "$work/a" 2> "$work/log" || fail "eval of text"
moec eval "$work/plain" --data "$work/text.bin" --json > "$work/b" 2> "$work/log" || fail "eval of tokens"
[ "$(grep '"loss"' "$work/a")" = "$(grep '"loss"' "$work/b")" ] || fail "the losses of eval differ"
grep -q '"bits_per_byte"' "$work/a" || fail "eval does not report bits per byte"

# Only bytes of tokens with a loss count. Here these are 32 tokens of one byte; longer tokens fill no second sequence.
printf '~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~ decoder decoder decoder decoder' > "$work/short"
moec eval "$work/text" --data "$work/short" --json > "$work/a" 2> "$work/log" || fail "eval of a short text"
number() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" "$work/a"; }
[ "$(number tokens)" = 32 ] && [ "$(number bits_per_token)" = "$(number bits_per_byte)" ] || fail "bits per byte: $(cat "$work/a")"

# The tokenizer of the checkpoint, a given tokenizer and token ids generate the same text; prompts are independent.
generate() { # RUN ARGUMENTS...
    run=$1
    shift
    moec generate "$work/$run" --temperature 0 -n 12 "$@" 2> "$work/log"
}
generate text --prompt "use decoder" > "$work/own" || fail "generate"
generate plain --prompt "use decoder" --tokenizer "$work/t.json" > "$work/given" || fail "generate with a given tokenizer"
cmp -s "$work/own" "$work/given" || fail "a given tokenizer generates another text"
printf 'layer\nuse decoder\n\n# \303\244\360\237\230\200\n' > "$work/prompts"
generate text --prompts "$work/prompts" > "$work/all" || fail "prompts"
[ "$(wc -l < "$work/all")" -eq 3 ] || fail "not one object per prompt"
generate text --prompt "use decoder" --json > "$work/one" || fail "json"
[ "$(sed -n 2p "$work/all")" = "$(cat "$work/one")" ] || fail "a prompt before another changes its text"
text_of() { sed 's/.*"text":"\(.*\)","tokens".*/\1/' "$1"; }
stop=$(text_of "$work/one" | grep -o '[^"\\]\{3,\}' | head -1 | cut -c 2-3)
generate text --prompt "use decoder" --json --stop "$stop" > "$work/stopped" || fail "stop"
grep -q '"end":"stop"' "$work/stopped" || fail "--stop '$stop' does not stop: $(cat "$work/stopped")"
! text_of "$work/stopped" | grep -qF -e "$stop" || fail "the text contains the stop sequence"
[ "$(generate text --prompt x --num-samples 3 --temperature 1 --min-p 0.01 | sort -u | wc -l)" -eq 3 ] || fail "samples are equal"
generate text --prompt x --repeat-penalty 1000000 -n 30 --token-ids > "$work/none"
[ $? -eq 1 ] && grep -q "is not a token id" "$work/log" || fail "letters are accepted as token ids"
generate text --prompt "5 6 7" --repeat-penalty 1000000 -n 30 --token-ids | tr ' ' '\n' | sort > "$work/numbers" || fail "numbers"
[ -z "$(uniq -d "$work/numbers")" ] || fail "tokens are repeated despite the penalty"

# The standalone program encodes the prompt and prints the same text, in whole characters.
moec emit "$work/text" --target c -c 100 --out "$work/c" > "$work/log" 2>&1 || fail "emit"
make -s -C "$work/c" CFLAGS="-O1 -Werror -Wconversion -Wshadow" > "$work/log" 2>&1 || fail "the folder does not build"
for prompt in "use decoder" "  The #!?
		caf\303\251 don't 123" "<|endoftext|>x"; do
    prompt=$(printf "$prompt")
    generate text --prompt "$prompt" > "$work/hosted" || fail "generate"
    (cd "$work/c" && ./generate --prompt "$prompt" --tokens 12 --temperature 0) > "$work/alone" 2> "$work/log" || fail "the folder does not run"
    [ "$(cat "$work/hosted")" = "$(cat "$work/alone")" ] || { cat "$work/hosted"; fail "the standalone program generates another text: $(cat "$work/alone")"; }
done
rm "$work/c/tokenizer.bin"
(cd "$work/c" && ./generate --prompt x --tokens 3) > "$work/alone" 2> "$work/log" && fail "the standalone program accepts bytes as tokens"
grep -q -- "--token-ids" "$work/log" || fail "the message lacks the option"
(cd "$work/c" && ./generate --prompt "5 6 7" --token-ids -n 9 --temperature 0) > "$work/alone" 2> "$work/log" || fail "numbers"
generate text --prompt "5 6 7" --token-ids -n 9 > "$work/hosted"
[ "$(cat "$work/hosted")" = "$(cat "$work/alone")" ] || fail "token ids are continued differently"

# A special token ends the text in all programs, unless it is to be ignored.
yes 'one two<|endoftext|>' | head -500 | tr -d '\n' > "$work/short"
train ends --data "$work/short" --tokenizer "$work/t.json" || fail "short texts do not train"
moec emit "$work/ends" --target c -c 100 --out "$work/e" > "$work/log" 2>&1 || fail "emit"
make -s -C "$work/e" > "$work/log" 2>&1 || fail "the folder does not build"
for flag in "" --ignore-eos; do
    generate ends --prompt "one" $flag > "$work/hosted" || fail "generate $flag"
    (cd "$work/e" && ./generate --prompt "one" -n 12 $flag) > "$work/alone" 2> "$work/log" || fail "the folder does not run"
    [ "$(cat "$work/hosted")" = "$(cat "$work/alone")" ] || fail "$flag: the standalone program ends elsewhere"
    case $flag in
    "") [ "$(cat "$work/hosted")" = "one two" ] || fail "a special token does not end the text: $(cat "$work/hosted")" ;;
    *) grep -q "twoone two" "$work/hosted" || fail "$flag does not ignore the special token: $(cat "$work/hosted")" ;;
    esac
done
generate ends --prompt "one" --json | grep -q '"end":"stop"' || fail "the reason of the end is not stop"

# Rejected inputs.
generate plain --prompt "use decoder" > "$work/out"
[ $? -eq 1 ] && grep -q "no tokenizer" "$work/log" || fail "bytes are accepted as tokens"
sed 's/vocab_size = 400/vocab_size = 300/' "$work/m.moe" > "$work/small.moe"
moec train "$work/small.moe" --data "$work/words" --tokenizer "$work/t.json" --out "$work/small" > "$work/log" 2>&1
[ $? -eq 1 ] && grep -q "the tokenizer has 400 tokens, but the model has vocab_size = 300" "$work/log" || fail "a vocabulary that is too small is accepted"
exit 0

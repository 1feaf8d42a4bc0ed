#!/bin/sh
# Speculative decoding: the text is the same without a draft, with a good, a bad and an untrained one. Also with sampling and
# penalties, at the end of a text, at a stop sequence and after a prompt of one token. Other uses are refused.
. "$(dirname "$0")/../begin.sh"

cat >"$work/pair.moe" <<'SPEC'
use decoder
use recurrent

model big = decoder {
  dim = 32, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 } }
  train = { lr = 1e-2, batch_size = 4, context_length = 32, steps = 60 }
}
model windowed = big { attention.window = 8, norm = layer_norm }
model little = big { dim = 16, layers = 1 }
model recurrent = big { token_mixers = [linear_attention] }
model module = big { predict_ahead = 1 }
model modules = big { predict_ahead = 2, tie_embeddings = true, document_start_token = 10 }
model heads = big { predict_ahead = 3, predict_ahead_layer = ahead_head, softcap = 20 }
model delta = recurrent { predict_ahead = 1 }
SPEC
cat stdlib/*.moe >"$work/text"
yes 'one two<|endoftext|>' | head -500 | tr -d '\n' >"$work/short"
cd "$work"
train() { moec train "pair.moe:$1" --data "$2" --out "$3" ${4-} >log 2>&1 || wrong "training of $1: $(cat log)"; }
train big text big
train windowed text windowed
train little text little
train little text untrained "--steps 0"
train recurrent text recurrent "--steps 0"
for model in module modules heads; do train $model text $model; done
train delta text delta "--steps 0"
moec tokenizer train short --vocab-size 300 --out t.json >log 2>&1 || wrong "no tokenizer: $(cat log)"
moec tokenizer train text --vocab-size 300 --out other.json >log 2>&1 || wrong "no tokenizer: $(cat log)"
train little text other "--steps 0 --tokenizer other.json --set vocab_size=300"
for model in big little; do
    train $model short ends_$model "--tokenizer t.json --set vocab_size=300"
done

# same MODEL DRAFTS OPTION...: the text with each of the drafts is that without one.
same() {
    model=$1 drafts=$2
    shift 2
    moec generate "$model" "$@" >alone 2>log || wrong "generate $model $*: $(cat log)"
    for draft in $drafts; do
        moec generate "$model" "$@" --draft "$draft" >drafted 2>log || wrong "--draft $draft $*: $(cat log)"
        cmp -s alone drafted || wrong "$model $*: another text with the draft $draft: $(cat alone) and $(cat drafted)"
        grep -q 'tokens of the draft accepted' log || wrong "no acceptance: $(cat log)"
    done
}
for tokens in 1 2 40; do
    same big "big little untrained windowed" --prompt "a" -n $tokens --temperature 0
    same windowed "windowed little" --prompt "a" -n $tokens --temperature 0
done
long="option norm: layer = rms_norm; the text of the prompt has several blocks of tokens"
same big "little untrained" --prompt "$long" -n 50 --temperature 0 --draft-tokens 7
same big "little untrained" --prompt "param" -n 60 --seed 3 --draft-tokens 1
same big "big little" --prompt "param" -n 60 --temperature 0.9 --top-k 8 --repeat-penalty 1.2
same big little --prompt "param" -n 60 --temperature 0 --stop "e" --json
same big little --prompt "param" -n 24 --num-samples 3
for type in bf16 int8 int4; do same big little --prompt "param" -n 30 --weight-dtype $type; done
same ends_big "ends_little ends_big" --prompt "one" -n 12 --temperature 0
[ "$(cat drafted)" = "one two" ] || wrong "a special token does not end the text: $(cat drafted)"
same ends_big "ends_little ends_big" --prompt "one" -n 24 --temperature 0 --ignore-eos

# A model accepts all that it proposes itself: four tokens of each step are used.
moec generate big --prompt "a" -n 41 --temperature 0 --draft big >drafted 2>log
grep -q ' 30 of 30 tokens of the draft accepted (100 %)' log || wrong "the model refuses itself: $(cat log)"
moec generate untrained --prompt "a" -n 41 --temperature 0 --draft untrained --weight-dtype int4 >drafted 2>log
grep -q ' 30 of 30 tokens of the draft accepted (100 %)' log || wrong "the draft is not in int4: $(cat log)"
moec generate big --prompt "a" -n 41 --temperature 0 --draft untrained >drafted 2>log
grep -qE ' [0-3] of [0-9]+ tokens of the draft accepted' log || wrong "tokens of an untrained draft are accepted: $(cat log)"

# The further predictions of the model itself, with tokens of the prompt that are not the most likely ones.
for model in module modules heads; do
    for tokens in 1 2 40; do same $model self --prompt "a" -n $tokens --temperature 0; done
    same $model self --prompt "$long" -n 50 --temperature 0 --draft-tokens 7
    same $model self --prompt "$long" -n 50 --seed 3 --repeat-penalty 1.2
    same $model self --prompt "param" -n 24 --temperature 0 --num-samples 3
    for type in bf16 int8 int4; do same $model self --prompt "param" -n 30 --temperature 0 --weight-dtype $type; done
done
moec generate module --prompt "$long" -n 60 --temperature 0 --draft self >drafted 2>log
accepted=$(grep -oE '[0-9]+ of' log | grep -oE '[0-9]+')
[ "$accepted" -ge 10 ] || wrong "a trained module predicts nothing: $(cat log)"

fails "the model predicts no further tokens" moec generate big --prompt a --draft self
fails "keeps a state that cannot return" moec generate delta --prompt a --draft self
fails "a vocabulary of 300 tokens" moec generate big --prompt a --draft ends_little
fails "has another tokenizer" moec generate ends_big --prompt a --draft other
fails "keeps a state that cannot return" moec generate big --prompt a --draft recurrent
fails "keeps a state that cannot return" moec generate recurrent --prompt a --draft big
MOEC_CUDA=$simulator fails "on the CPU only" moec generate big --prompt a --draft little --device cuda

#!/bin/sh
# Speculative decoding of moec serve: answers are those without a draft, alone and in company, while requests join and leave, after a
# saved prompt and after a client that disconnects. One sequence speculates, several do not, nor does a grammar. The draft counts as
# memory of caches.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
. tests/serve/server.sh
claims="python3 $PWD/tests/serve/claims.py"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat >"$work/pair.moe" <<'SPEC'
use decoder
use recurrent
use masked_diffusion

model big = decoder {
  dim = 32, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 } }
  train = { lr = 1e-2, batch_size = 4, context_length = 64, steps = 100 }
}
model little = big { dim = 16, layers = 1 }
model module = big { predict_ahead = 1 }
model recurrent = big { token_mixers = [linear_attention] }
model masked = masked_diffusion { dim = 16, layers = 1 }
SPEC
cat stdlib/*.moe >"$work/text"
cd "$work"
train() { moec train "pair.moe:$1" --data text --out "$1" >log 2>&1 || wrong "training of $1: $(cat log)"; }
for model in big little module; do train $model; done
for model in recurrent masked; do moec init pair.moe:$model -o $model.safetensors -q; done
moec init pair.moe:little -o wide.safetensors -q --set vocab_size=300

# metric NAME: its value.
metric() { curl -sS "$at/metrics" | sed -n "s/^moec_$1 //p"; }
# answer BODY: the completions.
answer() { post "$1" | sed 's/"created".*"choices"//; s/"usage".*//; s/"id":"[^"]*"//'; }
long=$(tail -c 4000 text | tr -dc 'a-z ' | head -c 500)
schema='"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","items":{"enum":["layer","dim"]},"minItems":9,"maxItems":9}}}'
# answers NAME: those of requests that are alone, and a digest of mixed ones, which in company are the same.
answers() {
    for tail in '"temperature":0' '"seed":1,"logprobs":2' '"seed":2,"repetition_penalty":1.3,"top_k":9' '"temperature":0,"stop":["e"],"stream":true' \
        '"n":3,"seed":4' '"temperature":0,"logit_bias":{"101":2},"presence_penalty":0.5'; do
        for prompt in layer "$long"; do answer "{\"prompt\":\"$prompt\",\"max_tokens\":90,$tail}"; done
    done >"$1.answers"
    $claims "$at" company 16 $server >out || wrong "$1: $(cat out)"
    sed -n 's/.*digest //p' out >"$1.digest"
}

for model in big module; do
    run=$model serve plain$model -c 600 --parallel 4
    answers plain$model
    answer "{\"prompt\":\"x\",\"max_tokens\":300,\"temperature\":1,\"seed\":2,$schema}" >$model.json
    same "$model: proposals without a draft" "$(metric draft_tokens_total)" 0
    ended plain$model
    case $model in big) drafts="little big" ;; *) drafts=self ;; esac
    for draft in $drafts; do
        run=$model serve "$draft" -c 600 --parallel 4 --draft "$draft"
        # As many proposals as moec generate, which has them for each token but the first; a draft reads longer prompts in blocks.
        for from in 1000 19000 25000; do
            prompt=$(tail -c +$from text | tr -dc 'a-z ' | head -c 30)
            before=$(metric accepted_tokens_total) proposed=$(metric draft_tokens_total)
            wanted=$(moec generate $model --prompt "$prompt" -n 90 --seed 1 --temperature 0.6 --draft "$draft" 2>&1 >drawn | grep -oE '[0-9]+ of [0-9]+')
            made=$(post "{\"prompt\":\"$prompt\",\"max_tokens\":90,\"seed\":1,\"temperature\":0.6}" | python3 -c 'import json, sys; print(json.load(sys.stdin)["choices"][0]["text"])')
            same "$draft: a text of moec generate" "$prompt$made" "$(cat drawn)"
            same "$draft: acceptance" "$(($(metric accepted_tokens_total) - before)) of $(($(metric draft_tokens_total) - proposed))" "$wanted"
            [ "${wanted%% of *}" -gt 9 ] || wrong "$draft: only $wanted proposals are accepted"
        done

        answers "$draft"
        cmp plain$model.answers "$draft.answers" || wrong "$draft: other answers than without a draft"
        cmp plain$model.digest "$draft.digest" || wrong "$draft: other mixed answers than without a draft"
        for claim in "switch 500" "leftover 16"; do $claims "$at" $claim >out || wrong "$draft: $(cat out)"; done

        # A grammar and several completions do not speculate.
        before=$(metric draft_tokens_total)
        same "$draft: JSON" "$(answer "{\"prompt\":\"x\",\"max_tokens\":300,\"temperature\":1,\"seed\":2,$schema}")" "$(cat $model.json)"
        same "$draft: proposals with a grammar" "$(metric draft_tokens_total)" "$before"
        for cached in 0 480; do
            same "$draft: tokens of a saved prompt" "$(post "{\"prompt\":\"+$long\",\"max_tokens\":9}" | sed 's/.*"cached_tokens":\([0-9]*\).*/\1/')" $cached
        done
        ended "$draft"
    done
done

# A client that disconnects while its request speculates; the answers after it are the same.
run=big serve cancelled -c 30000 --draft little --draft-tokens 7
curl -s -m 0.3 -H "$json" "$at/v1/completions" -d '{"prompt":"layer","max_tokens":29000,"ignore_eos":true,"stream":true}' >/dev/null || true
for _ in $(seq 100); do [ "$(metric texts_active)" = 0 ] && break || sleep 0.05; done
made=$(metric generated_tokens_total)
[ "$made" -gt 0 ] && [ "$made" -lt 29000 ] && [ "$(metric accepted_tokens_total)" -gt 0 ] || wrong "not cancelled while it speculates: $made tokens"
answer '{"prompt":"layer","max_tokens":90,"temperature":0}' >once
head -c "$(wc -c <once)" plainbig.answers | cmp - once || wrong "another answer after a client that disconnected"
ended cancelled

# The caches of the draft count: 2 * 2 * 16 values of f32 per position in the two layers of the model, 2 * 8 in the layer of the draft.
moec serve big --draft little --port 0 -c 600 --parallel 2 --cache-memory 320000 >out 2>&1 && wrong "too little memory for the caches of a draft"
grep -q -- '--cache-memory is 320 kB, but the caches of 2 sequences of 600 tokens and of the draft need 346 kB' out || wrong "$(cat out)"
run=big serve limited --draft little -c 600 --parallel 2 --cache-memory 346000
for _ in 1 2; do post "{\"prompt\":\"$long\",\"max_tokens\":9}" >answer; done
has "no memory for saved prompts" "$(cat answer)" '"cached_tokens":0'
ended limited

fails "wide.safetensors has a vocabulary of 300 tokens, but the model big/" moec serve big --draft wide.safetensors
fails "decoding of model 'recurrent' keeps a state that cannot return" moec serve big --draft recurrent.safetensors
fails "decoding of model 'recurrent' keeps a state that cannot return" moec serve recurrent.safetensors --draft little
fails "does not generate token by token" moec serve big --draft masked.safetensors
fails "the model predicts no further tokens" moec serve big --draft self
fails "nowhere" moec serve big --draft nowhere
MOEC_CUDA=$simulator fails "on the CPU only" moec serve big --draft little --device cuda
moec serve big --draft little --draft-tokens 8 >out 2>&1 && wrong "8 proposals are accepted"
grep -q -- '--draft-tokens must be from 1 to 7' out || wrong "$(cat out)"

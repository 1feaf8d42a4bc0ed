#!/bin/sh
# moec serve answers requests of OpenAI's API: text, events, log-probabilities of a prompt, errors. Broken clients do not
# disturb it.
. "$(dirname "$0")/../begin.sh"
export OMP_NUM_THREADS=1
small_model 60
moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"

. tests/serve/server.sh

serve first -c 33 --client-timeout 1 --max-body-size 3000

# The text of moec generate, alone, in a batch with others, and as events.
expected=$(moec generate "$work/run" --prompt "layer " -n 12 --temperature 0 | sed 's/^layer //')
ask='"prompt":"layer ","max_tokens":12,"temperature":0'
same "alone" "$(post "{$ask}" | field text)" "$expected"
many=$(post '{"prompt":["l","layer ","model small = decoder"],"max_tokens":12,"temperature":0}')
has "in a batch" "$many" "\"index\":1,\"text\":\"$expected\""
has "three texts" "$many" '"index":2'
same "events" "$(post "{$ask,\"stream\":true}" | grep '"text"' | field text | tr -d '\n')" "$expected"
same "end of events" "$(post "{$ask,\"stream\":true}" | grep . | tail -1)" "data: [DONE]"
drawn='{"prompt":"layer ","seed":7,"n":2,"max_tokens":12,"top_p":0.9,"min_p":0.01,"repetition_penalty":1.1}'
post "$drawn" | sed 's/"id":"[^"]*","object":"[^"]*","created":[0-9]*//' >"$work/one"
post "$drawn" | sed 's/"id":"[^"]*","object":"[^"]*","created":[0-9]*//' >"$work/two"
cmp "$work/one" "$work/two" || wrong "a seed gives different texts"
texts() {
    moec generate "$work/run" --prompt "layer " -n 12 --temperature 1 --top-p 0.9 --min-p 0.01 --repeat-penalty 1.1 --json "$@" |
        sed 's/.*"text":\("[^"]*"\).*/\1/'
}
texts --seed 7 --num-samples 2 >"$work/drawn"
has "a seed of moec generate" "$(cat "$work/one")" "\"index\":0,\"text\":$(head -1 "$work/drawn")"
has "its second text" "$(cat "$work/one")" "\"index\":1,\"text\":$(tail -1 "$work/drawn")"
texts --seed 8 --num-samples 2 | sort - "$work/drawn" | uniq -d >"$work/shared"
[ ! -s "$work/shared" ] || wrong "requests with adjacent seeds share a text: $(cat "$work/shared")"
stopped=$(post '{"prompt":"layer ","max_tokens":12,"temperature":0,"stop":["zzz","'"$(printf %.2s "$expected" | cut -c2)"'"]}')
has "a stop sequence" "$stopped" '"finish_reason":"stop"'

same "a logit bias" "$(post '{"prompt":"layer ","max_tokens":3,"temperature":0,"logit_bias":{"90":100},"response_format":{"type":"text"}}' | field text)" ZZZ
same "zero penalties" "$(post "{$ask,\"logit_bias\":{},\"frequency_penalty\":0,\"presence_penalty\":0}" | field text)" "$expected"
same "each token once" "$(post '{"prompt":"x","max_tokens":6,"temperature":0,"logit_bias":{"89":60,"90":60},"frequency_penalty":2}' |
    field text | grep -o . | sort -u | tr -d '\n')" YZ

# Log-probabilities of a prompt, also of several at once, equal the loss of moec eval.
head -c 17 "$work/text" >"$work/part"
loss=$(moec eval "$work/run" --data "$work/part" --json --set train.batch_size=1 | sed -n 's/.*"loss": \([^,]*\),.*/\1/p')
quoted=$(sed ':a;N;$!ba;s/\\/\\\\/g;s/"/\\"/g;s/\n/\\n/g' "$work/part")
# scored PROMPTS MORE: the negative mean log-probability of the last prompt.
scored() {
    post "{\"prompt\":$1,\"echo\":true,\"logprobs\":1,$2}" | sed 's/.*"token_logprobs":\[null,\([^]]*\)\].*/\1/' |
        tr , '\n' | head -16 | awk '{ sum -= $1 } END { printf "%.9f", sum / NR }'
}
close() { awk -v a="$2" -v b="$3" 'BEGIN { exit !(a - b < 2e-6 && b - a < 2e-6) }' || wrong "$1: $2 is not $3"; }
close "loss" "$(scored "\"$quoted\"" '"max_tokens":0')" "$loss"
close "loss of the last of three" "$(scored "[\"la\",\"layer layer layer x\",\"$quoted\"]" '"max_tokens":0')" "$loss"
close "loss before a token" "$(scored "\"$quoted\"" '"max_tokens":1')" "$loss"
close "loss of token numbers" "$(scored "[[$(od -An -v -tu1 "$work/part" | tr -s ' \n' ',' | sed 's/^,//;s/,$//')]]" '"max_tokens":0')" "$loss"
close "loss before more tokens" "$(scored "\"$quoted\"" '"max_tokens":9,"temperature":0')" "$loss"

# Multiple-choice answers: moec eval --multiple-choice selects the answers with the highest likelihood on the server.
likelihood() {
    post "{\"prompt\":\"$1$2\",\"echo\":true,\"logprobs\":0,\"max_tokens\":0}" | sed 's/.*"token_logprobs":\[null,\([^]]*\)\].*/\1/' |
        tr , '\n' | tail -n ${#2} | awk '{ sum += $1 } END { printf "%.9f", sum }'
}
for pair in 'layer: norm/zq' 'out:put/ tup' 'the:re/QQ' 'e: d/ z' 'x:a/b'; do
    before=${pair%%:*} one=${pair#*:} two=${pair##*/}
    one=${one%/*}
    answer=$(awk -v a="$(likelihood "$before" "$one")" -v b="$(likelihood "$before" "$two")" 'BEGIN { print (b > a) }')
    echo "{\"context\": \"$before\", \"choices\": [\"$one\", \"$two\"], \"answer\": $answer}"
done >"$work/questions.jsonl"
has "choices" "$(moec eval "$work/run" --multiple-choice "$work/questions.jsonl")" "accuracy 1.0000"
sed 's/"answer": 0/"answer": 2/;s/"answer": 1/"answer": 0/;s/"answer": 2/"answer": 1/' "$work/questions.jsonl" >"$work/wrong.jsonl"
has "wrong choices" "$(moec eval "$work/run" --multiple-choice "$work/wrong.jsonl")" "accuracy 0.0000"
echo '{"context": "x", "choices": ["a"], "answer": 1}' >"$work/bad.jsonl"
moec eval "$work/run" --multiple-choice "$work/bad.jsonl" >"$work/out" 2>&1 && wrong "a file without a valid question is accepted"
grep -q 'bad.jsonl:1: invalid question' "$work/out" || wrong "$(cat "$work/out")"

# Errors have the format of the API.
at1=$at/v1/completions
refuse 400 'is not valid JSON' "$at1" -d '{'
refuse 400 'a JSON object' "$at1" -d '[]'
refuse 400 "unknown field 'promt'" "$at1" -d '{"promt":"x"}'
refuse 400 "'prompt' is missing" "$at1" -d '{}'
refuse 400 'at least one token' "$at1" -d '{"prompt":""}'
refuse 400 'is not a token id' "$at1" -d '{"prompt":[1,256]}'
refuse 400 'is not a token id' "$at1" -d '{"prompt":[[1],[-1]]}'
refuse 400 "'temperature' must be a number from 0 to 2" "$at1" -d '{"prompt":"x","temperature":"hot"}'
refuse 400 'token ids below 256' "$at1" -d '{"prompt":"x","logit_bias":{"256":5}}'
refuse 400 'from -100 to 100' "$at1" -d '{"prompt":"x","logit_bias":{"1":101}}'
refuse 400 'must map token ids' "$at1" -d '{"prompt":"x","logit_bias":[1]}'
refuse 400 "'presence_penalty' must be a number from -2 to 2" "$at1" -d '{"prompt":"x","presence_penalty":3}'
refuse 400 'text, json_object or json_schema' "$at1" -d '{"prompt":"x","response_format":{"type":"xml"}}'
refuse 400 'context_length_exceeded' "$at1" -d '{"prompt":"x","max_tokens":33}'
refuse 400 'at most 128 completions' "$at1" -d '{"prompt":["x","y"],"n":100}'
refuse 400 'must be a non-empty string' "$at1" -d '{"prompt":"x","stop":""}'
refuse 404 'model_not_found' "$at1" -d '{"model":"other","prompt":"x"}'
refuse 404 'unknown path' "$at/v1/embeddings" -d '{}'
refuse 405 'supports only the method POST' "$at1"
refuse 405 'supports only the method GET' "$at/health" -d x
refuse 400 'no_chat_template' "$at/v1/chat/completions" -d '{"messages":[{"role":"user","content":"x"}]}'
head -c 4000 "$work/text" >"$work/long"
refuse 413 'the body is too large' "$at1" --data-binary "@$work/long"
refuse 413 'the body is too large' "$at1" -H 'Transfer-Encoding: chunked' --data-binary "@$work/long"

# Clients that disconnect, or send half a request, no request, or another protocol.
printf 'HELO there\r\n\r\n' | curl -s -m 2 "telnet://$at" >/dev/null || true
curl -s -m 4 -H "$json" -H 'Content-Length: 100' "$at1" -d '{"prompt"' >/dev/null && wrong "half a request was answered"
curl -s -m 0.01 -H "$json" "$at1" -d "{$ask,\"n\":100}" >/dev/null || true
curl -s -m 0.01 -H "$json" "$at1" -d "{$ask,\"n\":100,\"stream\":true}" >/dev/null || true
(sleep 3 | curl -s -m 4 "telnet://$at") >/dev/null 2>&1 || true
same "after broken clients" "$(post "{$ask}" | field text)" "$expected"
sleep 0.3
counted=$(curl -sS "$at/metrics")
has "metrics" "$counted" 'moec_texts_active 0'
has "metrics" "$counted" 'moec_texts_waiting 0'
has "metrics" "$counted" 'moec_responses_total{status="5xx"} 0'
has "models" "$(curl -sS "$at/v1/models")" '"id":"run"'
ended first

# Connections from other machines need a key; a key that is set is required.
moec serve "$work/run" --host 0.0.0.0 --port 0 >"$work/out" 2>&1 && wrong "remote connections without a key are accepted"
grep -q MOEC_API_KEY "$work/out" || wrong "$(cat "$work/out")"
export MOEC_API_KEY=secret
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }}{{ "\n" }}{% endfor %}{{ "assistant: " }}' >"$work/chat.jinja"
serve second --parallel 1 -c 64 --chat-template "$work/chat.jinja"
chat='"messages":[{"role":"user","content":"layer"}],"temperature":0,"max_tokens":9'
chatted=$(curl -sS -m 20 "$at/v1/chat/completions" -H "$json" -H 'Authorization: Bearer secret' -d "{$chat,\"logprobs\":true,\"top_logprobs\":2}")
meant=$(printf 'user: layer\nassistant: ')
wanted=$(curl -sS -m 20 "$at/v1/completions" -H "$json" -H 'Authorization: Bearer secret' -d '{"prompt":"user: layer\nassistant: ","temperature":0,"max_tokens":9}')
same "a chat is $meant" "$(echo "$chatted" | field content)" "$(echo "$wanted" | field text)"
has "a chat" "$chatted" '"object":"chat.completion"'
has "log-probabilities of a chat" "$chatted" '"top_logprobs":[{"token"'
events=$(curl -sS -m 20 "$at/v1/chat/completions" -H "$json" -H 'Authorization: Bearer secret' -d "{$chat,\"stream\":true}")
has "events of a chat" "$events" '"delta":{"role":"assistant"'
same "text of events" "$(echo "$events" | grep -o '"content":"[^"]*"' | field content | tr -d '\n')" "$(echo "$wanted" | field text)"
refuse 400 'must be a list of objects' "$at/v1/chat/completions" -H 'Authorization: Bearer secret' -d '{"messages":[{"role":"user"}]}'
printf '{%% macro f() %%}{%% endmacro %%}' >"$work/macro.jinja"
moec serve "$work/run" --port 0 --chat-template "$work/macro.jinja" >"$work/out" 2>&1 && wrong "a template with a macro is accepted"
grep -q "block 'macro' is not supported" "$work/out" || wrong "$(cat "$work/out")"
refuse 401 'invalid_api_key' "$at/v1/completions" -d '{"prompt":"x"}'
refuse 401 'invalid_api_key' "$at/v1/models" -H 'Authorization: Bearer secreT'
refuse 200 '"ok"' "$at/health"
refuse 200 '"finish_reason"' "$at/v1/completions" -H 'Authorization: Bearer secret' -d '{"prompt":["x","y"],"max_tokens":3}'
ended second

# The thread that uses the device is not the thread that opened it.
unset MOEC_API_KEY
export MOEC_CUDA="$simulator" MOEC_SIM=unchecked MOEC_CFLAGS=-O0
serve device --device cuda -c 33
same "on a device" "$(post "{$ask}" | field text)" "$expected"
kill -TERM $server
wait $server || wrong "the server on a device ends with $?: $(cat "$work/device.err")"

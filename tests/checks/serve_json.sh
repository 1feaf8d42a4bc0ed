#!/bin/sh
# JSON answers of moec serve: response_format and calls of functions, with tokens that are bytes and with those of a tokenizer.
. "$(dirname "$0")/../begin.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 0; }
. tests/serve/server.sh
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat >"$work/chat.jinja" <<'END'
{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for call in m.tool_calls %}{{ call.function.name }}({{ call.function.arguments.city }}){% endfor %}{{ "\n" }}{% endfor %}{{ "assistant: " }}
END
cat stdlib/*.md >"$work/text"
moec tokenizer train "$work/text" --vocab-size 500 --out "$work/tokenizer.json" -q
run=$work/run.safetensors

# json_text: the texts of an answer, one per line, each in valid JSON; calls: the names and arguments of its calls.
json_text() { python3 -c 'import json, sys
for choice in json.load(sys.stdin)["choices"]:
    assert choice["finish_reason"] == "stop", choice
    print(json.dumps(json.loads(choice["text"]), sort_keys=True))'; }
calls() { python3 -c 'import json, sys
choice = json.load(sys.stdin)["choices"][0]
for call in choice["message"]["tool_calls"]:
    assert call["type"] == "function" and call["id"]
    print(choice["finish_reason"], choice["message"]["content"], call["function"]["name"], json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True))'; }
chat() { curl -sS -m 20 -H "$json" "$at/v1/chat/completions" -d "$1"; }
schema='{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x",null]},"c":{"items":{"type":"boolean"},"minItems":1,"maxItems":3}},"required":["a","b","c"]}'
format="\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":$schema}}"
tools='"tools":[{"type":"function","function":{"name":"weather","parameters":{"properties":{"city":{"enum":["Paris","Rome"]}},"required":["city"]}}},{"type":"function","function":{"name":"now","parameters":{"additionalProperties":false}}}]'
ask='"messages":[{"role":"user","content":"hi"}],"max_tokens":99'

for kind in bytes words; do
    if [ $kind = bytes ]; then vocabulary=256; else vocabulary=510; fi # ten tokens without a text
    moec init tests/serve/kinds.moe:dense -o "$run" -q --force --set dim=32 --set layers=1 --set vocab_size=$vocabulary
    if [ $kind = words ]; then set -- --tokenizer "$work/tokenizer.json"; else set --; fi
    serve $kind --chat-template "$work/chat.jinja" "$@"

    for temperature in 0 1; do
        post "{\"prompt\":\"x\",\"n\":8,\"max_tokens\":250,\"temperature\":$temperature,\"seed\":5,$format}" >"$work/answer"
        json_text <"$work/answer" >"$work/out" || wrong "$kind: $(cat "$work/answer")"
        same "$kind: values of the schema" "$(grep -cxE '\{"a": -?[0-9]+, "b": ("x"|null), "c": \[(true|false)(, (true|false)){0,2}\]\}' "$work/out")" 8
    done
    post "{\"prompt\":\"x\",\"n\":8,\"max_tokens\":600,\"seed\":1,\"logit_bias\":{\"34\":5},\"response_format\":{\"type\":\"json_object\"}}" >"$work/answer"
    grep -q '"finish_reason":"stop"' "$work/answer" || wrong "$kind: no object is complete: $(cat "$work/answer")"
    # Together with a request without a grammar, with logarithms of probabilities.
    alone=$(post "{\"prompt\":\"x\",\"max_tokens\":60,\"logprobs\":1,\"seed\":3,$format}" | sed 's/.*"choices"//; s/"usage".*//')
    post '{"prompt":"y","max_tokens":300}' >"$work/other" &
    same "$kind: in company" "$(post "{\"prompt\":\"x\",\"max_tokens\":60,\"logprobs\":1,\"seed\":3,$format}" | sed 's/.*"choices"//; s/"usage".*//')" "$alone"
    wait $!

    for seed in 1 2 3 4 5 6 7 8; do
        chat "{$ask,$tools,\"tool_choice\":\"required\",\"seed\":$seed}" | calls
    done >"$work/out"
    same "$kind: required calls" "$(grep -cxE 'tool_calls None (weather \{"city": "(Paris|Rome)"\}|now \{\})' "$work/out")" 8
    same "$kind: both functions" "$(cut -d ' ' -f 3 "$work/out" | sort -u | tr '\n' ' ')" "now weather "
    has "$kind: a named call" "$(chat "{$ask,$tools,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}}" | calls)" 'tool_calls None weather {"city"'
    events=$(chat "{$ask,$tools,\"tool_choice\":\"required\",\"stream\":true,\"seed\":1}")
    has "$kind: a call in events" "$events" '"tool_calls":[{"id":"call_'
    has "$kind: a call in events" "$events" '"index":0}]'

    # The template receives the functions unless the choice is none; earlier calls and their results are messages.
    count() { chat "$1" | sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/'; }
    plain=$(count "{$ask}")
    same "$kind: no functions" "$(count "{$ask,$tools,\"tool_choice\":\"none\"}")" "$plain"
    [ "$(count "{$ask,$tools}")" -gt "$plain" ] || wrong "$kind: the template did not receive the functions"
    turns='"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},{"role":"tool","tool_call_id":"1","content":"rain"}],"max_tokens":1'
    [ $kind = words ] || same "messages of a call" "$(count "{$turns}")" "$(printf 'user: hi\nassistant: weather(Rome)\ntool: rain\nassistant: ' | wc -c)"

    refuse 400 "'minimum' in the JSON schema is not supported" "$at/v1/completions" -d '{"prompt":"x","response_format":{"type":"json_schema","json_schema":{"schema":{"type":"integer","minimum":3}}}}'
    ended $kind
done

serve errors --chat-template "$work/chat.jinja" --tokenizer "$work/tokenizer.json"
at2=$at/v1/chat/completions
refuse 400 'text, json_object or json_schema' "$at2" -d "{$ask,\"response_format\":{\"type\":\"xml\"}}"
refuse 400 "'response_format' needs" "$at2" -d "{$ask,\"response_format\":{\"type\":\"json_schema\"}}"
refuse 400 "but there are no 'tools'" "$at2" -d "{$ask,\"tool_choice\":\"required\"}"
refuse 400 "with a name in 'tools'" "$at2" -d "{$ask,$tools,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"other\"}}}"
refuse 400 "'tools' must be a list" "$at2" -d "{$ask,\"tools\":[{\"type\":\"function\"}]}"
refuse 400 "exclude each other" "$at2" -d "{$ask,$tools,\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}}"
refuse 400 "'functions' is not supported" "$at2" -d "{$ask,\"functions\":[{\"name\":\"f\"}]}"
refuse 400 "begins a value of the JSON schema" "$at2" -d "{$ask,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"\$ref\":\"#\"}}}}"
ended errors

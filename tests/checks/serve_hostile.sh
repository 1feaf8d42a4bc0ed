#!/bin/sh
# moec serve and hostile requests: field names and values with cut or invalid UTF-8, deep nesting, huge numbers; hosts and origins
# of other sites; bodies and headers that are too long. Each gets an answer in JSON, and the server continues.
. "$(dirname "$0")/../begin.sh"
. tests/serve/server.sh
export OMP_NUM_THREADS=1
small_model 5
moec train "$work/small.moe" --data "$work/text" --out "$work/run" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
printf '%s' '{% for m in messages %}{{ m.role[:2] ~ m.content[1:] | upper }}{% endfor %}' >"$work/chat.jinja"
serve first -c 33 --client-timeout 5 --max-body-size 200000 --chat-template "$work/chat.jinja"

# ---- Fields: one file for each body, all sent by one curl ----
mkdir "$work/bodies"
body() { cat >"$(mktemp "$work/bodies/$1.XXXXXX")"; }
# A character of 2, 3 and 4 bytes across each boundary at which a message may cut a name.
name=$(printf '%70s' '' | tr ' ' a)
for length in $(seq 15 64); do
    for character in é € 😀; do printf '{"prompt":"ab","%.*s%s":1}' "$length" "$name" "$character" | body completions; done
done
for bytes in '\303' '\377' '\300\257' '\355\240\200' '\364\220\200\200' '\200' '\342\202' '\360\237\230' '\\u0000' '\\ud800' '\\udc00x'; do
    # shellcheck disable=SC2059 # the bytes are an escape
    text=$(printf "$bytes")
    printf '{"prompt":"ab","x%s":1}' "$text" | body completions
    printf '{"prompt":"a%sb","max_tokens":1}' "$text" | body completions
    printf '{"prompt":"ab","model":"%s"}' "$text" | body completions
    printf '{"prompt":"ab","stop":["%s"],"max_tokens":1}' "$text" | body completions
    printf '{"messages":[{"role":"r%s","content":"%s"}],"max_tokens":1}' "$text" "$text" | body chat:completions
    printf '%s' "$text" | body completions
done
nested() { awk -v n="$1" -v open="$2" -v close_="$3" 'BEGIN { for (i = 0; i < n; i++) printf "%s", open; for (i = 0; i < n; i++) printf "%s", close_ }'; }
for depth in 100 2000 50000; do
    printf '{"prompt":"ab","max_tokens":1,"metadata":%s}' "$(nested $depth '[' ']')" | body completions
    printf '{"prompt":%s}' "$(nested $depth '[' ']')" | body completions
    printf '{"messages":[{"role":"user","content":%s}],"max_tokens":1}' "$(nested $depth '[' ']')" | body chat:completions
    nested $depth '{"a":' '}' | body completions
done
fields=$(sed -n 's/^    {"\([a-z_]*\)", [A-Z]*, [A-Z]*},$/\1/p' runtime/tools/server/request.c)
[ "$(echo "$fields" | wc -l)" -gt 30 ] || wrong "the fields are not found in runtime/tools/server/request.c"
for field in $fields; do
    case $field in messages | prompt) continue ;; esac
    for value in null -1 1e999 -1e308 1e-400 99999999999999999999999 9223372036854775807 -9223372036854775808 '"é"' '[]' '{"é":[1e300]}' '[[1],"\u0000"]'; do
        printf '{"prompt":"ab","max_tokens":1,"%s":%s}' "$field" "$value" | body completions
    done
    printf '{"messages":[{"role":"user","content":"ab"}],"max_tokens":1,"%s":{"a":"€"}}' "$field" | body chat:completions
done
for file in "$work"/bodies/*; do
    path=${file##*/}
    path=$(echo "${path%.*}" | sed 's|:|/|')
    printf 'next\nurl = "%s/v1/%s"\nheader = "%s"\ndata-binary = "@%s"\nwrite-out = " %%{http_code}\\n"\nmax-time = 60\nsilent\n' \
        "$at" "$path" "$json" "$file"
done | sed 1d >"$work/requests"
curl -K "$work/requests" >"$work/answers" || wrong "curl ends with $?: $(tail -1 "$work/answers"); $(cat "$work/first.err")"
iconv -f UTF-8 -t UTF-8 "$work/answers" >/dev/null || wrong "an answer is not UTF-8"
[ "$(find "$work/bodies" -type f | wc -l)" -gt 600 ] || wrong "too few bodies"
same "answers" "$(grep -cE '^\{.*\} [24][0-9][0-9]$' "$work/answers")" "$(find "$work/bodies" -type f | wc -l)"
grep -q "unknown field 'aaaaaaaaaaaaaaaé'" "$work/answers" || wrong "a short name is cut"
grep -q "unknown field '$(printf %.59s "$name")'" "$work/answers" || wrong "a name is not cut before its last character"
refuse 200 '"ok"' "$at/health"

# ---- Hosts, origins, types ----
at1=$at/v1/completions
port=${at##*:}
ask='{"prompt":"ab","max_tokens":1}'
for host in evil.example "evil.example:$port" localhost.evil.example 127.0.0.1.evil.example 10.0.0.1 '[::2]' '[::1' 'localhost:x' 'a@localhost' ''; do
    [ -z "$host" ] || refuse 403 'does not name this server' "$at1" -d "$ask" -H "Host: $host"
    [ -z "$host" ] || refuse 403 'does not name this server' "$at/metrics" -H "Host: $host"
done
refuse 403 'does not name this server' "$at/health" -H 'Host: evil.example'
for host in localhost "LocalHost:$port" localhost:9 127.0.0.1 127.0.0.2:80 '[::1]' "[::1]:$port"; do
    refuse 200 '"choices"' "$at1" -d "$ask" -H "Host: $host"
done
for origin in https://evil.example null http://localhost.evil.example "http://evil.example:$port" file:// é; do
    refuse 403 'names another site' "$at1" -d "$ask" -H "Origin: $origin"
done
refuse 200 '"choices"' "$at1" -d "$ask" -H 'Origin: http://localhost:3000'
for type in text/plain application/x-www-form-urlencoded application/jsonp 'multipart/form-data; application/json' ''; do
    got=$(curl -sS -m 20 -w ' %{http_code}' "$at1" -d "$ask" -H "Content-Type:${type:+ $type}")
    has "type '$type'" "$got" 'Content-Type: application/json'
    same "status of type '$type'" "${got##* }" 415
done
got=$(curl -sS -m 20 -w ' %{http_code}' "$at1" -d "$ask" -H 'Content-Type: Application/JSON; charset=utf-8')
same "a type with a parameter" "${got##* }" 200

# ---- Lengths: the answer arrives although the client sends all of its body first ----
head -c 6000000 /dev/zero | tr '\0' x >"$work/long"
refuse 413 'send at most 200000 bytes' "$at1" --data-binary "@$work/long"
refuse 413 'send at most 200000 bytes' "$at1" -H 'Expect:' --data-binary "@$work/long"
refuse 413 'send at most 200000 bytes' "$at1" -H 'Expect:' -H 'Transfer-Encoding: chunked' --data-binary "@$work/long"
for path in v1/nothing health v1/models; do
    got=$(curl -sS -m 20 -w ' %{http_code}' -H "$json" -H 'Expect:' "$at/$path" --data-binary "@$work/long")
    case $got in *'"error"'*' 40'[45]) ;; *) wrong "a body for $path: $got" ;; esac
done
refuse 403 'names another site' "$at1" -H 'Expect:' -H 'Origin: null' --data-binary "@$work/long"
path=$(head -c 10000 "$work/long")
refuse 414 'the path is longer than 4096 bytes' "$at/$path"
refuse 431 'the headers are longer than 32768 bytes' "$at/health" -H "X: $(head -c 40000 "$work/long")"
refuse 200 '"choices"' "$at1" -d "$ask"
ended first

# With a key, any host and origin may send requests.
export MOEC_API_KEY=secret
serve second -c 33
refuse 200 '"choices"' "$at/v1/completions" -d "$ask" -H 'Host: model.example' -H 'Origin: https://page.example' -H 'Authorization: Bearer secret'
refuse 401 'invalid_api_key' "$at/v1/completions" -d "$ask" -H 'Host: model.example'
ended second

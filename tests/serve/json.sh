#!/bin/sh
# JSON answers and function calls of moec serve with OpenAI's Python client, and random schemas with the jsonschema package.
# Installs both in FOLDER (default build/serve-json). Not part of `make test`.
#
#   tests/serve/json.sh [FOLDER]
. "$(dirname "$0")/../begin.sh"
packages=${1:-build/serve-json}
[ -e "$packages/bin/jsonschema" ] || {
    python3 -m venv "$packages"
    "$packages/bin/pip" install -q openai jsonschema
}
. tests/serve/server.sh
cat stdlib/*.md compiler/*.c >"$work/text"
moec tokenizer train "$work/text" --vocab-size 1500 --out "$work/tokenizer.json" -q
printf '%s' "{{ tools | tojson }}{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}assistant:" >"$work/chat.jinja"
for vocabulary in 256 1500; do
    moec init tests/serve/kinds.moe:dense -o "$work/run.safetensors" -q --force --set dim=64 --set layers=2 --set vocab_size=$vocabulary
    if [ $vocabulary = 256 ]; then set --; else set -- --tokenizer "$work/tokenizer.json"; fi
    run=$work/run.safetensors serve $vocabulary --chat-template "$work/chat.jinja" "$@"
    "$packages/bin/python" tests/serve/json_client.py "$at"
    ended $vocabulary
done

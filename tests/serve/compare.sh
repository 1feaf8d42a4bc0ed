#!/bin/sh
# Clients of moec serve: OpenAI's Python client; lm-evaluation-harness on a generated task, with the accuracy of `moec eval
# --multiple-choice`; 200 concurrent requests with slow and broken clients among them. Installs its Python packages in FOLDER
# (default build/serve-python). Not part of `make test`.
#
#   tests/serve/compare.sh [FOLDER]
. "$(dirname "$0")/../begin.sh"
packages=${1:-build/serve-python}
[ -e "$packages/bin/lm_eval" ] || {
    python3 -m venv "$packages"
    "$packages/bin/pip" install -q openai 'lm_eval[api]' transformers
}
small_model 400
cat stdlib/*.md compiler/*.c runtime/*/*.c >>"$work/text"
moec tokenizer train "$work/text" --vocab-size 512 --out "$work/tokenizer.json"
moec train "$work/small.moe" --data "$work/text" --tokenizer "$work/tokenizer.json" --out "$work/run" \
    --set vocab_size=512 --set dim=64 --set layers=2 --set train.context_length=64 --set train.batch_size=8 >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
printf '%s' "{% for m in messages %}{{ m['role'] + ': ' + m['content'] | trim }}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}" >"$work/chat.jinja"
moec serve "$work/run" --port 0 --chat-template "$work/chat.jinja" -c 256 --client-timeout 4 --timeout 60 >"$work/out" 2>"$work/err" &
server=$!
trap 'kill $server 2>/dev/null || true; wait; rm -rf "$work"' EXIT
while [ ! -s "$work/out" ] && kill -0 $server 2>/dev/null; do sleep 0.1; done # compiles first
[ -s "$work/out" ] || wrong "$(cat "$work/err")"
at=$(sed 's|^\(http://[^ ]*\)/v1.*|\1|' "$work/out")
"$packages/bin/python" tests/serve/compare.py "$at" "$work" $server
kill -TERM $server
wait $server || wrong "the server ends with $?"
cat "$work/err"

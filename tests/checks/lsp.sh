#!/bin/sh
# The language server with the messages of an editor: diagnostics while typing, hover, definitions, completion, formatting;
# texts that are not on disk, positions in UTF-16, malformed messages.
. "$(dirname "$0")/../begin.sh"

# send JSON...: a message after its header.
send() { for message; do printf 'Content-Length: %d\r\n\r\n%s' "$(printf %s "$message" | wc -c)" "$message"; done; }
# open_text NAME TEXT: opens a text as JSON, in which \n ends lines.
open_text() {
    send "{\"method\": \"textDocument/didOpen\", \"params\": {\"textDocument\": {\"uri\": \"file://$work/$1\", \"languageId\": \"moe\", \"version\": 1, \"text\": \"$2\"}}}"
}
# ask ID METHOD NAME LINE CHARACTER
ask() {
    send "{\"id\": $1, \"method\": \"textDocument/$2\", \"params\": {\"textDocument\": {\"uri\": \"file://$work/$3\"}, \"position\": {\"line\": $4, \"character\": $5}}}"
}
hello='{"id": 0, "method": "initialize", "params": {}}'
goodbye='{"id": 99, "method": "shutdown"}'
leave='{"method": "exit"}'
# run_server: the output of the server, one message per line.
run_server() { moec lsp --stdio | sed 's/\r$//; s/}Content-Length: /}\nContent-Length: /g' | grep '^{' >"$work/answers"; }
# has ID TEXT: the answer contains TEXT.
has() { grep "\"id\":$1[,}]" "$work/answers" | grep -qF -e "$2" || { cat "$work/answers"; wrong "the answer to $1 has no $2"; }; }
has_diagnostic() { grep publishDiagnostics "$work/answers" | grep -qF -e "$1" || { cat "$work/answers"; wrong "no diagnostic has $1"; }; }

spec='use decoder\nuse part\n\n# Half of it.\nlayer half(x[s,d]) -> y[s,d] {\n  option by: float = 0.5  \"the factor\"\n  param w[d] ~ ones\n  y[s,d] = by * x[s,d] * w[d]\n}\n\nmodel a = decoder { vocab_size = 16, dim = 8, layers = 1, attention.heads.q = 2, ffn = half { by = 0.25 } }\nmodel b = a { ffn = other }\n'
part='layer other(x[s,d]) -> y[s,d] { y[s,d] = 2 * x[s,d] }\n'

{
    send "$hello" '{"method": "initialized", "params": {}}'
    open_text part.moe "$part"
    open_text all.moe "$spec"
    sleep 2
    ask 1 hover all.moe 10 25             # vocab
    ask 2 hover all.moe 10 90             # ffn's by, in a record of half
    ask 3 hover all.moe 7 26              # w
    ask 4 definition all.moe 11 20        # other, in a text that is not on disk
    ask 5 definition all.moe 10 12        # decoder, of the standard library
    ask 6 completion all.moe 10 20        # options of decoder
    ask 7 completion all.moe 7 11         # in a body
    ask 8 formatting all.moe 0 0
    ask 9 rename all.moe 0 0
    ask 10 hover gone.moe 0 0
    send "$goodbye" "$leave"
} | run_server || wrong "the server fails"
has 0 '"hoverProvider":true'
has_diagnostic 'all.moe","diagnostics":[]'
has_diagnostic 'part.moe","diagnostics":[]'
has 1 'option vocab_size:'
has 2 'option by: float = 0.5'
has 3 'param w[d] ~ ones'
has 4 'part.moe'
has 5 '/std/decoder.moe'
has 6 '"label":"layers"'
has 7 '"label":"by"'
has 8 '"newText":"use decoder'
has 9 'unknown method'
has 10 '"error"'
has 99 '"result":null'

# Diagnostics with their positions: after a character of two UTF-16 units, and once although both models have the fault.
{
    send "$hello"
    open_text wrong.moe 'use decoder\nlayer p(x[s,d]) -> y[s,d] { y[s,d] = 2 * x[s,q] } # 𝔘\nmodel m = decoder { ffn = p, layers = 1 }\nmodel n = m { dmi = 8 }\n'
    sleep 1
    send '{"method": "textDocument/didChange", "params": {"textDocument": {"uri": "file://'"$work"'/wrong.moe"}, "contentChanges": [{"text": "use decoder\nlayer p(x[s,d]) -> y[s,d] { require true \"𝔘\" y[s,d] = x[s,q] }\nmodel m = decoder { ffn = p, layers = 1 }\nmodel n = m {}\n"}]}}'
    sleep 1
    send '{"method": "textDocument/didClose", "params": {"textDocument": {"uri": "file://'"$work"'/wrong.moe"}}}' "$goodbye" "$leave"
} | run_server || wrong "the server fails"
has_diagnostic "did you mean 'dim'"
has_diagnostic '"start":{"line":1,"character":59},"end":{"line":1,"character":60}'
[ "$(grep -c publishDiagnostics "$work/answers")" = 3 ] || wrong "$(cat "$work/answers")"
tail -2 "$work/answers" | grep -q '"diagnostics":\[\]' || wrong "closing a text does not clear its diagnostics"

# The text is incomplete during typing.
typed() {
    { send "$hello"; open_text t.moe "$1"; ask 1 completion t.moe "$2" "$3"; send "$goodbye" "$leave"; } | run_server || wrong "typing"
    has 1 "\"label\":\"$4\""
}
typed 'use decoder\nmodel m = decoder { ffn = moe { experts = 4, to' 1 47 top_k
typed 'use decoder\nmodel m = decoder { attention = { gate = { at = ' 1 49 sdpa
typed 'use decoder\nmodel a = decoder { ffn = moe { experts = 4 } }\nmodel b = a { ffn = { ' 2 22 experts
typed 'use decoder\nmodel a = decoder { attention.' 1 30 attention.heads.q
typed 'use decoder\nmodel a = decoder { tie_embeddings = ' 1 37 true
typed 'use decoder\nlayer l(x[s,d]) -> y[s,d] {\n  param weight[d]\n  y = swiglu(x; hi' 3 18 hidden_dim
typed 'mo' 0 2 model

# Not a message, not JSON, too long, truncated.
! printf 'GET / HTTP/1.1\r\n\r\n' | moec lsp >/dev/null || wrong "a message without a length is accepted"
! printf 'Content-Length: 99999999999999999999\r\n\r\n{}' | moec lsp >/dev/null || wrong "an excessive length is accepted"
! printf 'Content-Length: 50\r\n\r\n{' | moec lsp >/dev/null || wrong "a truncated message is accepted"
{ send 'nonsense' '[1, 2]' '{"id": {}, "method": 7}' '{"method": "textDocument/didOpen", "params": 3}' "$hello" "$goodbye" "$leave"; } | run_server ||
    wrong "malformed messages end the server"
has 0 capabilities

# The syntax highlighting of other editors has every keyword of the language.
for word in $(sed -n '/^static const Keyword/,/};/p' compiler/syntax/lexer.l | grep -oE '"[a-z]+"' | tr -d '"'); do
    for file in examples/editors/moe.vim examples/editors/moe.tmLanguage.json; do
        grep -qw "$word" "$file" || wrong "$file lacks $word"
    done
done

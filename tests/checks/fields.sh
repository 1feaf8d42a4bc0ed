#!/bin/sh
# The tables of runtime/FILES.md have exactly the fields of runs. Those of runtime/SERVER.md have the fields, paths, statuses and
# metrics in the source of the server.
. "$(dirname "$0")/../begin.sh"

# table FILE HEADING COLUMN: the first code span of each row of the first table after the heading that has COLUMN as its first title.
table() {
    awk -v heading="$2" -v title="| $3 |" '
        /^#/ { inside = $0 == heading; found = 0 }
        inside && index($0, title) == 1 { found = 1 }
        found && /^$/ { found = 0; inside = 0 }
        found && /^\| `/ { sub(/^\| `/, ""); sub(/`.*/, ""); print }' "$1" | LC_ALL=C sort
}
# same NAME: the lists in $work/expected, from a page, and $work/found are equal.
same() {
    [ -s "$work/expected" ] || wrong "$1: no table on the page"
    LC_ALL=C sort -u "$work/found" | diff "$work/expected" - || wrong "$1: < only on the page, > only in the program"
}

# ---- files ----

page=runtime/FILES.md
cd "$work"
cat >s.moe <<'END'
use decoder
model small = decoder {
  dim = 8, layers = 1, attention = { heads = { q = 1 }, head_dim = 8 }
  ffn = moe { experts = 2, expert = swiglu { hidden_dim = 8 }, aux_loss_coef = 0.01 }
  train = { batch_size = 2, context_length = 16, steps = 2 }
}
END
cat "$OLDPWD"/stdlib/*.moe >text
head -c 8000 /dev/zero >zeros
moec train s.moe --data text --out run --tensorboard >log 2>&1 || wrong "$(cat log)"
moec train s.moe --data uint16:zeros --out tokens >log 2>&1 || wrong "$(cat log)"
moec train s.moe --data text=1,zeros=1 --out staged --set train.stages=[{steps=1}] >log 2>&1 || wrong "$(cat log)"
moec train s.moe --data text --out halted --stop-after 1 >log 2>&1 || wrong "$(cat log)"
moec train s.moe --data text --out wild --set train.lr=1e30 --set train.steps=40 >log 2>&1 && wrong "a run with lr 1e30 did not diverge"
moec train s.moe --data text --out watched --watch logits=0 >log 2>&1 && wrong "a run with --watch did not stop"
cd "$OLDPWD"

for name in "$work"/run/*; do echo "${name##*/}"; done | sed 's/^events.out.tfevents.*/events.out.tfevents.*/' >"$work/found"
table $page '## Run directory' file >"$work/expected"
same "run directory"

# Without the probes of the model, which the page names by their form.
grep -ohE '"[a-z_.]+":' "$work"/run/log.jsonl "$work"/staged/log.jsonl "$work"/tokens/log.jsonl "$work"/wild/log.jsonl "$work"/watched/log.jsonl "$work"/halted/log.jsonl | tr -d '":' | grep -vE '^(val_)?(balance|load|busiest|expert_load|max_expert_load)(.layer)?$' >"$work/found"
table $page '### log.jsonl' field >"$work/expected"
same log.jsonl

# The table of a run, then that of its starts.
{ table $page '### run.json' field; awk '/^Each entry of `starts`/ { found = 1 } /^## Check/ { exit } found && /^\| `/ { split($0, cell, "`"); print cell[2] }' $page; } | LC_ALL=C sort >"$work/expected"
grep -oE '^( {2}| {6})"[a-z_]+":' "$work/run/run.json" | tr -d ' ":' >"$work/found"
sort "$work/found" | LC_ALL=C sort | diff "$work/expected" - || wrong "run.json: < only on the page, > only in the program"

# The notes of a checkpoint: names before a text, in the header. A quote inside of a text has a backslash before it.
notes() { head -c 300000 "$1" | tr -d '\n' | grep -aoE '[{,]"[a-z_:0-9.]+":"' | sed 's/^..//; s/":"$//' | sed 's/^axes:.*/axes:*/; s/^file:.*/file:*/' | grep -v '^dtype$'; }
notes "$work/run/last.safetensors" >"$work/found"
table $page '## Checkpoints' field | grep -v '^tokenizer$\|^reduction_lanes$\|^kernel_choices$\|^file:' >"$work/expected"
same checkpoint

# The fields of --json: commands that write files. `moec sample` needs another model: see emitted.sh.
cd "$work"
{
    moec init s.moe -o w --json
    moec train s.moe --data text --out json --set ffn=swiglu --set ffn.hidden_dim=8 --json
    moec forward s.moe --weights w --input s.moe --outputs loss -o f --json
    moec export json --format llama -o folder --json
    moec import folder -o imported --json
    moec quantize json --type int8 --out quantized --json
    moec emit json -o emitted --json
    moec report json --json
    printf 'experiment e { baseline = small, vary dim = [8] }\n' >>s.moe
    moec sweep s.moe --data text --out sweep --json
    moec sweep s.moe --out sweep --slurm none --dry-run --json
    moec tokenizer train text --vocab-size 300 -o t.json --json
    moec tokenize text --tokenizer t.json -o t.bin --json
} >values 2>log
sed -n 's/^  "\([a-z_0-9]*\)": .*/\1/p' values >found
cd "$OLDPWD"
awk '/^## /{ inside = $0 == "## JSON results" } inside && /^[|] `/ { split($0, cell, "|"); n = split(cell[2], name, "`"); for (i = 2; i < n; i += 2) print name[i] }' $page |
    grep -v '^sample' | LC_ALL=C sort -u >"$work/expected"
same "JSON results"

# ---- server ----

page=runtime/SERVER.md
sed -n '/^static const Field fields/,/^};/s/^ *{"\([a-z_]*\)", \([A-Z]*\), \([A-Z]*\)},$/\1 \2 \3/p' runtime/tools/server/request.c |
    sed 's/BOTH/both/; s/COMPLETION/completions/; s/CHAT/chat/; s/USED/used/; s/IGNORED/ignored/; s/NOTHING/rejected/' >"$work/found"
awk -F' *[|] *' '/^## /{ inside = $0 == "## Request fields" } inside && /^\| `/ { gsub(/`/, "", $2); print $2, $3, $4 }' $page | LC_ALL=C sort >"$work/expected"
same "request fields"
sed -n 's/^ *{"\(\/[a-z0-9/]*\)", "\([A-Z]*\)", .*, \(true\|false\)},$/\2 \1 \3/p' runtime/tools/server/http.c | sed 's/ true$/ no/; s/ false$/ yes/' >"$work/found"
awk -F' *[|] *' '/^## /{ inside = $0 == "## Endpoints" } inside && /^\| `/ { gsub(/`/, "", $2); print $2, $3 }' $page | LC_ALL=C sort >"$work/expected"
same endpoints
grep -oE '"(moec|process)_[a-z_]*"' runtime/tools/server/metrics.c | tr -d '"' >"$work/found"
table $page '## Metrics' metric >"$work/expected"
same metrics
# 499 is for clients that have disconnected and receive nothing.
grep -ohE '(problem_set|fail_choice)[(][^"]*' runtime/tools/server/*.c | grep -oE '\b[45][0-9][0-9]\b' | grep -v 499 >"$work/found"
awk '/^## /{ inside = $0 == "## Errors" } inside && /^\| [45]/ { print $2 }' $page | sort -u >"$work/expected"
same statuses
# The code of each status, then those of single problems.
grep -oE '[{][45][0-9][0-9], "[a-z_]*"' runtime/tools/server/problem.c | tr -d '{,"' >"$work/found"
grep -ohE 'problem_code[(][^"]*"[a-z_]*"' runtime/tools/server/*.c | sed 's/.*"\(.*\)"/400 \1/; s/400 model_not_found/404 model_not_found/' >>"$work/found"
awk -F' *[|] *' '/^## /{ inside = $0 == "## Errors" } inside && /^\| [45]/ { gsub(/[`,]/, "", $3); n = split($3, code, " "); for (i = 1; i <= n; i++) print $2, code[i] }' $page | LC_ALL=C sort >"$work/expected"
same "codes of errors"
for limit in MAX_LOGPROBS MAX_STOPS MAX_CHOICES; do
    value=$(grep -oE "$limit = [0-9]+" runtime/tools/server/request.h | grep -oE '[0-9]+$')
    grep -qE "\b$value\b" $page || wrong "$page lacks the value $value of $limit"
done

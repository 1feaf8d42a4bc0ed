#!/bin/sh
# A report without a browser: one file that includes its library and loads nothing; its numbers equal those of moec compare.
# Texts of a spec cannot end the script. Other cases: a folder with the name of the report, a folder without runs.
# tests/report_browser.sh opens a report in Chromium.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat stdlib/*.moe >"$work/text"
moec sweep tests/report.moe:diverging --data "$work/text" --out "$work/sweep" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
cd "$work"
moec report sweep >out 2>&1 || wrong "no report"
grep -q '^wrote sweep/report.html (' out || wrong "$(cat out)"
page=sweep/report.html
for part in '<title>' 'Chart.js v' 'id="comparison"' 'id="curves"' 'id="optimum"' 'id="costs"' 'id="probes"' 'id="graph"' 'id="specs"' 'id="runs"' \
    "default-src 'none'"; do
    grep -qF -- "$part" $page || wrong "the page lacks $part"
done
grep -q '{{' $page && wrong "a marker remains in the page"
# The page loads nothing: no attribute, no import, no address in the style.
grep -nE '(src|href|action|data)="[^"#]' $page | grep -v 'href="data:,"' && wrong "the page loads a resource"
grep -nE '@import|url\([^#]' $page && wrong "the style loads a resource"
[ "$(grep -c '</script>' $page)" = 3 ] || wrong "not three scripts"

# The data is one line of JSON that contains the output of moec compare.
sed -n 's|^<script type="application/json" id="data">\(.*\)</script>$|\1|p' $page >data.json
[ "$(wc -l <data.json)" = 1 ] || wrong "no line of data"
moec compare sweep --json | tr -d ' \n' >comparison.json
tr -d ' ' <data.json | grep -qF "{\"comparison\":$(cat comparison.json)," || wrong "the numbers are not those of moec compare"
grep -q '"diverged":true' data.json || wrong "a run that diverged is not reported"
grep -q '"layers":\[{"path":"embedding"' data.json || wrong "no cost by layer"
grep -q '"graph":"\\u003csvg' data.json || wrong "no graph of the compiler"
grep -q '"attention.rotary.theta":' data.json || wrong "not the options as resolved"
grep -q '"gate.layer.1":' data.json || wrong "no probe by layer"
grep -q '"values":{"val_expert_load":{"steps":\[.*"layers":{"0":\[\[' data.json || wrong "no load of every expert"
grep -q '"command":\["train",' data.json || wrong "no command"

# A probe is the mean over its layers.
sed -n '1s/.*"gate":\([^,]*\),"gate.layer":\[\([^,]*\),\([^]]*\)\].*/\1 \2 \3/p' sweep/base/seed_1/log.jsonl |
    awk 'NF == 3 && 2 * $1 - $2 - $3 < 1e-6 && 2 * $1 - $2 - $3 > -1e-6 && $2 != $3 { good = 1 } END { exit !good }' ||
    wrong "no mean of the layers: $(head -1 sweep/base/seed_1/log.jsonl)"

# A name with the end tag of a script is data.
mkdir -p 'odd/a</script><b>' && echo '{"step":1,"loss":2}' >'odd/a</script><b>/log.jsonl'
mkdir two && moec report 'odd/a</script><b>' --out two/page.html >out || wrong "no report of an odd name"
[ "$(grep -c '</script>' two/page.html)" = 3 ] || wrong "a name has ended the script"
grep -qF 'a\u003c/script>\u003cb>' two/page.html || wrong "the odd name is lost"

mkdir odd/report.html && moec report odd >out 2>&1 && wrong "a folder was replaced"
grep -q 'cannot write odd/report.html' out || wrong "$(cat out)"
moec report two >out 2>&1 && wrong "a report without runs succeeds"
grep -q 'two contains no run' out || wrong "$(cat out)"
BROWSER=true moec report sweep --open >out || wrong "not opened: $(cat out)"
BROWSER=false moec report sweep --open >out 2>&1 && wrong "--open succeeds without a browser"
grep -q 'no program opens' out || wrong "$(cat out)"

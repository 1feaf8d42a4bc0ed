#!/bin/sh
# An output folder with other objects under the file names of moec: a symbolic link is refused and its target stays unchanged;
# moec never waits for a pipe.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
small_model 2
cat >>"$work/small.moe" <<SPEC
experiment widths {
  baseline = small
  vary ffn.hidden_dim = [8, 12]
}
SPEC
cd "$work" || exit 1
echo 'precious' >kept

# refused TEXT COMMAND...: the command ends with 1 within two minutes, prints TEXT and leaves `kept` as it was.
refused() {
    text=$1
    shift
    timeout 120 "$@" >log 2>&1 </dev/null
    code=$?
    [ $code = 1 ] || wrong "exit code $code, expected 1: $*: $(cat log)"
    grep -qF -- "$text" log || wrong "no '$text': $*: $(cat log)"
    [ "$(cat kept)" = precious ] || wrong "$* has changed the target of a link"
}

# with_link PATH COMMAND...: the same where PATH is a link to `kept`.
with_link() {
    path=$1
    shift
    mkdir -p "$(dirname "$path")"
    rm -rf "$path"
    ln -s "$PWD/kept" "$path"
    refused "$path: it is a symbolic link" "$@"
    [ -L "$path" ] || wrong "$path was replaced"
    rm "$path"
}

# ---- links ----
with_link run/run.json moec train small.moe --data text --out run
rm -rf run
with_link run/best.safetensors moec train small.moe --data text --out run
rm -rf run
with_link run/log.jsonl moec train small.moe --data text --out run --resume
rm -rf run
moec train small.moe:small --data text --out run >log 2>&1 || wrong "the model does not train: $(cat log)"
for name in lock table.csv table.json base/seed_1/output.txt; do
    rm -rf swept
    case $name in table.*) moec sweep small.moe --data text --out swept >log 2>&1 || wrong "no sweep: $(cat log)" ;; esac
    with_link swept/$name moec sweep small.moe --data text --out swept
done
with_link made.json moec tokenizer train text --vocab-size 300 --out made.json
moec tokenizer train text --vocab-size 300 --out tokenizer.json >log 2>&1 || wrong "no tokenizer: $(cat log)"
with_link tokens.partial moec tokenize text --tokenizer tokenizer.json --out tokens
with_link tokens moec tokenize text --tokenizer tokenizer.json --out tokens
for name in weights.bin program.c README.md Makefile; do
    with_link emitted/$name moec emit --force run --out emitted
    rm -rf emitted
done
with_link page.html moec report run --out page.html

# ---- names in a log ----
cp -r run quoted
printf '{"step": 3, "loss": 1.5, "a,b \\"c\\"": 2}\n' >>quoted/log.jsonl
moec log quoted >csv 2>log || wrong "$(cat log)"
# RFC 4180: quotes around the field, quotes in it twice.
head -1 csv | grep -q ',"a,b ""c""",diverged$' || wrong "the names of columns are not quoted: $(head -1 csv)"
tail -1 csv | grep -q ',2,$' || wrong "the last row differs: $(tail -1 csv)"

# ---- pipes ----
for name in run.json log.jsonl result.json; do
    cp -r run piped
    rm -f piped/$name
    mkfifo piped/$name
    for command in compare report log; do
        case $command in
        report) set -- moec report piped --force --out page.html ;;
        log) set -- moec log piped ;;
        compare) set -- moec compare piped ;;
        esac
        if [ $name = log.jsonl ]; then
            refused "piped/log.jsonl: it is a pipe, not a file" "$@"
        else
            timeout 120 "$@" >log 2>&1 </dev/null || wrong "$*: $(cat log)"
            [ $command = log ] || grep -qF "piped/$name is ignored: it is a pipe, not a file" log || wrong "$*: $(cat log)"
        fi
    done
    rm -rf piped
done
cp -r run piped
rm piped/run.json
mkfifo piped/run.json
refused "piped/run.json: it is a pipe, not a file" moec train small.moe:small --data text --out piped --resume --steps 4
for name in lock sweep.json; do
    rm -rf swept
    mkdir swept
    mkfifo swept/$name
    refused "swept/$name" moec sweep small.moe --data text --out swept
    [ -p swept/$name ] || wrong "swept/$name was replaced"
done
exit 0

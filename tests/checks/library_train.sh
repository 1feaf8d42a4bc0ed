#!/bin/sh
# moec_train from C and moec.train from Python: losses, log and checkpoints are those of moec train; a run that is stopped and
# resumed ends with the same bytes; errors are messages, and nothing is printed.
. "$(dirname "$0")/../begin.sh"
[ -e "$BUILD/libmoec.so" ] || { echo "no libmoec.so in $BUILD"; exit 0; }
export OMP_NUM_THREADS=1
root=$PWD
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 8, layers = 1, attention.heads.q = 1, ffn.hidden_dim = 8
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 20, eval_interval = 8, save_interval = 3, seed = 3 }
}
SPEC
cat stdlib/*.moe >"$work/text"
${CC:-cc} -std=c11 -Wall -Wextra -Werror tests/library_train.c -Iruntime/library -L"$BUILD" -lmoec -lm -Wl,-rpath,"$BUILD" -o "$work/train"
cd "$work"
moec train small.moe --data text --out command >log 2>&1 || wrong "$(cat log)"
losses() { sed -n 's/^{"step":\([0-9]*\),"loss":\([0-9.e-]*\),.*/\1 \2/p' "$1/log.jsonl"; }

# equal RUN: the files of the run are those of the command; `printed` has the losses of the log.
equal() {
    for name in last best; do
        cmp "command/$name.safetensors" "$1/$name.safetensors" || wrong "$1/$name.safetensors differs"
    done
    for run in command "$1"; do sed 's/,"seconds":[^,}]*//' $run/log.jsonl >$run.log; done
    diff command.log "$1.log" || wrong "the log of $1 differs"
    losses command >expected
    [ "$(wc -l <expected)" = 20 ] || wrong "the command logs other steps: $(cat expected)"
    diff expected printed || wrong "$1 receives other losses"
    grep -q '"command": \[\]' "$1/run.json" || wrong "$1/run.json has a command"
}

./train small.moe text c 0 >printed 2>errors || wrong "$(cat printed)"
[ ! -s errors ] || wrong "stderr: $(cat errors)"
equal c
./train small.moe text stopped 7 >first || wrong "$(cat first)"
[ "$(wc -l <first)" = 7 ] && [ "$(wc -l <stopped/log.jsonl)" = 7 ] || wrong "on_step does not stop the run: $(cat first)"
./train small.moe text stopped 30 >second || wrong "$(cat second)"
cat first second >printed
equal stopped

# refuses TEXT ARGUMENT...: the message is on stdout alone.
refuses() {
    text=$1
    shift
    code=0
    ./train "$@" >out 2>errors || code=$?
    [ $code = 1 ] && grep -qF "$text" out && [ ! -s errors ] || wrong "not refused with '$text' ($code): $(cat out errors)"
}
refuses "'training' is NULL"
refuses "'data' is NULL" small.moe
refuses "'out' is NULL" small.moe text
refuses "already contains a run" small.moe text c 0
refuses "in the API: resume = true" small.moe text c 0
refuses "no data found at none" small.moe none new 0
refuses "none.moe" none.moe text new 0
refuses "expects a number" small.moe text new 0 train.lr=text
refuses "is not a finite number" small.moe text new 0 train.lr=1e30

command -v python3 >/dev/null || { echo "no python3"; exit 0; }
python3 -c 'import numpy' 2>/dev/null || packages=:$root/tests/stand_in
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/runtime/python${packages:-} MOEC_LIBRARY=$BUILD/libmoec.so \
    python3 "$root/tests/library_train.py" small.moe text python >printed || wrong "$(cat printed)"
equal python

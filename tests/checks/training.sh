#!/bin/sh
# A killed and resumed run ends with the same bytes as an undisturbed run. After any error, the existing checkpoint is intact
# and the message names a fix.
. "$(dirname "$0")/../begin.sh"
set +e

cat > "$work/small.moe" <<'SPEC'
use decoder
model small = decoder {
  dim = 16, layers = 2
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 }, aux_loss_coef = 0.01 }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = 60, gradient_accumulation_steps = 2, eval_interval = 20, save_interval = 7 }
}
SPEC
cat stdlib/*.moe > "$work/text"

fail() {
    echo "training.sh: $1" >&2
    [ -f "$work/log" ] && tail -5 "$work/log" >&2
    exit 1
}

train() { # OUT ARGUMENTS...
    out=$1
    shift
    moec train "$work/small.moe" --data "$work/text" --out "$work/$out" "$@" > "$work/log" 2>&1
}

# refuses NAME WORDS COMMAND...: the command ends with 1 and prints WORDS
refuses() {
    what=$1 words=$2
    shift 2
    "$@"
    code=$?
    [ $code -eq 1 ] || fail "$what: exit code $code"
    grep -qF "$words" "$work/log" || fail "$what: no '$words'"
}

train straight || fail "training does not run"
[ "$(grep -c '"loss"' "$work/straight/log.jsonl")" -eq 60 ] || fail "the log does not have one line per step"

# Killed at varying times.
for pause in 0.2 0.5 0.3 0.8; do
    moec train "$work/small.moe" --data "$work/text" --out "$work/killed" --resume > "$work/log" 2>&1 &
    child=$!
    sleep "$pause"
    kill -9 "$child" 2> /dev/null
    wait "$child" 2> /dev/null
done
train killed --resume || fail "a killed run does not resume"
for name in last best; do
    cmp -s "$work/straight/$name.safetensors" "$work/killed/$name.safetensors" || fail "$name.safetensors differs after kills"
done
without_time() { sed 's/,"seconds":[^,}]*//' "$1"; }
without_time "$work/straight/log.jsonl" > "$work/a"
without_time "$work/killed/log.jsonl" > "$work/b"
cmp -s "$work/a" "$work/b" || fail "the log differs after kills"

# A signal ends the run after the current step, with a checkpoint.
moec train "$work/small.moe" --data "$work/text" --out "$work/stopped" --steps 100000 > "$work/log" 2>&1 &
child=$!
while [ ! -f "$work/stopped/last.safetensors" ]; do
    sleep 0.1
    kill -0 "$child" 2> /dev/null || fail "the run ended before the signal"
done
kill -TERM "$child"
wait "$child"
code=$?
[ $code -eq 143 ] || fail "a terminated run ends with $code"
moec eval "$work/stopped" --data "$work/text" > "$work/log" 2>&1 || fail "the checkpoint of a terminated run cannot be read"

refuses "a folder with a run" "already contains a run" train straight
refuses "another seed" "the run began with seed" train straight --resume --seed 99 --steps 70

# Differences between the checkpoint and the model are reported before other errors.
cp -r "$work/straight" "$work/other"
refuses "fewer layers" "now: layers=1" train other --resume --steps 70 --set layers=1
grep -q 'tensors that the model does not have, such as block.1' "$work/log" || fail "lost layers are not reported"
refuses "another optimizer" "now: train.optimizer=sgd" train other --resume --steps 70 --set train.optimizer=sgd
grep -q 'tensors that the model does not have, such as optimizer' "$work/log" || fail "lost states are not reported"
refuses "more layers" "has no tensor block.2" train other --resume --steps 70 --set layers=3
refuses "another width" "has shape" train other --resume --steps 70 --set dim=32
cmp -s "$work/straight/last.safetensors" "$work/other/last.safetensors" || fail "a refused run has changed its checkpoint"
sed -e 's/lr = 1e-2/lr = 2e-2/' "$work/small.moe" > "$work/moved.moe"
moec train "$work/moved.moe" --data "$work/text" --out "$work/other" --resume --steps 61 > "$work/log" 2>&1 || fail "a run with another learning rate does not resume"
grep -q 'was: train = { lr = 1e-2, batch' "$work/log" || fail "the old value is not reported"
grep -q 'now: train = { lr = 2e-2, batch' "$work/log" || fail "the new value is not reported"
moec train "$work/moved.moe" --data "$work/text" --out "$work/other" --resume --steps 62 > "$work/log" 2>&1
grep -q 'the spec has changed' "$work/log" && fail "an unchanged spec is reported"

# A full disk, simulated by a limit on the file size.
cp -r "$work/straight" "$work/full"
limited() { (ulimit -f 100 && train full --resume --steps 70); }
refuses "a full disk" "the existing file is unchanged" limited
cmp -s "$work/straight/last.safetensors" "$work/full/last.safetensors" || fail "the checkpoint is lost on a full disk"
# A failed command removes an output folder that it made, but not one of the user.
quantized() { (ulimit -f 1 && moec quantize "$work/straight" --type int8 --out "$work/$1" > "$work/log" 2>&1); }
refuses "a new folder on a full disk" "File too large" quantized new
grep -q 'existing file' "$work/log" && fail "a new file is reported as existing"
[ ! -e "$work/new" ] || fail "the folder of a failed command stays"
mkdir "$work/empty"
refuses "an empty folder on a full disk" "File too large" quantized empty
[ -d "$work/empty" ] || fail "a failed command removes the folder of the user"

# A truncated and a changed checkpoint.
cp -r "$work/straight" "$work/damaged"
head -c 20000 "$work/straight/last.safetensors" > "$work/damaged/last.safetensors"
refuses "a checkpoint cut off" "not a valid safetensors file" train damaged --resume --steps 70
cp "$work/straight/last.safetensors" "$work/damaged/last.safetensors"
place=$(($(wc -c < "$work/damaged/last.safetensors") - 104))
printf xxxx | dd of="$work/damaged/last.safetensors" bs=1 seek=$place conv=notrunc 2> /dev/null
refuses "a changed checkpoint" "the checksum does not match" train damaged --resume --steps 70

# A damaged log: sound lines stay, damaged lines are removed and reported; missing steps are reported, too.
cp -r "$work/straight" "$work/repaired"
log="$work/repaired/log.jsonl"
sed -i -e '5s/"loss"/loss/' -e '9s/^{//' -e '12s/"step":[0-9]*/"step":"many"/' -e '20s/"step":[0-9]*/"step":-3/' "$log"
printf '{"step":60,"lo' >> "$log"
train repaired --resume --steps 61 || fail "a run with a damaged log does not resume"
grep -q '4 damaged lines, the first was line 5' "$work/log" || fail "damaged lines are not reported"
grep -q 'has 56 of the 60 steps' "$work/log" || fail "missing steps are not reported"
[ "$(grep -c '^{.*}$' "$log")" -eq "$(wc -l < "$log")" ] || fail "the log is not repaired"
[ "$(grep -c '"loss"' "$log")" -eq 57 ] || fail "a repaired log lacks sound lines"
: > "$log"
train repaired --resume --steps 62 || fail "a run without a log does not resume"
grep -q 'has 0 of the 61 steps' "$work/log" || fail "a lost log is not reported"

refuses "a loss that is not finite" "is not a finite number" train diverged --set train.lr=1e30 --set train.grad_clip=0
refuses "a token outside the vocabulary" "is outside the vocabulary of 100" train tokens --set vocab_size=100
refuses "too little data" "one training sequence needs" train short --set train.context_length=1000000
refuses "no data" "no data found at" train missing --data "$work/nothing"

# Image models train on samples and are evaluated on them.
cc -O1 -o "$work/shapes" examples/shapes.c -lm && "$work/shapes" draw 200 "$work/images" || fail "no images"
images="models/dit.moe:dit_small --data $work/images --set layers=1 --set train.batch_size=4 --steps 2"
# shellcheck disable=SC2086 # one argument per word
moec train $images --out "$work/drawing" > "$work/log" 2>&1 || fail "images do not train"
moec eval "$work/drawing" --data "$work/images" > "$work/log" 2>&1 || fail "an image model is not evaluated"
grep -q 'on 200 examples' "$work/log" || fail "the evaluation does not report the number of examples"
eval_text() { moec eval "$work/drawing" --data "$work/text" > "$work/log" 2>&1; }
refuses "a text for images" "a safetensors file with tensor 'image'" eval_text

# Definitions of one name have different paths: a run in two parts ends with the same bytes, and decoding has the loss of
# whole sequences.
named() { # OUT ARGUMENTS...
    out=$1
    shift
    moec train tests/layers.moe:equal_names --set vocab_size=256 --set train.context_length=16 --set train.lr=0.01 \
        --data "$work/text" --out "$work/$out" --steps 6 "$@" > "$work/log" 2>&1
}
named named || fail "definitions of one name do not train"
named again --stop-after 3 || fail "definitions of one name do not train in two parts"
named again --resume || fail "definitions of one name do not resume"
cmp -s "$work/named/last.safetensors" "$work/again/last.safetensors" || fail "definitions of one name differ after a resume"
head -c 2000 "$work/text" > "$work/short_text"
for form in "" --incremental; do
    # shellcheck disable=SC2086 # no argument or one
    moec eval "$work/named" --data "$work/short_text" --json $form 2> "$work/log" | grep -o '"loss": [0-9.]\{6\}' > "$work/loss$form"
done
[ -s "$work/loss" ] && cmp -s "$work/loss" "$work/loss--incremental" || fail "definitions of one name decode to another loss"

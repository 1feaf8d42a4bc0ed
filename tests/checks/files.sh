#!/bin/sh
# A path of a file that is a pipe, a device or a folder is refused at once and stays unchanged. The same holds for partial files
# of other programs. Links stay links, and modes stay modes. Output that cannot be written is reported.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
small_model 3
mkfifo "$work/pipe"
mkdir "$work/folder"
cd "$work" || exit 1

# ends CODE WORDS COMMAND...: the command ends with CODE within ten seconds and prints WORDS
ends() {
    code=$1 words=$2
    shift 2
    (ulimit -t 10 && exec timeout 120 "$@") >log 2>&1 </dev/null
    found=$?
    [ $found -eq "$code" ] || { cat log; wrong "$*: exit code $found, not $code"; }
    [ -z "$words" ] || grep -qF -- "$words" log || { cat log; wrong "$*: no '$words'"; }
}

moec train small.moe --data text --out run >log 2>&1 || { cat log; wrong "the small model does not train"; }
moec init small.moe --seed 1 --out weights >log 2>&1 || { cat log; wrong "no weights"; }

# Pipes, devices and folders as specs, weights, data and logs.
mkfifo thing.moe
printf 'use thing\nmodel m = thing\n' >uses.moe
for spec in pipe folder /dev/zero thing.moe; do
    ends 1 "$spec" moec check "$spec"
    ends 1 "$spec" moec fmt "$spec"
done
ends 1 "cannot read 'thing.moe': not a regular file" moec check uses.moe
for one in pipe:pipe folder:folder /dev/zero:device; do
    name=${one%:*} kind=${one#*:}
    ends 1 "it is a $kind, not a file" moec forward small.moe --weights "$name" --input text --outputs loss --out out
    [ "$name" = folder ] || ends 1 "it is a $kind, not a file" moec eval run --data "$name"
done
ends 1 "it is a pipe, not a file" moec generate pipe --prompt x
for kind in fifo folder; do
    rm -rf other
    mkdir other
    [ $kind = fifo ] && mkfifo other/log.jsonl || mkdir other/log.jsonl
    ends 1 "cannot write other/log.jsonl" moec train small.moe --data text --out other --resume
    rm -rf other/log.jsonl
    [ $kind = fifo ] && mkfifo other/last.safetensors || mkdir other/last.safetensors
    ends 1 "last.safetensors: it is a" moec train small.moe --data text --out other --resume
done

# A safetensors file is not text. Weights that the model does not have are reported once.
ends 1 "weights is a safetensors file, not training data" moec train small.moe --data weights --out tensors
ends 1 "weights is a safetensors file, not training data" moec eval run --data weights
ends 1 "weights is a safetensors file, not training data" moec forward small.moe --weights weights --input weights --outputs loss --out out
moec init small.moe --seed 1 --out deeper --set layers=2
ends 0 "deeper contains 9 tensors that the model does not read, such as block.1" \
    moec forward small.moe --weights deeper --input text --outputs loss --out out
[ "$(grep -c 'does not read' log)" = 1 ] || wrong "unread weights are reported more than once"
moec init small.moe --seed 1 --out wide.safetensors --set vocab_size=300
ends 1 "the checkpoint has no tokenizer" moec generate wide.safetensors --prompt x -n 2

# A run as a spec, and a spec as a run.
for run in run run/last.safetensors; do
    ends 0 "model small" moec check $run
    ends 0 '"parameters"' moec check $run --json
    ends 0 "" moec dump $run --after simplify
    ends 0 "" moec verify $run
done
ends 0 "model small" moec check run --set layers=2
ends 1 "no option 'layer'" moec check run --set layer=2
moec check run >direct && moec check small.moe | cmp -s - direct || wrong "the spec of the run differs"
ends 1 "folder is a directory without a checkpoint" moec check folder
ends 1 "weights.safetensors" moec check weights.safetensors
for command in "generate small.moe --prompt x" "eval small.moe --data text" "draw small.moe --out drawn" "generate small.moe:small --prompt x"; do
    # shellcheck disable=SC2086 # one argument per word
    ends 1 "is a spec, but this command needs a trained model" moec $command
done

# Pipes, devices and folders as output paths: neither replaced nor written to.
if mknod null c 1 3 2>/dev/null; then device=null; else device=/dev/null; fi
for one in pipe $device folder; do
    kind=$(stat -c %F "$one")
    ends 1 "not a file" moec init small.moe --seed 1 --out "$one"
    ends 1 "not a file" moec forward small.moe --weights weights --input text --outputs loss --out "$one" -c 16 --set train.batch_size=1
    [ "$(stat -c %F "$one")" = "$kind" ] || wrong "$one was $kind"
    [ -e "$one.partial" ] && wrong "$one.partial remains"
done
ends 1 "cannot create the folder" moec train small.moe --data text --out $device
ends 1 "cannot create the folder" moec emit small.moe --out $device
for command in "train small.moe --data text" "emit small.moe"; do # mkdir fails there, also for root
    # shellcheck disable=SC2086 # one argument per word
    ends 1 "cannot create the folder /sys/moec: " moec $command --out /sys/moec
    grep -q "No such file" log && wrong "$command --out /sys/moec: $(cat log)"
done
ln -s nowhere dangling
ends 1 "it is a symbolic link" moec init small.moe --seed 1 --out dangling
for command in "train small.moe --data text" "init small.moe --seed 1" "emit small.moe"; do
    # shellcheck disable=SC2086 # one argument per word
    ends 2 "--out expects" moec $command --out ""
done
ends 2 "the first argument is empty" moec check ""

# A link, pipe or folder with the name of a partial file is not a partial file of moec.
echo precious >kept
for kind in link pipe folder; do
    rm -rf fresh.partial
    case $kind in
    link) ln -s kept fresh.partial ;;
    pipe) mkfifo fresh.partial ;;
    folder) mkdir fresh.partial ;;
    esac
    ends 1 "cannot write $PWD/fresh.partial" moec init small.moe --seed 1 --out "$PWD/fresh"
    [ -e fresh ] && wrong "fresh was written"
done
[ "$(cat kept)" = precious ] || wrong "a link with the name of a partial file was followed"
rm -rf fresh.partial
echo left >fresh.partial
ends 0 "" moec init small.moe --seed 1 --out fresh
cmp -s fresh weights || wrong "the partial file of a killed process has changed the file"
[ -e fresh.partial ] && wrong "fresh.partial remains"

# Links and modes.
printf 'model m = decoder{dim=8}\n' >loose.moe
sed -i '1i use decoder' loose.moe
chmod 640 loose.moe
ln -s loose.moe link.moe
ends 0 "" moec fmt link.moe
[ -L link.moe ] || wrong "fmt has replaced a link"
[ "$(stat -c %a loose.moe)" = 640 ] || wrong "fmt has changed the mode"
grep -q 'dim = 8' loose.moe || wrong "fmt has not written through the link"

# A disk without space for the weights: no folder remains.
for command in "quantize run --type int8" "export run --format gguf" "export run --format gguf_moec" "export run --format llama" "emit run"; do
    # shellcheck disable=SC2016,SC2086 # one argument per word
    ends 1 "cannot write" sh -c 'ulimit -f 1 && trap "" XFSZ && exec "$@"' sh moec $command --out none
    [ -e none ] || [ -e .none.moec-partial ] && wrong "moec $command leaves a folder: $(find none)"
done

# Output to a full disk, and closed streams.
full() {
    "$@" >/dev/full 2>log
    found=$?
    [ $found -eq 1 ] || wrong "$* > /dev/full: exit code $found"
    grep -q 'cannot write the standard output' log || wrong "$* > /dev/full: $(cat log)"
    "$@" >&- 2>log
    found=$?
    [ $found -eq 1 ] || wrong "$* >&-: exit code $found"
}
full moec --version
full moec help
full moec train --help
full moec check small.moe
full moec check small.moe --json
full moec dump small.moe --after simplify
full moec eval run --data text
full moec eval run --data text --json
full moec generate run --prompt x -n 20
full moec train small.moe --data text --out run --resume --steps 4
full moec verify small.moe
cp loose.moe again.moe
printf 'model other = m { dim=16 }\n' >>again.moe
ends 1 "is not in the canonical format" moec fmt --check again.moe
moec train small.moe --data text --out silent <&- >&- 2>&-
grep -v '^{' silent/log.jsonl && wrong "progress was written to the log"
moec eval silent --data text >log 2>&1 || { cat log; wrong "a run with closed streams has no checkpoint"; }
exit 0

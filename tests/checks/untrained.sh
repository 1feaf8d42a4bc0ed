#!/bin/sh
# `moec emit` of a spec writes random weights and reports it, on stderr and in the README; for a run it names the training step.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
small_model 3
cd "$work"
moec train small.moe --data text --out run >log 2>&1 || wrong "$(cat log)"
moec init small.moe --seed 1 --out fresh.safetensors
moec train small.moe --data text --out started --steps 0 >log 2>&1 || wrong "$(cat log)"

# emitted OPERAND NOTES TEXT OPTION...: NOTES notes on stderr, and the README contains TEXT.
emitted() {
    operand=$1 notes=$2 text=$3
    shift 3
    rm -rf out
    moec emit "$operand" --out out "$@" >log 2>&1 || wrong "$operand: $(cat log)"
    [ "$(grep -c "note: $operand is not a trained run: the weights in out are random" log)" = "$notes" ] || wrong "$operand $*: other notes: $(cat log)"
    grep -qF "$text" out/README.md || wrong "$operand $*: no '$text' in the README: $(head -12 out/README.md)"
    ! grep -qiE 'a trained model|@' out/README.md || wrong "$operand $*: the README mentions a trained model: $(head -12 out/README.md)"
}
for target in c cuda; do
    emitted small.moe 1 'are random' --target $target
    emitted fresh.safetensors 1 'are random' --target $target
    emitted small.moe 0 'are random' --target $target --mode train
    emitted run 0 'of training step 3' --target $target
    emitted run 0 'of training step 3' --target $target --mode train
    emitted started 0 'without training steps' --target $target
    emitted "$OLDPWD/models/dit.moe:dit_small" 1 'are random' --target $target --mode sample --set layers=1
done

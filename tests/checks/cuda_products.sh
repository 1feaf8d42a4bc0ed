#!/bin/sh
# Dense products of the device cuda with a stand-in for cuBLASLt on the simulated driver: the losses of the CPU, and the faster
# of two algorithms, which is timed once and stored.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 MOEC_SIM=unchecked

with_cublaslt "$work/cuda"
head -c 900 README.md >"$work/text"

# train NAME DEVICE DRIVER [OPTION...]
train() {
    name=$1 device=$2 MOEC_CUDA=$3
    export MOEC_CUDA
    shift 3
    moec train models/tiny.moe:tiny_uneven --device "$device" --data "$work/text" --out "$work/$name" --steps 3 \
        --set dim=24 --set layers=2 --set train.batch_size=2 --set train.context_length=12 --set vocab_size=251 --set train.logits_chunk_size=12 "$@" \
        >"$work/$name.out" 2>&1 || { cat "$work/$name.out"; wrong "training $name failed"; }
}

# same ONE OTHER TOLERANCE: the losses and norms of two runs
same() {
    for run in "$1" "$2"; do sed 's/"seconds":[^,}]*//; s/[^-+.0-9e]/ /g' "$work/$run/log.jsonl" >"$work/$run.numbers"; done
    paste "$work/$1.numbers" "$work/$2.numbers" | awk -v most="$3" '
        function off(a, b) { return (a > b ? a - b : b - a) > most * (a > 0 ? a : -a) + 1e-7 }
        { half = NF / 2; for (i = 1; i <= half; i++) if (off($i, $(i + half))) { print "line " NR ": " $i " is not " $(i + half); bad = 1 } }
        END { exit bad || NR < 3 }' || wrong "$1 and $2 train differently"
}

train cpu cpu "$work/cuda"
train exact cuda "$work/cuda"
same cpu exact 1e-4
grep -q 'products by cuBLASLt, [1-9][0-9]* timed' "$work/exact.out" || { cat "$work/exact.out"; wrong "no product was timed"; }
! grep 'by the own kernels' "$work/exact.out" || wrong "the library does not compute a product"

# A second start times nothing and uses the faster algorithm; its results have the same bits.
STAND_IN_LOG=$work/log
export STAND_IN_LOG
train again cuda "$work/cuda"
unset STAND_IN_LOG
grep -q 'products by cuBLASLt, 0 timed' "$work/again.out" || { cat "$work/again.out"; wrong "a second start timed again"; }
cmp "$work/exact/last.safetensors" "$work/again/last.safetensors" || wrong "two starts end with different weights"
[ "$(cut -d' ' -f1 "$work/log" | sort -u)" = 1 ] || wrong "a slower algorithm was used"

# By rule: the first algorithm, without a measurement or a stored selection.
STAND_IN_LOG=$work/fixed.log
export STAND_IN_LOG
MOEC_CHOICE=first train fixed cuda "$work/cuda"
unset STAND_IN_LOG
grep -q 'products by cuBLASLt, 0 timed' "$work/fixed.out" || wrong "MOEC_CHOICE=first has timed a product"
[ "$(cut -d' ' -f1 "$work/fixed.log" | sort -u)" = 0 ] || wrong "MOEC_CHOICE=first uses another algorithm than the first"

# A damaged selection is measured again.
for kept in "$work"/cache/moec/*.product; do echo >>"$kept"; done
train repaired cuda "$work/cuda"
grep -q 'products by cuBLASLt, [1-9][0-9]* timed' "$work/repaired.out" || wrong "a damaged selection was used"

# moec's own kernels are compiled when the library declines a product, even if only during a step.
kernels() { sed -n 's/.* \([0-9]*\) kernels \(compiled\|found\) .*/\1/p' "$work/$1.out"; }
train alone cuda "$simulator"
# The same tensors; the notes of a checkpoint contain the selected algorithms.
tensors() {
    for run; do tail -c +$((9 + $(od -An -tu8 -N8 "$work/$run/last.safetensors"))) "$work/$run/last.safetensors" >"$work/$run.tensors"; done
    cmp -s "$work/$1.tensors" "$work/$2.tensors"
}
[ "$(kernels exact)" -lt "$(kernels alone)" ] || wrong "unused kernels are compiled"
STAND_IN_FAILS=1
export STAND_IN_FAILS
train late cuda "$work/cuda"
tensors alone late || wrong "a failing library changes the weights"

# A failure during a capture loads the own kernels and captures again.
STAND_IN_FAILS=captured
train captured cuda "$work/cuda"
unset STAND_IN_FAILS
same alone captured 1e-4
! grep 'cannot create a CUDA graph' "$work/captured.out" || wrong "a late failure of the library prevents CUDA graphs"
! tensors exact captured || wrong "the library has not failed"

# Without the library.
MOEC_BLAS=off train disabled cuda "$work/cuda"
cmp "$work/alone/last.safetensors" "$work/disabled/last.safetensors" || wrong "MOEC_BLAS=off uses the library"

# In bf16: as with moec's own products.
train own cuda "$simulator" --set train.precision=bf16
train rounded cuda "$work/cuda" --set train.precision=bf16
same own rounded 1e-3

# Two batch dimensions that no single stride covers: one call per element of the shorter one; the own kernel if there are many.
# The forward pass and a step compute three such products, and add up one product per element of `outer`.
cat >"$work/batches.moe" <<'END'
use train

layer batches {
  option outer: int in 1.. = 3  "size of the batch dimension without the first operand"
  option inner: int in 1.. = 6  "size of the other batch dimension"
  option train: layer = train { batch_size = 1, context_length = 8 }  "training settings"
  axis o = outer
  axis n = inner
  axis i = 16
  axis j = 16
  axis k = 16
  sequence s = train.context_length
  input tokens[s]: token
  param a[n,i,k] ~ normal(1)
  param b[o,n,k,j] ~ normal(1)
  y[o,n,i,j] = sum[k] a[n,i,k] * b[o,n,k,j]
  loss = mean[o,n,i,j] y[o,n,i,j] * y[o,n,i,j]
}

model m = batches
END
# calls OUTER INNER COUNT
calls() {
    rm -f "$work/log"
    MOEC_CUDA=$work/cuda MOEC_CHOICE=first STAND_IN_LOG=$work/log moec verify "$work/batches.moe:m" --device cuda \
        --set outer="$1" --set inner="$2" >"$work/out" 2>&1 || { cat "$work/out"; wrong "batches $1 x $2 differ"; }
    found=$(wc -l <"$work/log")
    [ "$found" = "$3" ] || wrong "batches $1 x $2: $found calls of the library instead of $3"
}
calls 1 6 4
calls 3 6 12
calls 6 3 15
calls 8 8 8

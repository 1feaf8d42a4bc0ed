#!/bin/sh
# Runs every command on the CPU, emitted programs, and a program that uses libmoec repeatedly under valgrind. There must be no
# error and no leak; memory/valgrind.supp lists memory of the OpenMP runtime and oneDNN. Not part of `make test`.
#
#   tests/valgrind.sh [WORD...]     only steps whose name contains a word
. "$(dirname "$0")/begin.sh"
# valgrind does not support AVX-512. The AVX2 products of oneDNN read beyond the end of their own copies. Without these
# variables the command would restart itself to set the wait policy of its threads.
export MOEC_CFLAGS=-march=x86-64-v3 ONEDNN_MAX_CPU_ISA=SSE41 DNNL_MAX_CPU_ISA=SSE41
export GOMP_SPINCOUNT=0 OMP_NUM_THREADS=2
flags="-g -O1 -march=x86-64-v3"
cat stdlib/*.moe | head -c 4000 >"$work/text"
head -c 34 "$work/text" >"$work/tokens"
words=$*

checked() { # NAME COMMAND...
    name=$1
    shift
    if [ -n "$words" ]; then
        wanted=
        for word in $words; do case $name in *"$word"*) wanted=1 ;; esac; done
        [ -n "$wanted" ] || { "$@" >"$work/out" 2>&1; return; }
    fi
    if valgrind -q --error-exitcode=9 --leak-check=full --suppressions=tests/memory/valgrind.supp \
        --log-file="$work/log" "$@" >"$work/out" 2>&1; then
        echo "ok   $name"
    else
        echo "FAIL $name: exit code $?"
        tail -5 "$work/out"
        head -60 "$work/log"
        exit 1
    fi
}

spec=generated/routed.moe
checked check moec check "$spec" --json
checked fmt moec fmt models/tiny.moe --check
checked dump moec dump "$spec" --after plan --mode train
for model in dense routed; do
    spec=generated/$model.moe
    set -- --set vocab_size=256 --set train.context_length=16 --set train.batch_size=2
    checked "init $model" moec init "$spec" "$@" --seed 1 --out "$work/w"
    checked "run $model" moec forward "$spec" "$@" --weights "$work/w" --input "$work/tokens" -c 16 \
        --outputs logits,loss,grads --out "$work/o"
    checked "train $model" moec train "$spec" "$@" --steps 3 --data "$work/text" --out "$work/$model"
    checked "resume $model" moec train "$spec" "$@" --steps 5 --data "$work/text" --out "$work/$model" --resume
    checked "eval $model" moec eval "$work/$model" --data "$work/text"
    checked "generate $model" moec generate "$work/$model" --prompt 'use decoder, model' -n 4
    checked "emit $model" moec emit "$work/$model" --target c --mode decode --out "$work/$model.decode"
    make -s -C "$work/$model.decode" CFLAGS="$flags"
    checked "emitted decode $model" "$work/$model.decode/generate" --weights "$work/$model.decode/weights.bin" \
        --prompt 'use' --tokens 4 --temperature 0
    moec emit "$work/$model" --target c --mode train --out "$work/$model.train"
    make -s -C "$work/$model.train" CFLAGS="$flags"
    (cd "$work/$model.train" && ./train --help 2>&1 | head -3) >"$work/usage" || true
    checked "emitted train $model" "$work/$model.train/train" --weights "$work/$model.train/weights.bin" \
        --data "$work/text" --steps 2 --out "$work/trained.bin"
done
${CC:-cc} -g -O1 -Icompiler tests/memory/library.c "$BUILD/libmoec_compiler.a" -lm -ljansson -o "$work/library"
checked "library" "$work/library" generated/routed.moe generated/dense.moe

#!/bin/sh
# Programs of emitted folders accept only their documented options. They report files that cannot be read or written and output
# that cannot be printed, and reject damaged weights.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
small="--set dim=16 --set layers=1 --set train.context_length=32 --set train.batch_size=2 --set attention.head_dim=8"
# shellcheck disable=SC2086 # one argument per word
{
    moec emit examples/first.moe $small --mode decode --out "$work/generate" &&
    moec emit examples/first.moe $small --mode train --out "$work/train" &&
    moec emit models/dit.moe:dit_small --set layers=1 --mode sample --out "$work/draw"
} || wrong "moec emit failed"
cat stdlib/*.moe >"$work/text"
cd "$work" || exit 1
for folder in generate train draw; do
    make -s -C $folder CFLAGS="-O1" || wrong "$folder does not build"
done
mkfifo pipe

# ends CODE WORDS PROGRAM ARGUMENT...: runs in the folder of the program
ends() {
    code=$1 words=$2 program=$3
    shift 3
    (cd "$program" && ulimit -t 20 && exec timeout 120 ./"$program" "$@" >../out 2>../log </dev/null)
    found=$?
    [ $found -eq "$code" ] || { cat log; wrong "$program $*: exit code $found, not $code"; }
    [ -z "$words" ] || grep -qF -- "$words" log || { cat log; wrong "$program $*: no '$words'"; }
}

ends 0 "" generate --prompt x --tokens 5 --temperature 0.5 --seed 3
for value in x -1 "" 5x 1.5 99999999999999999999 " 5" +5; do
    ends 2 "--tokens expects a whole number of at least 0" generate --prompt x --tokens "$value"
    ends 2 "--steps expects a whole number of at least 0" train --data ../text --steps "$value"
    ends 2 "--count expects a whole number of at least 0" draw --out ../drawn --count "$value"
    ends 2 "--seed expects a whole number of at least 0" draw --out ../drawn --seed "$value"
done
for value in nan inf -1 "" 1e999 x 0.5x; do
    ends 2 "--temperature expects a number of at least 0" generate --prompt x --temperature "$value"
done
ends 2 "--tokens expects a whole number" generate --prompt x --tokens
ends 0 "" generate -p x -n 5
cp out short
ends 0 "" generate --prompt x --max-tokens 5
cmp -s out short || wrong "-p and -n are not --prompt and --max-tokens"
ends 0 "5 tokens, " generate --prompt "1 2" --token-ids --perf -n 5
grep -qE '^1 2( [0-9]+){5}$' out || wrong "--token-ids does not print token ids: $(cat out)"
ends 0 "5 tokens, " generate --prompt "1 2" --numbers 1 --speed 1 --tokens 5
grep -qE '^1 2( [0-9]+){5}$' out && wrong "--numbers, the former name, prints token ids"
ends 0 "the text ends after 30 of 50 tokens: the KV cache has 32 positions" generate --prompt "1 2 3" --token-ids -n 50
ends 0 "" generate --help
grep -q "^usage: .* -p TEXT" out && grep -q -- "--max-tokens N" out || wrong "--help prints no usage: $(cat out log)"
ends 2 "usage:" generate
ends 1 "nothing.bin: cannot open" generate -p x --weights nothing.bin
ends 2 "unknown option --token" generate --prompt x --token 5
ends 2 "--out expects a text" draw --out ""
ends 1 "out of memory" draw --out ../drawn --count 4611686018427387904

# Operands that are not a file, or not text.
moec init "$OLDPWD/examples/first.moe" $small --seed 1 --out tensors
ends 1 "is a safetensors file, but the model needs text" train --data ../tensors --steps 1
ends 1 "cannot open" generate --prompt x --weights ../pipe
ends 1 "cannot open" train --data ../pipe --steps 1
ends 1 "cannot read" train --data ../text --weights ../pipe --steps 1
if mknod null c 1 3 2>/dev/null; then device=../null; else device=/dev/null; fi
for path in $device ../pipe ../generate /dev/full; do
    kind=$(cd draw && stat -c %F $path)
    ends 1 "cannot write" draw --out $path --count 1 --steps 1
    ends 1 "cannot write" train --data ../text --steps 1 --out $path
    [ "$(cd draw && stat -c %F $path)" = "$kind" ] || wrong "$path was $kind"
done
echo precious >kept
ln -s kept drawn.partial
ends 1 "cannot write" draw --out ../drawn --count 1 --steps 1
[ "$(cat kept)" = precious ] || wrong "a link with the name of a partial file was followed"
rm drawn.partial
ln -s kept link
ends 0 "" draw --out ../link --count 1 --steps 1
[ -L link ] || wrong "a link was replaced"
grep -q precious kept && wrong "a link was not followed"

# Output to a full disk and to a closed stream.
full() {
    program=$1
    shift
    (cd "$program" && ./"$program" "$@" >/dev/full 2>../log)
    [ $? -eq 1 ] || wrong "$program $*: a full disk is not reported"
    (cd "$program" && ./"$program" "$@" >&- 2>../log)
    [ $? -eq 1 ] || wrong "$program $*: closed output is not reported"
}
full generate --prompt x --tokens 9
full train --data ../text --steps 2
(cd train && ./train --data ../text --steps 2 --out ../trained <&- >&- 2>&-)
grep -q 'loss' trained && wrong "progress was written to the weights"
(cd generate && ./generate --weights ../trained --prompt x --tokens 2 >../out 2>../log) || { cat log; wrong "weights trained with closed streams are damaged"; }

# Weights that are not finite, with a correct hash.
cat >spoil.c <<'SPOIL'
#include "weights.h"
#include <math.h>
#include <stdlib.h>
extern const MoecTable moec_table;
int main(int count, char **paths) {
    float *weights = calloc(1, moec_table.weight_bytes + 64), *states = calloc(1, moec_table.state_bytes + 64);
    for (size_t i = 0; i < moec_table.weight_bytes / 4; i++) weights[i] = NAN;
    return count != 2 || weights_write(paths[1], &moec_table, NULL, weights, NULL, states) != WEIGHTS_FINE;
}
SPOIL
for folder in generate draw; do
    cc -std=gnu11 -I$folder -o spoil spoil.c $folder/program.o $folder/weights.o $folder/streams.o -fopenmp -lm &&
        ./spoil $folder.spoilt || wrong "the damaged weights were not written"
done
ends 1 "the logits are not finite" generate --prompt x --weights ../generate.spoilt
ends 1 "are not finite" draw --out ../none --count 1 --steps 1 --weights ../draw.spoilt
[ -e none ] && wrong "sampling has written a file"
exit 0

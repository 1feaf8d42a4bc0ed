#!/bin/sh
# Progress of moec train on stderr: the fields of a line, its rate on a terminal and elsewhere, the phase after 10 s without output;
# the result alone on stdout.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
cat stdlib/*.moe >"$work/text"
cat >"$work/small.moe" <<'SPEC'
use decoder
model small = decoder { vocab_size = 256, dim = 16, layers = 1, attention.heads.q = 2, ffn.hidden_dim = 16, train = { batch_size = 2, context_length = 16, steps = 400, eval_interval = 200 } }
SPEC
cd "$work"
printf '#!/bin/sh\ncase "$*" in *-shared*) [ -e '$PWD'/slept ] || { touch '$PWD'/slept; sleep 11; } ;; esac\nexec cc "$@"\n' >slow_cc && chmod +x slow_cc
MOEC_CC=$PWD/slow_cc moec train small.moe --data text --out slow --no-cache --steps 1 >out 2>log || wrong "slow: $(cat log)"
grep -qE '^compilation, 1[0-9] s$' log || wrong "no phase: $(cat log)"

moec train small.moe --data text --out run >out 2>log || wrong "$(cat log)"
[ "$(sed 's/memory [0-9.]* MB/memory MB/' out)" = 'done at step 400; peak memory MB' ] || wrong "stdout: $(cat out)"
line='step 400/400  loss [0-9.]+  val [0-9.]+ bits/byte  grad [0-9.e-]+  lr [0-9.]+e-[0-9]+  [0-9,]+ tokens/s  f32  [0-9.]+ % of peak  [0-9.]+ MB  ETA 0 s'
grep -qE "^$line\$" log || wrong "the line: $(cat log)"
grep -qE '^wrote run/last.safetensors \([0-9.]+ kB\)$' log && grep -qx '  next: moec generate run --prompt TEXT' log || wrong "no next command: $(cat log)"
# Both evaluations, the first step, and at most one line per 5 s.
[ "$(grep -c '^step' log)" -le 4 ] || wrong "too many lines: $(cat log)"

# On a terminal the line is redrawn at most 10 times per second, and evaluations stay.
began=$(date +%s%N)
TERM=xterm script -qec "moec train small.moe --data text --out live --no-cache" /dev/null >tty 2>&1 || wrong "$(cat tty)"
tenths=$((($(date +%s%N) - began) / 100000000))
drawn=$(grep -o 'step [0-9]*/400' tty | wc -l)
[ "$drawn" -ge 3 ] && [ "$drawn" -le $((tenths + 4)) ] || wrong "$drawn lines in $tenths tenths of a second"

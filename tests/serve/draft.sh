#!/bin/sh
# Speed of moec serve for one client, and of moec generate, with a draft of 1.3 M parameters for a model of 14.7 M, compared with no
# draft. About six minutes on two cores.
#
#   tests/serve/draft.sh [FACTOR]
. "$(dirname "$0")/../begin.sh"
. tests/serve/server.sh
cat >"$work/pair.moe" <<'SPEC'
use decoder

model big = decoder {
  dim = 448, layers = 6
  attention = { heads = { q = 7, k = 7, v = 7 } }
  train = { lr = 2e-3, batch_size = 4, context_length = 128, steps = 250 }
}
model little = big { dim = 160, layers = 4, attention = { heads = { q = 5, k = 5, v = 5 } } }
SPEC
cat stdlib/*.moe >"$work/text"
for model in big little; do moec train "$work/pair.moe:$model" --data "$work/text" --out "$work/$model" >"$work/log" 2>&1 || wrong "$(cat "$work/log")"; done
export OMP_NUM_THREADS=1
run=$work/big serve plain -c 600
plain=$server port=${at##*:}
run=$work/big serve drafted -c 600 --draft "$work/little"
python3 tests/serve/claims.py "$at" speed "$port" 300 "${1:-1.0}" || failed=1
ended drafted
server=$plain
ended plain
for _ in 1 2 3; do
    for draft in "" "--draft $work/little"; do
        moec generate "$work/big" --prompt "option norm: layer = rms_norm " -n 300 --temperature 0 --perf $draft 2>&1 >"$work/text.out" |
            sed -n "s|^\(.* tokens/s\)$|generate ${draft:+with the draft}: \1|p"
    done
done
[ -z "${failed:-}" ]

#!/bin/sh
# moec bench --trace: every launch of a step with its layer, times, threads, bytes and FLOPs; NVTX ranges around the launches of a GPU.
# tests/read_trace.sh reads a trace with the library of Perfetto.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=2
cd "$work"
cat >two.moe <<'MODEL'
use decoder
model two = decoder {
  dim = 32, layers = 2
  attention = { heads = { q = 2 }, head_dim = 16 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 16 }, route_norm = top_k }
  train = { batch_size = 2, context_length = 32 }
}
MODEL

# sound FILE: the launches lie one after the other within the step. Prints "NAME LAYER THREADS FLOPS BYTES" of each, - if missing.
sound() {
    awk '
    function field() { sub(/^[^:]*: */, ""); sub(/,$/, ""); gsub(/"/, ""); return $0 }
    function close_event() {
        if (phase != "X") return
        if (pid != 1 || tid != 1 || !(ts >= 0) || !(dur >= 0)) { print "bad event " name; exit 1 }
        if (kind == "step") { if (step) exit 1; step = dur; return }
        if (ts < last - 0.01 || ts + dur > step + 0.01) { print name " is outside of the step or overlaps"; exit 1 }
        last = ts + dur
        print name, layer, threads, flops, bytes
    }
    /^  \{/ { phase = name = kind = ""; layer = threads = flops = bytes = "-"; ts = dur = -1; pid = tid = 0 }
    /^   "ph"/ { phase = field() }
    /^   "name"/ { name = field(); gsub(/ /, "_", name) }
    /^   "cat"/ { kind = field() }
    /^   "ts"/ { ts = field() + 0 }
    /^   "dur"/ { dur = field() + 0 }
    /^   "pid"/ { pid = field() + 0 }
    /^   "tid"/ { tid = field() + 0 }
    /^    "layer"/ { layer = field(); if (layer == "") layer = "-" }
    /^    "threads"/ { threads = field() + 0 }
    /^    "flops"/ { flops = field() + 0 }
    /^    "bytes"/ { bytes = field() + 0 }
    /^  \}/ { close_event() }' "$1" >launches || wrong "$1: $(tail -1 launches)"
    if command -v python3 >/dev/null; then python3 -m json.tool "$1" >out 2>&1 || wrong "$1: $(cat out)"; fi
}
# has TEXT N: so many launches are TEXT.
has() { [ "$(grep -cx -- "$1" launches)" = "$2" ] || wrong "not $2 launches '$1': $(cat launches)"; }

moec bench two.moe --quick --trace cpu.json --json >report 2>log || wrong "$(cat log)"
sound cpu.json
has 'attention_q block.{i}.attention 2 131072 [0-9]*' 2
has 'expert_y block.{i}.ffn.expert 2 [0-9]* [0-9]*' 2
has 'logits - 2 1048576 [0-9]*' 1
has 'update - 2 - -' 1
launches=$(sed -n '/"kernels"/,$ s/.*"launches": \([0-9]*\).*/\1/p' report | awk '{ sum += $1 } END { print sum - 1 }') # without "between units"
[ "$(wc -l <launches)" = "$launches" ] || wrong "$(wc -l <launches) launches in the trace, $launches in the table"
moec bench two.moe --quick --mode decode --trace decode.json >report 2>log || wrong "$(cat log)"
sound decode.json
has 'attention_q block.{i}.attention 2 [0-9]* [0-9]*' 2

"${CC:-cc}" -shared -fPIC -o nvtx.so "$OLDPWD/tests/stand_in/nvtx.c"
on_simulator
moec bench two.moe --quick --device cuda --trace gpu.json >report 2>log || wrong "$(cat log)"
sound gpu.json
has 'attention_q block.{i}.attention [0-9]* 131072 [0-9]*' 2
has 'attended block.{i}.attention [0-9]* [0-9]* [0-9]*' 2
has 'd_block_ffn_router block.{i}.ffn [0-9]* [0-9]* [0-9]*' 2
grep -q '^attention_norm_y_2 block.{i}.attention_norm [1-9][0-9]* ' launches || wrong "no threads: $(cat launches)"
cat "$OLDPWD"/stdlib/decoder.moe >text
moec train two.moe -d text -o run --steps 2 --device cuda -q >out 2>&1 || wrong "$(cat out)"
MOEC_NVTX=$PWD/nvtx.so NVTX_LOG=$PWD/ranges moec train two.moe -d text -o ranged --steps 2 --device cuda -q >out 2>&1 || wrong "$(cat out)"
[ "$(grep -c '^train$' ranges)" = 2 ] && [ "$(grep -c '^  kernel_train_[0-9]*_attention_norm_y_2$' ranges)" = 4 ] || wrong "$(cat ranges)"
for run in run ranged; do grep -o '"loss":[0-9.]*' $run/log.jsonl >$run.losses; done
cmp run.losses ranged.losses || wrong "ranges change the losses"
MOEC_NVTX=./none.so moec train two.moe -d text -o none --steps 1 --device cuda >out 2>&1 || wrong "$(cat out)"
grep -q 'note: MOEC_NVTX: no library with nvtxRangePushA' out || wrong "$(cat out)"

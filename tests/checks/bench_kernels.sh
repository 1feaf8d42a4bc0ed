#!/bin/sh
# bench --kernels on the CPU reports each kernel that explain lists once, with the same number of runs. A program without timing
# does not mark its kernels.
. "$(dirname "$0")/../begin.sh"
cat >"$work/two.moe" <<'MODEL'
use decoder

model two = decoder {
  dim = 32, layers = 3
  attention = { heads = { q = 2 }, head_dim = 16 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 16 }, route_norm = top_k }
  train = { batch_size = 2, context_length = 32 }
}
MODEL
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
for graph in train decode; do
    moec explain "$work/two.moe" --mode $graph --json --peak-gflops 1 --peak-gbytes 1 >"$work/explained"
    moec bench "$work/two.moe" --mode $graph --quick --kernels --json >"$work/bench"
    # "NAME RUNS" of both; only bench lists the work of the host
    sed -n -e '/"units"/,$ s/.*"name": "\(.*\)".*/\1/p' -e 's/.*"runs": \([0-9]*\).*/\1/p' "$work/explained" | paste -d ' ' - - |
        sort >"$work/known"
    sed -n -e '/"kernels"/,$ s/.*"name": "\(.*\)".*/\1/p' -e 's/.*"launches": \([0-9]*\).*/\1/p' "$work/bench" | paste -d ' ' - - |
        grep -v -e '^square_sum ' -e '^update ' -e '^between units ' | sort >"$work/timed"
    [ "$(wc -l <"$work/timed")" -gt 8 ] || wrong "$graph: too few kernels are timed"
    cmp "$work/known" "$work/timed" || wrong "$graph: $(diff "$work/known" "$work/timed")"
done
moec bench "$work/two.moe" --mode decode --quick --kernels >"$work/text"
grep -qE '^  logits +[0-9]+  matmul +[0-9.]+ .*std/decoder.moe' "$work/text" || wrong "$(cat "$work/text")"
moec emit "$work/two.moe" --target c --out "$work/emitted" >"$work/log"
! grep -rq "moec_mark(run," "$work/emitted" || wrong "a program without timing marks its kernels"

# A run directory replaces its spec.
cat stdlib/*.moe >"$work/data"
moec train "$work/two.moe" --data "$work/data" --out "$work/run" --steps 1 >"$work/text" 2>&1 || wrong "training: $(cat "$work/text")"
moec bench "$work/run" --mode decode --quick --set inference.kv_cache_dtype=int8 >"$work/text" 2>&1 || wrong "bench of a run: $(cat "$work/text")"

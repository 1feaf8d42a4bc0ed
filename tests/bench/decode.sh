#!/bin/sh
# Decoding speed of 238 million weights, one token at a time, in f32, bf16, int8 and int4, compared with the memory bandwidth and with
# llama.cpp (f32, f16, Q8_0, Q4_0) with the same weights. Installs the packages gguf and xllamacpp, which contains llama.cpp, into a
# separate folder (PEERS, build/peers_decode), unless PYTHONPATH names one. The rounds alternate because the speed of a shared
# machine drifts. Both must generate the same tokens in f32; otherwise nothing is measured. The KV cache is f32 with f32 weights
# and bf16 otherwise; that of llama.cpp is f16 instead of bf16. Needs 10 GB in TMPDIR.
#
#   tests/bench/decode.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
moec=${BUILD:-build}/moec
spec=models/gpt2.moe:wide
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHON=${PYTHON:-python3}
export PYTHONPATH="${PYTHONPATH:-${PEERS:-build/peers_decode}}"
"$PYTHON" -c 'import gguf, xllamacpp' 2>/dev/null || "$PYTHON" -m pip install --quiet --target "$PYTHONPATH" gguf xllamacpp

theirs() { # NAME COUNT
    "$PYTHON" tests/bench/decode.py "$work" run "$1" "$2" 2>"$work/errors" >"$work/theirs" || {
        cat "$work/errors" # also lists missing GPU libraries
        exit 1
    }
}
ours() { # value of inference.weight_dtype; prints tokens per second and the share of the bandwidth
    cache=bf16
    [ "$1" != f32 ] || cache=f32
    $moec bench $spec --mode decode --prefix-length 1 --set inference.weight_dtype="$1" --set inference.kv_cache_dtype=$cache --json >"$work/bench"
    for name in tokens_per_second share_of_bandwidth; do
        sed -n "s/.*\"$name\": *\([0-9.e+-]*\).*/\1/p" "$work/bench"
    done
}

"$PYTHON" tests/bench/decode.py "$work" tokens
$moec train $spec --data "$work/tokens.bin" --steps 1 --out "$work/run" >/dev/null
$moec export "$work/run" --format gguf --no-tokenizer --out "$work/gguf" >/dev/null
"$PYTHON" tests/bench/decode.py "$work" files "$work/gguf/model.gguf"
theirs f32 12
$moec generate "$work/run" --token-ids --prompt "1 5 7" -n 12 --temperature 0 >"$work/ours"
[ "$(tail -n 1 "$work/theirs" | tr -s ' ')" = "$(sed 's/^1 5 7 //' "$work/ours" | tr -s ' ')" ] || {
    cat "$work/theirs" "$work/ours"
    echo "the tokens differ: no speed is printed"
    exit 1
}

printf '%-7s %-6s %10s %12s %12s %12s %8s\n' round ours tokens/s bandwidth "beside f32" llama.cpp ratio
for round in $(seq "${1:-3}"); do
    while read -r word name; do
        theirs "$name" 100
        # shellcheck disable=SC2046
        echo "$round" "$word" $(ours "$word") "$(head -n 1 "$work/theirs")" >>"$work/rows"
        awk '{ if ($2 == "f32") f32 = $3 } END { printf "%-7s %-6s %10.1f %12.2f %12.2f %12.1f %8.2f\n", $1, $2, $3, $4, $3 / f32, $5, $3 / $5 }' \
            "$work/rows"
    done <<END
f32 f32
bf16 f16
int8 q8_0
int4 q4_0
END
done

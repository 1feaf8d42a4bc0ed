#!/bin/sh
# `moec verify`: recurrences at a multiple of 64 positions; the sizes of the spec by default; --shapes and --forms. A shape that
# is too large for the interpreter; smaller weights and caches; a model that fits into one compiler, compared in bf16.
. "$(dirname "$0")/../begin.sh"
root=$PWD
cd "$work"
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1

# verified TEXT ARGUMENT...: agrees and prints TEXT. The output is in $work/output.
verified() {
    text=$1
    shift
    moec verify "$@" >"$work/output" 2>&1 || { cat "$work/output"; wrong "verify $*: failed"; }
    grep -qF -- "$text" "$work/output" || { cat "$work/output"; wrong "verify $*: no '$text'"; }
}
# has FORM...: the forms that the last report lists.
has() {
    for form; do
        grep -q "^  forms .* $form\(,\|\$\)" "$work/output" || { cat "$work/output"; wrong "no form '$form'"; }
    done
}

cat >"$work/chunked.moe" <<'END'
use decoder
use recurrent
model m = decoder {
  vocab_size = 64, dim = 64, layers = 1
  attention = mamba2 { heads = 4, head_dim = 32, state_size = 32 }
  ffn.hidden_dim = 16
  train = { batch_size = 2, context_length = 128 }
}
END

# Several chunks of a recurrence in two sequences, read as parts of the inputs.
verified 'batch 2, context 128 (from train)' "$work/chunked.moe" --forms
has 'chunked scan' view 'operand with a computed subscript' 'batched product'
for model in "$root"/models/hybrid.moe:retnet_small "$root"/models/hybrid.moe:rwkv7_small "$root"/examples/ideas/matrix_lstm.moe; do
    verified 'batch 2, context 128' "$model" -b 2 -c 128 --forms
    has 'chunked scan' view
done
verified 'batch 2, context 12 (batch from train)' "$work/chunked.moe" -c 12 --forms
has 'sequential scan'
verified 'batch 1, context 128 (context from train)' "$work/chunked.moe" -b 1

# Every shape, those that fit; a small model has no shape that does not.
cat >"$work/small.moe" <<'END'
use decoder
use recurrent
model m = decoder {
  vocab_size = 16, dim = 8, layers = 1
  attention = retention { heads = 1 }
  ffn.hidden_dim = 8
  train = { batch_size = 1, context_length = 24 }
}
END
verified 'batch 1, context 24' "$work/small.moe" --shapes
for shape in 'batch 2, context 1$' 'context 64$' 'context 96$' 'batch 2, context 128$' 'context 160$' 'context 192$' \
    'context 16, train.scan_chunk_size=16' 'context 40, train.scan_chunk_size=16' 'context 128, train.scan_chunk_size=1$' 'train.logits_chunk_size=32' 'batch 9, context 128$'; do
    grep -q "^m on cpu, .* $shape" "$work/output" || { cat "$work/output"; wrong "no shape '$shape'"; }
done
! grep -q skipped "$work/output" || wrong "skipped: $(grep skipped "$work/output")"
moec verify "$work/small.moe" --shapes --forms --json >"$work/output"
for form in 'chunked scan of one chunk' 'chunked scan with a partial last chunk' 'sequential scan' 'strip-mined rows'; do
    grep -q "\"$form\": true" "$work/output" || wrong "no shape reaches the form '$form'"
done

cat >"$work/wide.moe" <<'END'
use decoder
model m = decoder {
  vocab_size = 64, dim = 64, layers = 1
  attention = { heads.q = 2, head_dim = 32 }
  ffn = swiglu { hidden_dim = 64 }
  train = { batch_size = 1, context_length = 8 }
}
model whole = m { attention.mask = none }
END

# Too large: the reason, the limit and a command that works.
large="$work/wide.moe:m --set train.batch_size=8 --set train.context_length=8192"
fails 'the limit is 2 min' moec verify $large
fails "moec verify $work/wide.moe:m -b 2 -c" moec verify $large
fails 'batch 1, context 4096 (from train) needs' moec verify "$root"/models/gated_attention.moe:moe_15b
fails '--set layers=2' moec verify "$root"/models/gated_attention.moe:moe_15b -c 8
moec verify $large --shapes >"$work/output" || wrong "$(cat "$work/output")"
grep -q 'skipped: batch 8, context 8192 needs about .* the limit is 30 s$' "$work/output" || wrong "not skipped: $(cat "$work/output")"
grep -q 'to compare it: moec verify .* -b 8 -c 8192$' "$work/output" || wrong "no command: $(cat "$work/output")"
code=0
moec verify "$work/small.moe" --shapes -b 2 >"$work/output" 2>&1 || code=$?
[ $code = 2 ] || wrong "--shapes with --batch-size ends with $code"

# Weights and caches as they are set.
for weights in int8 bf16; do
    verified "f32, $weights weights (f32 in training), seed" "$work/wide.moe:m" --set inference.weight_dtype=$weights --forms
    has "$weights weights"
done
verified 'f32, int8 cache, seed' "$work/wide.moe:m" --set inference.kv_cache_dtype=int8 --forms
has 'int8 cache'
verified 'f32, int8 cache not compared: no decoding, seed' "$work/wide.moe:whole" --set inference.kv_cache_dtype=int8

# Many different blocks: the programs of both sides are within the limit of one compiler, as those of `train` are.
{
    printf 'use decoder\nuse recurrent\nmodel m = decoder {\n  vocab_size = 16, dim = 16, layers = 13\n  token_mixers = [\n'
    for i in 1 2 3 4; do
        for k in 1 2 3; do echo '    gated_delta { heads = { k = 1, v = 2 }, head_dim = 8 },'; done
        echo '    attention { heads.q = 2, head_dim = 8 },'
    done
    printf '    gated_delta { heads = { k = 1, v = 2 }, head_dim = 8 },\n  ]\n  ffn = swiglu { hidden_dim = 8 }\n'
    printf '  train = { batch_size = 1, context_length = 16 }\n}\n'
} >"$work/many.moe"
verified 'products of bf16' "$work/many.moe" --set train.precision=bf16

# Rows without a token have equal values, whose selection depends on no rounding.
verified 'products of bf16' "$root/tests/layers.moe:masked_nested" --precision bf16

# Decoding whose products round at a tie: perturbed runs move it as far.
cat >"$work/steps.moe" <<'END'
use decoder
model dense = decoder {
  vocab_size = 64, dim = 64, layers = 1
  attention = { heads = { q = 2 }, head_dim = 32 }
  ffn = swiglu { hidden_dim = 64 }
  train = { batch_size = 1, context_length = 12, precision = nvfp4 }
}
END
for seed in 1 4; do
    verified 'products of nvfp4, int8 weights' "$work/steps.moe" --seed $seed --set inference.weight_dtype=int8
done

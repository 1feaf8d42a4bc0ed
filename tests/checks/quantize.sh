#!/bin/sh
# moec quantize: the stored weights are those that inference.weight_dtype makes from the float run, in every command and in emitted
# programs; the file is smaller; errors.
. "$(dirname "$0")/../begin.sh"
export MOEC_CFLAGS=-O1 OMP_NUM_THREADS=1
cat >"$work/small.moe" <<'EOF'
use decoder

model small = decoder {
  vocab_size = 256, dim = 64, layers = 2
  attention = { heads = { q = 4, k = 2, v = 2 }, head_dim = 32 }
  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 128 } }
  train = { batch_size = 2, context_length = 32, steps = 30, eval_interval = 0, lr = 1e-2 }
}
EOF
cat stdlib/*.moe >"$work/text"
head -c 6000 "$work/text" >"$work/short"
cd "$work"
moec train small.moe --data text --out run >log 2>&1 || wrong "$(cat log)"
loss() { moec eval "$@" --data short --json 2>log | sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p'; }
size() { wc -c <"$1/last.safetensors"; }
for type in int4 int8; do
    moec quantize run --type $type --out $type >log 2>&1 || wrong "$(cat log)"
    grep -q "^$type/last.safetensors: [1-9][0-9]* of [0-9]* tensors in $type" log || wrong "$(cat log)"
    moec tensors $type >log
    grep -q "^block.1.ffn.expert.down *$(echo $type | tr a-z A-Z)  \[4, 128, 64\]" log || wrong "tensors: $(cat log)"
    expected=$(loss run --weight-dtype $type) found=$(loss $type)
    [ -n "$expected" ] && [ "$expected" = "$found" ] || wrong "$type: loss '$found', rounded when loaded '$expected'"
    [ "$expected" != "$(loss run)" ] || wrong "$type has the loss of f32"
    moec generate run --prompt 'layer ' -n 24 --temperature 0 --weight-dtype $type >expected 2>log || wrong "$(cat log)"
    moec generate $type --prompt 'layer ' -n 24 --temperature 0 >found 2>log || wrong "$(cat log)"
    cmp expected found || wrong "$type: another text"
    moec emit run --weight-dtype $type --mode decode --out expected_c >log 2>&1 && moec emit $type --mode decode --out found_c >log 2>&1 || wrong "$(cat log)"
    make -s -C expected_c CFLAGS=-O1 >log 2>&1 && make -s -C found_c CFLAGS=-O1 >log 2>&1 || wrong "$(cat log)"
    (cd expected_c && ./generate --prompt 'layer ' --tokens 24 --temperature 0) >expected
    (cd found_c && ./generate --prompt 'layer ' --tokens 24 --temperature 0) >found
    cmp expected found || wrong "$type: another text of the emitted program"
    [ $type = int8 ] || cmp expected_c/weights.bin found_c/weights.bin || wrong "$type: other packed weights"
    rm -rf expected_c found_c
    # f32 products of the same weights: those of a product by int4 or int8 up to rounding errors.
    loss $type --weight-dtype f32 >float
    echo "$expected $(cat float)" | awk '{ d = $1 - $2; exit !($2 > 0 && d < 1e-4 && d > -1e-4) }' || wrong "$type as f32: loss $(cat float), not $expected"
done
awk -v f32="$(moec init small.moe --out fresh >log 2>&1; wc -c <fresh)" -v int8="$(size int8)" -v int4="$(size int4)" \
    'BEGIN { exit !(int4 < 0.7 * int8 && int8 < 0.5 * f32) }' || wrong "sizes: int8 $(size int8), int4 $(size int4)"
moec train small.moe --data text --out tuned --init-from int4 --steps 1 >log 2>&1 || wrong "$(cat log)"

# Errors. A damaged description of a tensor is found.
fails "is already quantized: its weights are int4" moec quantize int4 --type int8 --out nowhere
misused "--type expects int8, fp8, mxfp8, int4, mxfp4, nvfp4 or ternary, got 'int3'" moec quantize run --type int3 --out nowhere
fails "already contains a run" moec quantize run --type int4 --out int8
fails "cannot read missing" moec quantize missing --type int4 --out nowhere
cat >tiny.moe <<'EOF'
use decoder
model tiny = decoder { vocab_size = 256, dim = 8, layers = 1, attention = { heads.q = 1, head_dim = 8 }, ffn.hidden_dim = 8
  train = { batch_size = 2, context_length = 8, steps = 2, eval_interval = 0 } }
EOF
moec train tiny.moe --data text --out tiny >log 2>&1 || wrong "$(cat log)"
fails "no matrix of the model can be int4" moec quantize tiny --type int4 --out nowhere

# A lookup reads tied embeddings in f32: they stay f32.
sed 's/vocab_size = 256/&, tie_embeddings = true/; s/ffn = moe .*/ffn.hidden_dim = 128/; s/model small/model tied/' small.moe >tied.moe
moec train tied.moe --data text --out tied >log 2>&1 && moec quantize tied --type int4 --out tied4 >log 2>&1 || wrong "$(cat log)"
moec tensors tied4 | grep -q '^embedding  *F32' || wrong "tied: $(moec tensors tied4)"
[ "$(loss tied --weight-dtype int4)" = "$(loss tied4)" ] || wrong "tied: loss $(loss tied4), not $(loss tied --weight-dtype int4)"

# With data: the logits on this data are closer to those of f32 than with the nearest values, also those of experts. Only the errors of
# single products are minimized, so this holds for the median of three seeds.
sed 's/ffn = moe .*/ffn = swiglu { hidden_dim = 128 }/; s/model small/model dense/' small.moe >dense.moe
logits() {
    moec forward "$1" --weights "$2/last.safetensors" --input short --outputs logits --out logits >log 2>&1 || wrong "$(cat log)"
    tail -c +$((9 + $(od -An -tu8 -N8 logits))) logits | od -An -v -tf4 -w4
}
error() { logits "$1" "$2" >expected && logits "$1" "$3" | paste expected - | awk '{ sum += ($1 - $2) ^ 2 } END { print sum / NR }'; }
for spec in small dense; do
    [ $spec = small ] && calibrated='1[2-5]' || calibrated=15
    for seed in 3 2 1; do
        rm -rf $spec nearest calibrated
        moec train $spec.moe --data text --out $spec --seed $seed >log 2>&1 || wrong "$(cat log)"
        moec quantize $spec --type int4 --out nearest >log 2>&1 || wrong "$(cat log)"
        moec quantize $spec --type int4 --data short --out calibrated >log 2>&1 || wrong "$(cat log)"
        grep -qE "in int4, $calibrated for the data" log || wrong "$(cat log)"
        echo "$(error $spec.moe $spec nearest) $(error $spec.moe $spec calibrated)"
    done >errors
    awk '{ print $2 / $1 }' errors | sort -g | sed -n 2p | awk '{ exit !($1 > 0 && $1 < 0.6) }' ||
        wrong "$spec: squared errors of the logits, nearest and calibrated: $(cat errors)"
done

# Another type of the output matrix: in the file, in products and in the freestanding program.
for head in f32 bf16 int8; do
    moec quantize dense --type int4 --head-type $head --out head_$head >log 2>&1 || wrong "$(cat log)"
    moec tensors head_$head | grep -q "^unembedding *$(echo $head | tr a-z A-Z) " || wrong "$head: $(moec tensors head_$head)"
    [ "$(loss head_$head)" = "$(loss dense --weight-dtype int4 --head-dtype $head)" ] || wrong "$head: another loss"
    [ "$(loss head_$head)" != "$(loss nearest)" ] || wrong "$head: the loss with an output matrix in int4"
done
misused "--head-type expects f32, bf16, int8, fp8, mxfp8, int4, mxfp4, nvfp4 or ternary, got 'int2'" moec quantize dense --type int4 --head-type int2 --out nowhere

# Quantized runs in other formats: the same values; Q4_0 in GGUF without a loss. They cannot be resumed.
for run in calibrated int8_dense; do
    [ $run = calibrated ] || moec quantize dense --type int8 --out $run >log 2>&1 || wrong "$(cat log)"
    for format in llama gguf; do
        moec export $run --format $format --out $run.$format >log 2>&1 || wrong "$run: $(cat log)"
        from=$run.$format
        [ $format = llama ] || from=$from/model.gguf
        moec import $from --out $run.$format.back >log 2>&1 || wrong "$run: $(cat log)"
        [ "$(loss $run.$format.back)" = "$(loss $run --weight-dtype f32)" ] || wrong "$run, $format: another loss"
    done
    fails "$run cannot be resumed: its weights are int" moec train dense.moe --data text --out $run --resume --steps 40
done
moec tensors calibrated.gguf/model.gguf | grep -q '^blk.0.attn_q.weight *Q4_0' || wrong "GGUF: $(moec tensors calibrated.gguf/model.gguf)"
misused "--data applies to int4 only" moec quantize dense --type int8 --data text --out nowhere
head -c 20 text >few
fails "one sequence needs 33" moec quantize dense --type int4 --data few --out nowhere

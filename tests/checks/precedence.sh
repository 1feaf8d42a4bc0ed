#!/bin/sh
# Every pair of sources that can set one option, as the table of stdlib/EXPERIMENTS.md lists them: the later one wins, or both
# together are an error. Each row of the table is named here, and each name here is a row.
. "$(dirname "$0")/../begin.sh"
set +e
export MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
table=$PWD/stdlib/EXPERIMENTS.md
cat stdlib/*.moe >"$work/text"
cd "$work" || exit 1
cat >p.moe <<'SPEC'
use decoder

model small = decoder {
  dim = 16, layers = 1, attention.heads.q = 2, ffn.hidden_dim = 16
  train = { batch_size = 2, context_length = 16, steps = 3, seed = 7 }
}
model derived = small { dim = 24, train.steps = 4 }

experiment fixed   { baseline = small, vary ffn.hidden_dim = [16, 24], train = { steps = 5 } }
experiment varied  { baseline = small, vary attention.gate = [none, { at = sdpa }] }
experiment named   { baseline = small, variants = { wide = { ffn.hidden_dim = 32 } } }
experiment tuned   { baseline = small, tune train.lr = [1e-3, 2e-3] }
experiment matched { baseline = small, vary attention.gate = [none, { at = sdpa }], match params by ffn.hidden_dim }
experiment spent   { baseline = small, vary ffn.hidden_dim = [16, 24], budget = { steps = 6 } }
SPEC

# row TEXT: the next lines test the table row that begins with TEXT.
row() {
    grep -qF -- "| $1 |" "$table" || wrong "no row '$1' in the table of $table"
    echo "$1" >>rows
}

# steps EXPECTED COMMAND...: the command trains EXPECTED steps.
steps() {
    expected=$1
    shift
    rm -rf run
    "$@" --data text --out run >log 2>&1 || wrong "$*: $(cat log)"
    last=$(tail -1 "$(find run -name log.jsonl | head -1)" | sed 's/.*"step":\([0-9]*\).*/\1/')
    [ "$last" = "$expected" ] || wrong "$*: $last steps, expected $expected"
}

# width EXPECTED OPERAND...: the width of the model.
width() {
    expected=$1
    shift
    moec dump "$@" --after simplify >log 2>&1 || wrong "$*: $(cat log)"
    grep -qx "  axis d = $expected" log || wrong "$*: the width is not $expected: $(grep 'axis d' log)"
}

# plan PATTERN ARGUMENTS...: the plan of the sweep matches.
plan() {
    pattern=$1
    shift
    moec sweep "$@" --dry-run >log 2>&1 || wrong "sweep $*: $(cat log)"
    grep -qE -- "$pattern" log || wrong "sweep $*: no '$pattern': $(cat log)"
}

# refused CODE TEXT COMMAND...: the command ends with the code and prints TEXT.
refused() {
    code=$1 text=$2
    shift 2
    "$@" >log 2>&1
    found=$?
    [ $found = "$code" ] || wrong "$*: exit code $found, expected $code: $(cat log)"
    grep -qF -- "$text" log || wrong "$*: no '$text': $(cat log)"
}

both() { refused 1 "the experiment both set" moec sweep "$@" --dry-run; }

row 'a layer of `stdlib/` < the model of the spec'
width 16 p.moe:small
steps 3 moec train p.moe:small
row 'a base model < the model that derives from it'
width 24 p.moe:derived
steps 4 moec train p.moe:derived
row 'the model < `--set`'
width 32 p.moe:derived --set dim=32
steps 2 moec train p.moe:small --set train.steps=2
steps 2 moec train p.moe:small --set 'train={steps=2}'
row 'an earlier `--set` < a later `--set`'
steps 2 moec train p.moe:small --set train.steps=9 --set train.steps=2
row 'the model < a flag such as `--steps`, `--seed`, `--batch-size`'
steps 2 moec train p.moe:small --steps 2
sets() { # EXPECTED ARGUMENTS...: `moec diff` of the model and the same with these flags prints EXPECTED
    expected=$1
    shift
    moec train p.moe:small --data text --out flagged --steps 0 "$@" >log 2>&1 || wrong "train $*: $(cat log)"
    moec diff p.moe:small flagged >log 2>&1
    rm -r flagged
    grep -qE "^ +${expected% = *} .* -> ${expected#* = }\$" log || wrong "$*: no '$expected': $(cat log)"
}
sets 'train.batch_size = 3' -b 3
sets 'train.context_length = 8' --context-length 8
sets 'train.lr = 0.5' --lr 0.5
sets 'train.precision = bf16' --precision bf16
moec train p.moe:small --data text --out seeded --seed 9 >log 2>&1 && grep -q '"seed": 9' seeded/run.json || wrong "--seed has no effect"
moec emit seeded --out emitted -c 32 >log 2>&1 && grep -q '\b32\b' emitted/program.c || wrong "--context has no effect"
row '`--set` < a flag for the same option'
steps 2 moec train p.moe:small --steps 2 --set train.steps=3
steps 2 moec train p.moe:small --set 'train = { steps = 3 }' --steps=2
steps 2 moec sweep p.moe:named --steps 2 --set train.steps=9
sets 'train.batch_size = 3' -b 3 --set train.batch_size=4
sets 'train.lr = 0.5' --set train.lr=0.1 --lr 0.5
moec train p.moe:small --data text --out both --seed 2 --set train.seed=3 >log 2>&1 && grep -q '"seed": 2' both/run.json || wrong "--set train.seed wins over --seed"
moec emit p.moe:small --out longer -c 32 --set train.context_length=8 >log 2>&1 && grep -q '\b32\b' longer/program.c || wrong "--set train.context_length wins over -c: $(cat log)"
moec verify p.moe:small -b 1 -c 4 --set train.batch_size=8 --set train.context_length=8 >log 2>&1 || wrong "$(cat log)"
grep -q 'batch 1, context 4' log || wrong "--set wins over -b and -c of verify: $(cat log)"
row '`--vary` of `coordcheck` and `--set` of the same option or of `train.schedule`'
refused 2 "the check sets the options" moec coordcheck p.moe:small --vary dim=16,32 --set dim=24
refused 2 "the check sets the options" moec coordcheck p.moe:small --vary dim=16,32 --set train.schedule=cosine

row 'the base < `train = { ... }` of the experiment'
steps 5 moec sweep p.moe:fixed
row '`train = { ... }` of the experiment < `--set`'
steps 2 moec sweep p.moe:fixed --set train.steps=2
steps 2 moec sweep p.moe:fixed --set 'train={steps=2}'
plan 'train.steps=2$' p.moe:fixed --set train.steps=2
row 'the base, `train = { ... }` < `vary`, `variants`, `tune`'
plan 'ffn.hidden_dim=24' p.moe:fixed
plan 'ffn.hidden_dim=32' p.moe:named
plan 'train.lr=2e-3' p.moe:tuned
row '`vary`, `variants` or `tune`, and `--set` of the same option'
both p.moe:fixed --set ffn.hidden_dim=40
both p.moe:fixed --set 'ffn={hidden=40}'
both p.moe:varied --set attention.gate.at=v
both p.moe:varied --set 'attention={gate={at=v}}'
both p.moe:named --set ffn.hidden_dim=40
both p.moe:tuned --set train.lr=1e-2
plan 'hidden_dim_24' p.moe:fixed --set ffn=swiglu
row 'the base < `match`, for variants other than the base'
plan 'base +[0-9.]+ k ' p.moe:matched
sed -n 's/^  base *\([0-9.]* k\) .*/\1/p' log >plain
plan 'ffn.hidden_dim=' p.moe:matched --set ffn.hidden_dim=40
sed -n 's/^  base *\([0-9.]* k\) .*/\1/p' log | cmp -s - plain && wrong "--set does not change the size of the base"
row 'the base < `budget`'
steps 6 moec sweep p.moe:spent
row '`budget` and `--set train.steps`'
both p.moe:spent --set train.steps=2
row '`train.seed` of the base < `seeds`'
rm -rf run
moec sweep p.moe:varied --data text --out run >log 2>&1 || wrong "$(cat log)"
grep -q '"seed": 1,' run/base/seed_1/run.json || wrong "a run of the sweep has another seed: $(cat run/base/seed_1/run.json)"
row '`seeds` and `--set train.seed`'
both p.moe:varied --set train.seed=3
row 'two entries of one experiment for the same option'
for entries in 'vary train.steps = [1, 2], train = { steps = 3 }' 'budget = { steps = 3 }, train = { steps = 3 }' \
    'vary dim = [16], tune dim = [16]' 'vary dim = [16], match params by dim'; do
    printf 'use p\nexperiment twice { base = small, vary ffn.hidden_dim = [16], %s }\n' "$entries" >twice.moe
    refused 1 "duplicate option" moec sweep twice.moe --dry-run
done
for entries in 'vary train.seed = [1, 2]' 'train = { seed = 3 }' 'tune train.seed = [1, 2]'; do
    printf 'use p\nexperiment twice { base = small, %s }\n' "$entries" >twice.moe
    refused 1 "an experiment sets train.seed itself" moec sweep twice.moe --dry-run
done

row 'the spec in a run, with its `--set` < `--set` of the next command'
rm -rf run
moec train p.moe:small --data text --out run --set train.batch_size=3 --set train.steps=2 >log 2>&1 || wrong "$(cat log)"
moec diff run p.moe:small >log 2>&1
grep -q 'train.batch_size .*3 -> 2' log || wrong "the run has lost its --set: $(cat log)"
moec diff run p.moe:small --set train.batch_size=5 >log 2>&1
grep -q 'train.batch_size' log && wrong "--set has no effect on a run: $(cat log)"
row 'the spec in a run < the spec and the options of `train --resume`'
moec train p.moe:small --data text --out run --resume --set train.batch_size=3 --steps 5 >log 2>&1 || wrong "$(cat log)"
tail -1 run/log.jsonl | grep -q '"step":5' || wrong "--steps has no effect on a resumed run: $(tail -1 run/log.jsonl)"
row 'the seed of a run and another `--seed` of `train --resume`'
refused 1 "omit the seed" moec train p.moe:small --data text --out run --resume --set train.batch_size=3 --steps 6 --seed 8
row 'the tokenizer of a run < `--tokenizer`'
for size in 300 290; do
    moec tokenizer train text --vocab-size $size --out $size.json >log 2>&1 || wrong "$(cat log)"
done
moec train p.moe:small --set vocab_size=300 --tokenizer 300.json --data text --out worded >log 2>&1 || wrong "$(cat log)"
refused 1 "no.json" moec generate worded --tokenizer no.json --prompt x -n 2
moec train p.moe:small --set vocab_size=300 --tokenizer 290.json --init-from worded --data text --out other >log 2>&1 || wrong "$(cat log)"
[ "$(sed -n 's/.*"data_tokens": \([0-9]*\).*/\1/p' worded/run.json)" != "$(sed -n 's/.*"data_tokens": \([0-9]*\).*/\1/p' other/run.json)" ] ||
    wrong "--tokenizer has no effect where --init-from has a tokenizer"

row 'the standard library < `MOEC_PATH` < the directory of the spec'
mkdir near far
printf 'use norms\nuse p\nmodel one = small { }\n' >near/one.moe
cp p.moe far/p.moe
echo 'this is no spec' >far/norms.moe
MOEC_PATH=far refused 1 "far/norms.moe" moec check near/one.moe
printf 'layer unused(x[s, d]) -> y[s, d] { y = x }\n' >near/norms.moe
MOEC_PATH=far moec check near/one.moe >log 2>&1
grep -q 'far/norms.moe' log && wrong "MOEC_PATH wins over the folder of the spec: $(cat log)"
row '`HOME` < `XDG_CACHE_HOME`'
mkdir home cache
HOME=$PWD/home XDG_CACHE_HOME=$PWD/cache moec train p.moe:small --data text --out cached >log 2>&1 || wrong "$(cat log)"
[ -n "$(ls cache/moec)" ] && [ -z "$(ls -A home)" ] || wrong "the cache is in the wrong folder"
row '`--jobs` < `OMP_NUM_THREADS`'
printf '#!/bin/sh\necho "threads=$OMP_NUM_THREADS" >>"%s/compiler"\nexec cc "$@"\n' "$PWD" >mycc
chmod +x mycc
for threads in "" 3; do
    rm -rf run compiler
    if [ -n "$threads" ]; then export OMP_NUM_THREADS=$threads; else unset OMP_NUM_THREADS; fi
    MOEC_CC=$PWD/mycc XDG_CACHE_HOME=$PWD/cache$threads moec sweep p.moe:varied --data text --out run --jobs 2 >log 2>&1 || wrong "$(cat log)"
    grep -q "threads=${threads:-[0-9]}" compiler || wrong "--jobs and OMP_NUM_THREADS=$threads: $(cat compiler)"
done
export OMP_NUM_THREADS=1
row '`OMP_NUM_THREADS` < `--threads`'
rm compiler
MOEC_CC=$PWD/mycc moec train p.moe:small --data text --out threaded --no-cache --threads 2 >log 2>&1 || wrong "$(cat log)"
grep -q threads=2 compiler || wrong "--threads has no effect: $(cat compiler)"
row '`cc` < `MOEC_CC`'
rm compiler
MOEC_CC=$PWD/mycc moec train p.moe:small --data text --out compiled --no-cache >log 2>&1 || wrong "$(cat log)"
grep -q threads=1 compiler || wrong "MOEC_CC has no effect"

# Each row of the table has its test.
sed -n '/^## Precedence/,/^## Machines/p' "$table" | sed -n 's/^| \(.*[^ ]\) | [^|]* |$/\1/p' | grep -vE '^(sources|-+)' >listed
sort -u rows >tested
sort -u listed | diff - tested || wrong "rows without a test, or tests without a row"
exit 0

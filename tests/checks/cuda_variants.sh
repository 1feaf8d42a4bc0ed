#!/bin/sh
# Kernel variants on a simulated device of compute capability 9.0: all are tried at their first launch and agree. The fastest
# one is launched from then on. A variant with different results is reported and never launched.
. "$(dirname "$0")/../begin.sh"
export MOEC_CUDA="$simulator" MOEC_CFLAGS=-O0
head -c 600 README.md >"$work/text"

# train NAME WORDS [OPTION...]: three steps, the third from a CUDA graph
train() {
    name=$1 words=$2
    shift 2
    MOEC_SIM=$words moec train models/tiny.moe:tiny_moe --device cuda --data "$work/text" --out "$work/$name" --steps 3 \
        --set dim=80 --set layers=1 --set ffn.experts=4 --set train.batch_size=2 --set train.context_length=20 --set vocab_size=131 \
        --set train.precision=bf16 "$@" >"$work/$name.out" 2>&1 || { cat "$work/$name.out"; wrong "training $name failed"; }
    # without values that depend on selections close to a tie
    sed 's/"\(val_\)\{0,1\}\(seconds\|balance\|max_expert_load\|expert_load\)\(\.layer\)\{0,1\}":\(\[[^"]*\]\|[^,}]*\)//g; s/[^-+.0-9e]/ /g' "$work/$name/log.jsonl" >"$work/$name.numbers"
}

# same ONE OTHER [LIMIT]: the losses and norms of two runs
same() {
    paste "$work/$1.numbers" "$work/$2.numbers" | awk -v limit="${3:-2e-5}" '
        function off(a, b) { return (a > b ? a - b : b - a) > limit * (a > 0 ? a : -a) }
        { half = NF / 2; for (i = 1; i <= half; i++) if (off($i, $(i + half))) bad = 1 }
        END { exit bad || NR < 3 }'
}

verdicts() { cut -d' ' -f3 "$work"/cache/moec/*.variants | sort -u | tr '\n' ' '; }

train first unchecked
[ ! -e "$work"/cache/moec/*.variants ] || wrong "a device without warpgroups has tried them"

train tried unchecked,hopper
! grep -q ' inf inf$' "$work"/cache/moec/*.variants || wrong "a variant does not agree"
same first tried || wrong "the losses of both variants differ"
! grep -q 'differs from its other' "$work/tried.out" || { cat "$work/tried.out"; exit 1; }
for kernel in product_train rows_by_weight rows_by_rows _across _twice; do
    grep -q "$kernel" "$work"/cache/moec/*.variants || wrong "no $kernel has been tried"
done

# Only the warpgroup variants, with every access checked.
for variant in wgmma wide; do
    MOEC_VARIANT=$variant train "second_$variant" hopper
    same first "second_$variant" || wrong "the variant $variant trains differently"
done
sed -i -E 's/ (mma|wgmma|wide) (.*) inf$/ wgmma \2 inf/; t; s/ (mma|wgmma|wide) / wide /' "$work"/cache/moec/*.variants
[ "$(verdicts)" = "wgmma wide " ] || wrong "tried are $(verdicts)"
train broken unchecked,hopper,wrong
! same first broken || wrong "the second variant was never launched"

# Variants that no timing selects, which would launch each one twelve more times.
export MOEC_CHOICE=first
rm -f "$work"/cache/moec/*.variants
train faulty unchecked,hopper,wrong
same first faulty || wrong "a wrong variant was launched"
! grep -v ' inf inf$' "$work"/cache/moec/*.variants || wrong "a wrong variant agrees"
grep -q 'differs from its other variant and is not used' "$work/faulty.out" || wrong "the wrong variant is not reported"

# A small error everywhere, and results that differ between runs.
rm "$work"/cache/moec/*.variants
train near unchecked,hopper,near
! grep '^product_train' "$work"/cache/moec/*.variants | grep -v ' inf inf$' || wrong "a slightly wrong variant agrees"
rm "$work"/cache/moec/*.variants
train racing unchecked,hopper,races
grep -q 'kernel .* has other results in each run' "$work/racing.out" || { cat "$work/racing.out"; wrong "a race is not found"; }

# Selection by rule: the warpgroup variants after the comparison, apart from the timed selections, the same bits in every cache.
rm "$work"/cache/moec/*.variants
train fixed unchecked,hopper
[ "$(cut -d' ' -f3 "$work"/cache/moec/*.variants | sort -u)" = wgmma ] || wrong "the rule selects $(verdicts)"
rm "$work"/cache/moec/*.variants
train fixed_again unchecked,hopper
cmp "$work/fixed/last.safetensors" "$work/fixed_again/last.safetensors" || wrong "two selections by rule have different bits"
rm "$work"/cache/moec/*.variants

(train stopped unchecked,hopper,stops) >/dev/null && wrong "a device that stops has trained"
grep -q 'kernel .* stopped the device' "$work/stopped.out" && grep -q 'MOEC_WGMMA=off' "$work/stopped.out" ||
    { cat "$work/stopped.out"; wrong "the message lacks the reason of the stop"; }

# Such a kernel is not tried again: each further start stops at another kernel or trains.
grep -c ' trying ' "$work"/cache/moec/*.variants >"$work/count" || wrong "the trial is not stored"
[ "$(cat "$work/count")" = 1 ] || wrong "not exactly one trial is stored"
starts=1
until (train stopped$starts unchecked,hopper,stops) >/dev/null; do
    starts=$((starts + 1))
    [ "$(grep -c ' trying ' "$work"/cache/moec/*.variants)" = $starts ] || wrong "start $starts has tried no other kernel"
    [ $starts -lt 20 ] || wrong "the device never trains"
done
grep -q 'only the first variant of kernel .* is used' "$work/stopped$starts.out" || wrong "an earlier stop is not reported"
same first stopped$starts || wrong "a stopped variant was launched"

# A kernel that never ends: the same, without a call that waits for it.
rm "$work"/cache/moec/*.variants
(train hung unchecked,hopper,hangs) >/dev/null && wrong "a device that hangs has trained"
grep -q 'kernel .* does not end' "$work/hung.out" && ! grep -q 'sim: error' "$work/hung.out" ||
    { cat "$work/hung.out"; wrong "a hanging kernel is not reported"; }
grep -q ' trying ' "$work"/cache/moec/*.variants || wrong "the trial of a hanging kernel is not stored"

rm -f "$work"/cache/moec/*.variants
MOEC_WGMMA=off train off unchecked,hopper,wrong
[ ! -e "$work"/cache/moec/*.variants ] || wrong "MOEC_WGMMA=off has tried them"
same first off || wrong "MOEC_WGMMA=off trains differently"

# A checkpoint records the selected kernels and algorithms. A resumed run selects them again, also if the cache has others.
choices() { head -c 100000 "$work/$1/last.safetensors" | grep -ao '"kernel_choices":"[^}]*}"'; }
rm -f "$work"/cache/moec/*.variants
with_cublaslt "$work/libraries"
(
    export MOEC_CUDA="$work/libraries" MOEC_CHOICE=
    train recorded unchecked,hopper --stop-after 2
    choices recorded >"$work/choices"
    for kind in product variants; do grep -q "$kind" "$work/choices" || wrong "no $kind is recorded"; done
    sed -i 's/ mma / other /; s/ wgmma / mma /; s/ other / wgmma /' "$work"/cache/moec/*.variants
    rm "$work"/cache/moec/*.product
    train recorded unchecked,hopper --resume
    choices recorded | cmp - "$work/choices" || wrong "a resumed run selects other kernels"
    ! grep -q 'were selected for another' "$work/recorded.out" || wrong "the recorded kernels are not found"
    [ ! -e "$work"/cache/moec/*.product ] || wrong "a resumed run measures products again"
    train recorded hopper --resume --steps 4
    [ "$(grep -c 'were selected for another device, driver, library or program' "$work/recorded.out")" = 1 ] ||
        { cat "$work/recorded.out"; wrong "another library is not reported once"; }
)
rm -f "$work"/cache/moec/*.variants

# A driver whose graphs do not support overlapping launches.
train serial unchecked,hopper,serial
same first serial || wrong "serial launches train differently"
grep -q 'kernels of a CUDA graph do not overlap: not supported' "$work/serial.out" || wrong "the missing overlap is not reported"

# A driver that refuses graphs, and no graphs by request: the same kernels, launched one by one.
train captured unchecked,hopper
train direct unchecked,hopper,direct
[ "$(grep -c 'cannot create a CUDA graph: not supported; kernels are launched one by one' "$work/direct.out")" = 1 ] ||
    { cat "$work/direct.out"; wrong "refused graphs are not reported once"; }
MOEC_GRAPH=off train disabled unchecked,hopper,direct
! grep 'cannot create a CUDA graph' "$work/disabled.out" || wrong "MOEC_GRAPH=off has tried a graph"
grep -q 'no CUDA graphs' "$work/disabled.out" || wrong "the start line lacks the graphs"
for run in direct disabled; do
    cmp "$work/captured/last.safetensors" "$work/$run/last.safetensors" || wrong "$run launches have other results"
done

# Attention: its variants have different grids and round the weights at different points.
attends() { train "$@" --set train.context_length=70 --set train.batch_size=1; }
attends timed unchecked,hopper
grep -q '^attend_rounded_train' "$work"/cache/moec/*.variants || wrong "no attention has been tried"
! grep '^attend.* inf inf$' "$work"/cache/moec/*.variants || wrong "a variant of attention does not agree"
sed -i 's/ wgmma \| wide / mma /' "$work"/cache/moec/*.variants
attends rounded unchecked,hopper
sed -i '/^attend/s/ mma / wgmma /' "$work"/cache/moec/*.variants
attends grouped unchecked,hopper
same rounded grouped 2e-3 || wrong "attention by warpgroups trains differently"
! same rounded grouped 1e-9 || wrong "attention by warpgroups was not launched"
rm "$work"/cache/moec/*.variants
attends refused unchecked,hopper,wrong
! grep '^attend' "$work"/cache/moec/*.variants | grep -v ' inf inf$' || wrong "a wrong variant of attention agrees"

# A requested variant runs even if it disagrees.
rm "$work"/cache/moec/*.variants
MOEC_VARIANT=mma train forced_first unchecked,hopper,wrong
same first forced_first || wrong "another variant than mma was launched"
MOEC_VARIANT=wgmma train forced unchecked,hopper,wrong
! same first forced || wrong "wgmma was not launched"
[ ! -e "$work"/cache/moec/*.variants ] || wrong "a selection was stored without a measurement"
MOEC_VARIANT=fast train unknown unchecked,hopper
grep -q 'MOEC_VARIANT=fast is not mma, wgmma or wide' "$work/unknown.out" || wrong "an unknown variant is not reported"

# verify reports how many kernels ran in the requested variant, and fails if there are none.
compare() {
    MOEC_VARIANT=$1 MOEC_SIM=$2 moec verify models/tiny.moe:tiny_moe --device cuda -b 1 -c 20 --set dim=80 --set layers=1 --set ffn.experts=4 \
        --set vocab_size=131 --set train.precision=bf16 --json
}
compare wgmma unchecked,hopper >"$work/wgmma.json" || { cat "$work/wgmma.json"; wrong "the variant wgmma disagrees"; }
grep -q '"name": "wgmma"' "$work/wgmma.json" && grep -qE '"launched": [1-9]' "$work/wgmma.json" ||
    { cat "$work/wgmma.json"; wrong "the launched variants are not reported"; }
! compare wide unchecked >"$work/wide.json" || wrong "verify passes without the requested variant"
grep -q '"launched": 0' "$work/wide.json" && grep -qE '"missing": [1-9]' "$work/wide.json" || { cat "$work/wide.json"; wrong "missing variants are not counted"; }

# A first variant with more than 48 KB of shared memory is tried, too.
rm -f "$work"/cache/moec/*.variants
MOEC_SIM=unchecked,hopper moec verify models/gpt2.moe:gpt2 --device cuda -b 1 -c 200 --set layers=1 --set dim=64 --set vocab_size=100 \
    --set attention.heads.q=1 --set attention.head_dim=64 --set ffn.hidden_dim=64 --set train.precision=bf16 >"$work/large" 2>&1 ||
    { cat "$work/large"; wrong "a variant with much shared memory cannot be tried"; }
grep -qE '^attend_rounded_train_[0-9]+ [0-9a-f]+ (mma|wgmma) [0-9.]+ [0-9.]+ inf' "$work"/cache/moec/*.variants ||
    { cat "$work"/cache/moec/*.variants; wrong "attention was not tried"; }

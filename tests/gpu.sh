#!/bin/sh
# tests/gpu.sh [-o FOLDER] [STAGE...]: all tests and measurements on a machine with a GPU. The stages, the most important first:
#
#   units    every tile of the products, attention and random programs against sums in double precision
#   first    one model of each kind in f32 and bf16, and with every kernel variant (mma, wgmma, wide) at sizes that have it
#   bits     training with and without overlapping launches, each with an empty cache and kernels chosen by rule: equal
#            checkpoints; an emitted program through nvcc
#   nccl     two processes on one GPU, as if on two hosts: the checkpoint of one process; needs root and NCCL
#   memory   the same comparisons under compute-sanitizer, if it is installed
#   models   every small model against its definition, f32 and bf16
#   kernels  the speed of every kernel of the models with performance targets, with a roofline
#   steps    training steps and decoding compared with PyTorch
#   heads    few key heads compared with many, at several prefix lengths
#   large    models of 1.5 B parameters compared with PyTorch; with and without a gate
#   start    time from a spec to the first step, cold and from the cache
#
# A program that fails is run again with more and more parts disabled, and the result names the first part without which it agrees.
#
# Without a STAGE: all of them in about twenty minutes. Each stage has a time limit; a stage that exceeds it is stopped and
# reported. Results are appended to FOLDER/results.jsonl at once, one JSON object per line. Each stage rewrites FOLDER/report.md
# and report.json if Python is installed (FOLDER: tests/gpu-results/DATE). A repeated stage adds to existing results. The report
# omits the speed of a precision in which an output disagrees. tests/gpu-results/README.md lists the first results to read.
#
#   DEVICE=cuda:1        another device
#   MODELS="WORDS"       only those small models, see tests/small_models.sh
#   CLOCK_models=600     another time limit for a stage, in seconds
#   PREFIXES="2048"      other prefix lengths of the stage heads
#   PYTHON=...           another Python, for example one with PyTorch
#   QUICK=1              tiny sizes, to test this script: MOEC_CUDA=build/libmoec_sim.so QUICK=1 MODELS=even tests/gpu.sh -o
# /tmp/x
set -u
cd "$(dirname "$0")/.." || exit 2
self=$PWD/tests/gpu.sh
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
PATH=$BUILD:$PATH
DEVICE=${DEVICE:-cuda}
PYTHON=${PYTHON:-python3}
QUICK=${QUICK:-}
folder=tests/gpu-results/$(date -u +%Y-%m-%d)
inside=
while getopts o:i: option; do
    case $option in
    o) folder=$OPTARG ;;
    i) inside=$OPTARG ;; # this is the process of one stage
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
case $folder in /*) ;; *) folder=$PWD/$folder ;; esac
[ -x "$BUILD/moec" ] || { echo "tests/gpu.sh: no $BUILD/moec; run make first" >&2; exit 2; }
# NVRTC and cuBLASLt may exist only among PyTorch's packages, and nvcc outside of the path.
wheels=$("$PYTHON" -c 'import glob, sys
print(":".join(f for p in sys.path if p for n in ("cu1?", "cuda_nvrtc", "cublas", "nccl") for f in glob.glob(p + "/nvidia/" + n + "/lib")))' 2>/dev/null)
[ -z "$wheels" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels"
[ ! -d "$BUILD/lib" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$BUILD/lib"
command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
export PATH BUILD DEVICE QUICK

# ---- results ----

# text FILE: its beginning and its end as a JSON string on one line.
text() { printf '"%s"' "$({ head -c 700 "$1" && tail -c +701 "$1" | tail -c 1300; } | tr '\n' ' ' | tr -d '\000-\037' | sed 's/ *$//; s/\\/\\\\/g; s/"/\\"/g')"; }
# record KIND FIELDS: appends a line of results. One write per line: parallel processes do not mix their lines.
record() { printf '{"kind": "%s", "stage": "%s", %s}\n' "$1" "$inside" "$2" >>"$folder/results.jsonl"; }
# result FILE LOG CODE: the JSON output of a command, or the reason that it is missing.
result() {
    if [ -s "$1" ]; then
        printf '"code": %s, "result": %s' "$3" "$(tr -d '\n' <"$1")"
    else
        [ -s "$2" ] || echo "out of time" >"$2"
        printf '"code": %s, "result": null, "why": %s' "$3" "$(text "$2")"
    fi
}

# ---- measurements of the stages ----

# The simulator is slow, and slower in parallel with other tests.
patience=${QUICK:+8}
patience=${patience:-1}
# within SECONDS COMMAND...: runs at most that long, and at most as long as the stage. A separate process group would outlive
# the stage.
within() {
    seconds=$(($1 * patience)) left=$((deadline - $(date +%s)))
    shift
    [ $left -lt $seconds ] && seconds=$left
    [ $seconds -gt 0 ] || return 124
    timeout -k 5 $seconds "$@"
}

# verify_with SETTING MODEL [OPTION...]: compares one program with its definition; SETTING is NAME=VALUE.
verify_with() {
    setting=$1
    shift
    within 60 env "$setting" moec verify "$@" --device "$DEVICE" --json
}

# compare_one PRECISION VARIANT MODEL [OPTION...]: the same, as a result. After a failure, it names the first part without
# which the program agrees, from the newest to the oldest.
compare_one() {
    precision=$1 variant=$2
    shift 2
    set -- "$@" --set train.precision="$precision"
    to=$work/$(echo "$1.$precision.$variant" | tr '/:' '__')
    code=0 agrees_with=null
    verify_with MOEC_VARIANT="$(echo "$variant" | sed 's/^chosen$//')" "$@" >"$to.json" 2>"$to.log" || code=$?
    if [ $code != 0 ] && [ "$variant" = chosen ]; then
        for part in MOEC_WGMMA MOEC_OVERLAP MOEC_GRAPH MOEC_BLAS; do
            verify_with $part=off "$@" >/dev/null 2>&1 && agrees_with="\"$part=off\"" && break
        done
    fi
    record compare "\"model\": \"${1##*/}\", \"precision\": \"$precision\", \"variant\": \"$variant\", \"agrees_with\": $agrees_with, $(result "$to.json" "$to.log" $code)"
}

# bench PRECISION NAME SECONDS SPEC [OPTION...]
bench() {
    precision=$1 name=$2 most=$3
    shift 3
    echo "  $name, $precision" >&2
    to=$work/bench
    code=0
    within "$most" moec bench "$@" --set train.precision="$precision" --device "$DEVICE" --json ${QUICK:+--quick} \
        >"$to.json" 2>"$to.log" || code=$?
    record speed "\"name\": \"$name\", \"precision\": \"$precision\", $(result "$to.json" "$to.log" $code)"
}

# unit NAME PROGRAM [ARGUMENT...]: a test program on the real driver.
unit() {
    name=$1
    shift
    code=0
    within 60 "$@" >"$work/unit.$name" 2>&1 || code=$?
    why=null
    [ $code = 0 ] || why=$(grep -v '^\[\|^ *$' "$work/unit.$name" >"$work/unit.$name.why"; text "$work/unit.$name.why")
    record unit "\"name\": \"$name\", \"code\": $code, \"why\": $why"
}

# Checkpoints of a short training, with and without overlapping launches, each with its own empty cache.
check_bits() {
    head -c 3000 README.md >"$work/read"
    steps=${QUICK:+4} same=true why="${steps:-20} steps, overlap on and off, two empty caches each: equal checkpoints"
    for run in on.1 on.2 off.1 off.2; do
        [ -z "$QUICK" ] || [ "${run#*.}" = 1 ] || continue
        within 60 env MOEC_OVERLAP="${run%.*}" MOEC_CHOICE=first XDG_CACHE_HOME="$work/bits.$run" \
            moec train models/tiny.moe:tiny_moe --device "$DEVICE" --data "$work/read" --out "$work/$run" \
            --steps "${steps:-20}" --set train.context_length=16 --set train.precision=bf16 \
            ${QUICK:+--set dim=16 --set layers=1 --set train.batch_size=1} >"$work/$run.log" 2>&1 ||
            { record determinism "\"same\": false, \"why\": $(tail -n 1 "$work/$run.log" >"$work/why" && text "$work/why")"; return; }
        cmp -s "$work/on.1/last.safetensors" "$work/$run/last.safetensors" || { same=false why="run $run differs from run on.1"; }
    done
    # Kernels chosen by time: the first run fills the cache, and the others have its choices.
    [ -n "$QUICK" ] || for run in fill on off; do
        within 60 env MOEC_OVERLAP="${run#fill}" XDG_CACHE_HOME="$work/bits.time" \
            moec train models/tiny.moe:tiny_moe --device "$DEVICE" --data "$work/read" --out "$work/time.$run" --steps 20 \
            --set train.context_length=16 --set train.precision=bf16 >"$work/$run.log" 2>&1 || { same=false why="the run $run with kernels chosen by time failed"; }
    done
    [ -n "$QUICK" ] || cmp -s "$work/time.on/last.safetensors" "$work/time.off/last.safetensors" ||
        { same=false why="kernels chosen by time: overlapping launches differ"; }
    record determinism "\"same\": $same, \"why\": \"$why\""
}

# An emitted folder through nvcc, and its text compared with that of moec generate. In f32: rounding to bf16 makes equal logits
# likely, and the order of the sums then decides.
emitted() {
    [ -z "$QUICK" ] || { record emitted '"same": null, "why": "a trial without a GPU"'; return; }
    command -v nvcc >/dev/null || { record emitted '"same": null, "why": "no nvcc"'; return; }
    {
        moec train models/tiny.moe:tiny_moe --device "$DEVICE" --data "$work/read" --out "$work/f32" --steps 100 -c 16 -q &&
            moec emit --force "$work/f32" --target cuda --mode decode --out "$work/emitted" &&
            make -j4 -C "$work/emitted" && (cd "$work/emitted" && ./generate --prompt "In the" --tokens 8 --temperature 0) >"$work/theirs" &&
            moec generate "$work/f32" --device "$DEVICE" --prompt "In the" -n 8 --temperature 0 >"$work/ours"
    } >"$work/emit.log" 2>&1 || { record emitted "\"same\": false, \"why\": $(tail -n 1 "$work/emit.log" >"$work/why" && text "$work/why")"; return; }
    same=false
    cmp -s "$work/theirs" "$work/ours" && same=true
    cat "$work/ours" >>"$work/theirs"
    record emitted "\"same\": $same, \"why\": $(text "$work/theirs")"
}

if [ -n "$QUICK" ]; then
    tiny="--set dim=32 --set vocab_size=64 --set train.context_length=16 --set train.batch_size=1"
    small="$tiny --set layers=1 --set attention.head_dim=8 --set ffn.hidden_dim=32"
    mix="$tiny --set ffn.experts=4 --set ffn.top_k=2 --set ffn.expert.hidden_dim=16"
    prefixes="16"
    dense="$small --set attention.heads.q=1" routed="$mix --set dim=80 -c 16 -b 1"
else
    tiny="" small="" mix=""
    prefixes="${PREFIXES:-2048 4096 16384 32768 65536 131072}"
    # Sizes that have every variant, partial tiles, and more stages than a ring has slots.
    dense="--set layers=1 --set dim=128 --set vocab_size=300 --set attention.heads.q=2 --set attention.head_dim=64 --set ffn.hidden_dim=512 -c 200 -b 1"
    routed="--set dim=192 --set ffn.experts=2 --set ffn.top_k=1 --set ffn.expert.hidden_dim=328 -c 300 -b 1"
fi

# each STAGE WORDS...: in parallel, one line of standard input per process of this script.
each() {
    # shellcheck disable=SC2016 # for the shell inside
    xargs -P "${JOBS:-$(nproc)}" -I '{}' "$self" -o "$folder" -i "$1" "$2" '{}'
}

# The unit tests need the folder tests/unit of a build or of the kit.
stage_units() {
    units=$BUILD/tests/unit
    [ -x "$units/test_products" ] || { record unit '"name": "all", "code": 1, "why": "no unit tests in the build folder"'; return; }
    most=999
    [ -z "$QUICK" ] || most=2
    {
        for kernel in $("$units/test_products" --list | head -n $most); do echo "products.$kernel $units/test_products $kernel"; done
        [ -n "$QUICK" ] || for model in "masks train train.precision=bf16" "masks train train.precision=f32" "groups train train.precision=bf16" \
            "widths train train.precision=bf16 train.context_length=33" "steps decode train.precision=bf16"; do
            echo "attention.$(echo "$model" | tr ' =' '__') $units/test_emit_cuda tests/attention.moe $model"
            case $model in *bf16) echo "wgmma.$(echo "$model" | tr ' =' '__') env VARIANT=_wgmma $units/test_emit_cuda tests/attention.moe $model" ;; esac
        done
        [ -n "$QUICK" ] || echo "random env MOEC_PROGRAMS=16 $units/test_emit_cuda"
    } | grep -v 'wgmma.steps' | each units unit
}

stage_first() {
    for variant in chosen mma wgmma wide; do
        echo "bf16 $variant tests/gpu.moe:moe_layer $routed"
        [ $variant = wide ] || echo "bf16 $variant models/gpt2.moe:gpt2 $dense"
        # Attention with several blocks per multiprocessor needs a multiple of 128 tokens.
        [ -n "$QUICK" ] || echo "bf16 $variant models/gpt2.moe:gpt2 $dense -c 256"
    done >"$work/all"
    for model in models/tiny.moe:tiny models/tiny.moe:tiny_moe; do
        echo "f32 chosen $model --set dim=64 --set layers=1 ${QUICK:+--set vocab_size=64 --set train.batch_size=1 -c 16}"
    done >>"$work/all"
    [ -n "$QUICK" ] || printf 'f32 chosen %s\n' "models/gpt2.moe:gpt2 $dense" "tests/gpu.moe:moe_layer $routed" >>"$work/all"
    [ -z "$QUICK" ] || sed -i '/ wide /d; / mma /d; / wgmma .*gpt2/d' "$work/all"
    each first one <"$work/all"
}

stage_bits() {
    check_bits
    emitted
}

# NCCL refuses a GPU for two processes of one host, so each process has its own host name. The processes communicate by
# sockets and wait for the GPU in turn: this is a test of the results, not of the speed.
stage_nccl() {
    library=${MOEC_NCCL:-}
    for path in $(echo "$wheels" | tr ':' ' '); do
        [ -n "$library" ] || [ ! -e "$path/libnccl.so.2" ] || library=$path/libnccl.so.2
    done
    [ -n "$library" ] || { record nccl '"same": null, "why": "no NCCL; MOEC_NCCL=PATH sets it"'; return; }
    unshare -u true 2>/dev/null || { record nccl '"same": null, "why": "host names need root"'; return; }
    head -c 20000 README.md >"$work/read"
    set -- moec train models/tiny.moe:tiny --device "$DEVICE" --data "$work/read" --steps 20 --set train.batch_size=2 \
        --set train.gradient_accumulation_steps=4 --set train.reduction_lanes=4 ${QUICK:+--set dim=16 --set layers=1 -c 16}
    export MOEC_NCCL="$library" NCCL_SOCKET_IFNAME=lo MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) WORLD_SIZE=2
    for rank in 0 1; do
        # shellcheck disable=SC2016 # for the shell inside
        RANK=$rank LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 within 60 unshare -u sh -c 'hostname "node$RANK" && exec "$@"' sh "$@" --out "$work/nccl.two" \
            >"$work/nccl.$rank.log" 2>&1 &
    done
    wait
    unset WORLD_SIZE
    within 60 "$@" --out "$work/nccl.one" >"$work/nccl.log" 2>&1
    same=false why="$work/nccl.0.log"
    cmp -s "$work/nccl.one/last.safetensors" "$work/nccl.two/last.safetensors" && same=true why=$work/nccl.log
    record nccl "\"same\": $same, \"why\": $(tail -n 3 "$why" >"$work/why" && text "$work/why")"
}

# One comparison per tool; a note if the tool is missing.
# shellcheck disable=SC2086 # several words
stage_memory() {
    command -v compute-sanitizer >/dev/null || { record memory '"tool": "none", "code": 0, "why": "compute-sanitizer is not installed"'; return; }
    for tool in memcheck synccheck racecheck; do
        code=0
        within 90 compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 5 moec verify models/gpt2.moe:gpt2 $dense -c 100 \
            --device "$DEVICE" --set train.precision=bf16 >"$work/memory" 2>&1 || code=$?
        record memory "\"tool\": \"$tool\", \"code\": $code, \"why\": $(tail -n 3 "$work/memory" >"$work/why" && text "$work/why")"
    done
}

stage_models() {
    # shellcheck disable=SC2086 # several words
    tests/small_models.sh ${MODELS:-} >"$work/models"
    while read -r model; do
        for precision in f32 bf16; do
            # shellcheck disable=SC2086 # a model and its options
            echo "$precision chosen $model"
        done
    done <"$work/models" >"$work/all"
    record wanted "\"count\": $(wc -l <"$work/all")"
    each models one <"$work/all"
}

# The models with performance targets, each with all its kernels.
# shellcheck disable=SC2086 # several words
stage_kernels() {
    bench bf16 "GPT-2 124M, training" 90 models/gpt2.moe:gpt2 --kernels ${small:---set train.batch_size=16}
    bench bf16 "mixture of experts" 70 tests/gpu.moe:moe_layer --kernels $mix
    bench bf16 "238M, decoding" 40 models/gpt2.moe:wide --kernels --mode decode $small
    bench bf16 "1.5B, decoding" 70 models/sigma.moe:standard_1b5 --kernels --mode decode $small
    [ -n "$QUICK" ] || for length in 2048 4096; do
        bench bf16 "six recurrences, $length tokens" 60 tests/gpu.moe:recurrences --kernels -c $length
        bench bf16 "six layers of attention, $length tokens" 40 tests/gpu.moe:attentions -c $length
    done
}

has_torch() { "$PYTHON" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null; }

# torch PART...: the time of PyTorch.
torch() {
    if ! has_torch; then
        record torch_log '"why": "PyTorch is not installed."'
        return
    fi
    "$PYTHON" tests/gpu_torch.py "$work" ${QUICK:+quick} "$@" 2>"$work/torch.log" | while read -r row; do
        case $row in '{'*) record torch "\"result\": $row" ;; esac
    done
    [ ! -s "$work/torch.log" ] || record torch_log "\"why\": $(tail -n 1 "$work/torch.log" >"$work/why" && text "$work/why")"
}

# PyTorch reads our weights. Its loss is compared with ours before the measurement.
weights_for_torch() {
    has_torch || return 0
    head -c 1040 README.md >"$work/text"
    moec init --force models/gpt2.moe:gpt2_small --seed 1 --out "$work/weights" >/dev/null &&
        moec forward models/gpt2.moe:gpt2_small --weights "$work/weights" --input "$work/text" --outputs loss --out "$work/loss" \
            --device "$DEVICE" >/dev/null
}

# shellcheck disable=SC2086 # several words
stage_steps() {
    weights_for_torch
    torch gpt2 attention decode mixture flexible
    bench bf16 "GPT-2 124M, 8 x 1024" 60 models/gpt2.moe:gpt2 ${small:---set train.batch_size=8}
    bench f32 "GPT-2 124M, training" 70 models/gpt2.moe:gpt2 $small
    bench f32 "238M, decoding" 40 models/gpt2.moe:wide --mode decode $small
    bench bf16 "238M, decoding 64 texts" 40 models/gpt2.moe:wide --mode decode -b 64 $small
}

# Layers of Sigma 1.5B with the heads of its paper, and with those of the comparison in the paper.
# shellcheck disable=SC2086 # several words
stage_heads() {
    few="--set vocab_size=256 --set layers=4"
    for prefix in $prefixes; do
        for model in sigma_1b5 standard_1b5; do
            bench bf16 "$model after $prefix" 40 models/sigma.moe:$model --kernels --mode decode --prefix-length $prefix $few $small
        done
    done
}

# The models with and without a gate have equal parameters: the feed-forward network is smaller with a gate.
# shellcheck disable=SC2086 # several words
stage_large() {
    weights_for_torch
    plain="--set probes=false --set attention.probes=false --set train.batch_size=2 --set train.gradient_accumulation_steps=1"
    bench bf16 "1.7B, training" 130 models/gated_attention.moe:dense_28 $plain $small
    bench bf16 "1.7B with a gate at sdpa, training" 130 models/gated_attention.moe:dense_28_sdpa $plain $small
    xl="--set dim=1600 --set layers=48 --set attention.heads.q=25 --set ffn.hidden_dim=6400"
    bench bf16 "GPT-2 1.5B, training" 150 models/gpt2.moe:gpt2 --kernels ${small:-$xl --set train.batch_size=8}
    torch gpt2_xl
}

# Each with its own empty cache; --quick: the duration of the steps does not matter here.
# shellcheck disable=SC2086 # several words
stage_start() {
    models="models/gpt2.moe:gpt2 models/gpt2.moe:gpt2_small_moe models/sigma.moe:standard_1b5"
    [ -z "$QUICK" ] || models=models/gpt2.moe:gpt2
    for model in $models; do
        XDG_CACHE_HOME=$work/cache_${model##*:}
        export XDG_CACHE_HOME
        options=$small
        [ "${model%moe}" = "$model" ] || options=$mix
        echo "  ${model##*:}" >&2
        code=0
        within 60 moec bench $model --quick --set train.precision=bf16 --device "$DEVICE" --json $options \
            >"$work/start.json" 2>"$work/start.log" || code=$?
        record start "\"name\": \"${model##*:}\", $(result "$work/start.json" "$work/start.log" $code)"
    done
}

# ---- one stage, in a separate process ----

if [ -n "$inside" ]; then
    # shellcheck disable=SC2086 # several words
    case ${1:-} in
    one) compare_one $2 ;;
    unit) unit $2 ;;
    *) "stage_$inside" ;;
    esac
    exit
fi

# ---- all stages ----

[ $# -gt 0 ] || set -- units first bits nccl memory models kernels steps start heads large
clock_of() {
    case $1 in
    units) clock=90 ;;
    first) clock=60 ;;
    bits) clock=90 ;;
    nccl) clock=60 ;;
    memory) clock=180 ;;
    models) clock=180 ;;
    kernels) clock=150 ;;
    steps) clock=200 ;;
    start) clock=60 ;;
    heads) clock=240 ;;
    large) clock=580 ;;
    *) echo "tests/gpu.sh: unknown stage '$1'; the stages are units, first, bits, nccl, memory, models, kernels, steps, start, heads, large" >&2 && exit 2 ;;
    esac
    eval "clock=\${CLOCK_$1:-$((clock * patience))}"
}
for stage; do clock_of "$stage"; done
mkdir -p "$folder" || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=${XDG_CACHE_HOME_OF_GPU:-$work/cache}
export XDG_CACHE_HOME work

inside=device
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no GPU found"
} >"$work/device"
commit=$(cat commit 2>/dev/null || git rev-parse --short HEAD 2>/dev/null || echo "unknown")
record device "\"when\": \"$(date -u '+%Y-%m-%d %H:%M')\", \"device\": $(text "$work/device"), \"commit\": \"$commit\", \"quick\": $([ -n "$QUICK" ] && echo true || echo false)"
status=0
for stage; do
    clock_of "$stage"
    echo "stage $stage, at most $clock seconds" >&2
    began=$(date +%s)
    code=0
    deadline=$((began + clock))
    export deadline
    timeout -k 10 $((clock + 5)) "$self" -o "$folder" -i "$stage" || code=$?
    [ "$(date +%s)" -lt $deadline ] || code=124
    inside=$stage
    # The selected variant and the time of each: see runtime/device/cuda/cuda_variants.h.
    case $stage in
    kernels | steps | heads | large)
        cat "$XDG_CACHE_HOME"/moec/*.variants 2>/dev/null | while read -r line; do record variants "\"line\": \"$line\""; done
        ;;
    esac
    end=ended
    [ $code != 124 ] && [ $code != 137 ] || end="stopped at its time limit"
    record stage "\"end\": \"$end\", \"code\": $code, \"seconds\": $(($(date +%s) - began))"
    if "$PYTHON" -c '' 2>/dev/null; then
        "$PYTHON" tests/gpu_report.py "$folder" >"$work/verdict" || status=1
        tail -n 3 "$work/verdict" >&2
    else
        bad=$(grep '"kind": "compare"' "$folder/results.jsonl" | grep -vc '"agrees": true')
        [ "$bad" = 0 ] && ! grep -E '"kind": "(unit|memory)"' "$folder/results.jsonl" | grep -qv '"code": 0' && ! grep -q '"same": false' "$folder/results.jsonl" || status=1
        echo "no Python for the report; $bad programs do not agree or did not run, see $folder/results.jsonl" >&2
    fi
done
exit $status

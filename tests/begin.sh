# Common start of the scripts of tests/ and tests/checks/. It enters the root folder of the repository, puts the programs of
# BUILD on the path and defines `wrong WORD...`, which fails. The temporary folder `work` also has the cache of compiled
# programs.
set -eu
cd "$(dirname "$0")"
until [ -e tests/begin.sh ]; do cd ..; done
case ${BUILD:=build} in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
PATH=$BUILD:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=$work/cache
simulator=$BUILD/libmoec_sim.so
export BUILD PATH XDG_CACHE_HOME

wrong() {
    echo "$*"
    exit 1
}

# fails TEXT COMMAND...: the command ends with 1, prints TEXT, and creates no folder `nowhere`.
fails() { refuses 1 "$@"; }
# misused TEXT COMMAND...: the same with exit code 2.
misused() { refuses 2 "$@"; }
refuses() {
    due=$1 text=$2 code=0
    shift 2
    "$@" >out 2>&1 || code=$?
    [ $code = "$due" ] || wrong "exit code $code instead of $due: $*: $(cat out)"
    grep -qF -- "$text" out || wrong "the message lacks '$text': $(cat out)"
    [ ! -e nowhere ] || wrong "output was written: $(ls nowhere)"
}

# on_simulator: selects the simulated device, without its access checks, which unit/test_emit_cuda.c runs. MOEC_CUDA, also if
# empty, selects another driver. Programs of tests/unit read MOEC_DEVICE; a command runs there only with --device cuda.
on_simulator() {
    export MOEC_DEVICE=cuda MOEC_CUDA="${MOEC_CUDA-$simulator}" MOEC_SIM=unchecked MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
}

# precisions NUMBER: precisions for the model with that number: bf16, for every second model also f32; with ALL always both.
precisions() {
    if [ -n "${ALL:-}" ] || [ $(($1 % 2)) = 1 ]; then echo f32 bf16; else echo bf16; fi
}

# with_cublaslt FOLDER: a folder for MOEC_CUDA with the simulated driver and the stand-in for cuBLASLt.
with_cublaslt() {
    mkdir "$1"
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -shared -fPIC -o "$1/libcublasLt.so.13" tests/stand_in/cublaslt.c -ldl -lm
    ln -s "$simulator" "$1/libcuda.so.1"
    ln -s "$simulator" "$1/libnvrtc.so.13"
}

# small_model STEPS: writes a small model with that many steps to $work/small.moe and a training text to $work/text.
small_model() {
    cat >"$work/small.moe" <<SPEC
use decoder

model small = decoder {
  dim = 8, layers = 1
  attention = { heads = { q = 1 }, head_dim = 8 }
  ffn = swiglu { hidden_dim = 8 }
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = $1 }
}
SPEC
    cat stdlib/*.moe >"$work/text"
}

# swept_model NAME STEPS EVALUATE: writes the model of a sweep to $work/NAME.moe and a text to $work/text. The caller appends
# the experiments.
swept_model() {
    cat >"$work/$1.moe" <<SPEC
use decoder
model small = decoder {
  dim = 16, layers = 1
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn.hidden_dim = 16
  train = { lr = 1e-2, batch_size = 2, context_length = 16, steps = $2, eval_interval = $3, save_interval = 20 }
}
SPEC
    cat stdlib/*.moe >"$work/text"
}

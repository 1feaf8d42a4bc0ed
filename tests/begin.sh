# What a script of tests/ or tests/checks/ begins with. After it: the repository's root, the programs of BUILD on the path,
# a folder `work` that goes when the script ends and holds its cache of compiled programs, `wrong WORD...` to fail.
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

# fails TEXT COMMAND...: the command ends with 1, says TEXT, and leaves no folder `nowhere`.
fails() {
    text=$1
    shift
    code=0
    "$@" >out 2>&1 || code=$?
    [ $code = 1 ] || wrong "exit code $code where 1 is due: $*: $(cat out)"
    grep -qF -- "$text" out || wrong "it does not say '$text': $(cat out)"
    [ ! -e nowhere ] || wrong "something was written: $(ls nowhere)"
}

# on_simulator: the device cuda is the simulated one, without its checks of every access, which unit/test_emit_cuda.c has;
# with MOEC_CUDA set, say to "", it is that driver's.
on_simulator() {
    export MOEC_DEVICE=cuda MOEC_CUDA="${MOEC_CUDA-$simulator}" MOEC_SIM=unchecked MOEC_CFLAGS=-O0 OMP_NUM_THREADS=1
}

# precisions NUMBER: what the model of that number is tried in: bf16, and every second in f32 as well; each where ALL is set.
precisions() {
    if [ -n "${ALL:-}" ] || [ $(($1 % 2)) = 1 ]; then echo f32 bf16; else echo bf16; fi
}

# with_cublaslt FOLDER: for MOEC_CUDA, the simulated driver and a stand-in of cuBLASLt.
with_cublaslt() {
    mkdir "$1"
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -shared -fPIC -o "$1/libcublasLt.so.13" tests/stand_in/cublaslt.c -ldl -lm
    ln -s "$simulator" "$1/libcuda.so.1"
    ln -s "$simulator" "$1/libnvrtc.so.13"
}

# small_model STEPS: a small model in $work/small.moe that trains so long, and a text for it in $work/text.
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

# swept_model NAME STEPS EVALUATE: $work/NAME.moe with what experiments compare, which are to be added, and $work/text.
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

#!/bin/sh
# Experts divided over two processes of Open MPI, or of MPICH: the bits of one process, and a run that moves between meshes. Each
# process has the weights of its own experts only. Meshes that do not fit are refused at their location. For more: tests/mesh.sh.
. "$(dirname "$0")/../begin.sh"
. tests/mesh_common.sh
[ -n "$mpi" ] || { echo "no MPI: .ci/setup test installs it"; exit 0; }
export OMP_NUM_THREADS=1
set -- $mpi
two="$1 -n 2"
cat stdlib/*.moe >"$work/text"
cat >"$work/mixture.moe" <<'SPEC'
use decoder
model mixture = decoder {
  dim = 128, layers = 2, dropout = 0.1
  attention = { heads = { q = 2 }, head_dim = 8 }
  ffn = moe {
    experts = 4, top_k = 2, expert = swiglu { hidden_dim = 64 }, shared_expert = swiglu { hidden_dim = 8 }
    aux_loss_coef = 0.01, aux_loss_scope = global_batch
  }
  train = { lr = 1e-2, batch_size = 2, context_length = 64, steps = 6, gradient_accumulation_steps = 4, reduction_lanes = 4, eval_interval = 3, save_interval = 4 }
}
model nested = mixture { dim = 16, ffn.expert = lore_mlp { hidden_dim = 8, lores = 4, top_k = 2, rank = 2 } }
model twice = nested { ffn.expert = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 8 }, aux_loss_coef = 0.01 } }
model thrice = twice { ffn.expert.expert = moe { experts = 2, top_k = 1, expert = swiglu { hidden_dim = 8 } }, ffn.expert.shared_expert = swiglu { hidden_dim = 8 } }
# 16 elements are two vectors of AVX2, whose loop GCC unrolls in some kernels.
model two_vectors = mixture { dim = 32, dropout = 0, ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 16 } } }
model dense = mixture { ffn = swiglu { hidden_dim = 8 } }
SPEC
train() { # OUT ARGUMENTS...: the command line, after a launcher
    out=$1
    shift
    $launcher moec train "$work/mixture.moe:${model:-mixture}" --data "$work/text" --out "$out" "$@" </dev/null
}

launcher= train "$work/one" -q >/dev/null
launcher=$two train "$work/two" --mesh expert=2 >"$work/out" 2>&1 || wrong "expert=2: $(cat "$work/out")"
same "$work/one" "$work/two"
grep -q '^2 processes on 1 host, experts over 2; reduction ordered, 4 lanes$' "$work/out" || wrong "no line about the processes: $(cat "$work/out")"

# Weights: 786 kB of experts, of which each process reads a half and updates a part.
weights() { sed -n 's/.*: weights and gradients \([0-9.]*\),.*/\1/p' "$work/out"; }
divided=$(weights)
launcher=$two train "$work/two" --resume --steps 7 >"$work/out" 2>&1
awk -v whole="$(weights)" -v divided="$divided" 'BEGIN { exit !(divided > 0 && divided < whole) }' || wrong "weights of $divided MB of $(weights)"

# A run moves to another mesh and back.
for stop in 2 4 6; do launcher= train "$work/straight" -q --resume --stop-after $stop >/dev/null; done
launcher=$two train "$work/moved" -q --stop-after 2 --mesh expert=2 >/dev/null
launcher= train "$work/moved" -q --resume --stop-after 4 >/dev/null
launcher=$two train "$work/moved" -q --resume --mesh data=auto,expert=2 >/dev/null
same "$work/straight" "$work/moved"

# Experts inside experts, and narrow ones.
for model in nested twice two_vectors; do
    rm -rf "$work/one" "$work/two"
    launcher= train "$work/one" -q --steps 2 >/dev/null
    launcher=$two train "$work/two" -q --steps 2 --mesh expert=2 >/dev/null
    cmp "$work/one/last.safetensors" "$work/two/last.safetensors" || wrong "$model: other weights"
done
model=
# The statistics of a step need no experts of the last layer.
moec dump "$work/mixture.moe:mixture" --set layers=1 --mode gather --after mesh_rows --mesh data=2,expert=2 >"$work/out" 2>&1 ||
    wrong "statistics of one layer: $(cat "$work/out")"

# refused WORDS LAUNCHER ARGUMENTS...: an error at its location, with help; nothing is written.
refused() {
    words=$1 launcher=$2
    shift 2
    train "$work/refused" "$@" >"$work/out" 2>&1 && wrong "accepted: $words"
    grep -qF -- "$words" "$work/out" || wrong "no '$words': $(cat "$work/out")"
    grep -q '^  help: ' "$work/out" || wrong "no help: $(cat "$work/out")"
    [ ! -e "$work/refused" ] || wrong "written in spite of: $words"
}
refused "--mesh:1:1: error[E0627]: the mesh axis 'tensor' is not supported yet" "$two" --mesh tensor=2
refused "--mesh:1:8: error[E0630]: groups of expert = 4 processes cannot be made of data = 2" "$two" --mesh data=2,expert=4
refused "the mesh data = 4 has 4 processes, but mpirun started 2" "$two" --mesh data=4,expert=2
refused "the mesh data = 2 has 2 processes, but only one was started" "" --mesh expert=2
refused "axis n of size 3 cannot be divided over expert = 2" "$two" --mesh expert=2 --set ffn.experts=3
refused "3 micro-batches (train.gradient_accumulation_steps) cannot be distributed over data = 2" "$two" --mesh expert=2 \
    --set train.gradient_accumulation_steps=3 --set train.reduction_lanes=0
model=dense refused "no token selects parameters in this model" "$two" --mesh expert=2
refused "2 processes share the sequences of a micro-batch, which expert = 4 does not divide" "$1 -n 4" --mesh expert=4 \
    --set train.gradient_accumulation_steps=2 --set train.reduction_lanes=0
refused "3 sequences (the batch size) cannot be divided over data = 2" "$two" --set train.gradient_accumulation_steps=1 \
    --set train.reduction_lanes=0 --set train.batch_size=3
model=thrice refused "rows of rows of rows cannot be divided over expert" "$two" --mesh expert=2

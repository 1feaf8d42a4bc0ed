#!/bin/sh
# Memory of the processes of a mesh, measured after some steps, less that of a process with a tiny model:
#
#   - `moec plan` predicts it within 3 %. Rows are exactly as many as expected: tokens choose equally many experts of each group.
#   - Rows of divided experts use memory only if they arrive: if all tokens choose experts of process 0, it needs the memory that
#     `moec train` prints as "at most", which has three digits and no buffers of exchanges, up to 3 %. Each other process needs
#     less than `moec plan` predicts for equally many rows.
#   - The buffer of the exchanges grows at most 20 times in a run, here and while the router of a small model changes.
#
#   tests/mesh_memory.sh [MODEL...]    default: all; needs jq
. "$(dirname "$0")/begin.sh"
. tests/mesh_common.sh
[ -n "$mpi" ] || wrong "no MPI: .ci/setup test installs it"
# shellcheck disable=SC2086 # several words
set -- "${*:-dense dense_zero_0 dense_bf16 lanes averaged matrices mixture mixture_bf16 saved nested narrow narrow_saved}" $mpi
models=$1 first=$2
export OMP_NUM_THREADS=1
cat stdlib/*.moe >"$work/text"

# resident MODEL MESH: bytes of each of 4 processes after 3 steps, in order of rank, in `resident`
resident() {
    (timeout 600 $first -n 4 moec train "tests/mesh_memory.moe:$1" --data "$work/text" --out "$work/$1" --mesh "$2" --steps 100000 -v </dev/null >"$work/out" 2>&1) &
    child=$!
    until [ "$(cat "$work/$1/log.jsonl" 2>/dev/null | grep -c '"grad_norm"')" -ge 3 ]; do
        kill -0 $child 2>/dev/null || wrong "$1: $(cat "$work/out")"
        sleep 0.3
    done
    resident=
    for rank in 0 1 2 3; do
        id=$(process "$work/$1" $rank)
        [ -n "$id" ] || wrong "$1: $(cat "$work/out")"
        resident="$resident $(awk '/^RssAnon/ { print $2 * 1024 }' "/proc/$id/status")"
    done
    kill "$(process "$work/$1" 0)"
    wait
    rm -rf "$work/$1"
}

# planned MODEL EXPERT: predicted bytes of a process
planned() {
    moec plan "tests/mesh_memory.moe:$1" --ranks 4 --machine here --json |
        jq -e ".meshes[] | select(.expert == $2 and .batch == 1) | .memory_bytes"
}

# growths MODEL: checks those of the buffer of exchanges in process 0 of the last run
growths() {
    count=$(sed -n 's/.*buffer of exchanges: .* after \([0-9]*\) growths$/\1/p' "$work/out")
    { [ "${count:-0}" -ge 1 ] && [ "$count" -le 20 ]; } || wrong "$1: ${count:-no} growths of the buffer of exchanges: $(cat "$work/out")"
}

resident tiny data=4
base=$(echo "$resident" | awk '{ print ($1 + $2 + $3 + $4) / 4 }')
for model in $models; do
    expert=1
    case $model in mixture* | saved | nested | narrow* | many_experts) expert=4 ;; esac
    resident "$model" data=4,expert=$expert
    echo "$resident" | awk -v name="$model" -v base="$base" -v planned="$(planned "$model" $expert)" '
        { for (i = 1; i <= NF; i++) { ratio = ($i - base) / planned; text = text sprintf(" %.3f", ratio); if (ratio < 0.97 || ratio > 1.03) wrong = 1 } }
        END { printf "%-14s %6.1f MB planned; measured, relative:%s\n", name, planned / 1e6, text; exit wrong }' ||
        wrong "$model: the prediction is off by more than 3 %"
    [ $expert = 1 ] || growths "$model"
done

timeout 600 $first -n 4 moec train "tests/mesh_memory.moe:small_mixture" --data "$work/text" --out "$work/small" --mesh data=4,expert=4 -v </dev/null >"$work/out" 2>&1 ||
    wrong "small_mixture: $(cat "$work/out")"
growths small_mixture
echo "small_mixture: $count growths of the buffer of exchanges"

resident one_process data=4,expert=4
growths one_process
most=$(sed -n 's/^memory at most \([0-9.]*\) \([kMG]\)B:.*/\1 \2/p' "$work/out" | awk '{ print $1 * ($2 == "G" ? 1e9 : $2 == "M" ? 1e6 : 1e3) }')
echo "$resident" | awk -v base="$base" -v planned="$(planned one_process 4)" -v most="$most" '
    { ratio = ($1 - base) / most; others = ($2 - base) / planned
      printf "all rows in process 0: %.3f of the printed memory; process 1 without rows: %.3f of that with equally many\n", ratio, others
      exit !(most > 0 && ratio <= 1.03 && $1 > 2 * $2 && others < 1 && ($3 - base) / planned < 1 && ($4 - base) / planned < 1) }' ||
    wrong "rows use memory that they do not need: $resident"

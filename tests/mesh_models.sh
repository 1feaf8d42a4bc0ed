#!/bin/sh
# tests/mesh_models.sh MESH [WORD...]: compares the programs of a mesh, "data=2,expert=2", with the global program, for the models
# of tests/small_models.sh or those with a WORD in their lines. A model that the mesh cannot divide is listed with its message. The
# last line is the number of models that agree. A model that differs fails.
. "$(dirname "$0")/begin.sh"
mesh=$1
shift
size=$(echo "$mesh" | sed 's/.*data=\([0-9]*\).*/\1/')
tests/small_models.sh "$@" | sed 's/ -b [0-9]*//; s/ -c / --context-length /' >"$work/models"
[ -s "$work/models" ] || wrong "no models"
agree=0
while read -r model; do
    # shellcheck disable=SC2086
    if moec verify $model --batch-size "$size" --mesh "$mesh" >"$work/out" 2>&1; then
        agree=$((agree + 1))
    else
        grep -E "can(not)? be divided" "$work/out" >"$work/why" || wrong "$model: $(cat "$work/out")"
        echo "$model: $(head -1 "$work/why")"
    fi
done <"$work/models"
echo "$agree agree"

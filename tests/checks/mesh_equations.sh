#!/bin/sh
# Every exchange of a program of a mesh belongs to an equation of a spec: `moec explain --mesh` names its file and line. For the
# models of small_models.sh, with their sequences divided, and with their experts divided; `all`: also for larger meshes.
. "$(dirname "$0")/../begin.sh"
meshes="data=2,one data=2,expert=2"
[ "${1:-}" != all ] || meshes="$meshes data=4,one data=8,expert=4 data=4,expert=2,one"
tests/small_models.sh | sed 's/ -b [0-9]*//; s/ -c / --context-length /' >"$work/models"
models=0
while read -r model; do
    found=0
    for mesh in $meshes; do
        size=$(echo "$mesh" | sed 's/data=\([0-9]*\).*/\1/') parts=$((size * 2))
        case $mesh in *,one) parts=1 ;; esac
        # shellcheck disable=SC2086 # several words
        if moec explain $model --mesh "${mesh%,one}" --batch-size "$size" --set train.gradient_accumulation_steps=$parts >"$work/out" 2>&1; then
            grep -vE '^[^ ]|^  (tensor|none)|  step  ' "$work/out" | sed "s/^/$(echo "$model" | sed 's/[/&]/\\&/g'), $mesh: /" >>"$work/rows" || true
            found=1
        else
            grep -qE "can(not)? be divided|cannot be made of|no parameters can be divided|has no loss" "$work/out" || wrong "$model, $mesh: $(cat "$work/out")"
        fi
    done
    models=$((models + found))
done <"$work/models"

# The line of each equation has an assignment or continues one.
awk '
    { place = $NF }
    place !~ /^[^ ]*\.moe:[0-9]+$/ { print "no equation: " $0; wrong = 1; next }
    { split(place, part, ":"); file = part[1]; sub(/^std\//, "stdlib/", file); at = part[2] }
    !(file in lines) { lines[file] = 0; while ((getline line < file) > 0) text[file, ++lines[file]] = line; close(file) }
    at > lines[file] || text[file, at] !~ /[=+*(]/ || text[file, at] ~ /^ *#/ { print "no equation at " place ": " $0; wrong = 1 }
    $0 !~ /  (all-reduce|all-reduce \((max|min)\)|all-gather|counts|dispatch|combine) +(data|expert) / { print "another kind: " $0; wrong = 1 }
    { count++ }
    END { print count + 0; exit wrong }' "$work/rows" >"$work/found" || wrong "$(head -20 "$work/found")"
exchanges=$(tail -1 "$work/found")
[ "$models" -ge 150 ] && [ "$exchanges" -ge 500 ] || wrong "only $exchanges exchanges of $models models"
echo "$exchanges exchanges of $models models have an equation"

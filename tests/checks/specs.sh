#!/bin/sh
# Every model of models/ and examples/ is accepted.
set -eu
cd "$(dirname "$0")/../.."
for file in models/*.moe examples/*.moe; do
    for model in $(sed -n 's/^model  *\([A-Za-z0-9_]*\).*/\1/p' "$file"); do
        moec check "$file:$model" >/dev/null || { echo "$file:$model"; exit 1; }
    done
done

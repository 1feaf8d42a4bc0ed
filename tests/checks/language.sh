#!/bin/sh
# Every example of the language reference is a file that `moec check` accepts.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk -v folder="$folder" '
    /^```moe$/ { file = sprintf("%s/line_%04d.moe", folder, NR); next }
    /^```/     { file = "" }
    file       { print > file }' stdlib/LANGUAGE.md README.md
count=0
for file in "$folder"/*.moe; do
    moec check "$file" >"$folder/out" 2>&1 || { echo "$(basename "$file"):"; cat "$folder/out"; exit 1; }
    count=$((count + 1))
done
[ "$count" -ge 8 ]

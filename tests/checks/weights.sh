#!/bin/sh
# Lists safetensors files from other programs: one file, several with an index, and invalid folders.
. "$(dirname "$0")/../begin.sh"
cd "$work"

# tensors FILE HEADER BYTES: writes a safetensors file with that header and BYTES zero bytes.
tensors() {
    length=$(printf %s "$2" | wc -c)
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o\\%03o\\0\\0\\0\\0\\0\\0' $((length % 256)) $((length / 256)))" > "$1"
    printf %s "$2" >> "$1"
    head -c "$3" /dev/zero >> "$1"
}
# refused TEXT: `moec tensors folder` ends with 1 and prints TEXT.
refused() {
    code=0
    moec tensors folder > out 2>&1 || code=$?
    [ $code = 1 ] || wrong "exit code $code where 1 is due: $1"
    grep -qF "$1" out || wrong "the message lacks '$1': $(cat out)"
}
index() {
    printf '{"metadata": {}, "weight_map": {%s}}' "$1" > folder/model.safetensors.index.json
}
one='{"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}'
two='{"b": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}'

mkdir folder
refused "folder contains no safetensors files"
tensors folder/model.safetensors "$one" 12
[ "$(moec tensors folder | head -1)" = "a  BF16  [2, 3]  12" ] || wrong "a single file is not listed"
mv folder/model.safetensors folder/1.safetensors
tensors folder/2.safetensors "$two" 8
index '"a": "1.safetensors", "b": "2.safetensors"'
moec tensors folder > out
[ "$(tail -2 out | head -1)" = "b  I64   []  8" ] || wrong "two files are not listed: $(cat out)"
tail -1 out | grep -q "^2 tensors, 7 elements, 20 B$" || wrong "the sum is wrong: $(cat out)"

index '"a": "1.safetensors", "b": "3.safetensors"'
refused "folder/3.safetensors, which does not exist"
index '"a": "1.safetensors", "b": "1.safetensors"'
refused "1.safetensors does not contain tensor b"
index '"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"'
refused "2.safetensors does not contain tensor c"
index '"a": "1.safetensors"'
moec tensors folder > out || wrong "a file outside of the index is counted"
index '"a": "../folder/1.safetensors"'
refused "'../folder/1.safetensors', which is not a file name"
index '"a": ".."'
refused "'..', which is not a file name"
index '"a": 7'
refused "which is not a file name"
index ''
refused "names no tensors"
printf '{"weight_map": [' > folder/model.safetensors.index.json
refused "invalid JSON"
printf '{}' > folder/model.safetensors.index.json
refused "has no key weight_map"
tensors folder/2.safetensors "$one" 12
index '"a": "1.safetensors", "b": "2.safetensors"'
refused "contains tensor a twice"

rm folder/model.safetensors.index.json
hostile() { # TEXT HEADER BYTES
    tensors folder/model.safetensors "$2" "$3"
    refused "$1"
}
hostile "overlap" '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}' 12
hostile "is outside the file" '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9223372036854775807]}}' 8
hostile "a shape is not a list of sizes" '{"a": {"dtype": "F32", "shape": [4611686018427387904, 8], "data_offsets": [0, 8]}}' 8
hostile "a shape is not a list of sizes" '{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}' 8
hostile "does not match its shape" '{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}' 8
hostile "bytes after the last tensor" '{}' 8

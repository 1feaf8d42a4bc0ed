#!/bin/sh
# The maps name every file of their folder, and no other; the compiler knows no architecture and includes nothing of the runtime.
set -u
cd "$(dirname "$0")/../.."
status=0
for folder in compiler runtime; do
    for file in $(cd "$folder" && ls -- *.c *.h *.l *.y *.def 2>/dev/null); do
        grep -q "\`$file\`" "$folder/README.md" || { echo "$folder/README.md does not name $file"; status=1; }
    done
    for name in $(awk -F'|' '{ print $2 }' "$folder/README.md" | grep -o '`[a-z_0-9]*\.[a-z]*`' | tr -d '`'); do
        [ -e "$folder/$name" ] || { echo "$folder/README.md names $name, which is not there"; status=1; }
    done
done
if grep -rniwE 'gate|lore|expert|swiglu' compiler/*.[chly] compiler/*.def; then
    echo "the compiler names an architecture"
    status=1
fi
if grep -nE '#include "(\.\./)?runtime' compiler/*.[chly]; then
    echo "the compiler includes a file of the runtime"
    status=1
fi
exit $status

#!/bin/sh
# The map of each folder is short and names every file and folder in it, and no other; no folder has more than 30 files, and
# runtime/ few that are short; no name of a file stands in two folders but where it is one idea; the compiler knows no
# architecture, includes nothing of the runtime but what is compiled for both, does not search the text that it writes, and shows
# every pass over the form.
set -u
cd "$(dirname "$0")/../.."
status=0
fault() { echo "$*"; status=1; }
# What pip leaves in runtime/python is none of ours.
folders=$(find compiler runtime -type d ! -path '*/python/build*' ! -path '*.egg-info*' ! -name __pycache__)
for folder in $folders; do
    map=$folder/README.md
    [ -e "$map" ] || { fault "$folder has no README.md"; continue; }
    [ "$(wc -l <"$map")" -le 40 ] || fault "$map has more than 40 lines"
    case $folder in */*) grep -q 'In: .*Out: ' "$map" && grep -q 'Read `' "$map" ;; esac || fault "$map does not say what goes in and out, what to read first"
    [ "$(find "$folder" -maxdepth 1 ! -type d ! -name '.*' ! -name README.md | wc -l)" -le 30 ] || fault "$folder has more than 30 files"
    [ "$folder" = runtime/standalone ] && continue # its map goes by graphs
    for entry in "$folder"/*; do
        name=${entry##*/}
        case $name in build | *.egg-info | __pycache__) continue ;; esac
        [ -d "$entry" ] && name=$name/
        # The file that includes all kernels is their map.
        grep -qs "^#include \"$name\" *\/\* " "$folder/kernels.h" "$folder/kernels.cuh" && continue
        [ "$name" = README.md ] || grep -q "\`$name\`" "$map" || fault "$map does not name $name"
    done
    for name in $(awk -F'|' '{ print $2 }' "$map" | grep -o '`[a-z_0-9]*\.[a-z]*`' | tr -d '`'); do
        [ -e "$folder/$name" ] || fault "$map names $name, which is not there"
    done
done
# A name in two folders is one idea seen from both: the same thing of the command and of emitted folders, a kernel and what
# simulates it, a form and what is printed, read or done with it. An operation of compiler/calls and
# its kernels for both targets have the same name.
allowed="bulk call config cse data diagnostics doc draw embedded emit error_code experiment explain generate internal json_make licm measure mesh model
    moec passes print quantity report scan train weights wgmma"
for name in $(find compiler runtime ! -path 'compiler/calls/*' ! -path 'runtime/kernels/cuda/*' \( -name '*.[chly]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) |
    sed 's/\.[a-z]*$//' | sort -u | sed 's|.*/||' | sort | uniq -d); do
    case " $(echo $allowed) " in
    *" $name "*) ;;
    *) fault "$name stands in several folders: $(find compiler runtime -name "$name.[a-z]*" | tr '\n' ' ')" ;;
    esac
done
# A file of fewer than 40 lines joins another one, unless it is the interface of a longer file, is shared with the compiler or with
# standalone exports (abi/, order, random, pick, streams, weights), or is compiled in a way of its own.
short="abi/embedded_file.h abi/error_code.h abi/text_find.h abi/utf8_cut.h base/build.h base/clock.h base/launcher.h
    base/hashing.h base/lazy_library.c base/lazy_library.h base/text_list.h base/threads.h
    data/order.c data/order.h data/random.h device/update.c model/pick.h
    model/streams.h model/weights.h tools/command/develop.c tools/command/line/results.c tools/report/report.h"
found=$(find runtime -name '*.[ch]' ! -path 'runtime/kernels/*' ! -path 'runtime/device/sim/*' ! -path 'runtime/standalone/*' \
    -exec wc -l {} + | awk '$1 < 40 { print substr($2, 9) }' | sort)
for file in $found; do
    case " $(echo $short) " in *" $file "*) ;; *) fault "runtime/$file has fewer than 40 lines" ;; esac
done
for file in $short; do
    echo "$found" | grep -qx "$file" || fault "runtime/$file is allowed to be short, but is not"
done
for side in compiler runtime; do
    [ "$(find $side -maxdepth 1 -name '*.c' | wc -l)" -le 10 ] || fault "more than 10 files lie in $side itself"
done
# A mesh axis has this name on the command line.
if grep -rniwE 'gates?|lores?|experts?|swiglu' compiler --include='*.[chly]' --include='*.def' | grep -v '^compiler/ir/mesh_names.c:'; then
    fault "the compiler names an architecture"
fi
if grep -rnE '#include "([./]*)runtime' compiler --include='*.[chly]'; then
    fault "the compiler includes a file of the runtime"
fi
if grep -rnE 'strstr|program->device' compiler/lower compiler/print compiler/schedule compiler/loop compiler/module; then
    fault "a decision is made by searching a text, or by the name of a target"
fi
exit $status

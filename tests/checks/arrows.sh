#!/bin/sh
# Includes and calls go one way, and tests/arrows.sh finds planted ones that do not: one for each of its rules.
. "$(dirname "$0")/../begin.sh"
tests/arrows.sh || exit 1

# found PATTERN ARGUMENT...: tests/arrows.sh fails and prints a line that begins with the pattern.
found() {
    pattern=$1
    shift
    ! tests/arrows.sh "$@" >"$work/found" || wrong "not found: $pattern"
    grep -q "^$pattern" "$work/found" || wrong "not found: $pattern, but $(cat "$work/found")"
}

# included FILE INCLUDE TEXT: the fault is found in a copy, with its line.
mkdir "$work/copy"
cp -R compiler runtime "$work/copy"
included() {
    cp "$1" "$work/kept"
    echo "#include \"$2\"" >>"$work/copy/$1"
    found "$1:$(wc -l <"$work/copy/$1"): $3" "$work/copy" "$work/none"
    cp "$work/kept" "$work/copy/$1"
}
included compiler/ir/ir.c schedule/kernel.h "includes the later folder compiler/schedule"
included compiler/ir/ir.c driver/driver.h "includes the later folder compiler/driver"
included compiler/print/print_c.c lower/lower.h "includes the later folder compiler/lower"
included compiler/explain/explain.c calls/call_table.h "includes the rows of calls"
included compiler/analysis/cost.c device/device.h "includes a file of the other side"
included runtime/training/step.c ir/ir.h "includes a file of the other side"
included runtime/base/files.c model/model.h "includes the later folder runtime/model"
included runtime/training/step.c tools/command/line/arguments.h "includes the later folder runtime/tools/command"
included runtime/base/files.c nowhere.h "includes what is in no folder"
included runtime/kernels/matmul.h base/memory.h "includes more than abi/"
included runtime/device/sim/block.c device/device.h "includes more than abi/"
included runtime/standalone/train.c base/memory.h "includes a file that is not copied with it"

# called OBJECT SYMBOL TEXT: the fault is found in one more object, which calls the symbol.
called() {
    rm -rf "$work/objects"
    mkdir -p "$work/objects/${1%/*}"
    echo "void $2(void); void planted_call(void); void planted_call(void) { $2(); }" |
        "${CC:-cc}" -x c -c - -o "$work/objects/$1"
    found "$3" . "$BUILD" "$work/objects"
}
called compiler/ir/ir.o fuse "compiler/ir/ir.o: calls fuse of the later folder compiler/schedule"
called compiler/print/print_c.o lower_units "compiler/print/print_c.o: calls lower_units of the later folder compiler/lower"
called compiler/print/print_c.o hoist "compiler/print/print_c.o: calls hoist, but a printer reads only the module"
called compiler/analysis/cost.o device_open "compiler/analysis/cost.o: calls device_open of the later folder runtime/device"
called runtime/base/files.o model_open "runtime/base/files.o: calls model_open of the later folder runtime/model"
called runtime/training/step.o command_row "runtime/training/step.o: calls command_row of the later folder runtime/tools/command"
called runtime/model/call.o program_new "runtime/model/call.o: calls program_new of the compiler, which is not public"
called compiler/layout/mapping.o moec_format "compiler/layout/mapping.o: calls moec_format of the later folder compiler"
called runtime/base/clock.o message_file "a circle of 3 files, at most 2 are allowed: "
called compiler/base/arena.o scope_add "a circle of [0-9]* files, at most [1-9][0-9]* are allowed: .*compiler/base/arena.o"

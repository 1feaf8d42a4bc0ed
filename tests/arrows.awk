# What tests/arrows.sh finds wrong. Input, one fact per line:
#
#     known include|call N FOLDER FOLDER    so many faults from a folder to a later one are allowed (tests/arrows.known)
#     known circle N FILE                   the circle with this file may have N files
#     file PATH                             a file of the tree
#     public NAME                           a function of a public header of the compiler
#     include PATH LINE NAME                an include
#     define PATH SYMBOL, use PATH SYMBOL   of an object; PATH as that of its source, with .o
BEGIN {
    place("compiler", "base syntax ir analysis elaborate transform interpret schedule loop module print lower torch calls spec layout editor driver explain describe mesh experiment .")
    place("runtime", "abi kernels base data tokenizer device model mesh training library tools/exchange tools/experiment tools/report tools/lsp tools/server tools/against tools/command")
    # They need nothing but abi/: what is compiled elsewhere, and a library of its own.
    split("runtime/kernels runtime/device/sim runtime/standalone", names, " ")
    for (i in names) closed[names[i]] = 1
    generated["torch_text.o"] = "compiler/torch"
    generated["parser.o"] = generated["lexer.o"] = generated["stdlib_text.o"] = "compiler/syntax"
    generated["runtime_text.o"] = generated["commit.o"] = "runtime/base"
    generated["report_text.o"] = "runtime/tools/report"
    generated["against_text.o"] = "runtime/tools/against"
    generated["mpi_text.o"] = "runtime/mesh"
}

function place(side, folders, order, count, i) {
    count = split(folders, order, " ")
    for (i = 1; i <= count; i++) rank[side (order[i] == "." ? "" : "/" order[i])] = ++ranks
}

# The folder of a path as the lists above name it: "runtime/tools/server", "compiler/ir", "compiler".
function folder(path, parts, count) {
    if (path in generated) return generated[path]
    count = split(path, parts, "/")
    if (path ~ /^runtime\/device\/sim\//) return "runtime/device/sim"
    if (count < 3) return parts[1]
    return parts[1] "/" parts[2] (parts[2] == "tools" ? "/" parts[3] : "")
}

# True for what a printer may call: the module, its terms and types, and nothing that decides.
function printable(path) {
    return path ~ /^compiler\/(print|module|base)\// || path ~ /^compiler\/(loop\/(term|form)|ir\/weight_type)\.o$/
}

# The file that an include names: of its own folder, or of the folders that the compiler searches.
function resolve(path, name, own, roots, count, i) {
    own = path
    sub(/[^\/]*$/, "", own)
    if ((own name) in files) return own name
    if (name == "parser.h") return "compiler/syntax/parser.h"
    count = split(path ~ /^compiler/ ? "compiler/ runtime/" : "runtime/ runtime/abi/ runtime/kernels/ runtime/kernels/cuda/ compiler/ runtime/data/ runtime/model/", roots, " ")
    for (i = 1; i <= count; i++) if ((roots[i] name) in files) return roots[i] name
    return ""
}

# Kept until all are read: a fault is printed if there are more of its kind than are known.
function fault(kind, from, to, text) {
    found[kind " " from " " to]++
    texts[kind " " from " " to] = texts[kind " " from " " to] text "\n"
}

$1 == "known" && $2 == "circle" { limit[$4] = $3; next }
$1 == "known" { allowed[$2 " " $4 " " $5] = $3; next }
$1 == "file" { files[$2]; next }
$1 == "public" { public[$2]; next }

$1 == "include" {
    target = resolve($2, $4)
    from = folder($2)
    to = folder(target)
    at = $2 ":" $3 ": "
    if (target == "") {
        if (from == "runtime/standalone") next # of the folder that the compiler writes
        fault("include", from, "", at "includes what is in no folder: " $4)
    } else if (from == to || target == "compiler/moec.h" || target == "compiler/passes.h") {
        next
    } else if (from == "runtime/standalone") {
        # Its files are copied next to those that they include.
        if (to != "runtime/abi" && to != "runtime/kernels" && to != "runtime/data" && to != "runtime/model")
            fault("include", from, to, at "includes a file that is not copied with it: " $4)
    } else if (from in closed) {
        if (to != "runtime/abi") fault("include", from, to, at "includes more than abi/: " $4)
    } else if ((from ~ /^compiler/) != (to ~ /^compiler/)) {
        if (to != "runtime/abi") fault("include", from, to, at "includes a file of the other side: " $4)
    } else if (!(to in rank)) {
        fault("include", from, to, at "includes what is in no folder: " $4)
    } else if (rank[to] > rank[from]) {
        fault("include", from, to, at "includes the later folder " to ": " $4)
    } else if (to == "compiler/calls" && from != "compiler") {
        fault("include", from, to, at "includes the rows of calls: " $4)
    }
    next
}

$1 == "define" { definer[$3] = $2; next }
$1 == "use" { user[++uses] = $2; used[uses] = $3; next }

# Strongly connected components (Tarjan): low[x] is the earliest file that x reaches.
function visit(x, rest, count, i, y) {
    number[x] = low[x] = ++visited
    stack[++depth] = x
    waiting[x] = 1
    count = split(callees[x], rest, " ")
    for (i = 1; i <= count; i++) {
        y = rest[i]
        if (!(y in number)) visit(y)
        if (waiting[y] && low[y] < low[x]) low[x] = low[y]
    }
    if (low[x] == number[x]) circle(x)
}

function circle(x, y, size, text, most) {
    most = 2
    do {
        y = stack[depth--]
        waiting[y] = 0
        size++
        text = text " " y
        if (y in limit && limit[y] > most) most = limit[y]
    } while (y != x)
    if (size <= most) return
    print "a circle of " size " files, at most " most " are allowed:" text
    wrong = 1
}

END {
    for (i = 1; i <= uses; i++) {
        x = user[i]
        if (!(used[i] in definer) || definer[used[i]] == x) continue
        y = definer[used[i]]
        if (!((x, y) in edge)) callees[x] = callees[x] " " y
        edge[x, y]
        from = folder(x)
        to = folder(y)
        at = x ": calls " used[i]
        if (from !~ /^compiler/ && to ~ /^compiler/) {
            if (!(used[i] in public)) fault("call", from, to, at " of the compiler, which is not public")
        } else if (rank[to] > rank[from])
            fault("call", from, to, at " of the later folder " to)
        else if (from == "compiler/print" && !printable(y))
            fault("call", from, to, at ", but a printer reads only the module")
    }
    for (kind in found) {
        if (found[kind] <= allowed[kind]) continue
        if (allowed[kind]) print found[kind] " of: " kind ", of which " allowed[kind] " are known:"
        printf "%s", texts[kind]
        wrong = 1
    }
    for (x in callees) if (!(x in number)) visit(x)
    exit wrong
}

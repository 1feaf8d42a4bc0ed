# Judges the disassembly of one program: see sass.sh. Variables: the limits warpgroups, wide, split, local.
function finding(text) {
    print "  " kernel ": " text
    bad = 1
}

# The rules for the kernel that ends here.
function judge() {
    if (kernel == "") return
    if (!began && kernel !~ /^moec_(square_chunks|add|compare)$/) finding("does not wait for earlier kernels")
    if (began && early) finding(early " accesses before it waits for earlier kernels")
    if (constant && !doubles && kernel != "update_step") finding(constant " read-only loads")
    if (kernel ~ /_(wgmma|wide)$/) {
        if (!products) finding("no product of a warpgroup")
        if (!boxes && kernel !~ /^attend_/) finding("no copy of a box")
        groups += products > 0
    }
    if (memory && !doubles && kernel !~ /^moec_pack_/) in_memory = in_memory " " kernel
    began = early = constant = doubles = products = boxes = memory = run = 0
    base = ""
}

# Four stores of neighboring words by one thread: bases are equal, offsets end with 0, 4, 8, c.
function store(address,    part, offset, digit, now) {
    sub(/^.*\]\[/, "", address)
    sub(/\].*/, "", address)
    offset = split(address, part, "[+]0x") > 1 ? part[2] : "0"
    digit = substr(offset, length(offset))
    now = part[1] "+" substr(offset, 1, length(offset) - 1)
    run = now == base && index("048c", digit) == index("048c", last) + 1 ? run + 1 : 0
    if (run == 3) splits++
    base = now
    last = digit
}

/^\t\.section\t\.text\./ {
    judge()
    kernel = $2
    sub(/^\.text\./, "", kernel)
    sub(/,.*/, "", kernel)
    kernels++
}
/^\.L_x/ { base = "" }
/ ACQBULK/ { began = 1 }
/ (LDG?|LDGSTS|ATOMG?|UTMALDG|UBLKCP|STG?)[. ]/ && !began && !/\.NA\./ { early++ }
/ LDG?\..*CONSTANT/ && !/\.NA\./ { constant++ }
/ D(ADD|MUL|FMA)[. ]/ { doubles = 1 }
/ (LDL|STL)[. ]/ { memory = 1 }
/ HGMMA\./ { products++ }
/ UTMALDG\./ { boxes++ }
/ STG?\.E\.128/ { vectors++ }
/ STG?\.E desc/ && !/@/ { store($0) }

END {
    judge()
    kernel = program
    count = split(in_memory, part, " ")
    if (count > local) finding(count " kernels use local memory:" in_memory)
    if (groups < warpgroups) finding(groups + 0 " kernels of warpgroups, expected " warpgroups)
    if (vectors < wide) finding(vectors + 0 " stores of 16 bytes, expected " wide)
    if (splits > split_limit) finding(splits " stores of 16 bytes are split, at most " split_limit)
    printf "  %-14s %4d kernels, %3d of warpgroups, %4d stores of 16 bytes, %d split\n", program, kernels, groups, vectors, splits
    exit bad
}

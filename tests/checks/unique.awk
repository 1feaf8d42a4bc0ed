# Prints "functions NAME: FILE..." for function names in more than one file, and "types NAME: FILE..." for names of structs,
# unions and enumerations that are defined more than once.
function add(kind, name) {
    if (kind == "functions" && (name, FILENAME) in seen) return
    seen[name, FILENAME] = 1
    count[kind " " name]++
    files[kind " " name] = files[kind " " name] " " FILENAME
}
# A head starts in column 1 and ends with `{`; it can have several lines.
FNR == 1 { head = "" }
/^[A-Za-z_].*[;}]$/ || /^[#}\/]/ { head = "" }
/^(typedef )?(struct|union|enum) [A-Za-z_0-9]+ {$/ || /^(typedef )?(struct|union|enum) [A-Za-z_0-9]+ {.*}/ {
    name = $0
    sub(/ {.*/, "", name)
    sub(/.* /, "", name)
    add("types", name)
    next
}
/^typedef (struct|union|enum) {/ { unnamed = 1 }
unnamed && /} [A-Za-z_0-9]+;$/ {
    name = $NF
    sub(/;/, "", name)
    add("types", name)
    unnamed = 0
    next
}
/^[A-Za-z_][A-Za-z_0-9 *]*[ *][A-Za-z_0-9]+\(/ && !/;$/ {
    head = $0
    sub(/\(.*/, "", head)
    sub(/.*[ *]/, "", head)
}
head && /\) {$/ {
    add("functions", head)
    head = ""
}
END {
    for (name in count)
        if (count[name] > 1) print name ":" files[name]
}

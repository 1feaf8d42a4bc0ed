# Judges the prose of the files on the command line; prose.sh describes the rules.
#
#   awk -v strict=1 -v allow=LIST -f prose.awk FILE...   prints violations as FILE:LINE: RULE: SENTENCE, then the totals
#   awk -f prose.awk FILE...                             prints the number of sentences with a marker
#
# A marker is a rejected word or a free relative clause. LIST has lines `FILE | FRAGMENT | REASON`: sentences of FILE with
# FRAGMENT are accepted.
#
# Each file is split into texts: paragraphs, list items, headings, table cells, comments and strings, also those of specs in
# Markdown. A text is split into sentences. A code span counts as one word.

BEGIN {
    words = " (place|places|beside|besides|behind|stand|stands|stood|lie|lies|tell|tells|told|say|says|said|give|gives|gave" \
        "|take|takes|took|anew|mend|mends|remedy|kin|bear|bears|whoever|whatever|whichever) "
    phrases = " (go on|goes on|going on|went on|at hand|in the mean|be it|be had|is wanted|are wanted|one's own|of its own accord" \
        "|of others|tried was|measured was) "
    british = " (normalis|initialis|recognis|optimis|quantis|colour|behaviour|licence)[a-z]* "
    rates = " (tokens|bytes|positions|numbers|floats|flop|experts|maps|steps|bits) an? (token|layer|second|head|step|byte|expert|position) "
    clause = " (what|who) "
    while (allow != "" && (getline line < allow) > 0) {
        if (line ~ /^#/ || split(line, cell, / [|] /) != 3) continue
        allowed_file[++allowed_count] = cell[1]
        allowed_text[allowed_count] = cell[2]
    }
}

FNR == 1 {
    flush()
    kind = FILENAME ~ /\.md$/ ? "markdown" : FILENAME ~ /\.moe$/ ? "spec" : FILENAME ~ /\.(sh|py|awk)$/ ? "script" : "c"
    fenced = ""
    comment = 0
    was_blank = 1
}
kind == "markdown" { markdown($0) }
kind == "spec" { spec($0) }
kind == "script" { script($0) }
kind == "c" { c_line($0) }
END {
    flush()
    for (f in file_words)
        if (file_words[f] > 20 * file_sentences[f])
            found(f, 1, "average above 20 words per sentence", int(file_words[f] / file_sentences[f] * 10) / 10)
    for (i = 1; i <= allowed_count; i++)
        if (!used[i]) found(allow, i, "unused entry", allowed_file[i] " | " allowed_text[i])
    if (strict) printf "total %d %d %d\n", sentences, marked, relative
    else print marked + relative
}

# ---- texts ----

# Adds a line to the current text of prose.
function add(line) {
    if (text == "") { at = FNR; file = FILENAME }
    text = text " " line
}

function flush(    t) {
    t = text
    text = ""
    if (t != "") judge(file, at, t, "prose")
    if (declared != "") end_option()
}

function phrase(t) { judge(FILENAME, FNR, t, "phrase") }

function markdown(line,    cells, count, i) {
    if (line ~ /^```/) { flush(); fenced = fenced ? "" : line; return }
    if (fenced == "```moe") spec(line)
    if (fenced) return
    if (line ~ /^[ \t]*$/) { flush(); was_blank = 1; return }
    if (line ~ /^    / && was_blank) return
    was_blank = 0
    if (line ~ /^#/) { flush(); sub(/^#+ */, "", line); phrase(line); return }
    if (line ~ /^\|/) {
        flush()
        if (line ~ /^[|: -]+$/) return
        gsub(/`[^`]*`/, "`code`", line)
        count = split(line, cells, "|")
        for (i = 2; i < count; i++) phrase(cells[i])
        return
    }
    if (line ~ /^ *([-*]|[0-9]+\.) /) { flush(); sub(/^ *([-*]|[0-9]+\.) /, "", line) }
    add(line)
}

# Comments of a spec, and the strings of its options and requirements.
function spec(line,    hash) {
    if (line ~ /^[ ]*#/) {
        sub(/^[ ]*# ?/, "", line)
        if (line ~ /^[ ]*$/ || line ~ /^  /) flush()
        else add(line)
        return
    }
    if (text != "") flush()
    hash = match(line, /[^ ]  ?# .*$/)
    if (hash) {
        phrase(substr(line, hash + 3))
        line = substr(line, 1, hash)
    }
    if (line ~ /^  option / || declared != "" && line !~ /^      [^ ]/) if (declared != "") end_option()
    if (line ~ /^  option /) { declared = line; declared_at = FNR; declared_file = FILENAME }
    else if (declared != "") declared = declared " " line
    else if (line ~ /require .*"[^"]*"$/) phrase(quoted(line))
}

function quoted(line) {
    sub(/^[^"]*"/, "", line)
    sub(/"[^"]*$/, "", line)
    return line
}

# The text of an option: present, a noun phrase, with every value of an enumeration.
function end_option(    line, t, first, list, values, count, i, name) {
    line = declared
    declared = ""
    name = line
    sub(/^  option */, "", name)
    sub(/:.*/, "", name)
    sub(/ +(was|suggest) \[.*/, "", line)
    if (line !~ /"[^"]*"[ ]*$/) {
        if (declared_file ~ /^stdlib\//) found(declared_file, declared_at, "option without text", name)
        return
    }
    t = line
    sub(/"[ ]*$/, "", t)
    sub(/.*"/, "", t)
    judge(declared_file, declared_at, t, "phrase")
    first = t
    sub(/[ ,:;].*/, "", first)
    if (first ~ /^(of|the|a|an|what|who|as|so|that|which|how|whether|if|when|where|to|for|by|in|with|and|or|also|those|add|use|log|learn|choose|normalize|multiply|keep|save)$/ \
        || t ~ /^[A-Z][a-z]+ / && first != "Nesterov" || t ~ /[.]$/ || t !~ / /)
        found(declared_file, declared_at, "option text is not a noun phrase in lower case", name ": " t)
    if (match(line, /: *(enum|word) in \[[^]]*\]/)) {
        list = substr(line, RSTART, RLENGTH)
        sub(/.*\[/, "", list)
        sub(/\].*/, "", list)
        count = split(list, values, /, */)
        for (i = 1; i <= count; i++)
            if (!index(plain(t), plain(values[i])))
                found(declared_file, declared_at, "option text lacks the value " values[i], name ": " t)
    }
}

function script(line) {
    if (line ~ /^[ \t]*# [^ ]/) { sub(/^[ \t]*# /, "", line); add(line) }
    else flush()
}

# Comments, and strings of at least three words.
function c_line(line,    start, end) {
    if (!comment && (start = index(line, "/*"))) {
        strings(substr(line, 1, start - 1))
        line = substr(line, start + 2)
        comment = 1
    }
    if (comment) {
        if ((end = index(line, "*/"))) { line = substr(line, 1, end - 1) }
        sub(/^[ \t]*\*? ?/, "", line)
        if (line ~ /^[ ]*$/ || line ~ /^    /) flush()
        else add(line)
        if (end) { comment = 0; flush() }
        return
    }
    strings(line)
}

function strings(line,    t) {
    gsub(/\\"/, "'", line)
    while (match(line, /"[^"]*"/)) {
        t = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        gsub(/\\n/, " ", t)
        if (t ~ /[a-z] [a-z]+ [a-z]/) phrase(t)
    }
}

# ---- sentences ----

function judge(f, line, t, form,    rest) {
    gsub(/`[^`]*`/, "`code`", t)
    while (match(t, /\[[^]]*\]\([^)]*\)/))
        t = substr(t, 1, RSTART - 1) link_text(substr(t, RSTART, RLENGTH)) substr(t, RSTART + RLENGTH)
    gsub(/"[^"]*"/, "`code`", t)
    if (form == "prose") {
        while (match(t, /[.!?]\)? +[A-Z`(]/)) {
            rest = substr(t, RSTART + RLENGTH - 1)
            sentence(f, line, substr(t, 1, RSTART), form)
            t = rest
        }
    }
    sentence(f, line, t, form)
}

function link_text(t) { sub(/^\[/, "", t); sub(/\].*/, "", t); return t }

# In lower case, without punctuation, between two spaces.
function plain(t) {
    t = tolower(t)
    gsub(/[^a-z0-9_'-]+/, " ", t)
    return " " t " "
}
function trim(t) { gsub(/^ +| +$/, "", t); return t }

function sentence(f, line, t, form,    p, count) {
    p = plain(t)
    if (p !~ /[a-z]/) return
    sentences++
    if (is_allowed(f, t)) return
    if (p ~ words || p ~ phrases || p ~ rates || p ~ british) {
        marked++
        if (strict) found(f, line, "rejected word" which(p), t)
    } else if (p ~ clause && t !~ /[?][) ]*$/) {
        relative++
        if (strict) found(f, line, "free relative clause", t)
    }
    if (form == "prose") {
        count = count_words(t)
        if (count > 35) found(f, line, "sentence of " count " words", t)
        if (f ~ /\.md$/) { file_words[f] += count; file_sentences[f]++ }
    }
}

function is_allowed(f, t,    i) {
    for (i = 1; i <= allowed_count; i++)
        if (f == allowed_file[i] && index(t, allowed_text[i])) return used[i] = 1
    return 0
}

function which(p) {
    if (match(p, words) || match(p, phrases) || match(p, rates) || match(p, british))
        return " '" trim(substr(p, RSTART, RLENGTH)) "'"
}

function count_words(t,    parts, count, i, n) {
    count = split(t, parts, /[ \t]+/)
    for (i = 1; i <= count; i++) n += parts[i] ~ /[A-Za-z0-9`]/
    return n
}

function found(f, line, rule, t) {
    if (!strict) return
    gsub(/^ +| +$/, "", t)
    printf "%s:%d: %s: %s\n", f, line, rule, t
}

/* pattern_translate: translates regular expressions from Oniguruma to PCRE2 syntax. Character
 * classes are those of Unicode 16 with any version of PCRE2. Constructs with different meanings are
 * expanded; unsupported ones are errors. */
#include "tokenizer/text/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_LIMIT = 64 };

typedef struct PatternTranslation {
    const char *at, *end;
    WordClass word;
    Text *out, *fault;
    size_t atom;                /* offset in `out` of the operand of a quantifier */
    size_t groups[DEPTH_LIMIT]; /* where groups that are open begin */
    int depth;
} PatternTranslation;

static bool refuse_pattern(PatternTranslation *t, const char *what) {
    text_append(t->fault, what, strlen(what));
    return false;
}

static void put_pattern_text(PatternTranslation *t, const char *text) {
    text_append(t->out, text, strlen(text));
}

static bool translation_next_is(const PatternTranslation *t, const char *text) {
    size_t length = strlen(text);
    return (size_t)(t->end - t->at) >= length && memcmp(t->at, text, length) == 0;
}

#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"        \
    "\\x{205f}\\x{3000}"

/* Members of a class: of \s, \w or \d. */
static void put_members(PatternTranslation *t, char letter) {
    if (letter == 's') {
        put_pattern_text(t, SPACES);
    } else if (letter == 'd') {
        put_pattern_text(t, "\\p{Nd}");
        characters_newer(t->out, "Nd");
    } else {
        put_pattern_text(t, t->word == WORD_RUST ? "\\x{200c}\\x{200d}"
                                                 : "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
        put_pattern_text(t, "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}");
        characters_newer(t->out, "L");
        characters_newer(t->out, "M");
        characters_newer(t->out, "Nd");
        characters_newer(t->out, "Pc");
    }
}

/* Names of general categories, long and short. */
static const struct {
    const char *name, *category;
} categories[] = {
    {"letter", "L"},
    {"mark", "M"},
    {"number", "N"},
    {"punctuation", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"control", "Cc"},
    {"format", "Cf"},
};

static bool same_letters(const char *a, const char *b) {
    for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++) b++;
    return !*a && !*b;
}

/* The short name of a category, or the name itself: that of a script. */
static const char *category_of(const char *name) {
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (same_letters(categories[i].name, name)) return categories[i].category;
    return name;
}

/* After \p or \P: {Name}, {^Name} or one letter. False with a fault. */
static bool read_property(PatternTranslation *t, char name[40], bool *negated) {
    if (t->at == t->end) return refuse_pattern(t, "\\p at its end");
    if (*t->at != '{') {
        name[0] = *t->at++;
        name[1] = 0;
        return true;
    }
    const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
    if (!close || close - t->at > 36) return refuse_pattern(t, "a \\p{ without its }");
    size_t length = 0;
    for (const char *c = t->at + 1; c < close; c++) {
        if (*c == '^' && c == t->at + 1)
            *negated = !*negated;
        else if (isalnum((unsigned char)*c))
            name[length++] = *c;
        else if (*c != ' ' && *c != '_' && *c != '-')
            return refuse_pattern(t, "an unsupported form of \\\\p{...}");
    }
    name[length] = 0;
    t->at = close + 1;
    return true;
}

/* Names that mean other sets in Oniguruma than in PCRE2. */
static bool is_posix(const char *name) {
    static const char *const names[] = {"alnum", "alpha", "ascii",  "blank", "cntrl",
                                        "digit", "graph", "lower",  "print", "punct",
                                        "space", "upper", "xdigit", "word",  "assigned"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (same_letters(names[i], name)) return true;
    return false;
}

static bool put_property(PatternTranslation *t, bool negated, bool in_class) {
    char name[40];
    if (!read_property(t, name, &negated)) return false;
    if (is_posix(name)) return refuse_pattern(t, "a POSIX class in \\p{...}");
    const char *category = category_of(name);
    const bool script = strlen(category) > 2 && pattern_is_script(category);
    const bool alone = negated && in_class;
    if (!in_class) put_pattern_text(t, negated ? "[^" : "[");
    put_pattern_text(t, alone ? "\\P{" : "\\p{");
    if (script) put_pattern_text(t, "sc:");
    put_pattern_text(t, category);
    put_pattern_text(t, "}");
    if (script && !alone) characters_newer_of_script(t->out, category);
    if (strlen(category) <= 2 && !alone) characters_newer(t->out, category);
    if (!in_class) put_pattern_text(t, "]");
    return true;
}

/* \x41, \x{1F600}, \\u0041. */
static bool put_code_point(PatternTranslation *t, char letter) {
    char digits[12] = "";
    size_t count = 0, wanted = letter == 'u' ? 4 : 2;
    bool braces = letter == 'x' && t->at < t->end && *t->at == '{';
    if (braces) t->at++;
    while (t->at < t->end && isxdigit((unsigned char)*t->at) && count < (braces ? 8u : wanted))
        digits[count++] = *t->at++;
    if (braces && (t->at == t->end || *t->at++ != '}'))
        return refuse_pattern(t, "a \\x{ without its }");
    unsigned long value = strtoul(digits, NULL, 16);
    if (!count || (letter == 'u' && count != 4) || (letter == 'x' && !braces && value > 0x7F))
        return refuse_pattern(t, "a byte that is not a character");
    put_pattern_text(t, "\\x{");
    put_pattern_text(t, digits);
    put_pattern_text(t, "}");
    return true;
}

/* Translates an escape sequence. */
static bool put_escape(PatternTranslation *t, bool in_class) {
    if (t->at == t->end) return refuse_pattern(t, "a backslash at its end");
    char letter = *t->at++, small = (char)tolower((unsigned char)letter);
    if (letter == 'p' || letter == 'P') return put_property(t, letter == 'P', in_class);
    if (strchr("swd", small)) {
        if (in_class && letter != small) {
            if (small == 'w') return refuse_pattern(t, "\\W in a class");
            put_pattern_text(t, small == 's' ? "\\P{White_Space}" : "\\P{Nd}");
            return true;
        }
        if (!in_class) put_pattern_text(t, letter == small ? "[" : "[^");
        put_members(t, small);
        if (!in_class) put_pattern_text(t, "]");
        return true;
    }
    if (letter == 'x' || letter == 'u') return put_code_point(t, letter);
    if (letter == 'v') {
        put_pattern_text(t, "\\x0b");
        return true;
    }
    if (letter == 'h' || letter == 'H') {
        if (in_class && letter == 'H') return refuse_pattern(t, "\\H in a class");
        put_pattern_text(t, in_class        ? "0-9a-fA-F"
                            : letter == 'h' ? "[0-9a-fA-F]"
                                            : "[^0-9a-fA-F]");
        return true;
    }
    if (isalnum((unsigned char)letter) && !strchr(in_class ? "nrtfae" : "nrtfaeAzZG", letter)) {
        char what[] = "\\?";
        what[1] = letter;
        return refuse_pattern(t, what);
    }
    char kept[2] = {'\\', letter};
    text_append(t->out, kept, 2);
    return true;
}

/* A class inside a class adds its members; where those are negated it is not known. */
static bool put_class(PatternTranslation *t) {
    int inner = 0;
    t->at++;
    put_pattern_text(t, "[");
    if (t->at < t->end && *t->at == '^') {
        put_pattern_text(t, "^");
        t->at++;
    }
    for (bool first = true; t->at < t->end; first = false) {
        char c = *t->at;
        if (c == ']' && !first && !inner) {
            t->at++;
            put_pattern_text(t, "]");
            return true;
        }
        if (translation_next_is(t, "[^") || translation_next_is(t, "[:"))
            return refuse_pattern(t, "a negated class inside a class");
        if (c == '[' || (c == ']' && inner)) {
            inner += c == '[' ? 1 : -1;
            t->at++;
            continue;
        }
        if (translation_next_is(t, "&&")) return refuse_pattern(t, "&& in a class");
        t->at++;
        if (c == '\\') {
            if (!put_escape(t, true)) return false;
        } else if (c == ']') {
            put_pattern_text(t, "\\]");
        } else {
            text_append(t->out, &c, 1);
        }
    }
    return refuse_pattern(t, "a [ without its ]");
}

static bool translate_group(PatternTranslation *t) {
    static const char *const known[] = {"(?:", "(?=",  "(?!",  "(?<=", "(?<!",
                                        "(?>", "(?i:", "(?i)", "(?-i:"};
    if (t->depth == DEPTH_LIMIT) return refuse_pattern(t, "too many groups");
    size_t start = t->out->length;
    if (!translation_next_is(t, "(?")) {
        put_pattern_text(t, "(?:");
        t->at++;
        t->groups[t->depth++] = start;
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!translation_next_is(t, known[i])) continue;
        put_pattern_text(t, known[i]);
        t->at += strlen(known[i]);
        if (strcmp(known[i], "(?i)") != 0) t->groups[t->depth++] = start;
        return true;
    }
    return refuse_pattern(t, "an unsupported group (?...");
}

/* {n,m}: a + after it repeats the whole, and {,m} begins at 0. */
static bool put_count(PatternTranslation *t) {
    const char *c = t->at + 1;
    while (c < t->end && (isdigit((unsigned char)*c) || *c == ',')) c++;
    if (c == t->end || *c != '}' || c == t->at + 1) {
        put_pattern_text(t, "\\{");
        t->atom = t->out->length - 2;
        t->at++;
        return true;
    }
    put_pattern_text(t, "{");
    if (t->at[1] == ',') put_pattern_text(t, "0");
    text_append(t->out, t->at + 1, (size_t)(c - t->at));
    t->at = c + 1;
    if (t->at == t->end || *t->at != '+') return true;
    t->at++;
    size_t length = t->out->length - t->atom;
    text_reserve(t->out, 5);
    memmove(t->out->bytes + t->atom + 3, t->out->bytes + t->atom, length);
    memcpy(t->out->bytes + t->atom, "(?:", 3);
    t->out->length += 3;
    put_pattern_text(t, ")+");
    return true;
}

static bool put_one(PatternTranslation *t) {
    char c = *t->at;
    size_t start = t->out->length;
    switch (c) {
    case '*':
    case '+':
    case '?':
        t->at++;
        text_append(t->out, &c, 1);
        return true;
    case '{':
        return put_count(t);
    case '(':
        return translate_group(t);
    case ')':
        if (!t->depth) return refuse_pattern(t, "a ) without its (");
        t->atom = t->groups[--t->depth];
        t->at++;
        put_pattern_text(t, ")");
        return true;
    case '[':
        t->atom = start;
        return put_class(t);
    case '\\':
        t->at++;
        t->atom = start;
        return put_escape(t, false);
    case '^':
    case '$': /* Oniguruma's match at every line */
        t->at++;
        put_pattern_text(t, c == '^' ? "(?m:^)" : "(?m:$)");
        return true;
    default: {
        int length = character_length((unsigned char)c);
        t->atom = start;
        text_append(t->out, t->at, (size_t)length);
        t->at += length;
        return true;
    }
    }
}

bool pattern_translate(const char *bytes, size_t length, WordClass word, Text *out, Text *fault) {
    PatternTranslation t = {
        .at = bytes, .end = bytes + length, .word = word, .out = out, .fault = fault};
    while (t.at < t.end)
        if (!put_one(&t)) return false;
    return t.depth == 0 || refuse_pattern(&t, "a ( without its )");
}

/* amalgamate: headers as one text, of which only those declarations remain that a program needs.
 *
 *     #ifdef MOEC_PLAIN                  static inline float moec_min(float a, float b) { ... }
 *     #define MOEC_INLINE static inline
 *     #else                        -->
 *     ...                                (the program calls moec_min and not moec_max)
 */
#include "tools/command/freestanding/plain_folder.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- conditions ---- */

/* Macros whose value is known: all of these but the first are undefined, and those of include
 * guards. */
static const char *const known[] = {
    "MOEC_PLAIN",         "_OPENMP",    "__CUDACC_RTC__",  "MOEC_KERNELS_HERE",
    "MOEC_KERNELS_APART", "__x86_64__", "MOEC_FAST_PAIRS", NULL};

enum { UNKNOWN = -1, DEEPEST = 16 };

static size_t word_length(const char *at) {
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

static bool is_decimal(char c) {
    return c >= '0' && c <= '9';
}

static int value_of_macro(const char *name, size_t length) {
    if (length > 2 && strncmp(name + length - 2, "_H", 2) == 0) return 0;
    for (int i = 0; known[i]; i++)
        if (strlen(known[i]) == length && strncmp(known[i], name, length) == 0) return i == 0;
    return UNKNOWN;
}

/* "defined(A) || !defined(B)": alternatives only. */
static int value_of_condition(const char *at, const char *end) {
    int value = 0;
    while (at < end) {
        at += strspn(at, " |(");
        if (at >= end) break;
        const bool not_ = *at == '!';
        at += not_;
        if (strncmp(at, "defined(", 8) != 0) return UNKNOWN;
        at += 8;
        const size_t length = word_length(at);
        const int one = value_of_macro(at, length);
        if (one == UNKNOWN) return UNKNOWN;
        value |= not_ ? !one : one;
        at += length + 1;
        at += strspn(at, " )");
        if (at < end && *at != '|') return UNKNOWN;
    }
    return value;
}

typedef struct Branch {
    bool known, active, taken; /* taken: this branch of a known condition, or one before it */
} Branch;

typedef struct Resolution {
    Branch branches[DEEPEST];
    int depth;
} Resolution;

static bool is_active(const Resolution *resolution) {
    for (int i = 0; i < resolution->depth; i++)
        if (!resolution->branches[i].active) return false;
    return true;
}

/* The value of the condition of a directive. */
static int directive_value(const char *directive, const char *end) {
    const size_t length = word_length(directive);
    const char *rest = directive + length + strspn(directive + length, " ");
    if (strncmp(directive, "else", 4) == 0) return 1;
    if (strncmp(directive, "ifdef", 5) == 0) return value_of_macro(rest, word_length(rest));
    if (strncmp(directive, "ifndef", 6) == 0) {
        const int value = value_of_macro(rest, word_length(rest));
        return value == UNKNOWN ? UNKNOWN : !value;
    }
    return value_of_condition(rest, end);
}

/* Whether the line of a directive remains. */
static bool resolve_directive(Resolution *resolution, const char *directive, const char *end) {
    if (strncmp(directive, "include", 7) == 0) return false;
    const bool opens = strncmp(directive, "if", 2) == 0;
    if (opens) {
        const int value = directive_value(directive, end);
        const bool before = is_active(resolution);
        resolution->branches[resolution->depth++] =
            (Branch){value != UNKNOWN, value != 0, value == 1};
        return before && value == UNKNOWN;
    }
    Branch *branch = resolution->depth ? &resolution->branches[resolution->depth - 1] : NULL;
    if (branch && (strncmp(directive, "elif", 4) == 0 || strncmp(directive, "else", 4) == 0)) {
        if (!branch->known) return is_active(resolution);
        branch->active = !branch->taken && directive_value(directive, end) != 0;
        branch->taken |= branch->active;
        return false;
    }
    if (branch && strncmp(directive, "endif", 5) == 0) {
        const bool stays = !branch->known && is_active(resolution);
        resolution->depth--;
        return stays;
    }
    return is_active(resolution);
}

/* Adds a header without includes and known conditions. */
static void add_resolved(Text *text, const char *header) {
    Resolution resolution = {.depth = 0};
    for (const char *line = header; *line;) {
        const char *end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        const bool stays =
            *line == '#' ? resolve_directive(&resolution, line + 1, end) : is_active(&resolution);
        if (stays) text_append(text, line, (size_t)(end - line));
        line = end;
    }
}

/* ---- declarations ---- */

typedef struct HeaderPart {
    const char *from, *end; /* with the comment before it */
    const char *code;       /* after that comment */
    bool used;
} HeaderPart;

typedef struct HeaderParts {
    HeaderPart *items;
    int count, room;
} HeaderParts;

static const char *after_comment(const char *at) {
    const char *end = strstr(at, "*/");
    return end ? end + 2 : at + strlen(at);
}

/* After a directive with its continuation lines; after the matching #endif of a condition. */
static const char *after_directive(const char *at) {
    int depth = 0;
    do {
        if (strncmp(at, "#if", 3) == 0) depth++;
        if (strncmp(at, "#endif", 6) == 0) depth--;
        bool continued = true;
        while (*at && continued) {
            const char *end = strchr(at, '\n');
            continued = end && end > at && end[-1] == '\\';
            at = end ? end + 1 : at + strlen(at);
        }
    } while (depth > 0 && *at);
    return at;
}

/* After a declaration: its semicolon, or the brace of a function. */
static const char *after_declaration(const char *at) {
    int depth = 0;
    bool function = false;
    char last = 0;
    while (*at) {
        if (strncmp(at, "/*", 2) == 0) {
            at = after_comment(at);
            continue;
        }
        if (*at == '{' && depth++ == 0) function = last == ')';
        if (*at == '}' && --depth == 0 && function) return at + 1;
        if (*at == ';' && depth == 0) return at + 1;
        if (*at != ' ' && *at != '\n') last = *at;
        at++;
    }
    return at;
}

static void add_header_part(HeaderParts *pieces, HeaderPart piece) {
    if (pieces->count == pieces->room) {
        pieces->room = pieces->room ? 2 * pieces->room : 256;
        pieces->items = memory_grow(pieces->items, (size_t)pieces->room * sizeof *pieces->items);
    }
    pieces->items[pieces->count++] = piece;
}

/* A comment belongs to the declaration in the next line; others are left out. */
static HeaderParts header_parts(const char *text) {
    HeaderParts pieces = {0};
    const char *comment = NULL;
    for (const char *at = text; *at;) {
        if (*at == '\n') {
            if (at > text && at[-1] == '\n') comment = NULL;
            at++;
        } else if (*at == ' ') {
            at++;
        } else if (strncmp(at, "/*", 2) == 0) {
            if (!comment) comment = at;
            at = after_comment(at);
        } else {
            const char *end = *at == '#' ? after_directive(at) : after_declaration(at);
            while (*end == ' ' || strncmp(end, "/*", 2) == 0)
                end = *end == ' ' ? end + 1 : after_comment(end);
            add_header_part(&pieces, (HeaderPart){comment ? comment : at, end, at, false});
            comment = NULL;
            at = end;
        }
    }
    return pieces;
}

/* The next word of the code from *at on, with its length; NULL: none is left. */
static const char *next_word(const char **at, const char *end, size_t *length) {
    while (*at < end) {
        const char *word = *at;
        if (strncmp(word, "/*", 2) == 0) {
            *at = after_comment(word);
            continue;
        }
        *length = word_length(word);
        *at = word + (*length ? *length : 1);
        if (*length && !is_decimal(*word)) return word;
    }
    return NULL;
}

/* Whether a part declares this word: the name of a macro, a function, a type or a constant of an
 * enumeration. */
static bool part_declares(const HeaderPart *piece, const char *name, size_t length) {
    size_t word_size;
    const bool enumeration =
        strncmp(piece->code, "enum", 4) == 0 || strncmp(piece->code, "typedef enum", 12) == 0;
    const bool directive = *piece->code == '#';
    const char *at = piece->code, *word;
    const char *before = "", *type_end = piece->end;
    size_t before_size = 0;
    while (type_end > piece->code && *type_end != ';') type_end--;
    while ((word = next_word(&at, piece->end, &word_size))) {
        const bool same = word_size == length && strncmp(word, name, length) == 0;
        const char *next = at + strspn(at, " \n");
        if (same) {
            if (directive && before_size == 6 && strncmp(before, "define", 6) == 0) return true;
            if (enumeration && strchr(",=};", *next)) return true;
            if (before_size == 6 && strncmp(before, "struct", 6) == 0 && *next == '{') return true;
            if (strncmp(piece->code, "typedef", 7) == 0 && next == type_end) return true;
            if (!directive && !enumeration && *next == '(') return true;
        }
        /* the words after the first bracket of a function are no declarations */
        if (!directive && strncmp(piece->code, "typedef", 7) != 0 && !enumeration && *next == '(' &&
            strncmp(word, "__attribute__", 13) != 0)
            return same;
        before = word;
        before_size = word_size;
    }
    return false;
}

static bool use_word(HeaderParts *pieces, const char *name, size_t length) {
    bool found = false;
    for (int i = 0; i < pieces->count; i++) {
        HeaderPart *piece = &pieces->items[i];
        if (piece->used || !part_declares(piece, name, length)) continue;
        piece->used = found = true;
    }
    return found;
}

/* Marks the declarations of all words of a text; whether there were new ones. */
static bool use_words(HeaderParts *pieces, const char *from, const char *end) {
    bool found = false;
    size_t length;
    for (const char *at = from, *word; (word = next_word(&at, end, &length));)
        found |= (strncmp(word, "moec", 4) == 0 || strncmp(word, "Moec", 4) == 0 ||
                  strncmp(word, "MOEC", 4) == 0) &&
                 use_word(pieces, word, length);
    return found;
}

char *amalgamate(const char *const *headers, const char *program) {
    Text resolved = {0}, result = {0};
    for (int i = 0; headers[i]; i++) add_resolved(&resolved, headers[i]);
    text_append(&resolved, "", 1);
    HeaderParts pieces = header_parts(resolved.bytes);
    bool found = use_words(&pieces, program, program + strlen(program));
    while (found) {
        found = false;
        for (int i = 0; i < pieces.count; i++)
            if (pieces.items[i].used)
                found |= use_words(&pieces, pieces.items[i].code, pieces.items[i].end);
    }
    for (int i = 0; i < pieces.count; i++) {
        const HeaderPart *piece = &pieces.items[i];
        if (!piece->used) continue;
        const bool line = *piece->code == '#';
        text_append(&result, piece->from, (size_t)(piece->end - piece->from) - line);
        text_append(&result, "\n\n", i + 1 < pieces.count && line ? 1 : 2);
    }
    text_append(&result, "", 1);
    free(pieces.items);
    text_free(&resolved);
    return result.bytes;
}

const char *amalgamate_missing(const char *text, const char *program, size_t *length) {
    AUTO(Text) resolved = {0};
    text_append(&resolved, text, strlen(text) + 1);
    HeaderParts pieces = header_parts(resolved.bytes);
    const char *missing = NULL, *word, *end = program + strlen(program);
    for (const char *at = program; !missing && (word = next_word(&at, end, length));) {
        if (strncmp(word, "moec_", 5) != 0 || *at != '(') continue;
        bool found = false;
        for (int i = 0; i < pieces.count && !found; i++)
            found = part_declares(&pieces.items[i], word, *length);
        if (!found) missing = word;
    }
    free(pieces.items);
    return missing;
}

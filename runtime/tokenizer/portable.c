#include "tokenizer/tokenizer.h"

#include "base/memory.h"
#include "tokenizer/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_LIMIT = 32, ITEM_LIMIT = 24, ALTERNATIVE_LIMIT = 64, MANY = 0x7FFFFFFF };
enum { ITEM_CLASS, ITEM_NOT_AHEAD };

typedef struct Item {
    int32_t kind, class, least, most;
} Item;

typedef struct PatternAlternative {
    Item items[ITEM_LIMIT];
    int count;
} PatternAlternative;

typedef struct Alternatives {
    PatternAlternative items[ALTERNATIVE_LIMIT];
    int count;
} Alternatives;

/* Atoms of expressions, each a class of characters by its text. */
typedef struct Classes {
    char *texts[CLASS_LIMIT];
    int count;
} Classes;

typedef struct PatternParser {
    const char *at, *end;
    Classes *classes;
    bool caseless;
} PatternParser;

static void put_word32(Text *out, uint32_t word) {
    const char bytes[4] = {(char)word, (char)(word >> 8), (char)(word >> 16), (char)(word >> 24)};
    text_append(out, bytes, 4);
}

static void put_sized_bytes(Text *out, const char *bytes, size_t length) {
    put_word32(out, (uint32_t)length);
    text_append(out, bytes, length);
}

/* ---- the texts of tokens ---- */

static bool put_token_names(const Tokenizer *tokenizer, Text *out) {
    AUTO(Text) bytes = {0};
    size_t *ends = memory_new(sizeof *ends * (size_t)tokenizer->size), start = 0;
    const bool good = tokenizer_bytes(tokenizer, &bytes, ends);
    put_word32(out, (uint32_t)tokenizer->size);
    for (int32_t token = 0; token < tokenizer->size && good; start = ends[token++]) {
        uint32_t hidden = tokenizer_is_special(tokenizer, token) ? 1u << 31 : 0;
        put_word32(out, (uint32_t)(ends[token] - start) | hidden);
        text_append(out, bytes.bytes + start, ends[token] - start);
    }
    free(ends);
    return good;
}

/* ---- expressions ---- */

static bool pattern_next_is(const PatternParser *parser, const char *text) {
    size_t length = strlen(text);
    return (size_t)(parser->end - parser->at) >= length && !memcmp(parser->at, text, length);
}

/* The class of an atom, -1 when there are too many. */
static int class_number(PatternParser *parser, const char *bytes, size_t length) {
    char *text = memory_format(parser->caseless ? "(?i:%.*s)" : "%.*s", (int)length, bytes);
    Classes *classes = parser->classes;
    for (int i = 0; i < classes->count; i++)
        if (strcmp(classes->texts[i], text) == 0) {
            free(text);
            return i;
        }
    if (classes->count == CLASS_LIMIT) {
        free(text);
        return -1;
    }
    classes->texts[classes->count] = text;
    return classes->count++;
}

/* The length of the atom that comes next: a class, an escape, a character; 0: none of them. */
static size_t atom_length(const PatternParser *parser) {
    const char *at = parser->at;
    size_t left = (size_t)(parser->end - at);
    if (!left || strchr("()|*+?{^$.", *at)) return 0;
    if (*at == '[') {
        int inner = 0;
        for (size_t i = 1; i < left; i++) {
            if (at[i] == '\\') {
                i++;
            } else if (at[i] == '[') {
                inner++;
            } else if (at[i] == ']' && i > 1 && inner-- == 0) {
                return i + 1;
            }
        }
        return 0;
    }
    if (*at != '\\') return (size_t)character_length((unsigned char)*at);
    if (left < 2) return 0;
    const char *close = left > 2 && at[2] == '{' ? memchr(at, '}', left) : NULL;
    if (strchr("pPx", at[1])) return close ? (size_t)(close - at) + 1 : 0;
    return strchr("sSdDwWnrt", at[1]) || !isalnum((unsigned char)at[1]) ? 2 : 0;
}

static bool parse_digits(PatternParser *parser, int32_t *number) {
    if (parser->at == parser->end || !isdigit((unsigned char)*parser->at)) return false;
    *number = 0;
    while (parser->at < parser->end && isdigit((unsigned char)*parser->at) && *number < 1000000)
        *number = 10 * *number + (*parser->at++ - '0');
    return true;
}

/* ?, *, +, {2}, {1,3}, {2,}; lazy and possessive quantifiers are not supported. */
static bool parse_repetition(PatternParser *parser, Item *item) {
    item->least = item->most = 1;
    if (parser->at == parser->end || !strchr("?*+{", *parser->at)) return true;
    char c = *parser->at++;
    if (c == '?') item->least = 0;
    if (c == '*') item->least = 0;
    if (c == '*' || c == '+') item->most = MANY;
    if (c == '{') {
        if (!parse_digits(parser, &item->least)) return false;
        item->most = item->least;
        if (pattern_next_is(parser, ",")) {
            parser->at++;
            if (!parse_digits(parser, &item->most)) item->most = MANY;
        }
        if (!pattern_next_is(parser, "}")) return false;
        parser->at++;
    }
    return parser->at == parser->end || !strchr("?+", *parser->at);
}

static bool take_atom(PatternParser *parser, Item *item) {
    size_t length = atom_length(parser);
    if (!length) return false;
    item->class = class_number(parser, parser->at, length);
    parser->at += length;
    return item->class >= 0;
}

static bool add_item(Alternatives *all, int from, Item item) {
    for (int i = from; i < all->count; i++) {
        if (all->items[i].count == ITEM_LIMIT) return false;
        all->items[i].items[all->items[i].count++] = item;
    }
    return true;
}

/* (?i:'s|'t) and (?i:'s|'t)?: combines each alternative so far with each one of the group and, if
 * the group is optional, also keeps it alone. */
static bool take_group(PatternParser *parser, Alternatives *all, int from) {
    AUTO_FREE Alternatives *found = memory_new(sizeof *found);
    PatternAlternative alternative = {0};
    bool good = true;
    parser->caseless = true;
    for (parser->at += 4; good && !pattern_next_is(parser, ")");) {
        Item item = {ITEM_CLASS, 0, 1, 1};
        if (pattern_next_is(parser, "|")) {
            parser->at++;
            good = found->count < ALTERNATIVE_LIMIT - 2;
            if (good) found->items[found->count++] = alternative;
            alternative.count = 0;
        } else {
            good = take_atom(parser, &item) && alternative.count < ITEM_LIMIT;
            if (good) alternative.items[alternative.count++] = item;
        }
    }
    parser->caseless = false;
    if (good) found->items[found->count++] = alternative;
    if (good) parser->at++;
    if (good && pattern_next_is(parser, "?")) {
        parser->at++;
        found->items[found->count++] = (PatternAlternative){0};
    }
    int before = all->count - from;
    good = good && from + before * found->count <= ALTERNATIVE_LIMIT;
    AUTO_FREE Alternatives *joined = memory_new(sizeof *joined);
    for (int i = 0; i < before && good; i++)
        for (int k = 0; k < found->count && good; k++) {
            PatternAlternative *to = &joined->items[joined->count++];
            *to = all->items[from + i];
            good = to->count + found->items[k].count <= ITEM_LIMIT;
            for (int j = 0; j < found->items[k].count && good; j++)
                to->items[to->count++] = found->items[k].items[j];
        }
    for (int i = 0; i < joined->count && good; i++) all->items[from + i] = joined->items[i];
    if (good) all->count = from + joined->count;
    return good;
}

/* (?!\S) */
static bool take_ahead(PatternParser *parser, Item *item) {
    parser->at += 3;
    item->kind = ITEM_NOT_AHEAD;
    if (!take_atom(parser, item) || !pattern_next_is(parser, ")")) return false;
    parser->at++;
    return true;
}

static bool parse_alternatives(PatternParser *parser, Alternatives *all) {
    int from = 0;
    all->items[0].count = 0;
    all->count = 1;
    while (parser->at < parser->end) {
        Item item = {ITEM_CLASS, 0, 1, 1};
        bool good;
        if (pattern_next_is(parser, "|")) {
            parser->at++;
            from = all->count;
            good = all->count < ALTERNATIVE_LIMIT;
            if (good) all->items[all->count++].count = 0;
        } else if (pattern_next_is(parser, "(?i:")) {
            good = take_group(parser, all, from);
        } else if (pattern_next_is(parser, "(?!")) {
            good = take_ahead(parser, &item) && add_item(all, from, item);
        } else {
            good = take_atom(parser, &item) && parse_repetition(parser, &item) &&
                   add_item(all, from, item);
        }
        if (!good) return false;
    }
    return true;
}

/* ---- classes ---- */

/* All characters, in order. */
static void all_characters(Text *text) {
    for (int32_t c = 0; c < 0x110000; c++)
        if (c < 0xD800 || c > 0xDFFF) text_append_character(text, c);
}

/* masks[character] gets the bit of a class. */
static bool mark_class(const char *atom, int bit, const Text *all, uint32_t *masks) {
    AUTO_FREE char *expression = memory_format("%s+", atom);
    Pattern *pattern =
        pattern_of_expression("portable", expression, strlen(expression), WORD_ONIGURUMA);
    AUTO(Matcher) *matcher = matcher_new();
    size_t start, end, at = 0;
    while (pattern && pattern_find(pattern, matcher, all->bytes, all->length, at, &start, &end) ==
                          FOUND_MATCH) {
        for (at = start; at < end;) {
            int taken;
            masks[character_at(all->bytes + at, &taken)] |= 1u << bit;
            at += (size_t)taken;
        }
    }
    pattern_free(pattern);
    return pattern != NULL;
}

static bool put_classes(const Classes *classes, Text *out) {
    AUTO(Text) all = {0}, runs = {0};
    uint32_t *masks = memory_new(sizeof *masks * 0x110000), count = 0;
    all_characters(&all);
    bool good = true;
    for (int i = 0; i < classes->count && good; i++)
        good = mark_class(classes->texts[i], i, &all, masks);
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c && (masks[c] == masks[c - 1] || (c >= 0xD800 && c <= 0xDFFF))) continue;
        put_word32(&runs, c);
        put_word32(&runs, masks[c]);
        count++;
    }
    put_word32(out, count);
    text_append(out, runs.bytes, runs.length);
    free(masks);
    return good;
}

/* ---- encoding data ---- */

static void put_alternatives(const Alternatives *all, Text *out) {
    put_word32(out, (uint32_t)all->count);
    for (int i = 0; i < all->count; i++) {
        put_word32(out, (uint32_t)all->items[i].count);
        for (int k = 0; k < all->items[i].count; k++) {
            const Item *item = &all->items[i].items[k];
            put_word32(out, (uint32_t)item->kind);
            put_word32(out, (uint32_t)item->class);
            put_word32(out, (uint32_t)item->least);
            put_word32(out, (uint32_t)item->most);
        }
    }
}

/* A splitter that has no expression of the kind known here. */
static bool put_splitter(const Splitter *splitter, Classes *classes, Text *out) {
    size_t length;
    const char *source =
        splitter->kind == SPLIT_PATTERN ? pattern_source(splitter->pattern, &length) : NULL;
    if (!source || splitter->behaviour != BEHAVIOUR_ISOLATED || splitter->inverted) return false;
    PatternParser parser = {.at = source, .end = source + length, .classes = classes};
    AUTO_FREE Alternatives *all = memory_new(sizeof *all);
    bool good = parse_alternatives(&parser, all);
    if (good) put_alternatives(all, out);
    return good;
}

/* The step that puts a space before a text. */
static bool is_prefix(const Splitter *splitter) {
    return splitter->kind == SPLIT_SPACES && splitter->prefix == PREFIX_ALWAYS &&
           splitter->replacement.length == 1 && *splitter->replacement.bytes == ' ';
}

static bool put_splitters(const SplitterList *list, Classes *classes, Text *out) {
    int first = list->count && is_prefix(&list->items[0]) ? 1 : 0;
    put_word32(out, (uint32_t)(list->count - first));
    for (int i = first; i < list->count; i++)
        if (!put_splitter(&list->items[i], classes, out)) return false;
    return true;
}

static int by_rank(const void *a, const void *b) {
    return ((const TokenPair *)a)->first < ((const TokenPair *)b)->first ? -1 : 1;
}

static void put_merges(const Vocabulary *vocabulary, Text *out) {
    AUTO_FREE TokenPair *merges = memory_new(sizeof *merges * (vocabulary->merges.count + 1));
    size_t count = 0;
    for (size_t i = 0; i < vocabulary->merges.size; i++)
        if (vocabulary->merges.slots[i].key != PAIR_EMPTY)
            merges[count++] = vocabulary->merges.slots[i];
    qsort(merges, count, sizeof *merges, by_rank);
    put_word32(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        put_word32(out, (uint32_t)(merges[i].key >> 32));
        put_word32(out, (uint32_t)merges[i].key);
        put_word32(out, (uint32_t)merges[i].second);
    }
}

static void put_special(const Tokenizer *tokenizer, Text *out) {
    put_word32(out, (uint32_t)tokenizer->added_count);
    for (int i = 0; i < tokenizer->added_count; i++) {
        put_word32(out, (uint32_t)tokenizer->added[i].token);
        put_sized_bytes(out, tokenizer->added[i].shown.bytes, tokenizer->added[i].shown.length);
    }
}

/* The feature of the tokenizer that a standalone folder does not support, or NULL. */
static const char *unportable_reason(const Tokenizer *tokenizer) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    if (vocabulary->kind != VOCABULARY_BPE || !vocabulary->byte_level)
        return "its model is not byte-level BPE";
    for (int i = 0; i < tokenizer->normalisers.count; i++)
        if (tokenizer->normalisers.items[i].kind != NORMALISE_FORM ||
            tokenizer->normalisers.items[i].form != FORM_NFC)
            return "it normalizes text";
    for (int i = 0; i < 256; i++)
        if (vocabulary->letters[i] < 0) return "some bytes have no token";
    for (int i = 0; i < tokenizer->added_count; i++)
        if (tokenizer->added[i].single_word || tokenizer->added[i].takes_left ||
            tokenizer->added[i].takes_right)
            return "an added token matches spaces or whole words only";
    return NULL;
}

static bool add_encoding(const Tokenizer *tokenizer, Text *out) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    const SplitterList *splitters = &tokenizer->splitters;
    Classes classes = {0};
    AUTO(Text) split = {0};
    put_word32(out, 1);
    for (int i = 0; i < 256; i++) put_word32(out, (uint32_t)vocabulary->letters[i]);
    put_word32(out, vocabulary->ignore_merges);
    put_word32(out, splitters->count && is_prefix(&splitters->items[0]));
    put_word32(out, (uint32_t)tokenizer->before.count);
    for (size_t i = 0; i < tokenizer->before.count; i++)
        put_word32(out, (uint32_t)tokenizer->before.items[i]);
    put_special(tokenizer, out);
    put_merges(vocabulary, out);
    bool good = put_splitters(splitters, &classes, &split) && put_classes(&classes, out);
    text_append(out, split.bytes, split.length);
    for (int i = 0; i < classes.count; i++) free(classes.texts[i]);
    return good;
}

bool portable_write(const Tokenizer *tokenizer, Text *out, const char **why) {
    text_append(out, "moeclex1", 8);
    *why = put_token_names(tokenizer, out) ? unportable_reason(tokenizer) : "its decoder failed";
    size_t names = out->length;
    if (!*why && add_encoding(tokenizer, out)) return true;
    if (!*why) *why = "its pattern is not supported";
    out->length = names;
    put_word32(out, 0);
    return false;
}

#include "lexicon.h"
#ifndef LEXICON_OF_MEMORY /* a program without files */
#include "streams.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM_CLASS, ITEM_NOT_AHEAD };

typedef struct Merge {
    int32_t left, right, rank, made;
} Merge;

typedef struct Special {
    int32_t token;
    const char *bytes;
    size_t length;
} Special;

/* A class of characters with a repeat count; or a negative lookahead. */
typedef struct Item {
    int32_t kind, class, least, most;
} Item;

typedef struct Alternative {
    Item *items;
    int32_t count;
} Alternative;

typedef struct Splitter {
    Alternative *items;
    int32_t count;
} Splitter;

typedef struct Run {
    uint32_t first, mask; /* the classes of the characters from here to the next run */
} Run;

struct Lexicon {
    unsigned char *file;
    size_t length, at;
    int damaged, no_memory, encodes, whole_words, prefix_space;
    int32_t size;
    const char **names; /* [token]; NULL: a special token */
    size_t *lengths;    /* [token]; 0: not written */
    int32_t *sorted;    /* tokens by their bytes, special ones apart */
    int32_t sorted_count;
    int32_t letters[256], *before, before_count;
    Special *special;
    Merge *merges; /* by left, right */
    Run *runs;
    Splitter *splitters;
    int32_t special_count, merge_count, run_count, splitter_count;
};

/* ---- reading ---- */

static uint32_t word(Lexicon *lexicon) {
    if (lexicon->damaged || lexicon->length - lexicon->at < 4) {
        lexicon->damaged = 1;
        return 0;
    }
    const unsigned char *byte = lexicon->file + lexicon->at;
    lexicon->at += 4;
    return byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

static const char *bytes_of(Lexicon *lexicon, size_t length) {
    if (lexicon->damaged || lexicon->length - lexicon->at < length) {
        lexicon->damaged = 1;
        return "";
    }
    lexicon->at += length;
    return (const char *)lexicon->file + lexicon->at - length;
}

/* Reads a count of records of at least `words` words in the file, and allocates them. */
static void *room(Lexicon *lexicon, int32_t *count, size_t words, size_t size) {
    uint32_t wanted = word(lexicon);
    if (wanted > (lexicon->length - lexicon->at) / 4 / (words ? words : 1)) {
        lexicon->damaged = 1;
        wanted = 0;
    }
    void *items = calloc(wanted + 1, size);
    if (!items) lexicon->no_memory = lexicon->damaged = 1;
    *count = items ? (int32_t)wanted : 0;
    return items;
}

static int32_t token(Lexicon *lexicon) {
    uint32_t value = word(lexicon);
    if (value >= (uint32_t)lexicon->size) lexicon->damaged = 1;
    return lexicon->damaged ? 0 : (int32_t)value;
}

static void read_names(Lexicon *lexicon) {
    lexicon->names = room(lexicon, &lexicon->size, 1, sizeof *lexicon->names);
    lexicon->lengths = calloc((size_t)lexicon->size + 1, sizeof *lexicon->lengths);
    lexicon->sorted = calloc((size_t)lexicon->size + 1, sizeof *lexicon->sorted);
    if (!lexicon->lengths || !lexicon->sorted) lexicon->no_memory = lexicon->damaged = 1;
    for (int32_t i = 0; i < lexicon->size && !lexicon->damaged; i++) {
        uint32_t length = word(lexicon);
        const char *bytes = bytes_of(lexicon, length & 0x7FFFFFFF);
        lexicon->names[i] = length >> 31 ? NULL : bytes;
        lexicon->lengths[i] = length >> 31 ? 0 : length;
        if (lexicon->lengths[i]) lexicon->sorted[lexicon->sorted_count++] = i;
    }
}

static void read_special(Lexicon *lexicon) {
    lexicon->special = room(lexicon, &lexicon->special_count, 2, sizeof *lexicon->special);
    for (int32_t i = 0; i < lexicon->special_count; i++) {
        Special *special = &lexicon->special[i];
        special->token = token(lexicon);
        special->length = word(lexicon);
        special->bytes = bytes_of(lexicon, special->length);
    }
}

static int by_pair(const void *a, const void *b) {
    const Merge *first = a, *second = b;
    if (first->left != second->left) return first->left < second->left ? -1 : 1;
    return (first->right > second->right) - (first->right < second->right);
}

static void read_merges(Lexicon *lexicon) {
    lexicon->merges = room(lexicon, &lexicon->merge_count, 3, sizeof *lexicon->merges);
    for (int32_t i = 0; i < lexicon->merge_count; i++) {
        Merge *merge = &lexicon->merges[i];
        merge->left = token(lexicon);
        merge->right = token(lexicon);
        merge->made = token(lexicon);
        merge->rank = i;
    }
    if (lexicon->merges)
        qsort(lexicon->merges, (size_t)lexicon->merge_count, sizeof *lexicon->merges, by_pair);
}

static void read_runs(Lexicon *lexicon) {
    lexicon->runs = room(lexicon, &lexicon->run_count, 2, sizeof *lexicon->runs);
    for (int32_t i = 0; i < lexicon->run_count; i++)
        lexicon->runs[i] = (Run){word(lexicon), word(lexicon)};
    if (!lexicon->run_count || lexicon->runs[0].first != 0) lexicon->damaged = 1;
}

static void read_alternative(Lexicon *lexicon, Alternative *alternative) {
    alternative->items = room(lexicon, &alternative->count, 4, sizeof *alternative->items);
    for (int32_t i = 0; i < alternative->count; i++) {
        Item *item = &alternative->items[i];
        item->kind = (int32_t)word(lexicon);
        item->class = (int32_t)word(lexicon);
        item->least = (int32_t)word(lexicon);
        item->most = (int32_t)word(lexicon);
        if (item->class < 0 || item->class > 31 || item->least < 0 || item->most < item->least)
            lexicon->damaged = 1;
    }
}

static void read_splitters(Lexicon *lexicon) {
    lexicon->splitters = room(lexicon, &lexicon->splitter_count, 1, sizeof *lexicon->splitters);
    for (int32_t i = 0; i < lexicon->splitter_count; i++) {
        Splitter *splitter = &lexicon->splitters[i];
        splitter->items = room(lexicon, &splitter->count, 1, sizeof *splitter->items);
        for (int32_t k = 0; k < splitter->count; k++)
            read_alternative(lexicon, &splitter->items[k]);
    }
}

static void read_encoding(Lexicon *lexicon) {
    for (int i = 0; i < 256; i++) lexicon->letters[i] = token(lexicon);
    lexicon->whole_words = word(lexicon) != 0;
    lexicon->prefix_space = word(lexicon) != 0;
    lexicon->before = room(lexicon, &lexicon->before_count, 1, sizeof *lexicon->before);
    for (int32_t i = 0; i < lexicon->before_count; i++) lexicon->before[i] = token(lexicon);
    read_special(lexicon);
    read_merges(lexicon);
    read_runs(lexicon);
    read_splitters(lexicon);
}

/* Bytes, then length. */
static int compare_bytes(const char *a, size_t a_length, const char *b, size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* Merge sort from the middle; an insertion sort would need minutes. */
static void sort_names(const Lexicon *lexicon, int32_t *items, int32_t *spare, int32_t count) {
    if (count < 2) return;
    int32_t half = count / 2, a = 0, b = half;
    sort_names(lexicon, items, spare, half);
    sort_names(lexicon, items + half, spare, count - half);
    memcpy(spare, items, sizeof *items * (size_t)count);
    for (int32_t i = 0; i < count; i++) {
        int take_a =
            b == count ||
            (a < half && compare_bytes(lexicon->names[spare[a]], lexicon->lengths[spare[a]],
                                       lexicon->names[spare[b]], lexicon->lengths[spare[b]]) <= 0);
        items[i] = spare[take_a ? a++ : b++];
    }
}

int lexicon_read(Lexicon **result, void *bytes, size_t length) {
    Lexicon *lexicon = *result = calloc(1, sizeof *lexicon);
    if (!lexicon) free(bytes);
    if (!lexicon) return LEXICON_NO_MEMORY;
    lexicon->file = bytes;
    lexicon->length = length;
    int error = length < 12 ? LEXICON_DAMAGED : LEXICON_FINE;
    if (!error && memcmp(lexicon->file, "moeclex1", 8) != 0) error = LEXICON_DAMAGED;
    lexicon->at = 8;
    if (!error) {
        read_names(lexicon);
        lexicon->encodes = word(lexicon) == 1;
        if (lexicon->encodes) read_encoding(lexicon);
        error = lexicon->no_memory ? LEXICON_NO_MEMORY : lexicon->damaged ? LEXICON_DAMAGED : 0;
    }
    int32_t *spare = error ? NULL : malloc(sizeof *spare * ((size_t)lexicon->size + 1));
    if (spare)
        sort_names(lexicon, lexicon->sorted, spare, lexicon->sorted_count);
    else if (!error)
        error = LEXICON_NO_MEMORY;
    free(spare);
    if (error) {
        lexicon_free(lexicon);
        *result = NULL;
    }
    return error;
}

#ifndef LEXICON_OF_MEMORY
int lexicon_open(Lexicon **result, const char *path) {
    *result = NULL;
    FILE *file = stream_read(path);
    if (!file) return LEXICON_NO_FILE;
    const long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    void *bytes = length > 0 ? malloc((size_t)length) : NULL;
    const size_t got = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
    fclose(file);
    if (bytes && got == (size_t)length) return lexicon_read(result, bytes, got);
    free(bytes);
    return bytes || length <= 0 ? LEXICON_DAMAGED : LEXICON_NO_MEMORY;
}
#endif

void lexicon_free(Lexicon *lexicon) {
    if (!lexicon) return;
    for (int32_t i = 0; i < lexicon->splitter_count; i++) {
        for (int32_t k = 0; k < lexicon->splitters[i].count; k++)
            free(lexicon->splitters[i].items[k].items);
        free(lexicon->splitters[i].items);
    }
    free(lexicon->splitters);
    free(lexicon->runs);
    free(lexicon->merges);
    free(lexicon->special);
    free(lexicon->before);
    free(lexicon->sorted);
    free(lexicon->lengths);
    free(lexicon->names);
    free(lexicon->file);
    free(lexicon);
}

int lexicon_encodes(const Lexicon *lexicon) {
    return lexicon->encodes;
}

const char *lexicon_text(const Lexicon *lexicon, int32_t number, size_t *length) {
    *length = number >= 0 && number < lexicon->size ? lexicon->lengths[number] : 0;
    return *length ? lexicon->names[number] : "";
}

int lexicon_ends(const Lexicon *lexicon, int32_t number) {
    return number >= 0 && number < lexicon->size && !lexicon->names[number];
}

/* ---- encoding ---- */

typedef struct Output {
    const Lexicon *lexicon;
    int32_t *tokens;
    size_t count, capacity;
    int failed;
} Output;

static void add(Output *out, int32_t number) {
    if (out->count == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 64;
        int32_t *larger = realloc(out->tokens, sizeof *larger * capacity);
        if (!larger) {
            out->failed = 1;
            return;
        }
        out->tokens = larger;
        out->capacity = capacity;
    }
    out->tokens[out->count++] = number;
}

static const Merge *find_merge(const Lexicon *lexicon, int32_t left, int32_t right) {
    const Merge wanted = {.left = left, .right = right};
    return bsearch(&wanted, lexicon->merges, (size_t)lexicon->merge_count, sizeof wanted, by_pair);
}

static int32_t find_word(const Lexicon *lexicon, const char *bytes, size_t length) {
    int32_t low = 0, high = lexicon->sorted_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2, number = lexicon->sorted[middle];
        int order = compare_bytes(lexicon->names[number], lexicon->lengths[number], bytes, length);
        if (!order) return number;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* Encodes a word at the end of the output: merges the pair with the lowest rank until no pair can
 * be merged. */
static void encode_word(Output *out, const char *bytes, size_t length) {
    const Lexicon *lexicon = out->lexicon;
    int32_t whole = lexicon->whole_words ? find_word(lexicon, bytes, length) : -1;
    if (whole >= 0) {
        add(out, whole);
        return;
    }
    size_t start = out->count;
    for (size_t i = 0; i < length; i++) add(out, lexicon->letters[(unsigned char)bytes[i]]);
    while (!out->failed) {
        const Merge *best = NULL;
        size_t place = 0;
        for (size_t i = start; i + 1 < out->count; i++) {
            const Merge *merge = find_merge(lexicon, out->tokens[i], out->tokens[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                place = i;
            }
        }
        if (!best) return;
        out->tokens[place] = best->made;
        out->count--;
        memmove(out->tokens + place + 1, out->tokens + place + 2,
                sizeof *out->tokens * (out->count - place - 1));
    }
}

static size_t character_width(const char *bytes, size_t length) {
    unsigned char first = (unsigned char)*bytes;
    size_t width = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return width < length ? width : length;
}

static uint32_t classes_at(const Lexicon *lexicon, const char *bytes, size_t length) {
    size_t width = character_width(bytes, length);
    uint32_t c = (unsigned char)*bytes;
    if (width > 1) c &= 0xFFu >> (width + 1);
    for (size_t i = 1; i < width; i++) c = c << 6 | ((unsigned char)bytes[i] & 0x3F);
    int32_t low = 0, high = lexicon->run_count - 1;
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (lexicon->runs[middle].first <= c)
            low = middle;
        else
            high = middle - 1;
    }
    return lexicon->runs[low].mask;
}

static int fits(const Lexicon *lexicon, const Item *item, const char *bytes, size_t length) {
    return length && (classes_at(lexicon, bytes, length) >> item->class & 1);
}

/* Whether the items match from here on: each as often as can be, then less. *end: where. */
static int matches(const Lexicon *lexicon, const Item *items, int32_t count, const char *text,
                   size_t length, size_t at, size_t *end) {
    if (!count) {
        *end = at;
        return 1;
    }
    if (items->kind == ITEM_NOT_AHEAD)
        return !fits(lexicon, items, text + at, length - at) &&
               matches(lexicon, items + 1, count - 1, text, length, at, end);
    size_t place = at;
    int32_t times = 0;
    while (times < items->most && fits(lexicon, items, text + place, length - place)) {
        place += character_width(text + place, length - place);
        times++;
    }
    for (; times >= items->least; times--) {
        if (matches(lexicon, items + 1, count - 1, text, length, place, end)) return 1;
        do place--;
        while (times && place > at && ((unsigned char)text[place] & 0xC0) == 0x80);
    }
    return 0;
}

static void split(Output *out, int32_t splitter, const char *text, size_t length);

static size_t match_at(const Output *out, const Splitter *splitter, const char *text, size_t length,
                       size_t at) {
    size_t end;
    for (int32_t i = 0; i < splitter->count; i++)
        if (matches(out->lexicon, splitter->items[i].items, splitter->items[i].count, text, length,
                    at, &end) &&
            end > at)
            return end;
    return at;
}

/* Splits at the matches of a splitter; matches and gaps are split by the next splitter. */
static void split(Output *out, int32_t splitter, const char *text, size_t length) {
    if (!length) return;
    if (splitter == out->lexicon->splitter_count) {
        encode_word(out, text, length);
        return;
    }
    size_t from = 0, at = 0;
    while (at < length) {
        size_t end = match_at(out, &out->lexicon->splitters[splitter], text, length, at);
        if (end == at) {
            at += character_width(text + at, length - at);
            continue;
        }
        split(out, splitter + 1, text + from, at - from);
        split(out, splitter + 1, text + at, end - at);
        from = at = end;
    }
    split(out, splitter + 1, text + from, length - from);
}

/* Text between special tokens. */
static void encode_text(Output *out, const char *text, size_t length) {
    if (!length) return;
    if (!out->lexicon->prefix_space || *text == ' ') {
        split(out, 0, text, length);
        return;
    }
    char *spaced = malloc(length + 1);
    if (!spaced) {
        out->failed = 1;
        return;
    }
    *spaced = ' ';
    memcpy(spaced + 1, text, length);
    split(out, 0, spaced, length + 1);
    free(spaced);
}

/* The longest special token that begins here. */
static const Special *special_at(const Lexicon *lexicon, const char *text, size_t length) {
    const Special *best = NULL;
    for (int32_t i = 0; i < lexicon->special_count; i++) {
        const Special *special = &lexicon->special[i];
        if (special->length && special->length <= length &&
            (!best || special->length > best->length) &&
            memcmp(special->bytes, text, special->length) == 0)
            best = special;
    }
    return best;
}

long lexicon_encode(const Lexicon *lexicon, const char *text, int32_t **tokens) {
    Output out = {.lexicon = lexicon};
    size_t length = strlen(text), from = 0;
    *tokens = NULL;
    if (!lexicon->encodes) return -1;
    for (int32_t i = 0; i < lexicon->before_count; i++) add(&out, lexicon->before[i]);
    for (size_t at = 0; at < length;) {
        const Special *special = special_at(lexicon, text + at, length - at);
        if (!special) {
            at++;
            continue;
        }
        encode_text(&out, text + from, at - from);
        add(&out, special->token);
        from = at += special->length;
    }
    encode_text(&out, text + from, length - from);
    if (out.failed) {
        free(out.tokens);
        return -1;
    }
    *tokens = out.tokens;
    return (long)out.count;
}

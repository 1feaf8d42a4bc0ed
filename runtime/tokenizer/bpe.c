/* bpe: byte-pair encoding: of neighbours that may be merged those whose merge was learned first,
 * from left to right, until none is left. */
#include "tokenizer/vocabulary.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Words up to here are searched for the best merge each time; longer ones keep a heap. */
enum { SHORT_WORD = 40 };
enum { NO_MERGE = INT32_MAX };

/* Characters that have no token of their own. */
typedef struct Unknown {
    bool pending;
} Unknown;

static void flush_unknown(const Vocabulary *vocabulary, Unknown *unknown, TokenList *symbols) {
    if (unknown->pending) tokens_add(symbols, vocabulary->unknown);
    unknown->pending = false;
}

/* A character with neither token nor bytes. Without an unknown token it is left out. */
static bool add_unknown(const Vocabulary *vocabulary, Unknown *unknown, TokenList *symbols) {
    if (!vocabulary->unknown_name) return true;
    if (vocabulary->unknown < 0) return unknown_add(vocabulary, symbols);
    if (!vocabulary->fuse_unknown) flush_unknown(vocabulary, unknown, symbols);
    unknown->pending = true;
    return true;
}

/* The symbol of a character at its position in the word. */
static int32_t find_symbol(const Vocabulary *vocabulary, const char *bytes, size_t length,
                           bool begins, bool ends, Text *spelled) {
    const Text *prefix = &vocabulary->prefix, *suffix = &vocabulary->suffix;
    bool plain = (begins || !prefix->length) && (!ends || !suffix->length);
    spelled->length = 0;
    if (!plain) {
        if (!begins) text_append(spelled, prefix->bytes, prefix->length);
        text_append(spelled, bytes, length);
        if (ends) text_append(spelled, suffix->bytes, suffix->length);
        bytes = spelled->bytes;
        length = spelled->length;
    }
    return dictionary_find(&vocabulary->numbers, bytes, length);
}

static bool add_characters(const Vocabulary *vocabulary, const char *bytes, size_t length,
                           TokenList *symbols) {
    Unknown unknown = {0};
    AUTO(Text) spelled = {0};
    bool good = true;
    for (size_t i = 0; i < length && good;) {
        size_t taken = (size_t)character_length((unsigned char)bytes[i]);
        int32_t symbol =
            find_symbol(vocabulary, bytes + i, taken, i == 0, i + taken == length, &spelled);
        const char *spelling = spelled.length ? spelled.bytes : bytes + i;
        size_t spelling_length = spelled.length ? spelled.length : taken;
        if (symbol >= 0) {
            flush_unknown(vocabulary, &unknown, symbols);
            tokens_add(symbols, symbol);
        } else if (!vocabulary->byte_fallback ||
                   !fallback_add(vocabulary, spelling, spelling_length, symbols)) {
            good = add_unknown(vocabulary, &unknown, symbols);
        }
        i += taken;
    }
    flush_unknown(vocabulary, &unknown, symbols);
    return good;
}

static bool add_bytes(const Vocabulary *vocabulary, const char *bytes, size_t length,
                      TokenList *symbols) {
    Unknown unknown = {0};
    for (size_t i = 0; i < length; i++) {
        int32_t symbol = vocabulary->letters[(unsigned char)bytes[i]];
        if (symbol >= 0) {
            flush_unknown(vocabulary, &unknown, symbols);
            tokens_add(symbols, symbol);
        } else if (!add_unknown(vocabulary, &unknown, symbols)) {
            return false;
        }
    }
    flush_unknown(vocabulary, &unknown, symbols);
    return true;
}

static const TokenPair *merge_of(const Vocabulary *vocabulary, int32_t left, int32_t right) {
    return pairs_find(&vocabulary->merges, pair_key(left, right));
}

static int32_t merge_rank(const Vocabulary *vocabulary, int32_t left, int32_t right) {
    const TokenPair *merge = merge_of(vocabulary, left, right);
    return merge ? merge->first : NO_MERGE;
}

/* Merges within symbols[count]; returns the remaining count. */
static size_t merge_short(const Vocabulary *vocabulary, int32_t *symbols, size_t count) {
    int32_t ranks[SHORT_WORD + 1]; /* of the pair that begins there */
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = merge_rank(vocabulary, symbols[i], symbols[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_MERGE) break;
        symbols[best] = merge_of(vocabulary, symbols[best], symbols[best + 1])->second;
        count--;
        memmove(symbols + best + 1, symbols + best + 2, sizeof *symbols * (count - best - 1));
        if (best + 1 < count)
            memmove(ranks + best + 1, ranks + best + 2, sizeof *ranks * (count - best - 2));
        if (best + 1 < count)
            ranks[best] = merge_rank(vocabulary, symbols[best], symbols[best + 1]);
        if (best > 0) ranks[best - 1] = merge_rank(vocabulary, symbols[best - 1], symbols[best]);
    }
    return count;
}

static void sink_merge(ModelWork *work, size_t at) {
    uint64_t *heap = work->heap, moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= work->heap_count) break;
        if (child + 1 < work->heap_count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= moved) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void push_merge(ModelWork *work, uint64_t entry) {
    if (work->heap_count == work->heap_capacity) {
        work->heap_capacity = work->heap_capacity ? 2 * work->heap_capacity : 256;
        work->heap = memory_grow(work->heap, sizeof *work->heap * work->heap_capacity);
    }
    size_t at = work->heap_count++;
    for (; at > 0 && work->heap[(at - 1) / 2] > entry; at = (at - 1) / 2)
        work->heap[at] = work->heap[(at - 1) / 2];
    work->heap[at] = entry;
}

static uint64_t pop_merge(ModelWork *work) {
    uint64_t top = work->heap[0];
    work->heap[0] = work->heap[--work->heap_count];
    if (work->heap_count) sink_merge(work, 0);
    return top;
}

/* Adds the pair that starts at `at` to the queue if it can be merged; order: rank, then
 * position. */
static void consider(const Vocabulary *vocabulary, ModelWork *work, int32_t at) {
    int32_t next = at < 0 ? -1 : work->after[at];
    if (next < 0) return;
    int32_t rank = merge_rank(vocabulary, work->symbols.items[at], work->symbols.items[next]);
    if (rank != NO_MERGE) push_merge(work, (uint64_t)(uint32_t)rank << 32 | (uint32_t)at);
}

static void link_symbols(ModelWork *work, size_t count) {
    if (count > work->linked) {
        work->linked = count;
        work->before = memory_grow(work->before, sizeof *work->before * count);
        work->after = memory_grow(work->after, sizeof *work->after * count);
    }
    for (size_t i = 0; i < count; i++) {
        work->before[i] = (int32_t)i - 1;
        work->after[i] = i + 1 < count ? (int32_t)i + 1 : -1;
    }
}

/* Entries of the heap whose pair has changed since are passed over. */
static size_t merge_long(const Vocabulary *vocabulary, ModelWork *work) {
    int32_t *symbols = work->symbols.items;
    size_t count = work->symbols.count, kept = 0;
    link_symbols(work, count);
    work->heap_count = 0;
    for (size_t i = 0; i + 1 < count; i++) consider(vocabulary, work, (int32_t)i);
    while (work->heap_count) {
        uint64_t top = pop_merge(work);
        int32_t at = (int32_t)(uint32_t)top, next = work->after[at];
        if (symbols[at] < 0 || next < 0) continue;
        const TokenPair *merge = merge_of(vocabulary, symbols[at], symbols[next]);
        if (!merge || (uint32_t)merge->first != top >> 32) continue;
        symbols[at] = merge->second;
        symbols[next] = -1;
        work->after[at] = work->after[next];
        if (work->after[at] >= 0) work->before[work->after[at]] = at;
        consider(vocabulary, work, work->before[at]);
        consider(vocabulary, work, at);
    }
    for (size_t i = 0; i < count; i++)
        if (symbols[i] >= 0) symbols[kept++] = symbols[i];
    return kept;
}

bool bpe_encode(const Vocabulary *vocabulary, ModelWork *work, const char *bytes, size_t length,
                TokenList *out) {
    if (vocabulary->ignore_merges) {
        const Dictionary *whole =
            vocabulary->byte_level ? &vocabulary->words : &vocabulary->numbers;
        int32_t token = dictionary_find(whole, bytes, length);
        if (token >= 0) {
            tokens_add(out, token);
            return true;
        }
    }
    TokenList *symbols = &work->symbols;
    symbols->count = 0;
    bool good = vocabulary->byte_level ? add_bytes(vocabulary, bytes, length, symbols)
                                       : add_characters(vocabulary, bytes, length, symbols);
    if (!good) return false;
    symbols->count = symbols->count <= SHORT_WORD
                         ? merge_short(vocabulary, symbols->items, symbols->count)
                         : merge_long(vocabulary, work);
    tokens_append(out, symbols->items, symbols->count);
    return true;
}

/* unigram: of all ways to write a piece with the vocabulary the likeliest (Viterbi). */
#include "tokenizer/vocabulary.h"

#include "base/memory.h"

#include <stdlib.h>

static void offer_path(PathNode *node, double score, size_t start, int32_t token) {
    if (node->token >= 0 && score <= node->score) return;
    *node = (PathNode){score, start, token};
}

/* All tokens that begin at `start`; a character without one of its own may be the unknown token. */
static bool extend_paths(const Vocabulary *vocabulary, PathNode *path, const char *bytes,
                         size_t length, size_t start) {
    size_t taken = (size_t)character_length((unsigned char)bytes[start]);
    double score = path[start].score;
    bool single = false;
    int32_t node = 0;
    for (size_t i = start; i < length; i++) {
        node = trie_next(&vocabulary->trie, node, (unsigned char)bytes[i]);
        if (node < 0) break;
        int32_t token = vocabulary->trie.numbers[node];
        if (token < 0) continue;
        offer_path(&path[i + 1], score + vocabulary->scores[token], start, token);
        single = single || i + 1 == start + taken;
    }
    if (single) return true;
    PathNode *end = &path[start + taken];
    double unknown = score + vocabulary->unknown_score;
    if (vocabulary->unknown >= 0) offer_path(end, unknown, start, vocabulary->unknown);
    return vocabulary->unknown >= 0 || (end->token >= 0 && unknown <= end->score) ||
           unknown_add(vocabulary, NULL);
}

/* A run of characters that are all unknown. Written last byte first. */
static void add_unknown_run(const Vocabulary *vocabulary, const char *bytes, size_t length,
                            TokenList *reversed) {
    int32_t token = dictionary_find(&vocabulary->numbers, bytes, length);
    size_t before = reversed->count;
    if (token >= 0)
        tokens_add(reversed, token);
    else if (!vocabulary->byte_fallback || !fallback_add(vocabulary, bytes, length, reversed))
        tokens_add(reversed, vocabulary->unknown);
    for (size_t low = before, high = reversed->count - 1; low < high; low++, high--) {
        int32_t kept = reversed->items[low];
        reversed->items[low] = reversed->items[high];
        reversed->items[high] = kept;
    }
}

bool unigram_encode(const Vocabulary *vocabulary, ModelWork *work, const char *bytes, size_t length,
                    TokenList *out) {
    if (length + 1 > work->path_capacity) {
        work->path_capacity = 2 * length + 64;
        work->path = memory_grow(work->path, sizeof *work->path * work->path_capacity);
    }
    PathNode *path = work->path;
    for (size_t i = 0; i <= length; i++) path[i] = (PathNode){0, 0, -1};
    for (size_t i = 0; i < length; i += (size_t)character_length((unsigned char)bytes[i]))
        if (!extend_paths(vocabulary, path, bytes, length, i)) return false;
    work->reversed.count = 0;
    for (size_t end = length; end > 0;) {
        size_t start = path[end].start;
        if (path[end].token != vocabulary->unknown) {
            tokens_add(&work->reversed, path[end].token);
        } else {
            while (start > 0 && path[start].token == vocabulary->unknown) start = path[start].start;
            add_unknown_run(vocabulary, bytes + start, end - start, &work->reversed);
        }
        end = start;
    }
    for (size_t i = work->reversed.count; i > 0; i--) tokens_add(out, work->reversed.items[i - 1]);
    return true;
}

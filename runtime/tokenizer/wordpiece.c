/* wordpiece: the longest token that a word begins with, then the longest "##..." of the rest, and
 * so on; a word that cannot be written so is unknown as a whole. And whole words alone. */
#include "tokenizer/vocabulary.h"

bool wordpiece_encode(const Vocabulary *vocabulary, const char *bytes, size_t length,
                      TokenList *out) {
    size_t before = out->count, at = 0;
    bool fits = (long)character_count(bytes, length) <= vocabulary->word_limit;
    while (fits && at < length) {
        size_t matched = 0;
        int32_t from = at ? vocabulary->continuing : 0;
        int32_t token =
            from < 0 ? -1
                     : trie_longest(&vocabulary->trie, from, bytes + at, length - at, &matched);
        fits = token >= 0;
        if (fits) tokens_add(out, token);
        at += matched;
    }
    if (fits) return true;
    out->count = before;
    return unknown_add(vocabulary, out);
}

bool words_encode(const Vocabulary *vocabulary, const char *bytes, size_t length, TokenList *out) {
    int32_t token = dictionary_find(&vocabulary->numbers, bytes, length);
    if (token < 0) return unknown_add(vocabulary, out);
    tokens_add(out, token);
    return true;
}

#include "tokenizer/internal.h"

#include "tokenizer/text/text.h"

void added_put(AddedSet *set, const char *bytes, size_t length, int32_t number) {
    if (!length) return;
    int32_t node = trie_walk(&set->trie, bytes, length);
    if (node >= 0 && set->trie.numbers[node] >= 0) return;
    trie_put(&set->trie, bytes, length, number);
    set->first[(unsigned char)bytes[0]] = true;
}

static bool is_word_match(const AddedSet *set, Matcher *matcher, const char *bytes, size_t length) {
    size_t start, end;
    return pattern_find(set->word, matcher, bytes, length, 0, &start, &end) == FOUND_MATCH;
}

/* Whether words end on both sides of bytes[start..end). */
static bool stands_alone(const AddedSet *set, Matcher *matcher, const char *bytes, size_t length,
                         size_t start, size_t end) {
    if (start > 0) {
        size_t before = character_before(bytes, start);
        if (is_word_match(set, matcher, bytes + before, start - before)) return false;
    }
    return end == length || !is_word_match(set, matcher, bytes + end,
                                           (size_t)character_length((unsigned char)bytes[end]));
}

static size_t spaces_before(const char *bytes, size_t start, size_t least) {
    while (start > least) {
        int taken;
        size_t before = character_before(bytes, start);
        if (!character_is_space(character_at(bytes + before, &taken))) break;
        start = before;
    }
    return start > least ? start : least;
}

static size_t spaces_after(const char *bytes, size_t end, size_t length) {
    int taken;
    while (end < length && character_is_space(character_at(bytes + end, &taken)))
        end += (size_t)taken;
    return end;
}

static void add_piece_between(const Piece *whole, size_t start, size_t end, PieceList *result) {
    if (start >= end) return;
    pieces_add(result, (Piece){whole->start + start, end - start, -1, start == 0 && whole->first,
                               start == 0 && whole->continues});
}

void added_split(const AddedSet *set, Matcher *matcher, const char *bytes, const Piece *whole,
                 PieceList *result) {
    const char *text = bytes + whole->start;
    size_t length = whole->length, at = 0, from = 0;
    while (set->trie.count && at < length) {
        if (!set->first[(unsigned char)text[at]]) {
            at++;
            continue;
        }
        size_t matched = 0;
        int32_t number = trie_longest(&set->trie, 0, text + at, length - at, &matched);
        if (number < 0) {
            at++;
            continue;
        }
        size_t start = at, end = at + matched;
        const AddedToken *token = &set->all[number];
        at = end;
        if (token->single_word && !stands_alone(set, matcher, text, length, start, end)) continue;
        if (token->takes_left) start = spaces_before(text, start, from);
        if (token->takes_right) end = spaces_after(text, end, length);
        add_piece_between(whole, from, start, result);
        pieces_add(result, (Piece){whole->start + start, end - start, token->token, false, false});
        from = end;
    }
    add_piece_between(whole, from, length, result);
}

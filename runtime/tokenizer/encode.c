/* encode: all encoding steps: added tokens, normalization, splitting, the model, the template.
 * Words are cached, since most words of a text repeat. */
#include "tokenizer/internal.h"

#include "base/hashing.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    KNOWN_SLOTS = 1 << 16,
    KNOWN_LENGTH = 96,     /* longer words are not remembered */
    KNOWN_BYTES = 16 << 20 /* then all are forgotten */
};

/* A word and its tokens, in the two lists of the encoder. */
typedef struct CachedWord {
    uint64_t hash;
    uint32_t word, tokens;
    uint16_t length, count; /* length 0: nobody */
} CachedWord;

struct Encoder {
    const Tokenizer *tokenizer;
    SplitWork split;
    ModelWork model;
    Text valid, spare, piece, texts[2];
    PieceList pieces, others;
    size_t replaced;
    CachedWord *known;
    Text words;
    TokenList tokens;
};

Encoder *encoder_new(const Tokenizer *tokenizer) {
    Encoder *encoder = memory_new(sizeof *encoder);
    encoder->tokenizer = tokenizer;
    encoder->split.matcher = matcher_new();
    encoder->known = memory_new(sizeof *encoder->known * KNOWN_SLOTS);
    return encoder;
}

void encoder_free(Encoder *encoder) {
    if (!encoder) return;
    matcher_free(encoder->split.matcher);
    free(encoder->split.spans);
    model_work_free(&encoder->model);
    text_free(&encoder->valid);
    text_free(&encoder->spare);
    text_free(&encoder->piece);
    text_free(&encoder->texts[0]);
    text_free(&encoder->texts[1]);
    pieces_free(&encoder->pieces);
    pieces_free(&encoder->others);
    free(encoder->known);
    text_free(&encoder->words);
    tokens_free(&encoder->tokens);
    free(encoder);
}

size_t encoder_replaced(const Encoder *encoder) {
    return encoder->replaced;
}

static bool encode_new(Encoder *encoder, const char *bytes, size_t length, TokenList *out) {
    const Vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
    switch (vocabulary->kind) {
    case VOCABULARY_BPE:
        return bpe_encode(vocabulary, &encoder->model, bytes, length, out);
    case VOCABULARY_UNIGRAM:
        return unigram_encode(vocabulary, &encoder->model, bytes, length, out);
    case VOCABULARY_WORDPIECE:
        return wordpiece_encode(vocabulary, bytes, length, out);
    default:
        return words_encode(vocabulary, bytes, length, out);
    }
}

static void remember(Encoder *encoder, CachedWord *slot, uint64_t hash, const char *bytes,
                     size_t length, const int32_t *tokens, size_t count) {
    if (encoder->words.length + 4 * encoder->tokens.count > KNOWN_BYTES) {
        memset(encoder->known, 0, sizeof *encoder->known * KNOWN_SLOTS);
        encoder->words.length = encoder->tokens.count = 0;
    }
    *slot = (CachedWord){hash, (uint32_t)encoder->words.length, (uint32_t)encoder->tokens.count,
                         (uint16_t)length, (uint16_t)count};
    text_append(&encoder->words, bytes, length);
    tokens_append(&encoder->tokens, tokens, count);
}

/* One word, from memory when it was seen before. */
static bool encode_word(Encoder *encoder, const char *bytes, size_t length, TokenList *out) {
    if (length > KNOWN_LENGTH) return encode_new(encoder, bytes, length, out);
    uint64_t hash = XXH3_64bits(bytes, length);
    CachedWord *slot = &encoder->known[hash & (KNOWN_SLOTS - 1)];
    if (slot->length == length && slot->hash == hash &&
        memcmp(encoder->words.bytes + slot->word, bytes, length) == 0) {
        tokens_append(out, encoder->tokens.items + slot->tokens, slot->count);
        return true;
    }
    size_t before = out->count;
    if (!encode_new(encoder, bytes, length, out)) return false;
    remember(encoder, slot, hash, bytes, length, out->items + before, out->count - before);
    return true;
}

/* Where the next word of a piece begins: at a "▁" after something else. */
static size_t next_space(const char *bytes, size_t length, size_t from) {
    static const char space[] = "\xE2\x96\x81";
    size_t width = sizeof space - 1, at = from;
    while (length - at >= width && memcmp(bytes + at, space, width) == 0) at += width;
    const char *found = memmem(bytes + at, length - at, space, width);
    return found ? (size_t)(found - bytes) : length;
}

static bool encode_piece(Encoder *encoder, const char *bytes, size_t length, TokenList *out) {
    if (!encoder->tokenizer->vocabulary.cuts_at_spaces)
        return encode_word(encoder, bytes, length, out);
    for (size_t at = 0; at < length;) {
        size_t end = next_space(bytes, length, at);
        if (!encode_word(encoder, bytes + at, end - at, out)) return false;
        at = end;
    }
    return true;
}

static void swap_pieces(Encoder *encoder) {
    PieceList kept = encoder->pieces;
    encoder->pieces = encoder->others;
    encoder->others = kept;
}

/* Normalizes each piece of text and matches added tokens again. The pieces then refer to
 * texts[0]. */
static bool normalise_pieces(Encoder *encoder, const char *bytes, size_t length) {
    const Tokenizer *tokenizer = encoder->tokenizer;
    Text *out = &encoder->texts[0];
    out->length = encoder->others.count = 0;
    for (size_t i = 0; i < encoder->pieces.count; i++) {
        Piece piece = encoder->pieces.items[i];
        if (piece.token >= 0) {
            pieces_add(&encoder->others, piece);
            continue;
        }
        encoder->piece.length = 0;
        text_append(&encoder->piece, bytes + piece.start, piece.length);
        bool begins;
        if (!normalise(&tokenizer->normalisers, encoder->split.matcher, &encoder->piece,
                       &encoder->spare, piece.continues, &begins))
            return false;
        if (!growth_allowed(length, out->length + encoder->piece.length)) return false;
        piece.start = out->length;
        piece.length = encoder->piece.length;
        piece.first = piece.first && begins;
        text_append(out, encoder->piece.bytes, encoder->piece.length);
        if (piece.length)
            added_split(&tokenizer->normalised, encoder->split.matcher, out->bytes, &piece,
                        &encoder->others);
    }
    swap_pieces(encoder);
    return true;
}

/* All steps before the model; *bytes: the text that the pieces refer to. */
static bool split_text(Encoder *encoder, const char **bytes, size_t length) {
    const Tokenizer *tokenizer = encoder->tokenizer;
    int free_text = 0;
    if (tokenizer->normalisers.count || tokenizer->normalised.trie.count) {
        if (!normalise_pieces(encoder, *bytes, length)) return false;
        *bytes = encoder->texts[0].bytes;
        free_text = 1;
    }
    for (int i = 0; i < tokenizer->splitters.count; i++) {
        const Splitter *splitter = &tokenizer->splitters.items[i];
        Text *out = &encoder->texts[free_text];
        if (splitter_changes(splitter)) out->length = 0;
        if (!split_pieces(splitter, &encoder->split, *bytes, &encoder->pieces, out,
                          &encoder->others))
            return false;
        swap_pieces(encoder);
        if (!splitter_changes(splitter)) continue;
        if (!growth_allowed(length, out->length)) return false;
        *bytes = out->bytes;
        free_text = !free_text;
    }
    return true;
}

static bool is_valid(const char *bytes, size_t length) {
    const unsigned char *at = (const unsigned char *)bytes, *end = at + length;
    while (at < end) {
        int taken = *at < 0x80 ? 1 : character_valid(at, (size_t)(end - at));
        if (!taken) return false;
        at += taken;
    }
    return true;
}

/* Finds the pieces of a text; *bytes: the text that they refer to. */
static bool find_pieces(Encoder *encoder, const char **bytes, size_t length, bool continues) {
    const Tokenizer *tokenizer = encoder->tokenizer;
    if (!is_valid(*bytes, length)) {
        encoder->valid.length = 0;
        encoder->replaced += text_append_valid(&encoder->valid, *bytes, length);
        *bytes = encoder->valid.bytes;
        length = encoder->valid.length;
    }
    encoder->pieces.count = 0;
    const Piece whole = {0, length, -1, !continues, continues};
    added_split(&tokenizer->plain, encoder->split.matcher, *bytes, &whole, &encoder->pieces);
    return split_text(encoder, bytes, length);
}

bool encoder_split(Encoder *encoder, const char *bytes, size_t length,
                   void (*each)(void *context, const char *bytes, size_t length), void *context) {
    if (!find_pieces(encoder, &bytes, length, false)) return false;
    for (size_t i = 0; i < encoder->pieces.count; i++) {
        const Piece *piece = &encoder->pieces.items[i];
        if (piece->token < 0) each(context, bytes + piece->start, piece->length);
    }
    return true;
}

bool encoder_encode(Encoder *encoder, const char *bytes, size_t length, int flags, TokenList *out) {
    const Tokenizer *tokenizer = encoder->tokenizer;
    bool special = flags & ENCODE_SPECIAL;
    if (special) tokens_append(out, tokenizer->before.items, tokenizer->before.count);
    if (!find_pieces(encoder, &bytes, length, flags & ENCODE_CONTINUES)) return false;
    for (size_t i = 0; i < encoder->pieces.count; i++) {
        const Piece *piece = &encoder->pieces.items[i];
        if (piece->token >= 0)
            tokens_add(out, piece->token);
        else if (piece->length && !encode_piece(encoder, bytes + piece->start, piece->length, out))
            return false;
    }
    if (special) tokens_append(out, tokenizer->after.items, tokenizer->after.count);
    return true;
}

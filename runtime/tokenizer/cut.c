#include "tokenizer/internal.h"

#include <string.h>

/* Bytes of context on each side, and number of candidates of each kind. */
enum { AROUND = 192, TRIES = 100 };

/* True if the text around a position has the same tokens in two parts as in one. */
static bool is_token_boundary(Encoder *encoder, const char *bytes, size_t length, size_t at) {
    size_t start = at > AROUND ? at - AROUND : 0, end = at + AROUND < length ? at + AROUND : length;
    AUTO(TokenList) whole = {0}, parts = {0};
    return encoder_encode(encoder, bytes + start, end - start, ENCODE_CONTINUES, &whole) &&
           encoder_encode(encoder, bytes + start, at - start, ENCODE_CONTINUES, &parts) &&
           encoder_encode(encoder, bytes + at, end - at, ENCODE_CONTINUES, &parts) &&
           whole.count == parts.count &&
           memcmp(whole.items, parts.items, sizeof *whole.items * whole.count) == 0;
}

/* Searches positions next to a byte from the end backward: after it (after = 1) or before it.
 * Enough following text must be known. */
static size_t find_beside(Encoder *encoder, const char *bytes, size_t length, char byte,
                          size_t after) {
    size_t least = length / 2, at = length > 4 * AROUND ? length - AROUND : length - 1;
    for (int tries = 0; tries < TRIES; tries++) {
        const char *found = at > least ? memrchr(bytes + least, byte, at - least) : NULL;
        if (!found) return 0;
        at = (size_t)(found - bytes);
        if (at + after < length && is_token_boundary(encoder, bytes, length, at + after))
            return at + after;
    }
    return 0;
}

size_t cut_find(Encoder *encoder, const char *bytes, size_t length) {
    size_t at = length < 2 ? 0 : find_beside(encoder, bytes, length, '\n', 1);
    if (!at && length > 1) at = find_beside(encoder, bytes, length, '\n', 0);
    if (!at && length > 1) at = find_beside(encoder, bytes, length, ' ', 0);
    if (!at && length > 1) at = find_beside(encoder, bytes, length, ' ', 1);
    return at;
}

size_t cut_character(const char *bytes, size_t length) {
    size_t at = length;
    while (at > 1 && length - at < 4 && ((unsigned char)bytes[at - 1] & 0xC0) == 0x80) at--;
    if (at > 1 && (unsigned char)bytes[at - 1] >= 0xC0 &&
        !character_valid((const unsigned char *)bytes + at - 1, length - at + 1))
        return at - 1;
    return length;
}

/* utf8_cut: how much of a text a message shows, as the precision of %.*s. */
#ifndef UTF8_CUT_H
#define UTF8_CUT_H

#include <string.h>

/* The largest count up to `most` and `length` of bytes that does not end inside a character. */
static inline int utf8_cut_bytes(const char *text, size_t length, int most) {
    if (length <= (size_t)most) return (int)length;
    while (most && ((unsigned char)text[most] & 0xC0) == 0x80) most--;
    return most;
}

static inline int utf8_cut(const char *text, int most) {
    return utf8_cut_bytes(text, strnlen(text, (size_t)most + 1), most);
}

#endif

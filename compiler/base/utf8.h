/* utf8: characters of source text. The tables do not depend on the locale. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>

/* Reads one character; returns its length in bytes, or 0 when the bytes are not valid UTF-8. */
int utf8_decode(const char *text, size_t length, unsigned *character);
/* Columns in a terminal: 0 for combining marks, 2 for wide East Asian characters and emoji, else
 * 1. */
int utf8_width(unsigned character);

#endif

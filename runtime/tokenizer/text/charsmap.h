/* charsmap: the replacement table of SentencePiece ("precompiled_charsmap"): a double array (Darts)
 * of source strings, and zero-terminated replacements. */
#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H

#include "tokenizer/text/text.h"

typedef struct Charsmap Charsmap;

/* From base64. NULL after a message when the table is not sound. */
Charsmap *charsmap_read(const char *file, const char *base64);
void charsmap_free(Charsmap *map);
/* Appends the text with everything replaced. Returns how many of the new bytes stem from the first
 * `anchored` bytes. */
size_t charsmap_apply(const Charsmap *map, const char *bytes, size_t length, Text *out,
                      size_t anchored);

#endif

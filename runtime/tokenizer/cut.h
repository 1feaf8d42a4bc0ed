/* cut: where a text may be parted so that the parts, encoded one after the other, give the tokens
 * of the whole. */
#ifndef TOKENIZER_CUT_H
#define TOKENIZER_CUT_H

#include "tokenizer/tokenizer.h"

/* A place in bytes[0..length), as far back as can be but in the last half; 0: there is none. */
size_t cut_find(Encoder *encoder, const char *bytes, size_t length);
/* The end of the last whole character. */
size_t cut_character(const char *bytes, size_t length);

#endif

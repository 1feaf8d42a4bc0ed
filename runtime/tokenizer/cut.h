/* cut: positions where a text can be split without a change of its tokens. */
#ifndef TOKENIZER_CUT_H
#define TOKENIZER_CUT_H

#include "tokenizer/tokenizer.h"

/* A position in bytes[0..length), as late as possible but not in the last half; 0 if there is
 * none. */
size_t cut_find(Encoder *encoder, const char *bytes, size_t length);
/* The end of the last whole character. */
size_t cut_character(const char *bytes, size_t length);

#endif

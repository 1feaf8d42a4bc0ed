/* portable: export of a tokenizer as tokenizer.bin, which standalone/lexicon.c reads: the texts of
 * all tokens and, for byte-level BPE with a supported pattern, the encoding data.
 *
 * Format: "moeclex1", then little-endian 32-bit words. The number of tokens; per token its length
 * (upper bit: not written) and bytes. Then 1 if encoding data follows, else 0. Encoding data:
 *
 *     the token of each byte (256 words)
 *     1 if whole words are looked up first, else 0
 *     1 if a space is added before a text, else 0
 *     tokens before a text: count, tokens
 *     special tokens: count, then token, length, bytes of each
 *     merges in order: count, then left, right, result
 *     character classes as ranges: count, then first character and mask
 *     splitters: count, then alternatives: count, then items: count, then kind, class, least, most
 */
#ifndef TOKENIZER_PORTABLE_H
#define TOKENIZER_PORTABLE_H

#include "tokenizer/tokenizer.h"

/* Appends the file. Returns true if the folder can encode; otherwise *why is the unsupported
 * feature. */
bool portable_write(const Tokenizer *tokenizer, Text *out, const char **why);

#endif

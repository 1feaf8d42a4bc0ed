/* portable: a tokenizer for a stand-alone folder: tokenizer.bin, which standalone/lexicon.c reads.
 * The texts of all tokens; of byte-level BPE with one of the usual patterns also what encodes.
 *
 * The layout, little-endian words of 32 bits: "moeclex1"; how many tokens; for each its length (the
 * upper bit: not written) and bytes. Then 1 when the rest follows, else 0: the token of each byte
 * (256 words); whether whole words are looked up first; whether a space is put before a text;
 * tokens before a text (count, tokens); special tokens (count, then token, length, bytes of each);
 * merges in order (count, then left, right, result); classes of characters as runs (count, then
 * first character and a mask); splitters (count, then alternatives: count, then items: count, then
 * kind, class, least, most).
 */
#ifndef TOKENIZER_PORTABLE_H
#define TOKENIZER_PORTABLE_H

#include "tokenizer/tokenizer.h"

/* Appends the file. Returns whether the folder will encode; else `why` says what it does not do. */
bool portable_write(const Tokenizer *tokenizer, Text *out, const char **why);

#endif

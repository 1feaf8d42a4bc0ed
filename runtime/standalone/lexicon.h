/* lexicon: the tokens of the model as text, and text as tokens.
 *
 *     Lexicon *lexicon;
 *     if (lexicon_open(&lexicon, "tokenizer.bin") == LEXICON_FINE) {
 *         int32_t *tokens;
 *         long count = lexicon_encode(lexicon, "Once upon", &tokens); // then free(tokens)
 *         size_t length;
 *         const char *bytes = lexicon_text(lexicon, tokens[0], &length);
 *     }
 *     lexicon_free(lexicon);
 *
 * It encodes byte-level BPE with the usual patterns; of other tokenizers it has the texts alone.
 * Text is taken for valid UTF-8 in normal form C.
 */
#ifndef LEXICON_H
#define LEXICON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Lexicon Lexicon;

enum { LEXICON_FINE, LEXICON_NO_FILE, LEXICON_DAMAGED, LEXICON_NO_MEMORY };

int lexicon_open(Lexicon **lexicon, const char *path);
/* The same from the bytes of the file, allocated by malloc, which the lexicon then owns. */
int lexicon_read(Lexicon **lexicon, void *bytes, size_t length);
void lexicon_free(Lexicon *lexicon); /* NULL is fine */
/* Whether it encodes. */
int lexicon_encodes(const Lexicon *lexicon);
/* The tokens of a text, to be freed, and how many; -1: it does not encode, or there is no
 * memory. */
long lexicon_encode(const Lexicon *lexicon, const char *text, int32_t **tokens);
/* The bytes of a token, which may end inside a character; length 0 for those that are not
 * written. */
const char *lexicon_text(const Lexicon *lexicon, int32_t token, size_t *length);
/* Whether it is a special token, for example end of text. */
int lexicon_ends(const Lexicon *lexicon, int32_t token);

#ifdef __cplusplus
}
#endif

#endif

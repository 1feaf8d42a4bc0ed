/* text: growing texts, characters of Unicode, normalization maps, regular expressions. */
#ifndef TEXT_H
#define TEXT_H

#include "base/memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text: bytes that grow, and lists of token numbers. */

typedef struct Text {
    char *bytes; /* not ended by a zero */
    size_t length, capacity;
} Text;

typedef struct TokenList {
    int32_t *items;
    size_t count, capacity;
} TokenList;

/* Reserves space for `more` bytes; text_append does this itself. Both accept a zeroed Text. */
void text_reserve(Text *text, size_t more);
void text_append(Text *text, const char *bytes, size_t length);
void text_append_character(Text *text, int32_t character);
void text_free(Text *text);
AUTO_OBJECT(Text, text_free)

/* The same of token numbers. */
void tokens_add(TokenList *list, int32_t token);
void tokens_append(TokenList *list, const int32_t *tokens, size_t count);
void tokens_free(TokenList *list);
AUTO_OBJECT(TokenList, tokens_free)

/* The length in bytes of the character that begins with `byte`, in valid UTF-8. */
static inline int character_length(unsigned char byte) {
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
/* The character at `bytes`, in valid UTF-8; its length goes to *length. */
int32_t character_at(const char *bytes, int *length);
/* The start of the character that ends before `end`. */
size_t character_before(const char *bytes, size_t end);
size_t character_count(const char *bytes, size_t length);
/* The length of the character at `bytes` if those are valid UTF-8, at most `length`; 0: not valid.
 */
int character_valid(const unsigned char *bytes, size_t length);
/* Appends text and replaces invalid UTF-8 by U+FFFD, one per longest prefix of a character, as
 * Unicode recommends. Returns the number of replacements. */
size_t text_append_valid(Text *text, const char *bytes, size_t length);
/* The same as a string of JSON; bytes may be NULL where there are none. */
json_t *text_json(const char *bytes, size_t length);
/* Whether the text ends with the beginning of a character that more bytes could complete. */
bool text_ends_inside(const Text *text);

/* characters: Unicode properties as in the tokenizers library, whose parts use different Unicode
 * versions. Token boundaries, and thus trained models, depend on these versions, independent of the
 * libraries on this machine. */

bool character_is_space(int32_t character);       /* White_Space */
bool character_is_numeric(int32_t character);     /* N */
bool character_is_punctuation(int32_t character); /* P, and all ASCII punctuation */
bool character_is_mark(int32_t character);        /* M */
bool character_is_nonspacing(int32_t character);  /* Mn */
bool character_is_control(int32_t character);     /* Cc, Cf, Co */
bool character_is_ideograph(int32_t character);   /* of the CJK blocks that BERT sets apart */

/* Lower case, one or two characters; returns how many. */
int character_lower(int32_t character, int32_t lower[2]);

/* Characters that Unicode 15 and 16 brought, whose category begins with `category` ("L", "Lu"), as
 * ranges of a PCRE2 class: "\x{1C89}-\x{1C8A}...". */
void characters_newer(Text *text, const char *category);
/* The same of a script by its name without underscores ("Han"), not of its extensions. */
void characters_newer_of_script(Text *text, const char *script);

typedef enum NormalForm { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD } NormalForm;
/* Appends the text in a normal form. */
void text_append_normal(Text *text, const char *bytes, size_t length, NormalForm form);

/* The length of the first grapheme cluster. */
size_t grapheme_length(const char *bytes, size_t length);

/* charsmap: the replacement table of SentencePiece ("precompiled_charsmap"): a double array (Darts)
 * of source strings, and zero-terminated replacements. */

typedef struct Charsmap Charsmap;

/* From base64. NULL after a message when the table is not sound. */
Charsmap *charsmap_read(const char *file, const char *base64);
void charsmap_free(Charsmap *map);
/* Appends the text with everything replaced. Returns how many of the new bytes stem from the first
 * `anchored` bytes. */
size_t charsmap_apply(const Charsmap *map, const char *bytes, size_t length, Text *out,
                      size_t anchored);

/* pattern: search patterns of tokenizer files: strings, and regular expressions in Oniguruma
 * syntax, translated to PCRE2. */

typedef struct Pattern Pattern;

/* Match state of one thread. */
typedef struct Matcher Matcher;
Matcher *matcher_new(void);
void matcher_free(Matcher *matcher);
AUTO_POINTER(Matcher, matcher_free)

/* Meaning of \w: Oniguruma includes some superscript digits, Rust's regex includes joiners. */
typedef enum WordClass { WORD_ONIGURUMA, WORD_RUST } WordClass;

/* Matches these bytes and nothing else; they are copied. */
Pattern *pattern_of_string(const char *bytes, size_t length);
/* NULL after a message with the file and the unsupported part of the expression. */
Pattern *pattern_of_expression(const char *file, const char *bytes, size_t length, WordClass word);
void pattern_free(Pattern *pattern);
/* The expression as the file has it; NULL: it is a string. */
const char *pattern_source(const Pattern *pattern, size_t *length);

typedef enum Found { FOUND_FAILED = -1, FOUND_NONE, FOUND_MATCH } Found;
/* The first match at or after `from` that is not empty. FOUND_FAILED after a message: the
 * expression needs more steps than is sensible. */
Found pattern_find(const Pattern *pattern, Matcher *matcher, const char *bytes, size_t length,
                   size_t from, size_t *start, size_t *end);

/* True if \p{sc:NAME} is a script, without script extensions, which \p{NAME} includes: the meaning
 * of the name in Oniguruma. */
bool pattern_is_script(const char *name);

/* The expression in PCRE2 syntax, or false with the unsupported feature in `fault`. */
bool pattern_translate(const char *bytes, size_t length, WordClass word, Text *out, Text *fault);

#endif

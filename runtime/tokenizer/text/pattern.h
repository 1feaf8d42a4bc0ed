/* pattern: search patterns of tokenizer files: strings, and regular expressions in Oniguruma
 * syntax, translated to PCRE2. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

#include "tokenizer/text/text.h"

typedef struct Pattern Pattern;

/* Match state of one thread. */
typedef struct Matcher Matcher;
Matcher *matcher_new(void);
void matcher_free(Matcher *matcher);

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

/* pattern: what tokenizer files search for: strings, and regular expressions of Oniguruma, which
 * PCRE2 matches after a translation. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

#include "tokenizer/text/text.h"

typedef struct Pattern Pattern;

/* What one thread needs to match. */
typedef struct Matcher Matcher;
Matcher *matcher_new(void);
void matcher_free(Matcher *matcher);

/* What \w means: in Oniguruma some superscript digits belong to it, in Rust's regex joiners do. */
typedef enum WordClass { WORD_ONIGURUMA, WORD_RUST } WordClass;

/* Matches these bytes and nothing else; they are copied. */
Pattern *pattern_of_string(const char *bytes, size_t length);
/* NULL after a message that names the file and what of the expression is not known. */
Pattern *pattern_of_expression(const char *file, const char *bytes, size_t length, WordClass word);
void pattern_free(Pattern *pattern);
/* The expression as the file has it; NULL: it is a string. */
const char *pattern_source(const Pattern *pattern, size_t *length);

typedef enum Found { FOUND_FAILED = -1, FOUND_NONE, FOUND_MATCH } Found;
/* The first match at or after `from` that is not empty. FOUND_FAILED after a message: the
 * expression needs more steps than is sensible. */
Found pattern_find(const Pattern *pattern, Matcher *matcher, const char *bytes, size_t length,
                   size_t from, size_t *start, size_t *end);

/* Whether \p{sc:NAME} is a script, without those that only use it (its extensions, which \p{NAME}
 * has as well): what the name means in Oniguruma. */
bool pattern_is_script(const char *name);

/* The expression in PCRE2's spelling, or false with what is not known in `fault`. */
bool pattern_translate(const char *bytes, size_t length, WordClass word, Text *out, Text *fault);

#endif

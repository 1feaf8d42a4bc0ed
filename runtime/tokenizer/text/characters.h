/* characters: Unicode properties as in the tokenizers library, whose parts use different Unicode
 * versions. Token boundaries, and thus trained models, depend on these versions, independent of the
 * libraries on this machine. */
#ifndef TOKENIZER_CHARACTERS_H
#define TOKENIZER_CHARACTERS_H

#include "tokenizer/text/text.h"

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

#endif

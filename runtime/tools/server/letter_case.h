/* letter_case: upper and lower case of texts in UTF-8, as the methods of Python's str define them:
 * "ß" becomes "SS", and a capital sigma at the end of a word becomes "ς". */
#ifndef SERVER_LETTER_CASE_H
#define SERVER_LETTER_CASE_H

#include "tokenizer/text/text.h"

typedef enum LetterCase {
    CASE_UPPER,
    CASE_LOWER,
    CASE_CAPITALIZE, /* the first character in title case, all others in lower case */
    CASE_TITLE,      /* the first letter of each run of letters in title case */
    CASE_WORDS       /* as the filter `title` of Jinja: words begin after spaces and -([{< */
} LetterCase;

/* Appends the valid UTF-8 `bytes` in another case. */
void text_append_case(Text *out, const char *bytes, size_t length, LetterCase letter_case);

#endif

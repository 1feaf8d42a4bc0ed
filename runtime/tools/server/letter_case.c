#include "tools/server/internal.h"

#include "tokenizer/text/text.h"

#include <string.h>
#include <utf8proc.h>

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, IOTA = 0x3B9, IOTA_BELOW = 0x345, MOST = 4 };

/* Letters with a case, and small raised letters such as those of "1ª". */
static bool is_cased(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT || c == 0xAA || c == 0xBA || c == IOTA_BELOW ||
           (c >= 0x2B0 && c <= 0x2B8) || (c >= 0x2E0 && c <= 0x2E4);
}

/* Characters between the letters of a word, for the rule of the final sigma. */
static bool is_ignored(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK ||
           (c < 0x80 ? c && strchr("'.:^`", c) != NULL : c == 0xB7 || c == 0x2019);
}

/* The sequence of a character that has no single capital, "ß" or "ŉ": its case folding, which
 * equals the lower case of its capitals. Returns 0 for other characters. */
static int expansion(int32_t c, int32_t out[MOST]) {
    int boundary = 0;
    if (c < 0x80 || utf8proc_category(c) == UTF8PROC_CATEGORY_LU) return 0;
    int count = (int)utf8proc_decompose_char(c, out, MOST, UTF8PROC_CASEFOLD, &boundary);
    return count > 1 && count <= MOST ? count : 0;
}

static void append_upper(Text *out, int32_t c) {
    int32_t letters[MOST];
    int count = expansion(c, letters);
    for (int i = 0; i < count; i++) text_append_character(out, utf8proc_toupper(letters[i]));
    if (!count) text_append_character(out, utf8proc_toupper(c));
}

/* Greek letters with an iota below have a title case of one character, but not all of them. */
static void append_title(Text *out, int32_t c) {
    int32_t letters[MOST], title = utf8proc_totitle(c);
    bool single = c >= 0x1F80 && (title != c || utf8proc_category(c) == UTF8PROC_CATEGORY_LT);
    int count = single ? 0 : expansion(c, letters), first = 0;
    if (count && !is_cased(letters[0])) first = 1;
    for (int i = 0; i < count; i++) {
        bool below = letters[i] == IOTA && c >= 0x1F80;
        text_append_character(out, i == first ? utf8proc_totitle(letters[i])
                                   : below    ? IOTA_BELOW
                                              : letters[i]);
    }
    if (!count) text_append_character(out, title);
}

/* True if the sigma at `at` ends a word: a letter precedes it and none follows. */
static bool ends_word(const char *bytes, size_t length, size_t at) {
    size_t before = at, after = at;
    int taken;
    int32_t c = ' ';
    do {
        if (before == 0) return false;
        before = character_before(bytes, before);
        c = character_at(bytes + before, &taken);
    } while (is_ignored(c));
    if (!is_cased(c)) return false;
    character_at(bytes + after, &taken);
    for (after += (size_t)taken; after < length; after += (size_t)taken) {
        c = character_at(bytes + after, &taken);
        if (!is_ignored(c)) return !is_cased(c);
    }
    return true;
}

static void append_lower(Text *out, const char *bytes, size_t length, size_t at) {
    int taken;
    int32_t c = character_at(bytes + at, &taken), lower[2];
    int count = character_lower(c, lower);
    if (c == SIGMA && ends_word(bytes, length, at)) lower[0] = FINAL_SIGMA;
    for (int i = 0; i < count; i++) text_append_character(out, lower[i]);
}

static bool begins_after(int32_t c) {
    return character_is_space(c) || (c >= 0x1C && c <= 0x1F) ||
           (c < 0x80 && c && strchr("-({[<", c) != NULL);
}

void text_append_case(Text *out, const char *bytes, size_t length, LetterCase letter_case) {
    bool begins = true;
    size_t word = 0; /* where the part begins whose letters a final sigma depends on */
    for (size_t at = 0; at < length;) {
        int taken;
        int32_t c = character_at(bytes + at, &taken);
        if (letter_case == CASE_WORDS && begins) word = at + (size_t)taken;
        if (letter_case == CASE_UPPER || (letter_case == CASE_WORDS && begins))
            append_upper(out, c);
        else if (letter_case == CASE_LOWER || !begins)
            append_lower(out, bytes + word, length - word, at - word);
        else
            append_title(out, c);
        at += (size_t)taken;
        begins = letter_case == CASE_TITLE   ? !is_cased(c)
                 : letter_case == CASE_WORDS ? begins_after(c)
                                             : false;
    }
}

#include "tokenizer/text/text.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct CodepointRange {
    int32_t first, last;
} CodepointRange;

#include "tokenizer/text/characters_table.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Whether a sorted table has the character. */
static bool in_ranges(const CodepointRange *table, size_t count, int32_t character) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (character > table[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && character >= table[low].first;
}

/* "Lu" of a character that Unicode 14 did not have, or NULL. */
static const char *newer_category(int32_t character) {
    size_t low = 0, high = COUNT(newer_characters);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (character > newer_characters[middle].range.last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(newer_characters) && character >= newer_characters[low].range.first
               ? newer_characters[low].property
               : NULL;
}

/* The general category without those that came later. */
static utf8proc_category_t known_category(int32_t character) {
    utf8proc_category_t category = utf8proc_category(character);
    return category != UTF8PROC_CATEGORY_CN && character > 0x80 && newer_category(character)
               ? UTF8PROC_CATEGORY_CN
               : category;
}

static bool is_punctuation(utf8proc_category_t category) {
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

static bool is_mark(utf8proc_category_t category) {
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool character_is_space(int32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool character_is_numeric(int32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    /* Digits of Unicode 17: Tolong Siki, and three of the ideographic symbols. */
    if ((c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6)) return true;
    utf8proc_category_t category = utf8proc_category(c);
    if (category == UTF8PROC_CATEGORY_CN) {
        const char *newer = newer_category(c);
        return newer && newer[0] == 'N';
    }
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool character_is_punctuation(int32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    if (c == 0x166D || c == 0x111C9) return true; /* were punctuation in Unicode 8 */
    return is_punctuation(known_category(c)) &&
           !in_ranges(not_punctuation, COUNT(not_punctuation), c);
}

bool character_is_mark(int32_t c) {
    if (c < 0x300) return false;
    return c == 0x1CF2 || c == 0x1CF3 ||
           (is_mark(known_category(c)) && !in_ranges(not_mark, COUNT(not_mark), c));
}

bool character_is_nonspacing(int32_t c) {
    if (c < 0x300) return false;
    return c == 0x1734 || (known_category(c) == UTF8PROC_CATEGORY_MN &&
                           !in_ranges(not_nonspacing, COUNT(not_nonspacing), c));
}

bool character_is_control(int32_t c) {
    utf8proc_category_t category = known_category(c);
    return (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
            category == UTF8PROC_CATEGORY_CO) &&
           !in_ranges(not_control, COUNT(not_control), c);
}

bool character_is_ideograph(int32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

/* Uppercase letters of Unicode 16 and 17: a range, and the offset of the lowercase letters. */
static const struct {
    CodepointRange range;
    int32_t added;
} newer_capitals[] = {
    {{0x1C89, 0x1C89}, 1},      {{0xA7CB, 0xA7CB}, 0x264 - 0xA7CB},
    {{0xA7CC, 0xA7CC}, 1},      {{0xA7CE, 0xA7CE}, 1},
    {{0xA7D2, 0xA7D2}, 1},      {{0xA7D4, 0xA7D4}, 1},
    {{0xA7DA, 0xA7DA}, 1},      {{0xA7DC, 0xA7DC}, 0x19B - 0xA7DC},
    {{0x10D50, 0x10D65}, 0x20}, {{0x16EA0, 0x16EB8}, 0x1B},
};

int character_lower(int32_t c, int32_t lower[2]) {
    lower[0] = c >= 'A' && c <= 'Z' ? c + 32 : c < 0x80 ? c : utf8proc_tolower(c);
    lower[1] = 0x307;
    if (c == 0x130) {
        lower[0] = 'i';
        return 2;
    }
    if (lower[0] == c && c >= 0x1C89)
        for (size_t i = 0; i < COUNT(newer_capitals); i++)
            if (c >= newer_capitals[i].range.first && c <= newer_capitals[i].range.last)
                lower[0] = c + newer_capitals[i].added;
    return 1;
}

static void append_newer(Text *text, const Newer *newer, size_t count, const char *property,
                         size_t compared) {
    char range[40];
    for (size_t i = 0; i < count; i++) {
        if (strncmp(newer[i].property, property, compared) != 0) continue;
        int length = snprintf(range, sizeof range, "\\x{%X}-\\x{%X}",
                              (unsigned)newer[i].range.first, (unsigned)newer[i].range.last);
        text_append(text, range, (size_t)length);
    }
}

void characters_newer(Text *text, const char *category) {
    append_newer(text, newer_characters, COUNT(newer_characters), category, strlen(category));
}

void characters_newer_of_script(Text *text, const char *script) {
    append_newer(text, newer_scripts, COUNT(newer_scripts), script, strlen(script) + 1);
}

static int combining_class_of(int32_t character) {
    return utf8proc_get_property(character)->combining_class;
}

/* Sorts combining marks by class, stable within a class. Counting sort, since their number is not
 * limited. */
static void order_marks(int32_t *marks, size_t count) {
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) starts[combining_class_of(marks[i]) + 1]++;
    for (int i = 0; i < 256; i++) starts[i + 1] += starts[i];
    AUTO_FREE int32_t *ordered = memory_new(sizeof *ordered * count);
    for (size_t i = 0; i < count; i++) ordered[starts[combining_class_of(marks[i])]++] = marks[i];
    memcpy(marks, ordered, sizeof *marks * count);
}

static void order_all(int32_t *characters, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t start = i;
        bool ordered = true;
        for (; i < count && combining_class_of(characters[i]); i++)
            ordered = ordered && (i == start || combining_class_of(characters[i]) >=
                                                    combining_class_of(characters[i - 1]));
        if (!ordered) order_marks(characters + start, i - start);
    }
}

/* The most characters that one becomes. */
enum { DECOMPOSED = 32 };

/* A stretch without characters that are unknown to the library. */
static void add_stretch(Text *text, const char *bytes, size_t length, NormalForm form) {
    if (!length) return;
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (form == FORM_NFKC || form == FORM_NFKD) options |= UTF8PROC_COMPAT;
    size_t room = length + DECOMPOSED, count = 0;
    AUTO_FREE int32_t *characters = memory_new(sizeof *characters * (room + 1));
    for (size_t i = 0; i < length;) {
        int taken, boundary = 0;
        int32_t c = character_at(bytes + i, &taken);
        if (count + DECOMPOSED > room) {
            room *= 2;
            characters = memory_grow(characters, sizeof *characters * (room + 1));
        }
        count +=
            (size_t)utf8proc_decompose_char(c, characters + count, DECOMPOSED, options, &boundary);
        i += (size_t)taken;
    }
    order_all(characters, count);
    if (form == FORM_NFC || form == FORM_NFKC)
        count = (size_t)utf8proc_normalize_utf32(characters, (utf8proc_ssize_t)count,
                                                 UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (size_t i = 0; i < count; i++) text_append_character(text, characters[i]);
}

/* True if normalization keeps the character after any character, provided that all characters of
 * the segment satisfy this. */
static bool is_normalized(int32_t c, NormalForm form) {
    return c < (form == FORM_NFC ? 0x300 : form == FORM_NFD ? 0xC0 : 0xA0);
}

/* Appends non-ASCII text, with the preceding ASCII character, which a mark can combine with. */
static void add_foreign(Text *text, const char *bytes, size_t length, NormalForm form) {
    size_t start = 0, i = 0;
    bool plain = true;
    while (i < length) {
        int taken;
        int32_t c = character_at(bytes + i, &taken);
        plain = plain && is_normalized(c, form);
        bool common = c < 0x7FD || (c > 0x3300 && c < 0xA700);
        bool unknown =
            !common && (in_ranges(not_normalised, COUNT(not_normalised), c) || newer_category(c));
        if (unknown) {
            add_stretch(text, bytes + start, i - start, form);
            text_append(text, bytes + i, (size_t)taken);
            start = i + (size_t)taken;
        }
        i += (size_t)taken;
    }
    if (plain)
        text_append(text, bytes + start, length - start);
    else
        add_stretch(text, bytes + start, length - start, form);
}

void text_append_normal(Text *text, const char *bytes, size_t length, NormalForm form) {
    size_t i = 0;
    while (i < length) {
        size_t start = i;
        while (i < length && (unsigned char)bytes[i] < 0x80) i++;
        if (i == length) {
            text_append(text, bytes + start, i - start);
            return;
        }
        size_t foreign = i > start ? i - 1 : i;
        text_append(text, bytes + start, foreign - start);
        while (i < length && (unsigned char)bytes[i] >= 0x80) i++;
        add_foreign(text, bytes + foreign, i - foreign, form);
    }
}

size_t grapheme_length(const char *bytes, size_t length) {
    int taken;
    int32_t state = 0, previous = character_at(bytes, &taken);
    size_t at = (size_t)taken;
    while (at < length) {
        int32_t next = character_at(bytes + at, &taken);
        if (utf8proc_grapheme_break_stateful(previous, next, &state)) break;
        previous = next;
        at += (size_t)taken;
    }
    return at;
}

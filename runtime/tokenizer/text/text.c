#include "tokenizer/text/text.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void text_reserve(Text *text, size_t more) {
    if (text->length + more <= text->capacity) return;
    size_t capacity = text->capacity ? text->capacity : 64;
    while (capacity < text->length + more) capacity *= 2;
    text->bytes = memory_grow(text->bytes, capacity);
    text->capacity = capacity;
}

void text_append(Text *text, const char *bytes, size_t length) {
    if (!length) return;
    text_reserve(text, length);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void text_append_character(Text *text, int32_t character) {
    uint32_t c = (uint32_t)character;
    text_reserve(text, 4);
    unsigned char *at = (unsigned char *)text->bytes + text->length;
    if (c < 0x80) {
        at[0] = (unsigned char)c;
        text->length += 1;
    } else if (c < 0x800) {
        at[0] = (unsigned char)(0xC0 | c >> 6);
        at[1] = (unsigned char)(0x80 | (c & 0x3F));
        text->length += 2;
    } else if (c < 0x10000) {
        at[0] = (unsigned char)(0xE0 | c >> 12);
        at[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        at[2] = (unsigned char)(0x80 | (c & 0x3F));
        text->length += 3;
    } else {
        at[0] = (unsigned char)(0xF0 | c >> 18);
        at[1] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
        at[2] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        at[3] = (unsigned char)(0x80 | (c & 0x3F));
        text->length += 4;
    }
}

void text_free(Text *text) {
    free(text->bytes);
    *text = (Text){0};
}

static void tokens_reserve(TokenList *list, size_t more) {
    if (list->count + more <= list->capacity) return;
    size_t capacity = list->capacity ? list->capacity : 16;
    while (capacity < list->count + more) capacity *= 2;
    list->items = memory_grow(list->items, sizeof *list->items * capacity);
    list->capacity = capacity;
}

void tokens_add(TokenList *list, int32_t token) {
    tokens_reserve(list, 1);
    list->items[list->count++] = token;
}

void tokens_append(TokenList *list, const int32_t *tokens, size_t count) {
    if (!count) return;
    tokens_reserve(list, count);
    memcpy(list->items + list->count, tokens, sizeof *tokens * count);
    list->count += count;
}

void tokens_free(TokenList *list) {
    free(list->items);
    *list = (TokenList){0};
}

int32_t character_at(const char *bytes, int *length) {
    const unsigned char *at = (const unsigned char *)bytes;
    *length = character_length(at[0]);
    switch (*length) {
    case 1:
        return at[0];
    case 2:
        return (at[0] & 0x1F) << 6 | (at[1] & 0x3F);
    case 3:
        return (at[0] & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F);
    default:
        return (at[0] & 0x07) << 18 | (at[1] & 0x3F) << 12 | (at[2] & 0x3F) << 6 | (at[3] & 0x3F);
    }
}

size_t character_before(const char *bytes, size_t end) {
    size_t start = end - 1;
    while (start > 0 && ((unsigned char)bytes[start] & 0xC0) == 0x80) start--;
    return start;
}

size_t character_count(const char *bytes, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return count;
}

/* Length of the longest prefix of `bytes` that starts a character, and whether the character is
 * complete. The second byte suffices to detect overlong forms, surrogates and values above
 * U+10FFFF. */
static int longest_beginning(const unsigned char *bytes, size_t length, bool *complete) {
    unsigned char first = bytes[0], low = 0x80, high = 0xBF;
    *complete = first < 0x80;
    if (first < 0x80 || first < 0xC2 || first > 0xF4) return 1;
    int needed = character_length(first);
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
    for (int i = 1; i < needed; i++) {
        if ((size_t)i >= length || bytes[i] < low || bytes[i] > high) return i;
        low = 0x80;
        high = 0xBF;
    }
    *complete = true;
    return needed;
}

int character_valid(const unsigned char *bytes, size_t length) {
    bool complete;
    int taken = longest_beginning(bytes, length, &complete);
    return complete ? taken : 0;
}

size_t text_append_valid(Text *text, const char *bytes, size_t length) {
    size_t replaced = 0, good = 0, i = 0;
    const unsigned char *at = (const unsigned char *)bytes;
    while (i < length) {
        if (at[i] < 0x80) {
            i++;
            continue;
        }
        bool complete;
        size_t taken = (size_t)longest_beginning(at + i, length - i, &complete);
        if (!complete) {
            text_append(text, bytes + good, i - good);
            text_append_character(text, 0xFFFD);
            good = i + taken;
            replaced++;
        }
        i += taken;
    }
    text_append(text, bytes + good, length - good);
    return replaced;
}

json_t *text_json(const char *bytes, size_t length) {
    AUTO(Text) valid = {0};
    text_append_valid(&valid, bytes ? bytes : "", length);
    return json_stringn(valid.bytes ? valid.bytes : "", valid.length);
}

bool text_ends_inside(const Text *text) {
    const unsigned char *bytes = (const unsigned char *)text->bytes;
    for (size_t back = 1; back <= 3 && back <= text->length; back++) {
        size_t start = text->length - back;
        bool complete;
        if ((bytes[start] & 0xC0) == 0x80) continue;
        if (bytes[start] < 0xC2 || bytes[start] > 0xF4) return false;
        return (size_t)longest_beginning(bytes + start, back, &complete) == back && !complete;
    }
    return false;
}

/* text: bytes that grow, and lists of token numbers. */
#ifndef TOKENIZER_TEXT_H
#define TOKENIZER_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The same of token numbers. */
void tokens_add(TokenList *list, int32_t token);
void tokens_append(TokenList *list, const int32_t *tokens, size_t count);
void tokens_free(TokenList *list);

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

#endif

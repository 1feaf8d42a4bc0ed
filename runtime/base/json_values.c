#include "base/json_values.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the first character; 0 if it is not valid UTF-8. */
static size_t character_bytes(const char *text) {
    size_t length = 1;
    while ((text[length] & 0xC0) == 0x80 && length < 4) length++;
    json_t *character = json_stringn(text, length);
    json_decref(character);
    return character ? length : 0;
}

json_t *json_escaped(const char *text) {
    if (!text) return json_null();
    json_t *plain = strstr(text, "\\x") ? NULL : json_string(text);
    if (plain) return plain;
    char *escaped = memory_new(4 * strlen(text) + 1), *to = escaped;
    while (*text) {
        size_t length = *text == '\\' ? 0 : character_bytes(text);
        if (length)
            to = mempcpy(to, text, length);
        else
            to += sprintf(to, "\\x%02x", (unsigned)(unsigned char)*text);
        text += length ? length : 1;
    }
    *to = 0;
    json_t *string = json_string(escaped);
    free(escaped);
    return string;
}

#include "abi/json_make.h"

#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A format string during parsing, with its arguments. */
typedef struct Format {
    const char *at;
    va_list arguments;
} Format;

static void *checked(void *block) {
    if (block) return block;
    fputs("moec: error: out of memory\n", stderr);
    exit(1);
}

json_t *json_text_bytes(const char *text, size_t length) {
    static const char replacement[] = "\xEF\xBF\xBD";
    enum { MOST = sizeof replacement - 1 };
    size_t used = 0;
    char *valid = checked(malloc(MOST * length + 1));
    for (size_t at = 0; at < length;) {
        unsigned character;
        int bytes = utf8_decode(text + at, length - at, &character);
        memcpy(valid + used, bytes ? text + at : replacement, bytes ? (size_t)bytes : MOST);
        used += bytes ? (size_t)bytes : MOST;
        at += bytes ? (size_t)bytes : 1;
    }
    json_t *string = checked(json_stringn(valid, used));
    free(valid);
    return string;
}

json_t *json_text(const char *text) {
    return text ? json_text_bytes(text, strlen(text)) : json_null();
}

json_t *json_texts(const char *const *texts, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(array, json_text(texts[i]));
    return array;
}

json_t *json_integers(const long *numbers, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(array, json_integer(numbers[i]));
    return array;
}

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
    char *escaped = checked(calloc(4 * strlen(text) + 1, 1)), *to = escaped;
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

/* Consumes and returns the next letter or bracket. */
static char next_letter(Format *format) {
    format->at += strspn(format->at, " ,:?");
    return *format->at ? *format->at++ : '\0';
}

static json_t *next_value(Format *format, char letter);

static json_t *next_object(Format *format) {
    json_t *object = checked(json_object());
    for (char letter; (letter = next_letter(format)) && letter != '}';) {
        const char *key = va_arg(format->arguments, const char *);
        json_object_set_new(object, key, next_value(format, next_letter(format)));
    }
    return object;
}

static json_t *next_array(Format *format) {
    json_t *array = checked(json_array());
    for (char letter; (letter = next_letter(format)) && letter != ']';)
        json_array_append_new(array, next_value(format, letter));
    return array;
}

static json_t *next_value(Format *format, char letter) {
    double number;
    json_t *given;
    switch (letter) {
    case '{':
        return next_object(format);
    case '[':
        return next_array(format);
    case 's':
        return json_text(va_arg(format->arguments, const char *));
    case 'i':
        return checked(json_integer(va_arg(format->arguments, int)));
    case 'I':
        return checked(json_integer(va_arg(format->arguments, json_int_t)));
    case 'b':
        return json_boolean(va_arg(format->arguments, int));
    case 'f':
        number = va_arg(format->arguments, double);
        return isfinite(number) ? checked(json_real(number)) : json_null();
    case 'o':
        given = va_arg(format->arguments, json_t *);
        return given ? given : json_null();
    case 'O':
        given = va_arg(format->arguments, json_t *);
        return given ? json_incref(given) : json_null();
    default:
        return json_null();
    }
}

json_t *json_make(const char *format, ...) {
    Format reading = {.at = format};
    va_start(reading.arguments, format);
    json_t *value = next_value(&reading, next_letter(&reading));
    va_end(reading.arguments);
    return value;
}

char *json_write(const json_t *value, size_t flags) {
    return checked(json_dumps(value, flags | JSON_ENCODE_ANY));
}

char *json_write_new(json_t *value, size_t flags) {
    char *text = json_write(value, flags);
    json_decref(value);
    return text;
}

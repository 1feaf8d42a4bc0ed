#include "tools/server/internal.h"

#include "base/memory.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORK = 1 << 27 };

/* ---- text ---- */

static void set_problem(Rendering *r, const char *format, va_list arguments) {
    AUTO_FREE char *text = NULL;
    if (r->problem) return;
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    size_t line = 1;
    for (size_t i = 0; i < r->at && i < r->end; i++) line += r->text[i] == '\n';
    r->problem = r->raised ? memory_format("%s", text) : memory_format("line %zu: %s", line, text);
}

json_t *reading_wrong(Rendering *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_problem(r, format, arguments);
    va_end(arguments);
    return NULL;
}

json_t *reading_refused(Rendering *r, const char *format, ...) {
    va_list arguments;
    if (!r->live || r->problem) return NULL;
    va_start(arguments, format);
    set_problem(r, format, arguments);
    va_end(arguments);
    r->refused = true;
    return NULL;
}

void reading_spaces(Rendering *r) {
    while (r->at < r->end && isspace((unsigned char)r->text[r->at])) r->at++;
}

bool reading_sign(Rendering *r, const char *sign) {
    reading_spaces(r);
    size_t length = strlen(sign);
    if (r->end - r->at < length || memcmp(r->text + r->at, sign, length) != 0) return false;
    r->at += length;
    return true;
}

bool reading_in_name(char byte) {
    return isalnum((unsigned char)byte) || byte == '_';
}

bool reading_word(Rendering *r, const char *word) {
    size_t before = r->at;
    if (reading_sign(r, word) && (r->at == r->end || !reading_in_name(r->text[r->at]))) return true;
    r->at = before;
    return false;
}

bool reading_name(Rendering *r, char name[64]) {
    reading_spaces(r);
    size_t length = 0;
    while (r->at + length < r->end && length < 63 && reading_in_name(r->text[r->at + length]))
        length++;
    if (length && isdigit((unsigned char)r->text[r->at])) length = 0;
    memcpy(name, r->text + r->at, length);
    name[length] = 0;
    r->at += length;
    return length > 0;
}

/* ---- values ---- */

void reading_spend(Rendering *r, size_t bytes) {
    r->work += bytes;
    if (r->work > MAX_WORK) reading_wrong(r, "rendering needs too much time or memory");
}

/* Values within values count as often as they are written. */
void reading_spend_on(Rendering *r, json_t *value) {
    const char *name;
    json_t *item;
    size_t i;
    reading_spend(r, VALUE_BYTES + json_string_length(value));
    if (r->problem) return;
    json_array_foreach(value, i, item) reading_spend_on(r, item);
    json_object_foreach(value, name, item) {
        reading_spend(r, strlen(name));
        reading_spend_on(r, item);
    }
}

json_t *reading_keep(Rendering *r, json_t *value) {
    reading_spend(r, VALUE_BYTES + json_string_length(value));
    if (value) json_array_append_new(r->made, value);
    return value;
}

bool reading_true(const json_t *value) {
    if (!value || json_is_null(value) || json_is_false(value)) return false;
    if (json_is_number(value)) return json_number_value(value) != 0;
    if (json_is_string(value)) return json_string_length(value) > 0;
    if (json_is_array(value)) return json_array_size(value) > 0;
    return !json_is_object(value) || json_object_size(value) > 0;
}

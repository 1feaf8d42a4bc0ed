#include "server/expression.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORK = 1 << 27, DEEPEST_EXPRESSION = 64 };

/* ---- reading ---- */

json_t *reading_wrong(Rendering *r, const char *format, ...) {
    va_list arguments;
    char *text = NULL;
    if (r->problem) return NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    size_t line = 1;
    for (size_t i = 0; i < r->at && i < r->end; i++) line += r->text[i] == '\n';
    r->problem = r->raised ? memory_format("%s", text) : memory_format("line %zu: %s", line, text);
    free(text);
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

static bool in_name(char byte) {
    return isalnum((unsigned char)byte) || byte == '_';
}

bool reading_word(Rendering *r, const char *word) {
    size_t before = r->at;
    if (reading_sign(r, word) && (r->at == r->end || !in_name(r->text[r->at]))) return true;
    r->at = before;
    return false;
}

bool reading_name(Rendering *r, char name[64]) {
    reading_spaces(r);
    size_t length = 0;
    while (r->at + length < r->end && length < 63 && in_name(r->text[r->at + length])) length++;
    if (length && isdigit((unsigned char)r->text[r->at])) length = 0;
    memcpy(name, r->text + r->at, length);
    name[length] = 0;
    r->at += length;
    return length > 0;
}

/* ---- values ---- */

void expression_spend(Rendering *r, size_t bytes) {
    r->work += bytes;
    if (r->work > MAX_WORK) reading_wrong(r, "rendering it takes too much time or memory");
}

/* Values within values count as often as they are written. */
void expression_spend_on(Rendering *r, json_t *value) {
    const char *name;
    json_t *item;
    size_t i;
    expression_spend(r, VALUE_BYTES + json_string_length(value));
    if (r->problem) return;
    json_array_foreach(value, i, item) expression_spend_on(r, item);
    json_object_foreach(value, name, item) {
        expression_spend(r, strlen(name));
        expression_spend_on(r, item);
    }
}

json_t *expression_keep(Rendering *r, json_t *value) {
    expression_spend(r, VALUE_BYTES + json_string_length(value));
    if (value) json_array_append_new(r->made, value);
    return value;
}

bool expression_true(const json_t *value) {
    if (!value || json_is_null(value) || json_is_false(value)) return false;
    if (json_is_integer(value)) return json_integer_value(value) != 0;
    if (json_is_string(value)) return json_string_length(value) > 0;
    if (json_is_array(value)) return json_array_size(value) > 0;
    return !json_is_object(value) || json_object_size(value) > 0;
}

void expression_write(const json_t *value, Text *out) {
    if (!value) return;
    if (json_is_string(value)) {
        text_append(out, json_string_value(value), json_string_length(value));
    } else if (json_is_boolean(value)) {
        const char *word = json_is_true(value) ? "True" : "False";
        text_append(out, word, strlen(word));
    } else if (json_is_null(value)) {
        text_append(out, "None", 4);
    } else {
        char *text = json_write(value, JSON_ENCODE_ANY);
        text_append(out, text, strlen(text));
        free(text);
    }
}

static json_t *keep_text(Rendering *r, const char *bytes, size_t length) {
    return expression_keep(r, json_stringn(bytes ? bytes : "", length));
}

static json_t *keep_truth(Rendering *r, bool truth) {
    return expression_keep(r, json_boolean(truth));
}

static json_t *read_any(Rendering *r);

/* "text" or 'text' */
static json_t *read_text(Rendering *r) {
    char quote = r->text[r->at++];
    Text text = {0};
    while (r->at < r->end && r->text[r->at] != quote) {
        char byte = r->text[r->at++];
        if (byte == '\\' && r->at < r->end) {
            byte = r->text[r->at++];
            byte = (char)(byte == 'n' ? '\n' : byte == 't' ? '\t' : byte == 'r' ? '\r' : byte);
        }
        text_append(&text, &byte, 1);
    }
    if (r->at >= r->end) reading_wrong(r, "a string has no end");
    if (r->at < r->end) r->at++;
    json_t *value = keep_text(r, text.bytes, text.length);
    text_free(&text);
    return value;
}

/* [a, b] behind its bracket. */
static json_t *read_list(Rendering *r) {
    json_t *list = expression_keep(r, json_array());
    while (!r->problem && !reading_sign(r, "]")) {
        json_t *item = read_any(r);
        json_array_append(list, item ? item : expression_keep(r, json_null()));
        if (!reading_sign(r, ",") && r->at < r->end && r->text[r->at] != ']')
            reading_wrong(r, "expected ',' or ']'");
    }
    expression_spend_on(r, list);
    return list;
}

/* ---- calls ---- */

typedef struct Arguments {
    json_t *items[4];
    int count;
    json_t *named; /* an object */
} Arguments;

static Arguments read_arguments(Rendering *r) {
    Arguments arguments = {.named = expression_keep(r, json_object())};
    while (!r->problem && !reading_sign(r, ")")) {
        size_t before = r->at;
        char name[64];
        bool named = reading_name(r, name) && reading_sign(r, "=") && r->text[r->at] != '=';
        if (!named) r->at = before;
        json_t *value = read_any(r);
        if (named)
            json_object_set(arguments.named, name, value ? value : json_null());
        else if (arguments.count < 4)
            arguments.items[arguments.count++] = value;
        if (!reading_sign(r, ",") && r->at < r->end && r->text[r->at] != ')')
            reading_wrong(r, "expected ',' or ')'");
    }
    expression_spend_on(r, arguments.named);
    return arguments;
}

/* Without the characters of `set` at its ends; NULL: without spaces. */
static json_t *trimmed(Rendering *r, const json_t *value, const char *set, bool left, bool right) {
    const char *text = json_string_value(value);
    size_t from = 0, to = text ? json_string_length(value) : 0;
    if (!set) set = " \t\n\v\f\r";
    while (left && from < to && strchr(set, text[from])) from++;
    while (right && to > from && strchr(set, text[to - 1])) to--;
    return keep_text(r, text ? text + from : "", to - from);
}

static json_t *in_case(Rendering *r, const json_t *value, bool upper) {
    size_t length = json_string_length(value);
    char *copy = memory_new(length + 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)json_string_value(value)[i];
        copy[i] = (char)(upper ? toupper(byte) : tolower(byte));
    }
    json_t *result = keep_text(r, copy, length);
    free(copy);
    return result;
}

static json_t *parts_of(Rendering *r, const json_t *value, const char *mark) {
    json_t *parts = expression_keep(r, json_array());
    const char *at = json_string_value(value);
    for (const char *next; at && *mark && !r->problem && (next = strstr(at, mark));
         at = next + strlen(mark)) {
        json_array_append_new(parts, json_stringn(at, (size_t)(next - at)));
        expression_spend(r, VALUE_BYTES);
    }
    if (at) json_array_append_new(parts, json_text(at));
    return parts;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with) {
    size_t length = strlen(text), other = strlen(with);
    return length >= other && strcmp(text + length - other, with) == 0;
}

/* value.name(arguments) */
static json_t *call_method(Rendering *r, json_t *value, const char *name, const Arguments *given) {
    const char *text = json_string_value(value);
    const char *first = given->count ? json_string_value(given->items[0]) : NULL;
    bool plain = text && !given->count;
    expression_spend_on(r, value);
    if (r->problem) return NULL;
    if (text && !strcmp(name, "strip")) return trimmed(r, value, first, true, true);
    if (text && !strcmp(name, "lstrip")) return trimmed(r, value, first, true, false);
    if (text && !strcmp(name, "rstrip")) return trimmed(r, value, first, false, true);
    if (plain && !strcmp(name, "upper")) return in_case(r, value, true);
    if (plain && !strcmp(name, "lower")) return in_case(r, value, false);
    if (text && first && !strcmp(name, "startswith")) return keep_truth(r, begins(text, first));
    if (text && first && !strcmp(name, "endswith")) return keep_truth(r, ends(text, first));
    if (text && first && !strcmp(name, "split")) return parts_of(r, value, first);
    if (json_is_object(value) && first && !strcmp(name, "get")) {
        json_t *found = json_object_get(value, first);
        return found ? found : given->count > 1 ? given->items[1] : expression_keep(r, json_null());
    }
    return r->live ? reading_wrong(r, "'.%s()' is not done here", name) : NULL;
}

static json_t *call_function(Rendering *r, const char *name, const Arguments *given) {
    if (!strcmp(name, "namespace")) return given->named;
    if (!strcmp(name, "raise_exception")) {
        if (!r->live) return NULL;
        r->raised = true;
        const char *why = given->count ? json_string_value(given->items[0]) : NULL;
        return reading_wrong(r, "%s", why ? why : "the template refuses these messages");
    }
    return reading_wrong(r, "'%s()' is not done here", name);
}

/* value | name(arguments) */
static json_t *filter(Rendering *r, json_t *value, const char *name, const Arguments *given) {
    expression_spend_on(r, value);
    if (r->problem) return NULL;
    if (!strcmp(name, "trim")) return trimmed(r, value, NULL, true, true);
    if (!strcmp(name, "upper") || !strcmp(name, "lower")) return in_case(r, value, *name == 'u');
    if (!strcmp(name, "safe") || !strcmp(name, "string") || !strcmp(name, "list")) return value;
    if (!strcmp(name, "length") || !strcmp(name, "count")) {
        size_t size = json_is_string(value)
                          ? character_count(json_string_value(value), json_string_length(value))
                      : json_is_object(value) ? json_object_size(value)
                                              : json_array_size(value);
        return expression_keep(r, json_integer((json_int_t)size));
    }
    if (!strcmp(name, "first")) return json_array_get(value, 0);
    if (!strcmp(name, "last"))
        return json_array_size(value) ? json_array_get(value, json_array_size(value) - 1) : NULL;
    if (!strcmp(name, "default")) return value || !given->count ? value : given->items[0];
    if (!strcmp(name, "tojson")) {
        char *text = json_write(value ? value : json_null(), JSON_ENCODE_ANY);
        json_t *result = keep_text(r, text, strlen(text));
        free(text);
        return result;
    }
    return reading_wrong(r, "the filter '%s' is not done here", name);
}

/* ---- from the inside out ---- */

static json_t *read_atom(Rendering *r) {
    char name[64];
    reading_spaces(r);
    char byte = (char)(r->at < r->end ? r->text[r->at] : 0);
    if (byte == '"' || byte == '\'') return read_text(r);
    if (isdigit((unsigned char)byte)) {
        char *end;
        long number = strtol(r->text + r->at, &end, 10);
        r->at = (size_t)(end - r->text);
        return expression_keep(r, json_integer(number));
    }
    if (reading_sign(r, "[")) return read_list(r);
    if (reading_sign(r, "(")) {
        json_t *value = read_any(r);
        return reading_sign(r, ")") ? value : reading_wrong(r, "expected ')'");
    }
    if (!reading_name(r, name)) return reading_wrong(r, "expected an expression");
    if (!strcmp(name, "true") || !strcmp(name, "True")) return keep_truth(r, true);
    if (!strcmp(name, "false") || !strcmp(name, "False")) return keep_truth(r, false);
    if (!strcmp(name, "none") || !strcmp(name, "None")) return expression_keep(r, json_null());
    if (reading_sign(r, "(")) {
        const Arguments given = read_arguments(r);
        return call_function(r, name, &given);
    }
    return json_object_get(r->scope, name);
}

/* The place that a number names, from the end where it is negative. */
static long place_of(const json_t *number, long size, long otherwise) {
    if (!json_is_integer(number)) return otherwise;
    long place = (long)json_integer_value(number);
    place = place < 0 ? place + size : place;
    return place < 0 ? 0 : place > size ? size : place;
}

static json_t *slice(Rendering *r, const json_t *value, const json_t *from, const json_t *to) {
    long size = (long)(json_is_string(value) ? json_string_length(value) : json_array_size(value));
    long first = place_of(from, size, 0), last = place_of(to, size, size);
    if (last < first) last = first;
    if (json_is_string(value))
        return keep_text(r, json_string_value(value) + first, (size_t)(last - first));
    json_t *part = expression_keep(r, json_array());
    for (long i = first; i < last; i++) json_array_append(part, json_array_get(value, (size_t)i));
    expression_spend_on(r, part);
    return part;
}

/* value[::-1], the last sign of which comes next. */
static json_t *read_reversed(Rendering *r, const json_t *value) {
    if (!reading_sign(r, ":-1") && !reading_sign(r, ": -1"))
        return reading_wrong(r, "of slices with steps only [::-1] is done here");
    if (!reading_sign(r, "]")) return reading_wrong(r, "expected ']'");
    json_t *turned = expression_keep(r, json_array());
    for (size_t i = json_array_size(value); i > 0; i--)
        json_array_append(turned, json_array_get(value, i - 1));
    expression_spend_on(r, turned);
    return turned;
}

/* value[...] behind its bracket. */
static json_t *read_subscript(Rendering *r, json_t *value) {
    reading_spaces(r);
    json_t *from = r->at < r->end && r->text[r->at] == ':' ? NULL : read_any(r);
    if (reading_sign(r, ":")) {
        reading_spaces(r);
        if (r->at < r->end && r->text[r->at] == ':') return read_reversed(r, value);
        json_t *to = r->at < r->end && r->text[r->at] == ']' ? NULL : read_any(r);
        return reading_sign(r, "]") ? slice(r, value, from, to) : reading_wrong(r, "expected ']'");
    }
    if (!reading_sign(r, "]")) return reading_wrong(r, "expected ']'");
    if (json_is_string(from)) return json_object_get(value, json_string_value(from));
    long size = (long)json_array_size(value), place = (long)json_integer_value(from);
    if (place < 0) place += size;
    return place >= 0 && place < size ? json_array_get(value, (size_t)place) : NULL;
}

static json_t *read_postfix(Rendering *r) {
    json_t *value = read_atom(r);
    char name[64];
    while (!r->problem) {
        if (reading_sign(r, "[")) {
            value = read_subscript(r, value);
        } else if (reading_sign(r, ".")) {
            if (!reading_name(r, name)) return reading_wrong(r, "expected a name behind '.'");
            if (reading_sign(r, "(")) {
                const Arguments given = read_arguments(r);
                value = call_method(r, value, name, &given);
            } else {
                value = json_object_get(value, name);
            }
        } else if (reading_sign(r, "|")) {
            Arguments given = {0};
            if (!reading_name(r, name)) return reading_wrong(r, "expected a filter behind '|'");
            if (reading_sign(r, "(")) given = read_arguments(r);
            value = filter(r, value, name, &given);
        } else {
            break;
        }
    }
    return value;
}

static json_t *read_unary(Rendering *r) {
    if (!reading_sign(r, "-")) return read_postfix(r);
    const json_t *value = read_postfix(r);
    return expression_keep(r, json_integer(-json_integer_value(value)));
}

static json_t *join(Rendering *r, json_t *a, json_t *b) {
    Text text = {0};
    expression_spend_on(r, a);
    expression_spend_on(r, b);
    if (r->problem) return NULL;
    expression_write(a, &text);
    expression_write(b, &text);
    json_t *result = keep_text(r, text.bytes, text.length);
    text_free(&text);
    return result;
}

static json_t *add(Rendering *r, json_t *a, json_t *b) {
    if (json_is_integer(a) && json_is_integer(b))
        return expression_keep(r, json_integer(json_integer_value(a) + json_integer_value(b)));
    if (json_is_array(a) && json_is_array(b)) {
        json_t *both = expression_keep(r, json_copy(a));
        json_array_extend(both, b);
        expression_spend_on(r, both);
        return both;
    }
    if (r->live && (!json_is_string(a) || !json_is_string(b)))
        return reading_wrong(r, "'+' takes two texts, two numbers or two lists");
    return join(r, a, b);
}

/* At the end of an expression a '-' belongs to -%} and -}}. */
static bool ends_here(const Rendering *r) {
    size_t at = r->at;
    while (at < r->end && isspace((unsigned char)r->text[at])) at++;
    return at + 1 < r->end && r->text[at] == '-' &&
           (r->text[at + 1] == '%' || r->text[at + 1] == '}');
}

static bool remainder_comes(Rendering *r) {
    reading_spaces(r);
    return r->at + 1 < r->end && r->text[r->at] == '%' && r->text[r->at + 1] != '}';
}

static json_t *read_sum(Rendering *r) {
    json_t *value = read_unary(r);
    while (!r->problem && !ends_here(r)) {
        if (remainder_comes(r)) {
            r->at++;
            json_int_t divisor = json_integer_value(read_unary(r)), of = json_integer_value(value);
            value = expression_keep(r, json_integer(divisor && divisor != -1 ? of % divisor : 0));
        } else if (reading_sign(r, "+")) {
            value = add(r, value, read_unary(r));
        } else if (reading_sign(r, "~")) {
            value = join(r, value, read_unary(r));
        } else if (reading_sign(r, "-")) {
            json_int_t less = json_integer_value(read_unary(r));
            value = expression_keep(r, json_integer(json_integer_value(value) - less));
        } else {
            break;
        }
    }
    return value;
}

static bool within(Rendering *r, const json_t *part, json_t *whole) {
    expression_spend_on(r, whole);
    if (r->problem) return false;
    if (json_is_string(whole) && json_is_string(part))
        return strstr(json_string_value(whole), json_string_value(part)) != NULL;
    if (json_is_object(whole) && json_is_string(part))
        return json_object_get(whole, json_string_value(part)) != NULL;
    for (size_t i = 0; i < json_array_size(whole); i++)
        if (json_equal(part, json_array_get(whole, i))) return true;
    return false;
}

/* value is name */
static bool test(Rendering *r, const json_t *value, const char *name) {
    if (!strcmp(name, "defined")) return value != NULL;
    if (!strcmp(name, "undefined")) return value == NULL;
    if (!strcmp(name, "none")) return json_is_null(value);
    if (!strcmp(name, "string")) return json_is_string(value);
    if (!strcmp(name, "mapping")) return json_is_object(value);
    if (!strcmp(name, "iterable") || !strcmp(name, "sequence"))
        return json_is_array(value) || json_is_string(value) || json_is_object(value);
    if (!strcmp(name, "true")) return json_is_true(value);
    if (!strcmp(name, "false")) return json_is_false(value);
    if (!strcmp(name, "boolean")) return json_is_boolean(value);
    if (!strcmp(name, "number") || !strcmp(name, "integer")) return json_is_integer(value);
    reading_wrong(r, "the test '%s' is not done here", name);
    return false;
}

static bool same(Rendering *r, json_t *a, const json_t *b) {
    expression_spend_on(r, a);
    return !r->problem && (a == b || (a && b && json_equal(a, b)));
}

static json_t *read_comparison(Rendering *r) {
    json_t *a = read_sum(r);
    char name[64];
    if (r->problem) return NULL;
    if (reading_sign(r, "==")) return keep_truth(r, same(r, a, read_sum(r)));
    if (reading_sign(r, "!=")) return keep_truth(r, !same(r, a, read_sum(r)));
    json_int_t left = json_integer_value(a);
    if (reading_sign(r, "<=")) return keep_truth(r, left <= json_integer_value(read_sum(r)));
    if (reading_sign(r, ">=")) return keep_truth(r, left >= json_integer_value(read_sum(r)));
    if (reading_sign(r, "<")) return keep_truth(r, left < json_integer_value(read_sum(r)));
    if (reading_sign(r, ">")) return keep_truth(r, left > json_integer_value(read_sum(r)));
    if (reading_word(r, "in")) return keep_truth(r, within(r, a, read_sum(r)));
    if (reading_word(r, "is")) {
        bool not = reading_word(r, "not");
        if (!reading_name(r, name)) return reading_wrong(r, "expected a test behind 'is'");
        return keep_truth(r, test(r, a, name) != not );
    }
    size_t before = r->at;
    if (reading_word(r, "not")) {
        if (reading_word(r, "in")) return keep_truth(r, !within(r, a, read_sum(r)));
        r->at = before;
    }
    return a;
}

static json_t *read_not(Rendering *r) {
    bool negated = false, odd = false;
    for (; reading_word(r, "not"); negated = true) odd = !odd;
    json_t *value = read_comparison(r);
    return negated ? keep_truth(r, expression_true(value) != odd) : value;
}

/* The second of `and` and `or` is read, and computed only where it counts. */
static json_t *read_second(Rendering *r, bool counts, json_t *(*read)(Rendering *r)) {
    bool live = r->live;
    r->live = live && counts;
    json_t *value = read(r);
    r->live = live;
    return value;
}

static json_t *read_and(Rendering *r) {
    json_t *value = read_not(r);
    while (!r->problem && reading_word(r, "and")) {
        bool counts = expression_true(value);
        json_t *other = read_second(r, counts, read_not);
        if (counts) value = other;
    }
    return value;
}

static json_t *read_or(Rendering *r) {
    json_t *value = read_and(r);
    while (!r->problem && reading_word(r, "or")) {
        bool counts = !expression_true(value);
        json_t *other = read_second(r, counts, read_and);
        if (counts) value = other;
    }
    return value;
}

static json_t *read_choice(Rendering *r) {
    json_t *value = read_or(r);
    if (r->problem || !reading_word(r, "if")) return value;
    bool truth = expression_true(read_or(r));
    if (!reading_word(r, "else")) return truth ? value : NULL;
    json_t *other = read_second(r, !truth, read_any);
    return truth ? value : other;
}

static json_t *read_any(Rendering *r) {
    if (r->depth == DEEPEST_EXPRESSION) return reading_wrong(r, "it is nested too deeply");
    r->depth++;
    json_t *value = read_choice(r);
    r->depth--;
    return value;
}

json_t *expression_read(Rendering *r) {
    return read_any(r);
}

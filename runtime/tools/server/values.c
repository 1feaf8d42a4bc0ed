#include "tools/server/internal.h"

#include "abi/json_make.h"
#include "tokenizer/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

json_t *values_text(Rendering *r, const char *bytes, size_t length) {
    return reading_keep(r, json_text_bytes(bytes ? bytes : "", length));
}

json_t *values_taken(Rendering *r, Text *text) {
    json_t *value = values_text(r, text->bytes, text->length);
    text_free(text);
    return value;
}

json_t *values_truth(Rendering *r, bool truth) {
    return reading_keep(r, json_boolean(truth));
}

json_t *values_integer(Rendering *r, json_int_t number) {
    return reading_keep(r, json_integer(number));
}

/* ---- as text ---- */

static void write_word(Text *out, const char *word) {
    text_append(out, word, strlen(word));
}

/* The shortest digits that are read back as the same number, as Python writes them. */
static void write_real(double number, Text *out) {
    char text[40];
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, number);
        if (strtod(text, NULL) == number) break;
    }
    snprintf(text, sizeof text, "%.*e", digits - 1, number);
    int exponent = atoi(strchr(text, 'e') + 1), behind = digits - 1 - exponent;
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", behind > 1 ? behind : 1, number);
    write_word(out, text);
}

static bool is_printable(int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return c == ' ' || (category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_CF &&
                        category != UTF8PROC_CATEGORY_CS && category != UTF8PROC_CATEGORY_CO &&
                        category != UTF8PROC_CATEGORY_CN && category != UTF8PROC_CATEGORY_ZL &&
                        category != UTF8PROC_CATEGORY_ZP && category != UTF8PROC_CATEGORY_ZS);
}

static void write_code(int32_t c, bool json, Text *out) {
    char code[12];
    const char *form = json || c > 0xFF ? "\\u%04x" : "\\x%02x";
    snprintf(code, sizeof code, c > 0xFFFF ? "\\U%08x" : form, (unsigned)c);
    write_word(out, code);
}

/* A text in quotes, as json.dumps or repr writes it. */
static void write_quoted(const json_t *value, bool json, Text *out) {
    const char *bytes = json_string_value(value);
    size_t length = json_string_length(value);
    bool twofold = json || (memchr(bytes, '\'', length) && !memchr(bytes, '"', length));
    char quote = (char)(twofold ? '"' : '\'');
    text_append(out, &quote, 1);
    for (size_t at = 0; at < length;) {
        int taken;
        int32_t c = character_at(bytes + at, &taken);
        const char *from = json ? "\n\t\r\b\f" : "\n\t\r", *letters = "ntrbf";
        const char *found = c && c < 0x80 ? strchr(from, c) : NULL;
        if (c == quote || c == '\\' || found) text_append(out, "\\", 1);
        if (found)
            text_append(out, letters + (found - from), 1);
        else if (json ? c < ' ' : !is_printable(c))
            write_code(c, json, out);
        else
            text_append(out, bytes + at, (size_t)taken);
        at += (size_t)taken;
    }
    text_append(out, &quote, 1);
}

static void write_any(const json_t *value, bool json, Text *out) {
    const char *name;
    json_t *item;
    size_t i, count = 0;
    if (json_is_string(value)) {
        write_quoted(value, json, out);
    } else if (json_is_boolean(value)) {
        const char *word = json_is_true(value) ? "True" : "False";
        write_word(out, !json ? word : json_is_true(value) ? "true" : "false");
    } else if (json_is_real(value)) {
        write_real(json_real_value(value), out);
    } else if (json_is_integer(value)) {
        char digits[24];
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        write_word(out, digits);
    } else if (json_is_array(value)) {
        write_word(out, "[");
        json_array_foreach(value, i, item) {
            if (i) write_word(out, ", ");
            write_any(item, json, out);
        }
        write_word(out, "]");
    } else if (json_is_object(value)) {
        write_word(out, "{");
        json_object_foreach((json_t *)(uintptr_t)value, name, item) {
            json_auto_t *key = json_text(name);
            if (count++) write_word(out, ", ");
            write_quoted(key, json, out);
            write_word(out, ": ");
            write_any(item, json, out);
        }
        write_word(out, "}");
    } else {
        write_word(out, json ? "null" : "None");
    }
}

void values_write(const json_t *value, Text *out) {
    if (json_is_string(value))
        text_append(out, json_string_value(value), json_string_length(value));
    else if (value)
        write_any(value, false, out);
}

void values_write_json(const json_t *value, Text *out) {
    write_any(value, true, out);
}

/* ---- numbers ---- */

/* A number of Python; true is 1. */
typedef struct PythonNumber {
    bool real;
    json_int_t whole;
    double value;
} PythonNumber;

static bool python_number(const json_t *value, PythonNumber *number) {
    *number = (PythonNumber){.real = json_is_real(value)};
    if (number->real)
        number->value = json_real_value(value);
    else
        number->whole = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    if (!number->real) number->value = (double)number->whole;
    return json_is_number(value) || json_is_boolean(value);
}

static int order_of_numbers(const PythonNumber *a, const PythonNumber *b) {
    if (!a->real && !b->real) return a->whole < b->whole ? -1 : a->whole > b->whole;
    return a->value < b->value ? -1 : a->value > b->value;
}

static json_t *keep_real(Rendering *r, double number) {
    if (isfinite(number)) return reading_keep(r, json_real(number));
    return reading_refused(r, "a number is too large");
}

/* The quotient is rounded down, and the remainder has the sign of b. */
static json_t *divide_whole(Rendering *r, const char *sign, json_int_t a, json_int_t b) {
    if (b == -1 && *sign == '%') return values_integer(r, 0);
    if (b == -1 && a == INT64_MIN) return reading_refused(r, "a number exceeds 64 bits");
    json_int_t quotient = a / b, rest = a % b;
    bool off = rest && (rest < 0) != (b < 0);
    return values_integer(r, *sign == '%' ? rest + (off ? b : 0) : quotient - off);
}

static json_t *divide_real(Rendering *r, const char *sign, double a, double b) {
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
    } else if (rest == 0) {
        rest = copysign(0, b);
    }
    double down = floor(quotient);
    if (quotient - down > 0.5) down += 1;
    if (quotient == 0) down = copysign(0, a / b);
    return keep_real(r, *sign == '%' ? rest : down);
}

static json_t *calculate(Rendering *r, const char *sign, const PythonNumber *a,
                         const PythonNumber *b) {
    bool real = a->real || b->real, beyond = false;
    json_int_t whole = 0;
    if (strchr("/%", *sign) && b->value == 0) return reading_refused(r, "division by zero");
    if (strcmp(sign, "/") == 0) return keep_real(r, a->value / b->value);
    if (strchr("/%", *sign))
        return real ? divide_real(r, sign, a->value, b->value)
                    : divide_whole(r, sign, a->whole, b->whole);
    if (real)
        return keep_real(r, *sign == '+'   ? a->value + b->value
                            : *sign == '-' ? a->value - b->value
                                           : a->value * b->value);
    if (*sign == '+') beyond = __builtin_add_overflow(a->whole, b->whole, &whole);
    if (*sign == '-') beyond = __builtin_sub_overflow(a->whole, b->whole, &whole);
    if (*sign == '*') beyond = __builtin_mul_overflow(a->whole, b->whole, &whole);
    if (!beyond) return values_integer(r, whole);
    return reading_refused(r, "a number exceeds 64 bits");
}

/* A text or a list, several times. */
static json_t *repeat_value(Rendering *r, json_t *value, json_int_t times) {
    bool text = json_is_string(value);
    size_t size = text ? json_string_length(value) : json_array_size(value) * VALUE_BYTES, bytes;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(size, (size_t)times, &bytes)) bytes = SIZE_MAX / 2;
    reading_spend(r, bytes);
    if (r->problem) return NULL;
    AUTO(Text) all = {0};
    json_t *list = text ? NULL : reading_keep(r, json_array());
    for (json_int_t i = 0; i < times && size; i++) {
        if (text) text_append(&all, json_string_value(value), size);
        if (list) json_array_extend(list, value);
    }
    if (list) reading_spend_on(r, list);
    return list ? list : values_text(r, all.bytes, all.length);
}

json_t *values_joined(Rendering *r, const json_t *a, const json_t *b) {
    Text text = {0};
    values_write(a, &text);
    values_write(b, &text);
    return values_taken(r, &text);
}

json_t *values_arithmetic(Rendering *r, const char *sign, json_t *a, json_t *b) {
    PythonNumber left, right;
    bool numbers = python_number(a, &left), times = python_number(b, &right) && !right.real;
    if (!r->live || r->problem) return NULL;
    if (numbers && python_number(b, &right)) return calculate(r, sign, &left, &right);
    if (*sign == '+' && json_is_string(a) && json_is_string(b)) return values_joined(r, a, b);
    if (*sign == '+' && json_is_array(a) && json_is_array(b)) {
        json_t *both = reading_keep(r, json_copy(a));
        json_array_extend(both, b);
        reading_spend_on(r, both);
        return both;
    }
    if (*sign == '*' && times && (json_is_string(a) || json_is_array(a)))
        return repeat_value(r, a, right.whole);
    if (*sign == '*' && numbers && !left.real && (json_is_string(b) || json_is_array(b)))
        return repeat_value(r, b, left.whole);
    return reading_refused(r,
                           *sign == '+' ? "'+' requires two strings, two numbers or two lists"
                                        : "'%s' requires two numbers",
                           sign);
}

json_t *values_negative(Rendering *r, const json_t *value) {
    const PythonNumber zero = {0};
    PythonNumber number;
    if (!r->live) return NULL;
    if (!python_number(value, &number)) return reading_refused(r, "'-' requires a number");
    return number.real ? keep_real(r, -number.value) : calculate(r, "-", &zero, &number);
}

/* ---- equality and order ---- */

static bool equal_objects(const json_t *a, const json_t *b) {
    const char *name;
    json_t *item;
    if (json_object_size(a) != json_object_size(b)) return false;
    json_object_foreach((json_t *)(uintptr_t)a, name, item) {
        const json_t *other = json_object_get(b, name);
        if (!other || !values_equal(item, other)) return false;
    }
    return true;
}

bool values_equal(const json_t *a, const json_t *b) {
    PythonNumber left, right;
    if (!a || !b) return a == b;
    if (python_number(a, &left) && python_number(b, &right))
        return !order_of_numbers(&left, &right);
    if (json_is_object(a) && json_is_object(b)) return equal_objects(a, b);
    if (!json_is_array(a) || !json_is_array(b)) return json_equal(a, b);
    if (json_array_size(a) != json_array_size(b)) return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!values_equal(json_array_get(a, i), json_array_get(b, i))) return false;
    return true;
}

/* By characters; UTF-8 has the same order by bytes. */
static int order_of_texts(const json_t *a, const json_t *b) {
    size_t left = json_string_length(a), right = json_string_length(b);
    int order = memcmp(json_string_value(a), json_string_value(b), left < right ? left : right);
    return order ? order : left < right ? -1 : left > right;
}

json_t *values_compare(Rendering *r, const char *sign, const json_t *a, const json_t *b) {
    PythonNumber left, right;
    int order = 0;
    if (!r->live || r->problem) return NULL;
    if (python_number(a, &left) && python_number(b, &right))
        order = order_of_numbers(&left, &right);
    else if (json_is_string(a) && json_is_string(b))
        order = order_of_texts(a, b);
    else
        return reading_refused(r, "'%s' compares two numbers or two strings", sign);
    return values_truth(r, (sign[1] && order == 0) || (*sign == '<' ? order < 0 : order > 0));
}

static bool has_items(const json_t *value) {
    return !value || json_is_string(value) || json_is_array(value) || json_is_object(value);
}

bool values_contains(Rendering *r, const json_t *whole, const json_t *part) {
    if ((json_is_string(whole) && !json_is_string(part)) || !has_items(whole))
        return reading_refused(r, "'in' requires a list, an object, or two strings") != NULL;
    if (json_is_string(whole))
        return memmem(json_string_value(whole), json_string_length(whole), json_string_value(part),
                      json_string_length(part)) != NULL;
    if (json_is_object(whole))
        return json_is_string(part) && json_object_get(whole, json_string_value(part));
    for (size_t i = 0; i < json_array_size(whole); i++)
        if (values_equal(part, json_array_get(whole, i))) return true;
    return false;
}

/* ---- items ---- */

static size_t value_length(const json_t *value) {
    if (json_is_string(value))
        return character_count(json_string_value(value), json_string_length(value));
    return json_is_object(value) ? json_object_size(value) : json_array_size(value);
}

json_t *values_length(Rendering *r, const json_t *value) {
    if (has_items(value)) return values_integer(r, (json_int_t)value_length(value));
    return reading_refused(r, "a number has no length");
}

json_t *values_list(Rendering *r, json_t *value) {
    const char *name;
    json_t *item;
    if (json_is_array(value) || !r->live) return value;
    if (!has_items(value)) return reading_refused(r, "a number is not a list");
    json_t *list = reading_keep(r, json_array());
    reading_spend(r, VALUE_BYTES * value_length(value));
    for (size_t at = 0; json_is_string(value) && at < json_string_length(value) && !r->problem;) {
        int taken;
        character_at(json_string_value(value) + at, &taken);
        json_array_append_new(list, json_text_bytes(json_string_value(value) + at, (size_t)taken));
        at += (size_t)taken;
    }
    json_object_foreach(value, name, item) json_array_append_new(list, json_text(name));
    return list;
}

/* The byte at which the character of that number begins. */
static size_t byte_of_character(const json_t *text, size_t number) {
    const char *bytes = json_string_value(text);
    size_t at = 0;
    for (size_t length = json_string_length(text); number && at < length; number--) {
        int taken;
        character_at(bytes + at, &taken);
        at += (size_t)taken;
    }
    return at;
}

json_t *values_item(Rendering *r, json_t *value, const json_t *key) {
    PythonNumber number;
    if (!r->live || r->problem) return NULL;
    if (!value) return reading_refused(r, "item of an undefined value");
    if (json_is_string(key)) return json_object_get(value, json_string_value(key));
    if (!python_number(key, &number) || number.real) return NULL;
    json_int_t size = (json_int_t)value_length(value);
    json_int_t at = number.whole < 0 ? number.whole + size : number.whole;
    if (at < 0 || at >= size || json_is_object(value)) return NULL;
    if (json_is_array(value)) return json_array_get(value, (size_t)at);
    reading_spend(r, json_string_length(value));
    size_t from = byte_of_character(value, (size_t)at);
    int taken;
    character_at(json_string_value(value) + from, &taken);
    return values_text(r, json_string_value(value) + from, (size_t)taken);
}

/* A bound of a slice, from the end where it is negative. */
static bool read_bound(const json_t *bound, json_int_t size, bool back, json_int_t *at) {
    PythonNumber number;
    if (!bound || json_is_null(bound)) return true;
    if (!python_number(bound, &number) || number.real) return false;
    json_int_t least = back ? -1 : 0, most = back ? size - 1 : size;
    *at = number.whole < 0 ? number.whole + size : number.whole;
    *at = *at < least ? least : *at > most ? most : *at;
    return true;
}

json_t *values_slice(Rendering *r, json_t *value, const json_t *const bounds[3]) {
    PythonNumber step = {.whole = 1};
    if (!r->live || r->problem) return NULL;
    if (!json_is_string(value) && !json_is_array(value))
        return reading_refused(r, "only strings and lists have slices");
    json_int_t size = (json_int_t)value_length(value);
    bool stepped =
        !bounds[2] || json_is_null(bounds[2]) || (python_number(bounds[2], &step) && !step.real);
    if (stepped && !step.whole && json_is_number(bounds[2]))
        return reading_refused(r, "the step of a slice is 0");
    json_int_t by = json_is_null(bounds[2]) ? 1 : step.whole;
    by = by > size + 1 ? size + 1 : by < -size - 1 ? -size - 1 : by;
    json_int_t at = by < 0 ? size - 1 : 0, end = by < 0 ? -1 : size;
    if (!stepped || !read_bound(bounds[0], size, by < 0, &at) ||
        !read_bound(bounds[1], size, by < 0, &end))
        return reading_refused(r, "the bounds of a slice must be integers");
    json_t *all = values_list(r, value), *part = reading_keep(r, json_array());
    AUTO(Text) text = {0};
    for (; (by > 0 ? at < end : at > end) && !r->problem; at += by) {
        const json_t *item = json_array_get(all, (size_t)at);
        if (json_is_string(value))
            values_write(item, &text);
        else
            json_array_append(part, (json_t *)(uintptr_t)item);
    }
    reading_spend_on(r, part);
    return json_is_string(value) ? values_text(r, text.bytes, text.length) : part;
}

/* json_make: JSON values that are never NULL, for text of any bytes. The functions of jansson
 * return NULL for text that is not UTF-8 and for numbers that are not finite; these do not. Both
 * sides use them; compiler/base/json_make.c defines them. */
#ifndef JSON_MAKE_H
#define JSON_MAKE_H

#include <jansson.h>
#include <math.h>

/* The value that `format` describes, as json_pack of jansson does: { } [ ] and the letters
 * s (text), i (int), I (json_int_t), b (int), f (double), n, o (taken over), O (shared). A NULL
 * argument becomes null, as does a number that is not finite; spaces, ',' ':' and '?' have no
 * effect. Never NULL. */
json_t *json_make(const char *format, ...);
/* A text in which each byte that is not valid UTF-8 is replaced by U+FFFD; NULL: null. Never NULL.
 */
json_t *json_text(const char *text);
json_t *json_text_bytes(const char *text, size_t length); /* the same of a text with a length */
/* Arrays of texts and of integers. */
json_t *json_texts(const char *const *texts, int count);
json_t *json_integers(const long *numbers, int count);
/* The value as text; `flags` as for json_dumps. The caller frees it. Never NULL: the process ends
 * with a message when it runs out of memory. */
char *json_write(const json_t *value, size_t flags);

/* The same; the value is released. */
char *json_write_new(json_t *value, size_t flags);
/* A text that may be any bytes, such as a path; null for NULL. Valid UTF-8 stays as it is. In other
 * texts, and in those with "\x", each invalid byte and each backslash becomes \xHH: no two texts
 * have the same string. */
json_t *json_escaped(const char *text);

/* A number; null if it is infinite or not a number. */
static inline json_t *json_number(double number) {
    return isfinite(number) ? json_real(number) : json_null();
}

/* The number of a key; NaN if there is none. */
static inline double json_field_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The text of a key; NULL if there is none. */
static inline const char *json_field_text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

/* Whether a key has equal values in both objects, or in none. */
static inline int json_field_equal(const json_t *one, const json_t *other, const char *key) {
    json_t *a = json_object_get(one, key), *b = json_object_get(other, key);
    return a == b || (a && b && json_equal(a, b));
}

#endif

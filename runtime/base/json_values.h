/* json_values: numbers and texts of any kind as JSON values. */
#ifndef JSON_VALUES_H
#define JSON_VALUES_H

#include <jansson.h>
#include <math.h>

/* json_escaped: texts that may be any bytes, such as paths, as JSON strings. */

/* A new string; null for NULL. Valid UTF-8 stays as it is. In other texts, and in those with "\x",
 * each invalid byte and each backslash becomes \xHH: no two texts have the same string. */
json_t *json_escaped(const char *text);

/* json_number: a double as JSON; null for values that are infinite or not a number. */

static inline json_t *json_number(double number) {
    return isfinite(number) ? json_real(number) : json_null();
}

#endif

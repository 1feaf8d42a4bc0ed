/* json_number: a double as JSON; null for values that are infinite or not a number. */
#ifndef JSON_NUMBER_H
#define JSON_NUMBER_H

#include <jansson.h>
#include <math.h>

static inline json_t *json_number(double number) {
    return isfinite(number) ? json_real(number) : json_null();
}

#endif

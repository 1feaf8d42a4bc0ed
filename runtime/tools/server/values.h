/* values: Python semantics of the values of a template: text, order, arithmetic, slices.
 * Values are those of JSON; NULL is one that is not defined. Results live until the end of the
 * rendering. A wrong operation sets the problem of a live rendering. */
#ifndef SERVER_VALUES_H
#define SERVER_VALUES_H

#include "tools/server/expression.h"

json_t *values_text(Rendering *r, const char *bytes, size_t length);
json_t *values_truth(Rendering *r, bool truth);
json_t *values_integer(Rendering *r, json_int_t number);

/* str(value); "" for a value that is not defined. */
void values_write(const json_t *value, Text *out);
/* json.dumps(value, ensure_ascii=False) */
void values_write_json(const json_t *value, Text *out);

/* True if a == b: 1, 1.0 and true are equal. */
bool values_equal(const json_t *a, const json_t *b);
/* a SIGN b of "<", "<=", ">", ">=". */
json_t *values_compare(Rendering *r, const char *sign, const json_t *a, const json_t *b);
/* True if `part` is in `whole`. */
bool values_contains(Rendering *r, const json_t *whole, const json_t *part);
/* a SIGN b of "+", "-", "*", "/", "//", "%". */
json_t *values_arithmetic(Rendering *r, const char *sign, json_t *a, json_t *b);
json_t *values_negative(Rendering *r, const json_t *value);

/* Characters, items or keys; 0 for a value that is not defined. */
json_t *values_length(Rendering *r, const json_t *value);
/* list(value): characters, items or keys. */
json_t *values_list(Rendering *r, json_t *value);
/* value[key]; NULL where there is none. */
json_t *values_item(Rendering *r, json_t *value, const json_t *key);
/* value[from:to:step]; NULL: left out. */
json_t *values_slice(Rendering *r, json_t *value, const json_t *const bounds[3]);

#endif

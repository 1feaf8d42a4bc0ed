/* json_escaped: texts that may be any bytes, such as paths, as JSON strings. */
#ifndef JSON_ESCAPED_H
#define JSON_ESCAPED_H

#include <jansson.h>

/* A new string; null for NULL. Valid UTF-8 stays as it is. In other texts, and in those with "\x",
 * each invalid byte and each backslash becomes \xHH: no two texts have the same string. */
json_t *json_escaped(const char *text);

#endif

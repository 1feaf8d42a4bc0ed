/* json_text: texts that may be any bytes, such as paths, as JSON strings. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <jansson.h>

/* A new string; null for NULL. Valid UTF-8 stays as it is. In other texts, and in those with "\x",
 * each invalid byte and each backslash becomes \xHH: no two texts have the same string. */
json_t *json_text(const char *text);

#endif

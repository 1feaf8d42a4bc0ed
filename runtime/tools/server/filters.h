/* filters: the methods, filters, tests and functions that a template may call. */
#ifndef SERVER_FILTERS_H
#define SERVER_FILTERS_H

#include "tools/server/expression.h"

enum { MAX_ARGUMENTS = 4 };

typedef struct Arguments {
    json_t *items[MAX_ARGUMENTS];
    int count;
    json_t *named; /* an object, or NULL */
} Arguments;

/* value.name(given) */
json_t *call_method(Rendering *r, json_t *value, const char *name, const Arguments *given);
/* name(given) */
json_t *call_function(Rendering *r, const char *name, const Arguments *given);
/* value | name(given) */
json_t *call_filter(Rendering *r, json_t *value, const char *name, const Arguments *given);
/* value is name */
bool call_test(Rendering *r, const json_t *value, const char *name);

#endif

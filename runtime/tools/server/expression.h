/* expression: parses and evaluates the expressions between {{ and }} of a template in one pass.
 * Values are JSON values; NULL = undefined. */
#ifndef SERVER_EXPRESSION_H
#define SERVER_EXPRESSION_H

#include "tokenizer/text/text.h"

#include <jansson.h>

enum { VALUE_BYTES = 64 }; /* approximate size of a value */

/* State of the rendering of a template. */
typedef struct Rendering {
    const char *text;
    size_t at, end;
    bool live;     /* false: the text is parsed but not evaluated */
    json_t *scope; /* names; changed by set */
    json_t *made;  /* array that owns all values */
    char *problem; /* reason of the failure, NULL so far */
    bool raised;   /* raised by the template itself */
    bool refused;  /* because of the values, which other messages change */
    Text *out;
    /* approximate bytes produced and read so far; an untrusted template may require too much */
    size_t work;
    int depth; /* nesting depth of expressions */
} Rendering;

/* Value of the expression at the current position. */
json_t *expression_read(Rendering *r);
/* Whether a value counts as true. */
bool expression_true(const json_t *value);
/* Keeps a new value until the end of the rendering; returns it. */
json_t *expression_keep(Rendering *r, json_t *value);
/* Counts work in bytes, or the size of a value; too much is an error. */
void expression_spend(Rendering *r, size_t bytes);
void expression_spend_on(Rendering *r, json_t *value);

/* Spaces passed over; whether a sign or a word comes next, which then is passed; a name, "" when
 * there is none. */
void reading_spaces(Rendering *r);
bool reading_sign(Rendering *r, const char *sign);
bool reading_word(Rendering *r, const char *word);
bool reading_name(Rendering *r, char name[64]);
/* Sets the error at the current position, unless one is set already. Returns NULL. */
json_t *reading_wrong(Rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for values that do not fit; nothing where they are not computed. NULL. */
json_t *reading_refused(Rendering *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

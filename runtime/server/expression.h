/* expression: what stands between {{ and }} in a template, read and computed in one go. Values are
 * those of JSON; NULL is one that is not defined. */
#ifndef SERVER_EXPRESSION_H
#define SERVER_EXPRESSION_H

#include "tokenizer/text/text.h"

#include <jansson.h>

enum { VALUE_BYTES = 64 }; /* what one takes, about */

/* Where a template is being read, and all that it made on the way. */
typedef struct Rendering {
    const char *text;
    size_t at, end;
    bool live;     /* false: what is read is skipped, nothing is computed */
    json_t *scope; /* names; changed by set */
    json_t *made;  /* an array: what keeps values alive */
    char *problem; /* why it cannot be rendered, NULL so far */
    bool raised;   /* by the template itself */
    bool refused;  /* because of the values, which other messages change */
    Text *out;
    size_t work; /* bytes made and read so far, about; a template of others may want too much */
    int depth;   /* of expressions within each other */
} Rendering;

/* The value of an expression that begins at the present place. */
json_t *expression_read(Rendering *r);
/* Whether a value counts as true. */
bool expression_true(const json_t *value);
/* Keeps a new value until the end of the rendering; returns it. */
json_t *expression_keep(Rendering *r, json_t *value);
/* Counts work of so many bytes, or what it takes to go through a value; too much is wrong. */
void expression_spend(Rendering *r, size_t bytes);
void expression_spend_on(Rendering *r, json_t *value);

/* Spaces passed over; whether a sign or a word comes next, which then is passed; a name, "" when
 * there is none. */
void reading_spaces(Rendering *r);
bool reading_sign(Rendering *r, const char *sign);
bool reading_word(Rendering *r, const char *word);
bool reading_name(Rendering *r, char name[64]);
/* Says what is wrong at the present place, unless something was before. NULL. */
json_t *reading_wrong(Rendering *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for values that do not fit; nothing where they are not computed. NULL. */
json_t *reading_refused(Rendering *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

/* The syntactic context at an offset of a file that is being edited. The brackets before the
 * offset determine it: incomplete text has no tree.
 *
 *     model m = base { part = kind { size = 4, to|
 *                      ^ m           ^ kind    ^ the name of an option of kind
 */
#ifndef CURSOR_CONTEXT_H
#define CURSOR_CONTEXT_H

#include "elaborate/elaborate.h"

typedef enum CursorKind {
    CURSOR_ITEM,   /* outside of every bracket */
    CURSOR_BODY,   /* among the statements of a layer */
    CURSOR_OPTION, /* the name of an option in a record */
    CURSOR_VALUE   /* the value of an option */
} CursorKind;

typedef struct CursorContext {
    CursorKind kind;
    const Source *source;
    int start, end;    /* of the name at the offset, with its dots; empty: none */
    const char *word;  /* that name, or "" */
    int at;            /* the offset itself */
    const char *path;  /* CURSOR_VALUE: the option, from its layer on */
    const Node *layer; /* the layer of the record or of the body; NULL: unknown */
    const Node *model; /* the model that the record belongs to, or NULL */
} CursorContext;

CursorContext cursor_context(Unit *unit, size_t offset);

/* The layer, optimizer, schedule or parametrization of this name, or NULL. */
const Node *named_layer(Unit *unit, const char *name);
/* The layer whose options a plain record sets: the default value, or the layer with the name of the
 * option; NULL without one. */
const Node *layer_of_option(Unit *unit, const Node *option);
/* The option of a layer, or of the layers that are values of its options: "attention.heads.q". */
const Node *option_of(Unit *unit, const Node *layer, const char *path);

#endif

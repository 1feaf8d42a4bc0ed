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

/* declared: the declaration of the name at an offset. */

/* The declaration of the name at the offset: an option, a declaration of a layer, a layer or a
 * model; NULL without one. */
const Node *declared(Unit *unit, const CursorContext *cursor);
/* Iterates over the declarations of a block and of its inner blocks. Initialize *at with 0; NULL
 * after the last. */
const Node *next_declaration(const Node *block, int *at);
/* The comment directly above a declaration, without its '#' signs; "" without one. */
const char *comment_above(Arena *arena, const Node *node);
/* The first line of a declaration, cut to a maximum length. */
const char *line_of_declaration(Arena *arena, const Node *node);

/* facts: the documentation of a declaration or of a builtin function, from its source text. Hover,
 * `moec doc` and the generated pages print the same facts. */

typedef struct OptionFacts {
    const char *name, *type;
    const char *limits; /* "1..", "[f32, bf16]"; NULL: none */
    List values;        /* const char *: of an enumeration */
    const char *value;  /* the default as written; NULL: the option is required */
    const char *text;
    List former;             /* const char *: deprecated names */
    const char *declaration; /* all of these on one line */
} OptionFacts;

typedef struct Facts {
    const char *kind; /* "layer", ..., "option", "function" */
    const char *name, *signature;
    const char *path; /* of the file; NULL for a function */
    int line;
    const char *text; /* one or more lines */
    const char *example;
    const char *result; /* of a function: the elements of y in the example; "": not fixed */
    List papers;        /* const char *: "Su et al. 2021" */
    List options;       /* OptionFacts * */
} Facts;

/* Of a layer, optimizer, schedule or parametrization. */
const Facts *facts_of(Arena *arena, const Node *node);
OptionFacts *option_facts(Arena *arena, const Node *option);
/* Adds the facts of every function, Facts *. */
void add_function_facts(const Unit *unit, List *facts);

#endif

/* facts: the documentation of a declaration or of a builtin function, from its source text. Hover,
 * `moec doc` and the generated pages print the same facts. */
#ifndef FACTS_H
#define FACTS_H

#include "elaborate/elaborate.h"

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
/* Adds the facts of the functions of that name, Facts *; NULL: of every function. */
void add_function_facts(Arena *arena, const char *name, List *facts);
/* The comment above a declaration. The first declaration of a file and the one with the name of the
 * file have the comment at the start of the file if there is none above them. "": no comment. */
const char *description_of(Arena *arena, const Node *node);

#endif

/* declared: where the name at a place was declared. */
#ifndef DECLARED_H
#define DECLARED_H

#include "editor/place.h"

/* The declaration of the name at the place: an option, what a layer declares, a layer, a model;
 * NULL when it is none. */
const Node *declared(Unit *unit, const Place *place);
/* The next name that a block declares, in its inner blocks too; *at counts on from 0. NULL after
 * the last. */
const Node *next_declaration(const Node *block, int *at);
/* The comment that stands right above a declaration, without its signs; "" when there is none. */
const char *comment_above(Arena *arena, const Node *node);
/* The line on which a declaration begins, up to where it is long enough. */
const char *line_of_declaration(Arena *arena, const Node *node);

#endif

/* declared: the declaration of the name at an offset. */
#ifndef DECLARED_H
#define DECLARED_H

#include "editor/cursor_context.h"

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

#endif

/* place: what an offset of a file that is being edited stands in. The brackets before it say so,
 * since a text that is being typed has no tree there.
 *
 *     model m = base { part = kind { size = 4, to|
 *                      ^ m           ^ kind    ^ the name of an option of kind
 */
#ifndef PLACE_H
#define PLACE_H

#include "elaborate/elaborate.h"

typedef enum PlaceKind {
    PLACE_ITEM,   /* outside of every bracket */
    PLACE_BODY,   /* among the statements of a layer */
    PLACE_OPTION, /* where the name of an option stands in a record */
    PLACE_VALUE   /* where its value stands */
} PlaceKind;

typedef struct Place {
    PlaceKind kind;
    const Source *source;
    int start, end;    /* of the name at the offset, with its dots; empty: none */
    const char *word;  /* that name, "" */
    int at;            /* the offset itself */
    const char *path;  /* PLACE_VALUE: the option, from its layer on */
    const Node *layer; /* whose options the record sets, or whose body it is; NULL: not known */
    const Node *model; /* the model that the record belongs to, or NULL */
} Place;

Place place_find(Unit *unit, size_t offset);

/* The layer, optimizer, schedule or parametrization of this name; NULL: there is none. */
const Node *named_layer(Unit *unit, const char *name);
/* The layer that a record alone sets options of: the default's, or that of the option's name;
 * NULL. */
const Node *layer_of_option(Unit *unit, const Node *option);
/* The option of a layer, or of the layers that its options take: "attention.heads.q". */
const Node *option_of(Unit *unit, const Node *layer, const char *path);

#endif

/* inspect: declarations of the parts of `moec inspect`. */
#ifndef INSPECT_H
#define INSPECT_H

#include "base/text_list.h"
#include "model/call.h"

#include <jansson.h>

/* ---- selection.c ---- */

/* One --show: "block.*.ffn.level[0,3:5,:]" */
typedef struct Show {
    char *name;
    const char *slice; /* the text in brackets, or NULL */
    bool anywhere;     /* the name is the end of names in the spec: "ffn.level" */
    bool used;
} Show;

typedef struct ShowList {
    Show *items;
    int count;
} ShowList;

ShowList selections_read(const TextList *texts);
void selections_free(ShowList *selections);
/* Makes the compiler return the chosen tensors of the spec. False after a message about a name that
 * neither the spec nor the weights of the model have. */
bool selections_observe(ShowList *selections, MoecCompiler *compiler, const MoecSpecTensor *tensors,
                        int tensor_count, const Model *weights);
/* The selection that a public name, "block.0.ffn.level", belongs to, or NULL. */
const Show *selection_of(const ShowList *selections, const char *name);

/* ---- shown.c ---- */

/* A tensor, or the part of it that a slice selects. */
typedef struct ShownTensor {
    char *name, *axes; /* axes: "batch,s,d" */
    const char *file;  /* of the equation, or NULL */
    int line, rank;
    long shape[MOEC_MAX_RANK], first[MOEC_MAX_RANK]; /* first: of the slice */
    float *values;
    size_t count;
} ShownTensor;

typedef struct ShownList {
    ShownTensor *items;
    int count;
} ShownList;

/* Adds the part of a tensor that the selection selects. False after a message about the slice. */
bool shown_add(ShownList *list, const Show *selection, const PublicTensor *tensor,
               const float *values);
void shown_print(const ShownList *list, bool with_values);
json_t *shown_json(const ShownList *list, bool with_values);
void shown_free(ShownList *list);

/* ---- npz.c, heat_map.c: files; false after a message ---- */

bool npz_write(const char *path, const ShownList *list);
/* The last two dimensions of each tensor as a picture, one per element of the other dimensions. */
bool heat_map_write(const char *path, const ShownList *list);

#endif

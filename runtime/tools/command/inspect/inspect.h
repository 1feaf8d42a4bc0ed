/* inspect: declarations of the parts of `moec inspect`. */
#ifndef INSPECT_H
#define INSPECT_H

#include "base/text_list.h"
#include "model/call.h"
#include "model/selection.h"

#include <jansson.h>

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
bool shown_add(ShownList *list, const SelectedName *selection, const PublicTensor *tensor,
               const float *values);
void shown_print(const ShownList *list, bool with_values);
json_t *shown_json(const ShownList *list, bool with_values);
void shown_free(ShownList *list);

/* ---- cached.c ---- */

/* Mark of names of the state of decoding: "cache:block.0.attention.v". */
static const char cached_mark[] = "cache:";

/* Tokens to decode, one after the other. */
typedef struct DecodedInput {
    const char *operand;
    const TextList *sets;
    const Safetensors *file; /* of a run; NULL: initial weights */
    Device *device;          /* NULL: the interpreter */
    uint64_t seed;
    long batch, context;    /* 0: of the spec */
    const int32_t *windows; /* [batch, context + 1] */
} DecodedInput;

/* Adds the caches with these names, without the mark, after the last token. *compiler receives the owner of the file names, to
 * close after the list, or NULL. False after a message. */
bool cached_show(const DecodedInput *input, const TextList *names, ShownList *list,
                 MoecCompiler **compiler);
/* Prints their names; nothing for a model without decoding. */
void cached_list(const DecodedInput *input);

/* ---- npz.c, heat_map.c: files; false after a message ---- */

bool npz_write(const char *path, const ShownList *list);
/* The last two dimensions of each tensor as a picture, one per element of the other dimensions. */
bool heat_map_write(const char *path, const ShownList *list);

#endif

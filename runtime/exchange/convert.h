/* convert: tensors of one layout written as those of another, one at a time: what is read stays a
 * mapping of the files, and no more than one tensor is in memory besides.
 */
#ifndef EXCHANGE_CONVERT_H
#define EXCHANGE_CONVERT_H

#include "data/safetensors.h"
#include "moec.h"

/* A part of a tensor that is written, and where it comes from. */
typedef struct Origin {
    const Entry *source;
    const MoecSlice *slice;
} Origin;

typedef struct Target {
    Entry entry;
    Origin *origins;
    int count;
} Target;

typedef struct Conversion {
    Target *targets;
    int count;
    bool inward; /* theirs become ours */
} Conversion;

/* One of `count` targets, none of which is described yet; to be freed. */
Conversion *conversion_new(int count, bool inward);
void conversion_free(Conversion *conversion);
/* A target of that name and shape; the type of its numbers follows from its origins. */
void conversion_target(Conversion *conversion, int place, const char *name, int rank,
                       const long *shape);
/* False after a message: the source holds no numbers of floating point. */
bool conversion_origin(Conversion *conversion, int place, const Entry *source,
                       const MoecSlice *slice);
/* Leaves out the targets that nothing goes into. */
void conversion_drop_empty(Conversion *conversion);
/* Vectors become F32, whatever their origins are. */
void conversion_widen_vectors(Conversion *conversion);
/* The bytes of one target. */
void conversion_fill(const Conversion *conversion, int place, void *bytes);
/* Writes all targets; false after a message. */
bool conversion_write(Conversion *conversion, const char *path, json_t *notes);
/* "float32", or "bfloat16" or "float16" where all tensors are so. */
const char *conversion_type(const Conversion *conversion);

#endif

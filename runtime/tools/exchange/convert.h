/* convert: converts tensors of one layout to another, one at a time. Sources stay memory-mapped; at
 * most one destination tensor is in memory. */
#ifndef EXCHANGE_CONVERT_H
#define EXCHANGE_CONVERT_H

#include "data/safetensors.h"
#include "moec.h"

/* A slice of a destination tensor and its source. */
typedef struct TensorSource {
    const Entry *source;
    const MoecSlice *slice;
} TensorSource;

typedef struct ConvertedTensor {
    Entry entry;
    TensorSource *origins;
    int count;
} ConvertedTensor;

typedef struct Conversion {
    ConvertedTensor *targets;
    int count;
    bool inward; /* from the family's layout to moec's */
} Conversion;

/* A conversion with `count` undefined targets; free it with conversion_free. */
Conversion *conversion_new(int count, bool inward);
void conversion_free(Conversion *conversion);
/* Defines a target by name and shape; its type follows from its origins. */
void conversion_target(Conversion *conversion, int index, const char *name, int rank,
                       const long *shape);
/* Adds a source of a target. False after a message if the source is not of a floating-point
 * type. */
bool conversion_origin(Conversion *conversion, int index, const Entry *source,
                       const MoecSlice *slice);
/* Removes targets without origins. */
void conversion_drop_empty(Conversion *conversion);
/* Converts vectors to F32 for any type of their origins. */
void conversion_widen_vectors(Conversion *conversion);
/* The bytes of one target. */
void conversion_fill(const Conversion *conversion, int index, void *bytes);
/* Writes all targets; false after a message. */
bool conversion_write(Conversion *conversion, const char *path, json_t *notes);
/* "bfloat16" or "float16" if all tensors have that type, else "float32". */
const char *conversion_type(const Conversion *conversion);

#endif

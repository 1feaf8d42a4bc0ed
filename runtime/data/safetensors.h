/* safetensors: named tensors and text notes in one file. https://github.com/huggingface/safetensors
 *
 * Every file written here has the note "checksum": XXH3 over all notes, names and bytes. It is
 * verified when a file that has it is opened; files from other programs may lack it. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include "base/files.h"

#include <jansson.h>
#include <stdint.h>

enum { SAFETENSORS_RANK = 16 };

typedef enum Number {
    NUMBER_F32,
    NUMBER_F64,
    NUMBER_F16,
    NUMBER_BF16,
    NUMBER_I32, /* this and the following types are integers */
    NUMBER_I64,
    NUMBER_I16,
    NUMBER_U8,
    NUMBER_OTHER,
    NUMBER_BLOCKS /* a quantized type, decoded by TensorEntry.blocks */
} Number;

struct BlockType; /* data/shards.h */

/* Order of the elements of a quantized tensor: matrices of `n` columns with `k` terms, which are
 * adjacent in the blocks. Strides in elements of the tensor. */
typedef struct BlockOrder {
    long batch, n, k, batch_stride, n_stride, k_stride;
} BlockOrder;

typedef struct TensorEntry {
    char *name;
    Number number;
    const struct BlockType *blocks; /* NUMBER_BLOCKS only */
    BlockOrder order;               /* the same; k = 0: elements in their own order */
    char type[16];                  /* reading: its name in the file, "BF16" */
    int rank;
    long shape[SAFETENSORS_RANK];
    size_t bytes;
    const void *data; /* writing: the bytes to write; reading: a pointer into the mapping */
} TensorEntry;

typedef struct Safetensors {
    const char *path;
    Mapping mapping;
    json_t *notes; /* __metadata__: an object of strings */
    TensorEntry *entries;
    int count;
    int *sorted; /* entry numbers by name */
} Safetensors;

/* NULL after a message: missing, damaged, truncated, or changed since it was written. */
Safetensors *safetensors_open(const char *path);
void safetensors_close(Safetensors *file);
AUTO_POINTER(Safetensors, safetensors_close)
const TensorEntry *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_note(const Safetensors *file, const char *name); /* NULL: none */
/* The notes "file:NAME", texts that checkpoints keep: a new object. */
json_t *safetensors_files(const Safetensors *file);
/* Converts `count` values of a floating-point entry to float; false after a message. */
bool safetensors_floats(const Safetensors *file, const TensorEntry *entry, float *values,
                        size_t count);
/* The same, also for integer entries. */
bool safetensors_numbers(const Safetensors *file, const TensorEntry *entry, float *values,
                         size_t count);

/* One value of an entry of a floating-point type. */
float safetensors_float(const TensorEntry *entry, size_t element);
/* "BF16": the type of an entry as files name it. */
const char *safetensors_type(const TensorEntry *entry);

/* Quantized tensors are bytes in the file, with the note "quantized:NAME": type, shape and order of
 * the tensor as JSON. safetensors_open makes them entries of NUMBER_BLOCKS.
 *
 * quantized_type: the block type of "ternary", "int4" or "int8", or NULL. quantized_entry: makes
 * the entry of a tensor the one to write; bytes: its blocks. */
const struct BlockType *quantized_type(const char *name);
void quantized_entry(TensorEntry *entry, const char *type, const BlockOrder *order,
                     const void *blocks, json_t *notes);
/* Applies the notes; false after a message. */
bool quantized_read(Safetensors *file);
/* Number of an element in the order of the blocks. */
size_t quantized_position(const BlockOrder *order, size_t element);
/* "int4": the type of the first quantized tensor, or NULL. */
const char *safetensors_quantized(const Safetensors *file);

/* Atomic write; false after a message, the existing file is then unchanged. Adds the checksum to
 * notes. */
bool safetensors_write(const char *path, const TensorEntry *entries, int count, json_t *notes);

/* The same with tensors that are produced one at a time: `fill` writes the bytes of entry number
 * `index`. It is called twice per entry. */
typedef void (*EntryFill)(void *context, int index, void *bytes);
bool safetensors_write_made(const char *path, const TensorEntry *entries, int count, json_t *notes,
                            EntryFill fill, void *context);

#endif

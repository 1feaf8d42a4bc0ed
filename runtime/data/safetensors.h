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
    NUMBER_BLOCKS /* a quantized type of GGUF, decoded by Entry.blocks */
} Number;

struct BlockType; /* data/shards.h */

typedef struct TensorEntry {
    char *name;
    Number number;
    const struct BlockType *blocks; /* NUMBER_BLOCKS only */
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
const TensorEntry *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_note(const Safetensors *file, const char *name); /* NULL: none */
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

/* Atomic write; false after a message, the existing file is then unchanged. Adds the checksum to
 * notes. */
bool safetensors_write(const char *path, const TensorEntry *entries, int count, json_t *notes);

/* The same with tensors that are produced one at a time: `fill` writes the bytes of entry number
 * `index`. It is called twice per entry. */
typedef void (*EntryFill)(void *context, int index, void *bytes);
bool safetensors_write_made(const char *path, const TensorEntry *entries, int count, json_t *notes,
                            EntryFill fill, void *context);

#endif

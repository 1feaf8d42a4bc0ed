/* safetensors: named tensors and text notes in one file. https://github.com/huggingface/safetensors
 *
 * Every file written here carries the note "checksum": XXH3 over all notes, names and bytes. It is
 * tested when a file that has it is opened; a file from elsewhere need not have it.
 */
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
    NUMBER_I32, /* from here on whole numbers */
    NUMBER_I64,
    NUMBER_I16,
    NUMBER_U8,
    NUMBER_OTHER,
    NUMBER_Q8_0 /* of GGUF: 32 neighbours share a scale; read, never written */
} Number;

typedef struct Entry {
    char *name;
    Number number;
    char type[16]; /* reading: its name in the file, "BF16" */
    int rank;
    long shape[SAFETENSORS_RANK];
    size_t bytes;
    const void *data; /* writing: what to write; reading: in the mapping */
} Entry;

typedef struct Safetensors {
    const char *path;
    Mapping mapping;
    json_t *notes; /* __metadata__: an object of strings */
    Entry *entries;
    int count;
    int *sorted; /* entry numbers by name */
} Safetensors;

/* NULL after a message: no such file, damaged, cut off, changed since it was written. */
Safetensors *safetensors_open(const char *path);
void safetensors_close(Safetensors *file);
const Entry *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_note(const Safetensors *file, const char *name); /* NULL: none */
/* `count` values of an entry as float, whatever floating type the file has; false after a message.
 */
bool safetensors_floats(const Safetensors *file, const Entry *entry, float *values, size_t count);
/* The same, of whole numbers, too. */
bool safetensors_numbers(const Safetensors *file, const Entry *entry, float *values, size_t count);

/* One value of an entry of a floating-point type. */
float safetensors_float(const Entry *entry, size_t place);
/* "BF16": the type of an entry as files name it. */
const char *safetensors_type(const Entry *entry);

/* Writes aside; false after a message, and then what stood at path is untouched. Adds the checksum
 * to notes. */
bool safetensors_write(const char *path, const Entry *entries, int count, json_t *notes);

/* The same with tensors that are made one at a time: `fill` writes the bytes of the entry at
 * `place`, and is asked for each twice. */
typedef void (*EntryFill)(void *context, int place, void *bytes);
bool safetensors_write_made(const char *path, const Entry *entries, int count, json_t *notes,
                            EntryFill fill, void *context);

#endif

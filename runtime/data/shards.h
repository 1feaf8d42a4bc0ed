/* shards: the tensors of several safetensors files as one list. A published model is a folder with
 * `model.safetensors`, or with several files and the index `model.safetensors.index.json`, which
 * maps tensors to files. A GGUF file is read the same way. */
#ifndef SHARDS_H
#define SHARDS_H

#include "data/gguf_file.h"

typedef struct Shards {
    char *path; /* the path passed to shards_open */
    Safetensors **files;
    int file_count;
    GgufFile *gguf;        /* instead of these, or NULL */
    const Entry **entries; /* of all files, sorted by name */
    int count;
} Shards;

/* Opens a safetensors or GGUF file, or a folder as above. NULL after a message: a file is missing
 * or damaged, or the index does not match the files. */
Shards *shards_open(const char *path);
void shards_close(Shards *shards);
/* Index of a tensor among the entries; -1 if there is none. */
int shards_find(const Shards *shards, const char *name);

#endif

/* shards: the tensors of several safetensors files as those of one. A published model is a folder
 * with `model.safetensors`, or with several files and `model.safetensors.index.json`, which says
 * in which of them each tensor is. A GGUF file has its tensors read the same way.
 */
#ifndef SHARDS_H
#define SHARDS_H

#include "data/gguf_file.h"

typedef struct Shards {
    char *path; /* as it was named */
    Safetensors **files;
    int file_count;
    GgufFile *gguf;        /* instead of these, or NULL */
    const Entry **entries; /* of all files, in the order of their names */
    int count;
} Shards;

/* A safetensors or GGUF file, or a folder as above. NULL after a message: a file that is missing or
 * damaged, an index that does not say what the files hold. */
Shards *shards_open(const char *path);
void shards_close(Shards *shards);
/* The place of a tensor among the entries; -1: there is none. */
int shards_find(const Shards *shards, const char *name);

#endif

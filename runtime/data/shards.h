/* shards: tensors of GGUF files, and of a folder of files. */
#ifndef SHARDS_H
#define SHARDS_H

#include "data/safetensors.h"

/* gguf_file: reader of keys and tensors of GGUF files (llama.cpp).
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * The data of tensors is in the mapping; axes are in this project's order, outermost first. Every
 * declared length is checked against the rest of the file. */

typedef struct GgufFile {
    char *path;
    Mapping mapping;
    json_t *keys; /* an object: "llama.block_count": 2, "tokenizer.ggml.tokens": [...] */
    Entry *entries;
    int count;
} GgufFile;

/* True if the path has the file extension of GGUF. */
bool gguf_is(const char *path);
/* NULL after a message: damaged, truncated, an unsupported version or tensor type. */
GgufFile *gguf_open(const char *path);
void gguf_close(GgufFile *file);

/* shards: the tensors of several safetensors files as one list. A published model is a folder with
 * `model.safetensors`, or with several files and the index `model.safetensors.index.json`, which
 * maps tensors to files. A GGUF file is read the same way. */

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

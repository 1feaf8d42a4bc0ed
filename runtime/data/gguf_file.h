/* gguf_file: reader of keys and tensors of GGUF files (llama.cpp).
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * The data of tensors is in the mapping; axes are in this project's order, outermost first. Every
 * declared length is checked against the rest of the file. */
#ifndef GGUF_FILE_H
#define GGUF_FILE_H

#include "data/safetensors.h"

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

#endif

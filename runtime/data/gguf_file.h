/* gguf_file: the keys and the tensors of a file of llama.cpp.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * The tensors are in the mapping, their axes the outermost first as everywhere here. Nothing that
 * the file says of itself is believed: every length is held against what is left of the file.
 */
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

/* Whether a file is named as such files are. */
bool gguf_is(const char *path);
/* NULL after a message: damaged, cut off, of another version, or with tensors of a type that is not
 * read. */
GgufFile *gguf_open(const char *path);
void gguf_close(GgufFile *file);

#endif

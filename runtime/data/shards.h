/* shards: quantized blocks and tensors of GGUF files; the tensors of a folder of files. */
#ifndef SHARDS_H
#define SHARDS_H

#include "data/safetensors.h"

/* gguf_blocks: the quantized tensor types of GGUF. A row of a tensor is a sequence of blocks; a
 * block holds the quantized values of 32 or 256 adjacent elements and their scales.
 *
 * Layouts and arithmetic follow ggml (ggml-common.h, ggml-quants.c) and its Python package gguf;
 * the values are equal to theirs bit by bit. */

typedef struct BlockType {
    uint32_t type; /* its number in GGUF */
    const char *name;
    int elements; /* per block */
    size_t bytes; /* per block */
    /* Element i of a block, 0 <= i < elements. */
    float (*value)(const unsigned char *block, int i);
    /* Writes the block of `elements` finite values. */
    void (*quantize)(const float *values, unsigned char *block); /* NULL: read only */
    uint32_t file_type; /* the key general.file_type of a file with mostly this type */
} BlockType;

/* NULL: the type is not a supported quantized type. */
const BlockType *block_type(uint32_t type);
/* A type that can be written, by its name in lower case, such as "q4_k"; NULL: there is none. */
const BlockType *block_type_named(const char *name);
/* One element of a tensor whose blocks start at `data`. */
float block_value(const BlockType *type, const unsigned char *data, size_t element);

/* Quantizes `count` values, a multiple of type->elements. `data` can be the address of the values.
 */
void blocks_quantize(const BlockType *type, const float *values, size_t count, unsigned char *data);

/* True if `count` values, a multiple of type->elements, are those of blocks of the type, which can
 * be written. */
bool blocks_hold(const BlockType *type, const float *values, size_t count);

/* A number of E2M1 times 2^(exponent - 127). */
float mxfp4_number(int code, int exponent);
/* IEEE 754 half precision to float. */
float half_value(uint16_t half);

/* gguf_file: reader of keys and tensors of GGUF files (llama.cpp).
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * The data of tensors is in the mapping; axes are in this project's order, outermost first. Every
 * declared length is checked against the rest of the file. */

typedef struct GgufFile {
    char *path;
    Mapping mapping;
    json_t *keys; /* an object: "llama.block_count": 2, "tokenizer.ggml.tokens": [...] */
    TensorEntry *entries;
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
    GgufFile *gguf;              /* instead of these, or NULL */
    const TensorEntry **entries; /* of all files, sorted by name */
    int count;
} Shards;

/* Opens a safetensors or GGUF file, or a folder as above. NULL after a message: a file is missing
 * or damaged, or the index does not match the files. */
Shards *shards_open(const char *path);
void shards_close(Shards *shards);
AUTO_POINTER(Shards, shards_close)
/* Index of a tensor among the entries; -1 if there is none. */
int shards_find(const Shards *shards, const char *name);

#endif

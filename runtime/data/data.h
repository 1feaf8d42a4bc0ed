/* data: text and token files as one long line of tokens.
 *
 * Files with the magic number of llm.c contain tokens. Their header has 256 words: the magic number
 * (20240520 for uint16, 20240801 for uint32), version 1, the number of tokens, and its upper half
 * if there are more than 2^32. Little-endian tokens follow. NumPy files (.npy) with a
 * one-dimensional integer array contain tokens, too. The path prefix "uint16:" or "uint32:" selects
 * a file of tokens without a header. Any other file is text, and its bytes are the tokens. A folder
 * or a pattern ("shards/fineweb_*.bin") means all its files, sorted by name. */
#ifndef DATA_H
#define DATA_H

#include "base/memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Shard {
    char *path;
    /* read in chunks: a mapping of all data would count as memory of the process */
    int descriptor;
    size_t header, count; /* bytes before the tokens; tokens */
    int width;            /* bytes per token: 1, 2, 4, 8 */
    bool text;            /* bytes of text */
} Shard;

typedef struct Data {
    Shard *shards;
    int shard_count;
    uint64_t count;
    long vocabulary;     /* 0: any */
    bool bytes;          /* every token is a byte of text */
    uint64_t text_bytes; /* size of the text that the tokens encode; 0 = unknown */
    int32_t *words;      /* records of examples (examples.h), instead of shards */
    json_t *files;       /* "file:NAME" of examples: texts for the checkpoints; or NULL */
    size_t record;       /* 32-bit words per example; 0 = samples can start at any token */
} Data;

/* Opens text or token data; NULL after a message. Data of ordinary size is checked for tokens
 * outside the vocabulary. */
Data *data_open(const char *path, long vocabulary);
void data_close(Data *data);
AUTO_POINTER(Data, data_close)
/* Paths of files, in order. */
typedef struct Paths {
    char **items;
    int count;
} Paths;

/* Adds every file that a path means: the file itself, the files of a folder, the matches of a
 * pattern. False after a message. */
bool paths_add(Paths *paths, const char *path);
void paths_free(Paths *paths);
AUTO_OBJECT(Paths, paths_free)
/* Reads tokens start .. start+count-1; false after a message if one is outside the vocabulary. The
 * range must exist. */
bool data_read(const Data *data, uint64_t start, size_t count, int32_t *tokens);

#endif

/* data: text and token files as one long line of tokens.
 *
 * A file that starts with the magic number of llm.c holds tokens: 256 words of header (the magic
 * number, 20240520 for uint16 and 20240801 for uint32; version 1; the number of tokens; its upper
 * half where there are more than 2^32), then the tokens, little-endian. So does a NumPy file (.npy)
 * of one row of whole numbers, and a file of nothing but numbers when its path stands behind
 * "uint16:" or "uint32:". Any other file is text, and its bytes are the tokens. A folder or a
 * pattern ("shards/fineweb_*.bin") means all its files, by name.
 */
#ifndef DATA_H
#define DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Shard {
    char *path;
    int descriptor;       /* read part by part: a mapping of all data would count as memory of the
                             process */
    size_t header, count; /* bytes before the tokens; tokens */
    int width;            /* bytes of a token: 1, 2, 4, 8 */
    bool text;            /* bytes of text */
} Shard;

typedef struct Data {
    Shard *shards;
    int shard_count;
    uint64_t count;
    long vocabulary;     /* 0: any */
    bool bytes;          /* every token is a byte of text */
    uint64_t text_bytes; /* of the text that a tokenizer has made the tokens of; 0: unknown */
    int32_t *words;      /* of examples (examples.h), instead of shards */
    size_t record;       /* words of an example; 0: windows may start at any token */
} Data;

/* NULL after a message; tokens outside the vocabulary are found here for data of ordinary size. */
Data *data_open(const char *path, long vocabulary);
void data_close(Data *data);
/* Files, in their order. */
typedef struct Paths {
    char **items;
    int count;
} Paths;

/* Adds every file that a path means: itself, those of a folder, those that match. False after a
 * message. */
bool paths_add(Paths *paths, const char *path);
void paths_free(Paths *paths);
/* Tokens start .. start+count-1; false after a message when one is outside the vocabulary. The
 * range must exist. */
bool data_read(const Data *data, uint64_t start, size_t count, int32_t *tokens);

#endif

/* data: text and token files as one long line of tokens.
 *
 * A file that starts with the magic number of llm.c holds tokens: 20240520, version 1, uint16;
 * 20240801, uint32. Any other file is text, and its bytes are the tokens. A folder or a pattern
 * ("shards/fineweb_*.bin") means all its files, by name.
 */
#ifndef DATA_H
#define DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Shard {
    char *path;
    int descriptor;       /* read piece by piece: a mapping of all data would count as memory of the
                             process */
    size_t header, count; /* bytes before the tokens; tokens */
    int width;            /* bytes of a token: 1, 2, 4 */
} Shard;

typedef struct Data {
    Shard *shards;
    int shard_count;
    uint64_t count;
    long vocabulary; /* 0: any */
    bool bytes;      /* every token is a byte of text */
    int32_t *words;  /* of examples (examples.h), instead of shards */
    size_t record;   /* words of an example; 0: windows may start at any token */
} Data;

/* NULL after a message; tokens outside the vocabulary are found here for data of ordinary size. */
Data *data_open(const char *path, long vocabulary);
void data_close(Data *data);
/* Tokens start .. start+count-1; false after a message when one is outside the vocabulary. The
 * range must exist. */
bool data_read(const Data *data, uint64_t start, size_t count, int32_t *tokens);

#endif

#include "weights.h"

#include "count.h"
#include "streams.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = {'M', 'O', 'E', 'C', 'B', 'I', 'N', '1'};

typedef struct Header {
    char magic[8];
    uint64_t weight_bytes, state_bytes, hash;
} Header;

/* Block sizes are multiples of 64 bytes. Blocks are read and written in chunks, in host or device
 * memory. */
enum { CHUNK = 1 << 16 };

static size_t chunk_at(size_t bytes, size_t done) {
    return bytes - done < CHUNK ? bytes - done : CHUNK;
}

static uint64_t hash_chunk(uint64_t hash, const char *chunk, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, chunk + 8 * i, sizeof word);
        hash = (hash ^ word) * 0x100000001B3u;
    }
    return hash;
}

static void get_chunk(WeightsGet *get, const void *block, size_t done, char *chunk, size_t bytes) {
    if (get)
        get(block, done, chunk, bytes);
    else
        memcpy(chunk, (const char *)block + done, bytes);
}

static uint64_t hash_block(uint64_t hash, WeightsGet *get, const void *block, size_t bytes) {
    char chunk[CHUNK];
    for (size_t done = 0; done < bytes; done += CHUNK) {
        get_chunk(get, block, done, chunk, chunk_at(bytes, done));
        hash = hash_chunk(hash, chunk, chunk_at(bytes, done));
    }
    return hash;
}

static const uint64_t hash_start = 0xCBF29CE484222325u;

static Header header_of(const MoecTable *table) {
    Header header = {.weight_bytes = kept_bytes(table) + table->packed_bytes,
                     .state_bytes = table->state_bytes,
                     .hash = hash_start};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

static int read_block(FILE *file, WeightsPut *put, void *block, size_t bytes, uint64_t *hash) {
    char chunk[CHUNK];
    for (size_t done = 0; done < bytes; done += CHUNK) {
        size_t size = chunk_at(bytes, done);
        if (fread(chunk, 1, size, file) != size) return 0;
        *hash = hash_chunk(*hash, chunk, size);
        if (put)
            put(block, done, chunk, size);
        else
            memcpy((char *)block + done, chunk, size);
    }
    return 1;
}

static int write_block(FILE *file, WeightsGet *get, const void *block, size_t bytes) {
    char chunk[CHUNK];
    for (size_t done = 0; done < bytes; done += CHUNK) {
        size_t size = chunk_at(bytes, done);
        get_chunk(get, block, done, chunk, size);
        if (fwrite(chunk, 1, size, file) != size) return 0;
    }
    return 1;
}

static WeightsResult read_file(FILE *file, const MoecTable *table, WeightsPut *put, float *weights,
                               void *rounded, float *states) {
    Header header, wanted = header_of(table);
    if (fread(&header, 1, sizeof header, file) != sizeof header ||
        memcmp(header.magic, magic, sizeof magic) != 0 ||
        header.weight_bytes != wanted.weight_bytes || header.state_bytes != table->state_bytes)
        return WEIGHTS_NOT_OURS;
    if (!read_block(file, put, weights, kept_bytes(table), &wanted.hash) ||
        !read_block(file, put, rounded, table->packed_bytes, &wanted.hash) ||
        !read_block(file, put, states, table->state_bytes, &wanted.hash))
        return WEIGHTS_DAMAGED;
    return wanted.hash == header.hash && getc(file) == EOF ? WEIGHTS_FINE : WEIGHTS_DAMAGED;
}

WeightsResult weights_read(const char *path, const MoecTable *table, WeightsPut *put,
                           float *weights, void *rounded, float *states) {
    FILE *file = stream_read(path);
    if (!file) return WEIGHTS_NO_FILE;
    WeightsResult result = read_file(file, table, put, weights, rounded, states);
    fclose(file);
    return result;
}

WeightsResult weights_write(const char *path, const MoecTable *table, WeightsGet *get,
                            const float *weights, const void *rounded, const float *states) {
    Sink sink;
    if (!sink_open(&sink, path)) return WEIGHTS_NOT_WRITTEN;
    Header header = header_of(table);
    header.hash = hash_block(header.hash, get, weights, kept_bytes(table));
    header.hash = hash_block(header.hash, get, rounded, table->packed_bytes);
    header.hash = hash_block(header.hash, get, states, table->state_bytes);
    int good = fwrite(&header, sizeof header, 1, sink.file) == 1 &&
               write_block(sink.file, get, weights, kept_bytes(table)) &&
               write_block(sink.file, get, rounded, table->packed_bytes) &&
               write_block(sink.file, get, states, table->state_bytes);
    return sink_close(&sink, good) ? WEIGHTS_FINE : WEIGHTS_NOT_WRITTEN;
}

#include "weights.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = {'M', 'O', 'E', 'C', 'B', 'I', 'N', '1'};

typedef struct Header {
    char magic[8];
    uint64_t weight_bytes, state_bytes, hash;
} Header;

/* Blocks are multiples of 64 bytes long. */
static uint64_t hash_block(uint64_t hash, const float *block, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, (const char *)block + 8 * i, sizeof word);
        hash = (hash ^ word) * 0x100000001B3u;
    }
    return hash;
}

static Header header_of(const MoecTable *table, const float *weights, const float *states) {
    Header header = {.weight_bytes = table->weight_bytes, .state_bytes = table->state_bytes};
    memcpy(header.magic, magic, sizeof magic);
    header.hash = hash_block(0xCBF29CE484222325u, weights, table->weight_bytes);
    header.hash = hash_block(header.hash, states, table->state_bytes);
    return header;
}

static int read_bytes(FILE *file, void *to, size_t bytes) {
    return bytes == 0 || fread(to, 1, bytes, file) == bytes;
}

static WeightsResult read_file(FILE *file, const MoecTable *table, float *weights, float *states) {
    Header header;
    if (!read_bytes(file, &header, sizeof header) || memcmp(header.magic, magic, sizeof magic) != 0 ||
        header.weight_bytes != table->weight_bytes || header.state_bytes != table->state_bytes)
        return WEIGHTS_NOT_OURS;
    if (!read_bytes(file, weights, table->weight_bytes) || !read_bytes(file, states, table->state_bytes))
        return WEIGHTS_DAMAGED;
    Header wanted = header_of(table, weights, states);
    return wanted.hash == header.hash && getc(file) == EOF ? WEIGHTS_FINE : WEIGHTS_DAMAGED;
}

WeightsResult weights_read(const char *path, const MoecTable *table, float *weights, float *states) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return WEIGHTS_NO_FILE;
    WeightsResult result = read_file(file, table, weights, states);
    fclose(file);
    return result;
}

WeightsResult weights_write(const char *path, const MoecTable *table, const float *weights, const float *states) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return WEIGHTS_NOT_WRITTEN;
    Header header = header_of(table, weights, states);
    int good = fwrite(&header, sizeof header, 1, file) == 1 &&
               fwrite(weights, 1, table->weight_bytes, file) == table->weight_bytes &&
               (table->state_bytes == 0 || fwrite(states, 1, table->state_bytes, file) == table->state_bytes);
    good = fclose(file) == 0 && good;
    return good ? WEIGHTS_FINE : WEIGHTS_NOT_WRITTEN;
}

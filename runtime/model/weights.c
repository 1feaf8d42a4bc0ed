#include "weights.h"

#include "streams.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = {'M', 'O', 'E', 'C', 'B', 'I', 'N', '1'};

typedef struct Header {
    char magic[8];
    uint64_t weight_bytes, state_bytes, hash;
} Header;

/* Blocks are multiples of 64 bytes long; they are read and written a piece at a time, wherever they
 * lie. */
enum { PIECE = 1 << 16 };

static size_t piece_at(size_t bytes, size_t done) {
    return bytes - done < PIECE ? bytes - done : PIECE;
}

static uint64_t hash_piece(uint64_t hash, const char *piece, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, piece + 8 * i, sizeof word);
        hash = (hash ^ word) * 0x100000001B3u;
    }
    return hash;
}

static void get_piece(WeightsGet *get, const float *block, size_t done, char *piece, size_t bytes) {
    if (get)
        get(block, done, piece, bytes);
    else
        memcpy(piece, (const char *)block + done, bytes);
}

static uint64_t hash_block(uint64_t hash, WeightsGet *get, const float *block, size_t bytes) {
    char piece[PIECE];
    for (size_t done = 0; done < bytes; done += PIECE) {
        get_piece(get, block, done, piece, piece_at(bytes, done));
        hash = hash_piece(hash, piece, piece_at(bytes, done));
    }
    return hash;
}

static const uint64_t hash_start = 0xCBF29CE484222325u;

static Header header_of(const MoecTable *table) {
    Header header = {
        .weight_bytes = table->weight_bytes, .state_bytes = table->state_bytes, .hash = hash_start};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

static int read_block(FILE *file, WeightsPut *put, float *block, size_t bytes, uint64_t *hash) {
    char piece[PIECE];
    for (size_t done = 0; done < bytes; done += PIECE) {
        size_t size = piece_at(bytes, done);
        if (fread(piece, 1, size, file) != size) return 0;
        *hash = hash_piece(*hash, piece, size);
        if (put)
            put(block, done, piece, size);
        else
            memcpy((char *)block + done, piece, size);
    }
    return 1;
}

static int write_block(FILE *file, WeightsGet *get, const float *block, size_t bytes) {
    char piece[PIECE];
    for (size_t done = 0; done < bytes; done += PIECE) {
        size_t size = piece_at(bytes, done);
        get_piece(get, block, done, piece, size);
        if (fwrite(piece, 1, size, file) != size) return 0;
    }
    return 1;
}

static WeightsResult read_file(FILE *file, const MoecTable *table, WeightsPut *put, float *weights,
                               float *states) {
    Header header, wanted = header_of(table);
    if (fread(&header, 1, sizeof header, file) != sizeof header ||
        memcmp(header.magic, magic, sizeof magic) != 0 ||
        header.weight_bytes != table->weight_bytes || header.state_bytes != table->state_bytes)
        return WEIGHTS_NOT_OURS;
    if (!read_block(file, put, weights, table->weight_bytes, &wanted.hash) ||
        !read_block(file, put, states, table->state_bytes, &wanted.hash))
        return WEIGHTS_DAMAGED;
    return wanted.hash == header.hash && getc(file) == EOF ? WEIGHTS_FINE : WEIGHTS_DAMAGED;
}

WeightsResult weights_read(const char *path, const MoecTable *table, WeightsPut *put,
                           float *weights, float *states) {
    FILE *file = stream_read(path);
    if (!file) return WEIGHTS_NO_FILE;
    WeightsResult result = read_file(file, table, put, weights, states);
    fclose(file);
    return result;
}

WeightsResult weights_write(const char *path, const MoecTable *table, WeightsGet *get,
                            const float *weights, const float *states) {
    Sink sink;
    if (!sink_open(&sink, path)) return WEIGHTS_NOT_WRITTEN;
    Header header = header_of(table);
    header.hash = hash_block(header.hash, get, weights, table->weight_bytes);
    header.hash = hash_block(header.hash, get, states, table->state_bytes);
    int good = fwrite(&header, sizeof header, 1, sink.file) == 1 &&
               write_block(sink.file, get, weights, table->weight_bytes) &&
               write_block(sink.file, get, states, table->state_bytes);
    return sink_close(&sink, good) ? WEIGHTS_FINE : WEIGHTS_NOT_WRITTEN;
}

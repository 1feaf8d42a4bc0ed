#include "data/data.h"

#include "base/complain.h"
#include "base/files.h"
#include "base/memory.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAGIC_16 = 20240520,
    MAGIC_32 = 20240801,
    HEADER_BYTES = 1024,
    SCAN_TOKENS = 1 << 26,
    PIECE = 1 << 14
};

static uint32_t word(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Reads all of `length` bytes, or says why not. */
static bool read_bytes(const Shard *shard, size_t offset, size_t length, unsigned char *bytes) {
    while (length) {
        ssize_t got = pread(shard->descriptor, bytes, length, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return complain("leave the data alone while it is read",
                            "cannot read %s at byte %zu: %s", shard->path, offset,
                            got ? strerror(errno) : "the file has become shorter");
        bytes += got;
        offset += (size_t)got;
        length -= (size_t)got;
    }
    return true;
}

/* Finds out what the file holds. */
static bool read_kind(Shard *shard, size_t length) {
    unsigned char header[12] = {0};
    if (length >= sizeof header && !read_bytes(shard, 0, sizeof header, header)) return false;
    uint32_t magic = word(header), version = word(header + 4);
    if (magic != MAGIC_16 && magic != MAGIC_32) {
        shard->width = 1;
        shard->count = length;
        return true;
    }
    if (length < HEADER_BYTES)
        return complain("write it again", "%s: the header of the token file is cut off",
                        shard->path);
    if (magic == MAGIC_16 && version != 1)
        return complain("write it with a current llm.c",
                        "%s: token files of version %u are not known", shard->path, version);
    shard->width = magic == MAGIC_16 ? 2 : 4;
    shard->header = HEADER_BYTES;
    shard->count = word(header + 8);
    if (shard->count * (size_t)shard->width != length - HEADER_BYTES)
        return complain("write it again",
                        "%s: the header promises %zu tokens, the file holds %zu bytes of them",
                        shard->path, shard->count, length - HEADER_BYTES);
    return true;
}

static bool add_shard(Data *data, const char *path) {
    data->shards = memory_grow(data->shards, sizeof(Shard) * (size_t)(data->shard_count + 1));
    Shard *shard = &data->shards[data->shard_count++];
    size_t length;
    *shard = (Shard){.path = memory_format("%s", path),
                     .descriptor = file_open(path, "check the path of the data", &length)};
    if (shard->descriptor < 0 || !read_kind(shard, length)) return false;
    data->count += shard->count;
    data->bytes = data->bytes && shard->width == 1;
    return true;
}

static bool add_matching(Data *data, const char *pattern, const char *path) {
    glob_t found = {0};
    bool good = glob(pattern, 0, NULL, &found) == 0;
    if (!good)
        complain("--data takes a file, a folder or a pattern in quotes", "there is no data at %s",
                 path);
    for (size_t i = 0; i < found.gl_pathc && good; i++)
        if (!file_is_folder(found.gl_pathv[i])) good = add_shard(data, found.gl_pathv[i]);
    globfree(&found);
    return good;
}

static uint32_t token_at(const Shard *shard, const unsigned char *at) {
    return shard->width == 1 ? at[0] : shard->width == 2 ? at[0] | (uint32_t)at[1] << 8 : word(at);
}

/* Tokens of one shard; tokens may be NULL, then they are only looked at. */
static bool read_tokens(const Data *data, const Shard *shard, size_t start, size_t count,
                        int32_t *tokens) {
    unsigned char bytes[PIECE];
    uint32_t limit = data->vocabulary ? (uint32_t)data->vocabulary : INT32_MAX;
    size_t width = (size_t)shard->width;
    while (count) {
        size_t part = count < PIECE / width ? count : PIECE / width,
               offset = shard->header + start * width;
        if (!read_bytes(shard, offset, part * width, bytes)) return false;
        for (size_t i = 0; i < part; i++) {
            uint32_t token = token_at(shard, bytes + i * width);
            if (token >= limit)
                return complain("make vocab larger or the tokens smaller; a text needs vocab = 256",
                                "%s: byte %zu: token %u is outside the vocabulary of %ld",
                                shard->path, offset + i * width, token, data->vocabulary);
            if (tokens) *tokens++ = (int32_t)token;
        }
        start += part;
        count -= part;
    }
    return true;
}

/* A limit that the width of the tokens cannot exceed needs no look. */
static bool needs_look(const Data *data, const Shard *shard) {
    return data->vocabulary &&
           (shard->width == 4 || data->vocabulary < (long)1 << (8 * shard->width));
}

static bool scan(const Data *data) {
    size_t left = SCAN_TOKENS;
    for (int i = 0; i < data->shard_count; i++) {
        const Shard *shard = &data->shards[i];
        size_t count = !needs_look(data, shard) ? 0 : shard->count < left ? shard->count : left;
        if (!read_tokens(data, shard, 0, count, NULL)) return false;
        left -= count;
    }
    return true;
}

Data *data_open(const char *path, long vocabulary) {
    Data *data = memory_new(sizeof *data);
    data->vocabulary = vocabulary;
    data->bytes = true;
    bool good;
    if (file_is_folder(path)) {
        char *pattern = path_join(path, "*");
        good = add_matching(data, pattern, path);
        free(pattern);
    } else {
        good = file_exists(path) ? add_shard(data, path) : add_matching(data, path, path);
    }
    if (good && !data->count) good = complain("give it some text", "%s is empty", path);
    if (good && scan(data)) return data;
    data_close(data);
    return NULL;
}

void data_close(Data *data) {
    if (!data) return;
    for (int i = 0; i < data->shard_count; i++) {
        if (data->shards[i].descriptor >= 0) close(data->shards[i].descriptor);
        free(data->shards[i].path);
    }
    free(data->shards);
    free(data->words);
    free(data);
}

bool data_read(const Data *data, uint64_t start, size_t count, int32_t *tokens) {
    if (data->words) memcpy(tokens, data->words + start, sizeof *tokens * count);
    for (int i = 0; i < data->shard_count && count; i++) {
        const Shard *shard = &data->shards[i];
        if (start >= shard->count) {
            start -= shard->count;
            continue;
        }
        size_t part = shard->count - start < count ? (size_t)(shard->count - start) : count;
        if (!read_tokens(data, shard, (size_t)start, part, tokens)) return false;
        tokens += part;
        count -= part;
        start = 0;
    }
    return true;
}

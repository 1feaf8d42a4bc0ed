#include "data.h"

#include "complain.h"
#include "memory.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_16 = 20240520, MAGIC_32 = 20240801, HEADER_BYTES = 1024, SCAN_TOKENS = 1 << 26 };

static uint32_t word(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Finds out what the file holds. */
static bool read_kind(Shard *shard) {
    const Mapping *mapping = &shard->mapping;
    uint32_t magic = mapping->length >= 4 ? word(mapping->bytes) : 0;
    if (magic != MAGIC_16 && magic != MAGIC_32) {
        shard->width = 1;
        shard->count = mapping->length;
        return true;
    }
    if (mapping->length < HEADER_BYTES)
        return complain("write it again", "%s: the header of the token file is cut off", shard->path);
    uint32_t version = word(mapping->bytes + 4);
    if (magic == MAGIC_16 && version != 1)
        return complain("write it with a current llm.c", "%s: token files of version %u are not known", shard->path, version);
    shard->width = magic == MAGIC_16 ? 2 : 4;
    shard->header = HEADER_BYTES;
    shard->count = word(mapping->bytes + 8);
    if (shard->count * (size_t)shard->width != mapping->length - HEADER_BYTES)
        return complain("write it again", "%s: the header promises %zu tokens, the file holds %zu bytes of them", shard->path,
                        shard->count, mapping->length - HEADER_BYTES);
    return true;
}

static bool add_shard(Data *data, const char *path) {
    data->shards = memory_grow(data->shards, sizeof(Shard) * (size_t)(data->shard_count + 1));
    Shard *shard = &data->shards[data->shard_count++];
    *shard = (Shard){.path = memory_format("%s", path)};
    if (!file_map(path, "check the path of the data", &shard->mapping) || !read_kind(shard))
        return false;
    data->count += shard->count;
    data->bytes = data->bytes && shard->width == 1;
    return true;
}

static bool add_matching(Data *data, const char *pattern, const char *path) {
    glob_t found = {0};
    bool good = glob(pattern, 0, NULL, &found) == 0;
    if (!good)
        complain("--data takes a file, a folder or a pattern in quotes", "there is no data at %s", path);
    for (size_t i = 0; i < found.gl_pathc && good; i++)
        if (!file_is_folder(found.gl_pathv[i]))
            good = add_shard(data, found.gl_pathv[i]);
    globfree(&found);
    return good;
}

static int32_t token_at(const Shard *shard, size_t place) {
    const unsigned char *at = shard->mapping.bytes + shard->header + place * (size_t)shard->width;
    return (int32_t)(shard->width == 1 ? at[0] : shard->width == 2 ? at[0] | (uint32_t)at[1] << 8 : word(at));
}

static bool outside(const Data *data, const Shard *shard, size_t place) {
    return complain("make vocab larger or the tokens smaller; a text needs vocab = 256",
                    "%s: byte %zu: token %u is outside the vocabulary of %ld", shard->path,
                    shard->header + place * (size_t)shard->width, (unsigned)token_at(shard, place), data->vocabulary);
}

/* A limit that the width of the tokens cannot exceed needs no look. */
static bool needs_look(const Data *data, const Shard *shard) {
    return data->vocabulary && (shard->width == 4 || data->vocabulary < (long)1 << (8 * shard->width));
}

static bool scan(const Data *data) {
    size_t left = SCAN_TOKENS;
    for (int i = 0; i < data->shard_count; i++) {
        const Shard *shard = &data->shards[i];
        for (size_t j = 0; needs_look(data, shard) && j < shard->count && left; j++, left--)
            if ((uint32_t)token_at(shard, j) >= (uint64_t)data->vocabulary)
                return outside(data, shard, j);
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
    if (good && !data->count)
        good = complain("give it some text", "%s is empty", path);
    if (good && scan(data))
        return data;
    data_close(data);
    return NULL;
}

void data_close(Data *data) {
    if (!data)
        return;
    for (int i = 0; i < data->shard_count; i++) {
        file_unmap(&data->shards[i].mapping);
        free(data->shards[i].path);
    }
    free(data->shards);
    free(data);
}

bool data_read(const Data *data, uint64_t start, size_t count, int32_t *tokens) {
    for (int i = 0; i < data->shard_count && count; i++) {
        const Shard *shard = &data->shards[i];
        if (start >= shard->count) {
            start -= shard->count;
            continue;
        }
        for (; start < shard->count && count; start++, count--) {
            *tokens = token_at(shard, (size_t)start);
            if ((data->vocabulary && (uint32_t)*tokens >= (uint64_t)data->vocabulary) || *tokens < 0)
                return outside(data, shard, (size_t)start);
            tokens++;
        }
        start = 0;
    }
    return true;
}

#include "data/data.h"

#include "abi/utf8_cut.h"
#include "base/message.h"
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
    NUMPY_LIMIT = 4096,
    SCAN_TOKENS = 1 << 26,
    BUFFER = 1 << 14
};

static uint32_t word(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Reads exactly `length` bytes; false after a message. */
static bool read_bytes(const Shard *shard, size_t offset, size_t length, unsigned char *bytes) {
    while (length) {
        ssize_t got = pread(shard->descriptor, bytes, length, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return error_message("do not change the data during a run",
                                 "cannot read %s at byte %zu: %s", shard->path, offset,
                                 got ? strerror(errno) : "the file was truncated");
        bytes += got;
        offset += (size_t)got;
        length -= (size_t)got;
    }
    return true;
}

/* Safetensors files begin with the length of a JSON object (safetensors.h). Read as text they would
 * be noise. */
static bool is_tensors(const unsigned char *header, size_t length) {
    uint64_t object = word(header) | (uint64_t)word(header + 4) << 32;
    return length > 9 && object >= 2 && object <= length - 8 && header[8] == '{';
}

/* Reads the header of an llm.c token file. */
static bool read_tokens_header(Shard *shard, const unsigned char *header, size_t length) {
    uint32_t magic = word(header), version = word(header + 4);
    if (length < HEADER_BYTES)
        return error_message("create the file again",
                             "%s: the header of the token file is truncated", shard->path);
    if (magic == MAGIC_16 && version != 1)
        return error_message("create it with a current llm.c",
                             "%s: token file version %u is not supported; expected version 1",
                             shard->path, version);
    shard->width = magic == MAGIC_16 ? 2 : 4;
    shard->header = HEADER_BYTES;
    shard->count = word(header + 8) | (size_t)word(header + 12) << 32;
    if (shard->count > (length - HEADER_BYTES) / (size_t)shard->width ||
        shard->count * (size_t)shard->width != length - HEADER_BYTES)
        return error_message(
            "create the file again",
            "%s: the header declares %zu tokens, but the file has %zu bytes of tokens", shard->path,
            shard->count, length - HEADER_BYTES);
    return true;
}

/* The value of a key of NumPy's header, a Python dictionary. */
static const char *numpy_value(const char *header, const char *key) {
    const char *found = strstr(header, key);
    found = found ? strchr(found, ':') : NULL;
    return found ? found + 1 + strspn(found + 1, " ") : "";
}

/* Reads the header of a NumPy file: one-dimensional, integers, little-endian. */
static bool read_numpy(Shard *shard, const unsigned char *start, size_t length) {
    char header[NUMPY_LIMIT + 1] = "";
    bool wide = start[6] > 1;
    size_t before = wide ? 12 : 10,
           bytes = wide ? word(start + 8) : (size_t)start[8] | (size_t)start[9] << 8;
    if (bytes > NUMPY_LIMIT || before + bytes > length)
        return error_message("create the file again",
                             "%s: the header of the NumPy file is truncated", shard->path);
    if (!read_bytes(shard, before, bytes, (unsigned char *)header)) return false;
    const char *type = numpy_value(header, "descr"), *shape = numpy_value(header, "shape");
    unsigned long long count = *shape == '(' ? strtoull(shape + 1, NULL, 10) : 0;
    bool whole = strlen(type) > 4 && strchr("<|", type[1]) && strchr("ui", type[2]) &&
                 strchr("1248", type[3]) && type[4] == '\'';
    const char *comma = strchr(shape, ',');
    if (!whole || !comma || comma[1 + strspn(comma + 1, " ")] != ')')
        return error_message("save a one-dimensional array of uint16 or uint32",
                             "%s: expected a one-dimensional array of integers, got %.*s",
                             shard->path, utf8_cut(header, 40), header);
    shard->width = type[3] - '0';
    shard->header = before + bytes;
    shard->count = (size_t)count;
    return (length - shard->header) / (size_t)shard->width == shard->count ||
           error_message("create the file again",
                         "%s: the header declares %zu tokens, but the file has %zu bytes of tokens",
                         shard->path, shard->count, length - shard->header);
}

/* Reads a file of tokens without a header. */
static bool read_plain(Shard *shard, size_t length, int width) {
    shard->width = width;
    shard->count = length / (size_t)width;
    return length % (size_t)width == 0 ||
           error_message(
               "choose the prefix uint16: or uint32: by the type that the file was written with",
               "%s: %zu bytes is not a multiple of the token size, %d bytes", shard->path, length,
               width);
}

/* Detects the file format. plain: bytes per token if the path has a prefix, else 0. */
static bool read_kind(Shard *shard, size_t length, int plain) {
    unsigned char header[16] = {0};
    if (plain) return read_plain(shard, length, plain);
    if (length >= sizeof header && !read_bytes(shard, 0, sizeof header, header)) return false;
    if (word(header) == MAGIC_16 || word(header) == MAGIC_32)
        return read_tokens_header(shard, header, length);
    if (memcmp(header, "\x93NUMPY", 6) == 0) return read_numpy(shard, header, length);
    if (is_tensors(header, length))
        return error_message("use a text file or a token file; see moec tokenize",
                             "%s is a safetensors file, not training data", shard->path);
    if (!memcmp(header, "\xFF\xFE", 2) || !memcmp(header, "\xFE\xFF", 2))
        note_message("%s starts like text in UTF-16, which is read as bytes; convert text with "
                     "iconv -f UTF-16 -t UTF-8",
                     shard->path);
    shard->width = 1;
    shard->count = length;
    shard->text = true;
    return true;
}

/* State of data_open. */
typedef struct Opening {
    Data *data;
    int plain;
} Opening;

static bool add_shard(void *context, const char *path) {
    Data *data = ((Opening *)context)->data;
    data->shards = memory_grow(data->shards, sizeof(Shard) * (size_t)(data->shard_count + 1));
    Shard *shard = &data->shards[data->shard_count++];
    size_t length;
    *shard = (Shard){.path = memory_format("%s", path),
                     .descriptor = file_open(path, "check the path of the data", &length)};
    if (shard->descriptor < 0 || !read_kind(shard, length, ((Opening *)context)->plain))
        return false;
    data->count += shard->count;
    data->bytes = data->bytes && shard->text;
    return true;
}

static bool each_matching(const char *pattern, const char *path,
                          bool (*each)(void *context, const char *path), void *context) {
    glob_t found = {0};
    bool good = glob(pattern, 0, NULL, &found) == 0;
    if (!good)
        error_message("use a file, a folder or a quoted pattern such as 'shards/*.bin'",
                      "no data found at %s", path);
    for (size_t i = 0; i < found.gl_pathc && good; i++)
        if (!file_is_folder(found.gl_pathv[i])) good = each(context, found.gl_pathv[i]);
    globfree(&found);
    return good;
}

/* A new pattern that matches every file of the folder: the special characters of its name are
 * escaped. */
static char *escaped_glob(const char *folder) {
    char *escaped = memory_new(2 * strlen(folder) + 1), *to = escaped;
    for (; *folder; folder++) {
        if (strchr("*?[]\\", *folder)) *to++ = '\\';
        *to++ = *folder;
    }
    *to = 0;
    char *pattern = path_join(escaped, "*");
    free(escaped);
    return pattern;
}

/* Calls `each` for every file of a path: a file, a folder or a pattern. False after a message, or
 * if `each` returns false. */
static bool each_file(const char *path, bool (*each)(void *context, const char *path),
                      void *context) {
    if (!file_is_folder(path))
        return file_exists(path) || file_is_standard(path)
                   ? each(context, path)
                   : each_matching(path, path, each, context);
    AUTO_FREE char *pattern = escaped_glob(path);
    return each_matching(pattern, path, each, context);
}

static bool collect_path(void *context, const char *path) {
    Paths *paths = context;
    paths->items = memory_grow(paths->items, sizeof(char *) * (size_t)(paths->count + 1));
    paths->items[paths->count++] = memory_format("%s", path);
    return true;
}

bool paths_add(Paths *paths, const char *path) {
    return each_file(path, collect_path, paths);
}

void paths_free(Paths *paths) {
    for (int i = 0; i < paths->count; i++) free(paths->items[i]);
    free(paths->items);
}

/* UINT32_MAX for values that do not fit: they are outside every vocabulary. */
static uint32_t token_at(const Shard *shard, const unsigned char *at) {
    if (shard->width == 8 && word(at + 4)) return UINT32_MAX;
    return shard->width == 1 ? at[0] : shard->width == 2 ? at[0] | (uint32_t)at[1] << 8 : word(at);
}

/* Reads tokens of one shard; tokens == NULL: only checks them. */
static bool read_tokens(const Data *data, const Shard *shard, size_t start, size_t count,
                        int32_t *tokens) {
    unsigned char bytes[BUFFER];
    uint32_t limit = data->vocabulary ? (uint32_t)data->vocabulary : INT32_MAX;
    size_t width = (size_t)shard->width;
    while (count) {
        size_t part = count < BUFFER / width ? count : BUFFER / width,
               offset = shard->header + start * width;
        if (!read_bytes(shard, offset, part * width, bytes)) return false;
        for (size_t i = 0; i < part; i++) {
            uint32_t token = token_at(shard, bytes + i * width);
            if (token >= limit)
                return error_message(
                    "set vocab_size to at least the largest token + 1; byte-level text needs "
                    "vocab_size = 256",
                    "%s: byte %zu: token %u is outside the vocabulary of %ld tokens", shard->path,
                    offset + i * width, token, data->vocabulary);
            if (tokens) *tokens++ = (int32_t)token;
        }
        start += part;
        count -= part;
    }
    return true;
}

/* False if the token width already guarantees tokens inside the vocabulary. */
static bool needs_look(const Data *data, const Shard *shard) {
    return data->vocabulary &&
           (shard->width >= 4 || data->vocabulary < (long)1 << (8 * shard->width));
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
    Opening opening = {.data = data};
    if (strncmp(path, "uint16:", 7) == 0 || strncmp(path, "uint32:", 7) == 0) {
        opening.plain = path[4] == '1' ? 2 : 4;
        path += 7;
    }
    bool good = each_file(path, add_shard, &opening);
    if (good && !data->count)
        good = error_message("use a file with at least one token", "%s is empty", path);
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
    json_decref(data->files);
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

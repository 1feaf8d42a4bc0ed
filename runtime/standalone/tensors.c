#include "tensors.h"

#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_HEADER = 1 << 20, HEADER_ROOM = 4096 };

/* In-situ parser: each function gets a position in the header and returns the position after its
 * element, or NULL if the text is not JSON. */
static const char *skip_space(const char *at) {
    return at + strspn(at, " \t\r\n");
}

static const char *skip_text(const char *at) {
    for (at++; *at != '"'; at++) {
        if (*at == '\\') at++;
        if (!*at) return NULL;
    }
    return at + 1;
}

static const char *skip_value(const char *at) {
    int depth = 0;
    do {
        if (!*at) return NULL;
        if (*at == '"') {
            at = skip_text(at);
            if (!at) return NULL;
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (depth > 0 || !strchr(",]} \t\r\n", *at));
    return at;
}

/* The value of a member of the object that begins at `at`, or NULL. */
static const char *member(const char *at, const char *name) {
    size_t length = strlen(name);
    while (at && (*at == '{' || *at == ',')) {
        at = skip_space(at + 1);
        if (*at != '"') return NULL;
        const char *key = at + 1, *end = skip_text(at);
        at = end ? skip_space(end) : NULL;
        if (!at || *at != ':') return NULL;
        at = skip_space(at + 1);
        if ((size_t)(end - 1 - key) == length && strncmp(key, name, length) == 0) return at;
        at = skip_value(at);
        at = at ? skip_space(at) : NULL;
    }
    return NULL;
}

/* Reads the next integer of a list, from the bracket or comma before it; advances *at. */
static int next_number(const char **at, uint64_t *number) {
    if (**at != '[' && **at != ',') return 0;
    char *end;
    *number = strtoull(*at + 1, &end, 10);
    int good = end != *at + 1;
    *at = skip_space(end);
    return good;
}

static char *read_header(FILE *file, uint64_t *length) {
    unsigned char bytes[8];
    if (fread(bytes, 1, sizeof bytes, file) != sizeof bytes) return NULL;
    *length = 0;
    for (int i = 7; i >= 0; i--) *length = *length << 8 | bytes[i];
    char *header = *length < LONGEST_HEADER ? calloc(1, *length + 1) : NULL;
    if (header && fread(header, 1, *length, file) == *length) return header;
    free(header);
    return NULL;
}

/* First letter of the type, bytes per element, offset after the header. */
typedef struct Stored {
    char letter;
    size_t width;
    uint64_t start;
} Stored;

static int known_type(const char *type, Stored *stored) {
    static const char *const types[] = {"\"F32\"", "\"I32\"", "\"I64\""};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strncmp(type, types[i], 5) != 0) continue;
        stored->letter = types[i][1];
        stored->width = types[i][2] == '6' ? 8 : 4;
        return 1;
    }
    return 0;
}

static const char *find(const char *header, const char *name, size_t each, Stored *stored,
                        uint64_t *examples) {
    const char *tensor = member(skip_space(header), name);
    const char *type = tensor ? member(tensor, "dtype") : NULL,
               *shape = tensor ? member(tensor, "shape") : NULL,
               *offsets = tensor ? member(tensor, "data_offsets") : NULL;
    if (!type || !shape || !offsets) return "the data lacks a tensor for an input of the model";
    if (!known_type(type, stored)) return "a tensor of the data must have type F32, I32 or I64";
    uint64_t end, size, elements = 1;
    if (!next_number(&offsets, &stored->start) || !next_number(&offsets, &end) || *offsets != ']' ||
        end < stored->start)
        return "the header of the data is damaged";
    *examples = 0;
    for (int i = 0; next_number(&shape, &size); i++) {
        if (i == 0) *examples = size;
        if (size && elements > UINT64_MAX / stored->width / size)
            return "the header of the data is damaged";
        elements *= size;
    }
    if (elements * stored->width != end - stored->start) return "the header of the data is damaged";
    if (!*examples || elements % *examples != 0 || elements / *examples != each)
        return "the shape of a tensor does not match the model: the first dimension is the example";
    return NULL;
}

/* Reads stored numbers and converts each to float, overwriting `values`. */
static int read_numbers(FILE *file, const Stored *stored, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[8] = {0};
        int32_t word;
        int64_t wide;
        if (fread(bytes, 1, stored->width, file) != stored->width) return 0;
        memcpy(&wide, bytes, sizeof wide);
        memcpy(&word, bytes, sizeof word);
        if (stored->letter == 'F')
            memcpy(&values[i], bytes, sizeof *values);
        else
            values[i] = stored->width == 8 ? (float)wide : (float)word;
    }
    return 1;
}

static const char *read_open(FILE *file, const char *name, size_t each, uint64_t *examples,
                             float **values) {
    uint64_t length;
    Stored stored;
    char *header = read_header(file, &length);
    if (!header)
        return "the data must be a safetensors file for a model with inputs other than one text";
    const char *error = find(header, name, each, &stored, examples);
    free(header);
    if (error) return error;
    if (length + stored.start > INT64_MAX / 2 ||
        fseek(file, (long)(8 + length + stored.start), SEEK_SET) != 0)
        return "the data is truncated";
    size_t count = (size_t)*examples * each;
    *values = malloc(sizeof(float) * count);
    if (!*values) return "out of memory for the data";
    return read_numbers(file, &stored, count, *values) ? NULL : "the data is truncated";
}

float *tensors_read(const char *path, const char *name, size_t each, uint64_t *examples,
                    const char **error) {
    float *values = NULL;
    FILE *file = stream_read(path);
    *error = file ? read_open(file, name, each, examples, &values) : "cannot open the data";
    if (file) fclose(file);
    if (!*error) return values;
    free(values);
    return NULL;
}

static size_t count_of(const WrittenTensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
    return count;
}

/* Adds to a text of HEADER_ROOM bytes; the length never passes it. */
#define ADD(...)                                                                                   \
    (length += (size_t)snprintf(header + length, length < HEADER_ROOM ? HEADER_ROOM - length : 0,  \
                                __VA_ARGS__))

/* 0 when there is no room. */
static size_t write_header(char *header, const WrittenTensor *tensors, int count) {
    size_t length = 0, offset = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = sizeof(float) * count_of(&tensors[i]);
        ADD("%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", i ? "," : "{", tensors[i].name);
        for (int j = 0; j < tensors[i].rank; j++) ADD("%s%ld", j ? "," : "", tensors[i].shape[j]);
        ADD("],\"data_offsets\":[%zu,%zu]}", offset, offset + bytes);
        offset += bytes;
    }
    ADD("}");
    while (length < HEADER_ROOM && length % 8) header[length++] = ' ';
    return length < HEADER_ROOM ? length : 0;
}

const char *tensors_write(const char *path, const WrittenTensor *tensors, int count) {
    char header[HEADER_ROOM];
    size_t length = write_header(header, tensors, count);
    Sink sink;
    if (!length || !sink_open(&sink, path)) return "cannot write the output file";
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    int good = fwrite(bytes, 1, sizeof bytes, sink.file) == sizeof bytes &&
               fwrite(header, 1, length, sink.file) == length;
    for (int i = 0; i < count && good; i++)
        good = fwrite(tensors[i].values, sizeof(float), count_of(&tensors[i]), sink.file) ==
               count_of(&tensors[i]);
    return sink_close(&sink, good) ? NULL : "cannot write the output file";
}

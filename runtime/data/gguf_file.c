#include "data/shards.h"

#include "base/memory.h"
#include "base/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 4, MAX_RANK = 4, MAX_NAME = 4096, MAX_ITEMS = 1 << 24, MAX_ALIGNMENT = 1 << 16 };
/* Types of key values. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, VALUE_TYPES };

static const size_t value_bytes[VALUE_TYPES] = {
    [U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
    [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8,
};

/* Tensor types that are not quantized. */
static const struct {
    uint32_t type;
    const char *name;
    Number number;
    uint64_t bytes;
} plain_types[] = {
    {0, "F32", NUMBER_F32, 4},
    {1, "F16", NUMBER_F16, 2},
    {30, "BF16", NUMBER_BF16, 2},
    {28, "F64", NUMBER_F64, 8},
};

/* The unread rest of the header. */
typedef struct Cursor {
    const GgufFile *file;
    const unsigned char *at, *end;
} Cursor;

static bool gguf_damaged(const GgufFile *file, const char *what) {
    return error_message("download or convert the file again", "%s is not a valid GGUF file: %s",
                         file->path, what);
}

static bool read_header_bytes(Cursor *cursor, void *to, size_t bytes) {
    memset(to, 0, bytes);
    if ((size_t)(cursor->end - cursor->at) < bytes)
        return gguf_damaged(cursor->file, "the header is truncated");
    memcpy(to, cursor->at, bytes);
    cursor->at += bytes;
    return true;
}

/* Reads a count of items with at least `least` bytes each; fails if the rest of the file is
 * shorter. */
static bool read_declared_count(Cursor *cursor, uint64_t *count, size_t least) {
    if (!read_header_bytes(cursor, count, sizeof *count)) return false;
    return *count <= (uint64_t)(cursor->end - cursor->at) / least ||
           gguf_damaged(cursor->file, "a declared count exceeds the file size");
}

/* A new string in UTF-8; NULL after a message. */
static json_t *take_string(Cursor *cursor) {
    uint64_t length;
    if (!read_declared_count(cursor, &length, 1)) return NULL;
    json_t *string = json_stringn((const char *)cursor->at, (size_t)length);
    cursor->at += length;
    if (!string) gguf_damaged(cursor->file, "a string is not valid UTF-8");
    return string;
}

/* Reads a name: a string without zero bytes that is neither empty nor too long. */
static char *read_key(Cursor *cursor) {
    json_auto_t *string = take_string(cursor);
    if (!string) return NULL;
    const char *text = json_string_value(string);
    bool good = *text && json_string_length(string) == strlen(text) && strlen(text) <= MAX_NAME;
    char *name = good ? memory_format("%s", text) : NULL;
    if (!good) gguf_damaged(cursor->file, "a name is empty, too long or contains a zero byte");
    return name;
}

/* The shortest decimal that rounds to this 32-bit value: 1e-6, not 9.99999997e-7. */
static double shortest(float value) {
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) return strtod(text, NULL);
    }
    return (double)value;
}

static json_t *number_json(uint32_t type, const unsigned char *bytes) {
    uint64_t wide = 0;
    int64_t whole = 0;
    float single;
    double real;
    memcpy(&wide, bytes, value_bytes[type]);
    whole = (int64_t)wide;
    switch (type) {
    case I8:
        return json_integer((int8_t)wide);
    case I16:
        return json_integer((int16_t)wide);
    case I32:
        return json_integer((int32_t)wide);
    case BOOL:
        return json_boolean(wide != 0);
    case F32:
        memcpy(&single, bytes, sizeof single);
        return json_real(shortest(single));
    case F64:
        memcpy(&real, bytes, sizeof real);
        return json_real(real);
    case U64:
        return whole < 0 ? json_real((double)wide) : json_integer(whole);
    default:
        return json_integer(whole);
    }
}

static json_t *read_gguf_value(Cursor *cursor, uint32_t type, int depth);

static json_t *take_array(Cursor *cursor, int depth) {
    uint32_t type;
    uint64_t count;
    if (!read_header_bytes(cursor, &type, sizeof type)) return NULL;
    if (type >= VALUE_TYPES || depth == MAX_DEPTH) {
        gguf_damaged(cursor->file, "an array has an unknown type or is nested too deeply");
        return NULL;
    }
    size_t least = type == STRING ? 8 : type == ARRAY ? 12 : value_bytes[type];
    if (!read_declared_count(cursor, &count, least)) return NULL;
    if (count > MAX_ITEMS) {
        gguf_damaged(cursor->file, "an array has more than 16777216 items");
        return NULL;
    }
    json_t *list = json_array();
    for (uint64_t i = 0; i < count; i++) {
        json_t *item = read_gguf_value(cursor, type, depth + 1);
        if (item) json_array_append_new(list, item);
        if (item) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/* NULL after a message. */
static json_t *read_gguf_value(Cursor *cursor, uint32_t type, int depth) {
    unsigned char bytes[8];
    if (type == STRING) return take_string(cursor);
    if (type == ARRAY) return take_array(cursor, depth);
    if (type >= VALUE_TYPES) {
        gguf_damaged(cursor->file, "a key has an unknown type");
        return NULL;
    }
    if (!read_header_bytes(cursor, bytes, value_bytes[type])) return NULL;
    json_t *value = number_json(type, bytes);
    if (!value) gguf_damaged(cursor->file, "a number is infinite or not a number");
    return value;
}

static bool take_key(Cursor *cursor, json_t *keys) {
    uint32_t type;
    AUTO_FREE char *name = read_key(cursor);
    json_t *value = NULL;
    bool good = name && read_header_bytes(cursor, &type, sizeof type) &&
                (value = read_gguf_value(cursor, type, 0)) != NULL;
    if (good && json_object_get(keys, name))
        good = gguf_damaged(cursor->file, "a key occurs twice");
    if (good)
        json_object_set_new(keys, name, value);
    else
        json_decref(value);
    return good;
}

/* ---- tensors ---- */

/* Sets type and byte size of a tensor from its shape. */
static bool set_type(const GgufFile *file, TensorEntry *entry, uint32_t type) {
    uint64_t elements = 1;
    for (int i = 0; i < entry->rank; i++)
        if (__builtin_mul_overflow(elements, (uint64_t)entry->shape[i], &elements) ||
            elements > (uint64_t)1 << 48)
            return gguf_damaged(file, "a tensor has more than 2^48 elements");
    for (size_t i = 0; i < sizeof plain_types / sizeof *plain_types; i++) {
        if (plain_types[i].type != type) continue;
        entry->number = plain_types[i].number;
        snprintf(entry->type, sizeof entry->type, "%s", plain_types[i].name);
        entry->bytes = (size_t)(elements * plain_types[i].bytes);
        return true;
    }
    entry->blocks = block_type(type);
    if (!entry->blocks)
        return error_message("use a file of another quantization (Q8_0, Q4_K_M, ...), in F16 or "
                             "BF16, or the original safetensors",
                             "%s: tensor %s has GGUF type %" PRIu32 ", which is not supported",
                             file->path, entry->name, type);
    if (entry->shape[entry->rank - 1] % entry->blocks->elements)
        return gguf_damaged(
            file, "the row length of a tensor is not a multiple of the block size of its type");
    entry->number = NUMBER_BLOCKS;
    snprintf(entry->type, sizeof entry->type, "%s", entry->blocks->name);
    entry->bytes = (size_t)elements / (size_t)entry->blocks->elements * entry->blocks->bytes;
    return true;
}

/* Reads the name, sizes (innermost axis first), type and data offset of a tensor. */
static bool take_tensor(Cursor *cursor, TensorEntry *entry, uint64_t *offset) {
    uint32_t rank, type;
    uint64_t sizes[MAX_RANK];
    entry->name = read_key(cursor);
    if (!entry->name || !read_header_bytes(cursor, &rank, sizeof rank)) return false;
    if (rank < 1 || rank > MAX_RANK)
        return gguf_damaged(cursor->file, "a tensor has no axes or too many");
    entry->rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        if (!read_header_bytes(cursor, &sizes[i], sizeof sizes[i])) return false;
        if (sizes[i] > (uint64_t)1 << 48 || !sizes[i])
            return gguf_damaged(cursor->file, "an axis of a tensor is empty or longer than 2^48");
        entry->shape[rank - 1 - i] = (long)sizes[i];
    }
    return read_header_bytes(cursor, &type, sizeof type) &&
           read_header_bytes(cursor, offset, sizeof *offset) && set_type(cursor->file, entry, type);
}

static int by_data_offset(const void *a, const void *b) {
    const TensorEntry *const *first = a, *const *second = b;
    if ((*first)->data == (*second)->data) return 0;
    return (*first)->data < (*second)->data ? -1 : 1;
}

static bool check_overlaps(const GgufFile *file) {
    AUTO_FREE const TensorEntry **order = memory_new(sizeof *order * ((size_t)file->count + 1));
    bool good = true;
    for (int i = 0; i < file->count; i++) order[i] = &file->entries[i];
    qsort(order, (size_t)file->count, sizeof *order, by_data_offset);
    for (int i = 1; good && i < file->count; i++)
        if ((const unsigned char *)order[i - 1]->data + order[i - 1]->bytes >
            (const unsigned char *)order[i]->data)
            good = gguf_damaged(file, "two tensors overlap");
    return good;
}

/* Moves the cursor to the tensor data: after the header, at a multiple of the alignment. */
static bool find_data(Cursor *cursor, uint64_t *alignment) {
    const json_t *said = json_object_get(cursor->file->keys, "general.alignment");
    json_int_t value = said ? json_integer_value(said) : 32;
    if (value < 8 || value > MAX_ALIGNMENT || (value & (value - 1)))
        return gguf_damaged(cursor->file, "general.alignment is not a power of 2 of at least 8");
    *alignment = (uint64_t)value;
    uint64_t header = (uint64_t)(cursor->at - cursor->file->mapping.bytes);
    uint64_t gap = (*alignment - header % *alignment) % *alignment;
    if (gap > (uint64_t)(cursor->end - cursor->at)) gap = (uint64_t)(cursor->end - cursor->at);
    cursor->at += gap;
    return true;
}

static bool take_tensors(GgufFile *file, Cursor *cursor, uint64_t count) {
    uint64_t *offsets = memory_new(sizeof *offsets * ((size_t)count + 1)), alignment = 8;
    bool good = true;
    file->entries = memory_new(sizeof *file->entries * ((size_t)count + 1));
    for (uint64_t i = 0; good && i < count; i++) {
        good = take_tensor(cursor, &file->entries[i], &offsets[i]);
        file->count++;
    }
    good = good && find_data(cursor, &alignment);
    uint64_t length = (uint64_t)(cursor->end - cursor->at);
    for (int i = 0; good && i < file->count; i++) {
        TensorEntry *entry = &file->entries[i];
        if (offsets[i] % alignment)
            good =
                gguf_damaged(file, "the offset of a tensor is not a multiple of general.alignment");
        else if (offsets[i] > length || entry->bytes > length - offsets[i])
            good = gguf_damaged(file, "a tensor is outside the file; the file may be truncated");
        else
            entry->data = cursor->at + offsets[i];
    }
    free(offsets);
    return good && check_overlaps(file);
}

static bool read_gguf_header(GgufFile *file) {
    Cursor cursor = {file, file->mapping.bytes, file->mapping.bytes + file->mapping.length};
    char magic[4];
    uint32_t version;
    uint64_t tensors, keys;
    if (!read_header_bytes(&cursor, magic, sizeof magic) ||
        !read_header_bytes(&cursor, &version, sizeof version))
        return false;
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return gguf_damaged(file, "it does not start with the magic number GGUF");
    if (version != 2 && version != 3)
        return error_message("use a little-endian file of GGUF version 2 or 3",
                             "%s has GGUF version %" PRIu32 ", which is not supported", file->path,
                             version);
    if (!read_declared_count(&cursor, &tensors, 1) || !read_declared_count(&cursor, &keys, 13))
        return false;
    if (tensors > (uint64_t)(cursor.end - cursor.at) / 32)
        return gguf_damaged(file, "a declared count exceeds the file size");
    for (uint64_t i = 0; i < keys; i++)
        if (!take_key(&cursor, file->keys)) return false;
    return take_tensors(file, &cursor, tensors);
}

bool gguf_is(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

GgufFile *gguf_open(const char *path) {
    GgufFile *file = memory_new(sizeof *file);
    file->path = memory_format("%s", path);
    file->keys = json_object();
    if (file_map(path, "use a path to a .gguf file", &file->mapping) && read_gguf_header(file))
        return file;
    gguf_close(file);
    return NULL;
}

void gguf_close(GgufFile *file) {
    if (!file) return;
    for (int i = 0; i < file->count; i++) free(file->entries[i].name);
    free(file->entries);
    json_decref(file->keys);
    file_unmap(&file->mapping);
    free(file->path);
    free(file);
}

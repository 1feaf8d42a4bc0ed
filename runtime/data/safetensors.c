#include "data/safetensors.h"

#include "abi/json_make.h"
#include "base/message.h"
#include "base/memory.h"
#include "data/shards.h"

#define XXH_INLINE_ALL
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const struct {
    const char *name;
    size_t bytes;
} numbers[] = {
    [NUMBER_F32] = {"F32", 4},   [NUMBER_F64] = {"F64", 8}, [NUMBER_F16] = {"F16", 2},
    [NUMBER_BF16] = {"BF16", 2}, [NUMBER_I32] = {"I32", 4}, [NUMBER_I64] = {"I64", 8},
    [NUMBER_I16] = {"I16", 2},   [NUMBER_U8] = {"U8", 1},
};

static const char *const remedy_damaged = "the file is damaged, or has another format";

static bool safetensors_damaged(const Safetensors *file, const char *what) {
    return error_message(remedy_damaged, "%s is not a valid safetensors file: %s", file->path,
                         what);
}

/* Text under the checksum: the notes without the checksum, and the header of a tensor. */
static void checksum_text(XXH3_state_t *state, json_t *notes, const TensorEntry *entry) {
    if (notes) {
        const char *key;
        json_t *value;
        json_auto_t *copy = json_object();
        json_object_foreach(notes, key, value) {
            if (strcmp(key, "checksum") != 0) json_object_set(copy, key, value);
        }
        AUTO_FREE char *text = json_write(copy, JSON_COMPACT | JSON_SORT_KEYS);
        XXH3_128bits_update(state, text, strlen(text));
    }
    if (entry) {
        XXH3_128bits_update(state, entry->name, strlen(entry->name) + 1);
        XXH3_128bits_update(state, &entry->number, sizeof entry->number);
        XXH3_128bits_update(state, entry->shape, sizeof entry->shape[0] * (size_t)entry->rank);
    }
}

/* Produces the bytes of one tensor at a time. */
typedef struct Maker {
    EntryFill fill;
    void *context;
    unsigned char *bytes; /* size of the largest tensor */
} Maker;

static const void *entry_bytes(const TensorEntry *entries, int index, const Maker *maker) {
    if (!maker) return entries[index].data;
    memset(maker->bytes, 0, entries[index].bytes);
    maker->fill(maker->context, index, maker->bytes);
    return maker->bytes;
}

enum { CHECKSUM_PART = 1 << 24 }; /* bytes */

/* Computes the checksum over entries in the order of their data, for reader and writer alike.
 * text[33] receives the digits. mapped: the data is a file; its pages are released. */
static void content_checksum(char *text, const TensorEntry *entries, int count, json_t *notes,
                             const Maker *maker, bool mapped) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    checksum_text(state, notes, NULL);
    for (int i = 0; i < count; i++) {
        checksum_text(state, NULL, &entries[i]);
        const unsigned char *bytes = entry_bytes(entries, i, maker);
        for (size_t left = entries[i].bytes, size; left; left -= size, bytes += size) {
            size = left < CHECKSUM_PART ? left : CHECKSUM_PART;
            XXH3_128bits_update(state, bytes, size);
            if (mapped) memory_release((void *)(uintptr_t)bytes, size);
        }
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(text, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

static const char *const type_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static Number number_named(const char *name) {
    for (int i = 0; i < NUMBER_OTHER; i++)
        if (strcmp(numbers[i].name, name) == 0) return (Number)i;
    return NUMBER_OTHER;
}

/* {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} with everything checked against
 * `length` bytes of data. */
static bool read_tensor_entry(const Safetensors *file, TensorEntry *entry, json_t *value,
                              const unsigned char *data, size_t length) {
    const char *number;
    json_t *shape;
    json_int_t start, end;
    if (json_unpack(value, "{s:s, s:o, s:[I,I!]}", "dtype", &number, "shape", &shape,
                    "data_offsets", &start, &end) != 0 ||
        !json_is_array(shape))
        return safetensors_damaged(file, "an entry lacks dtype, shape or data_offsets");
    if (json_array_size(shape) > SAFETENSORS_RANK)
        return safetensors_damaged(file, "a tensor has too many dimensions");
    if (start < 0 || end < start || (uint64_t)end > length)
        return safetensors_damaged(file, "a tensor is outside the file; the file may be truncated");
    entry->number = number_named(number);
    snprintf(entry->type, sizeof entry->type, "%.*s", (int)strspn(number, type_letters), number);
    entry->rank = (int)json_array_size(shape);
    entry->data = data + start;
    entry->bytes = (size_t)(end - start);
    uint64_t elements = 1;
    for (int i = 0; i < entry->rank; i++) {
        json_t *size = json_array_get(shape, (size_t)i);
        entry->shape[i] = json_is_integer(size) ? (long)json_integer_value(size) : -1;
        if (entry->shape[i] < 0 ||
            __builtin_mul_overflow(elements, (uint64_t)entry->shape[i], &elements))
            return safetensors_damaged(file, "a shape is not a list of sizes");
    }
    if (entry->number != NUMBER_OTHER &&
        (elements > length || elements * numbers[entry->number].bytes != entry->bytes))
        return safetensors_damaged(file, "the byte size of a tensor does not match its shape");
    return true;
}

static int by_data(const void *a, const void *b) {
    const TensorEntry *first = a, *second = b;
    if (first->data != second->data) return first->data < second->data ? -1 : 1;
    return first->bytes < second->bytes   ? -1
           : first->bytes > second->bytes ? 1
                                          : strcmp(first->name, second->name);
}

/* Tensors must be adjacent and fill the file. */
static bool entries_fill_file(const Safetensors *file, const unsigned char *data, size_t length) {
    const unsigned char *end = data;
    for (int i = 0; i < file->count; i++) {
        const TensorEntry *entry = &file->entries[i];
        if (entry->data != end) return safetensors_damaged(file, "tensors overlap or are missing");
        end += entry->bytes;
    }
    return end == data + length ||
           safetensors_damaged(file, "it contains bytes after the last tensor");
}

static int by_entry_name(const void *a, const void *b, void *entries) {
    const TensorEntry *of = entries;
    return strcmp(of[*(const int *)a].name, of[*(const int *)b].name);
}

static bool read_notes(Safetensors *file, json_t *notes) {
    const char *key;
    json_t *value;
    if (notes && !json_is_object(notes))
        return safetensors_damaged(file, "__metadata__ is not an object");
    json_object_foreach(notes, key, value) {
        if (!json_is_string(value))
            return safetensors_damaged(file, "__metadata__ contains a value that is not a string");
    }
    file->notes = notes ? json_incref(notes) : json_object();
    return true;
}

static bool read_header(Safetensors *file, json_t *header, const unsigned char *data,
                        size_t length) {
    if (!json_is_object(header))
        return safetensors_damaged(file, "the header is not a JSON object");
    if (!read_notes(file, json_object_get(header, "__metadata__"))) return false;
    file->entries = memory_new(sizeof(TensorEntry) * (json_object_size(header) + 1));
    const char *key;
    json_t *value;
    json_object_foreach(header, key, value) {
        if (strcmp(key, "__metadata__") == 0) continue;
        TensorEntry *entry = &file->entries[file->count++];
        entry->name = memory_format("%s", key);
        if (!read_tensor_entry(file, entry, value, data, length)) return false;
    }
    qsort(file->entries, (size_t)file->count, sizeof(TensorEntry), by_data);
    if (!entries_fill_file(file, data, length)) return false;
    file->sorted = memory_new(sizeof(int) * ((size_t)file->count + 1));
    for (int i = 0; i < file->count; i++) file->sorted[i] = i;
    qsort_r(file->sorted, (size_t)file->count, sizeof(int), by_entry_name, file->entries);
    return true;
}

static bool read_safetensors_header(Safetensors *file) {
    const Mapping *mapping = &file->mapping;
    uint64_t length = 0;
    for (int i = 7; i >= 0 && mapping->length >= 8; i--) length = length << 8 | mapping->bytes[i];
    if (mapping->length < 8 || length > mapping->length - 8 || length > (uint64_t)100 << 20)
        return safetensors_damaged(file, "it is shorter than the header length that it declares");
    json_error_t error;
    json_auto_t *header = json_loadb((const char *)mapping->bytes + 8, (size_t)length,
                                     JSON_REJECT_DUPLICATES, &error);
    if (!header) return safetensors_damaged(file, error.text);
    return read_header(file, header, mapping->bytes + 8 + length,
                       mapping->length - 8 - (size_t)length);
}

Safetensors *safetensors_open(const char *path) {
    Safetensors *file = memory_new(sizeof *file);
    file->path = memory_format("%s", path);
    bool sound = file_map(path, "check the path", &file->mapping) && read_safetensors_header(file);
    const char *expected = sound ? safetensors_note(file, "checksum") : NULL;
    if (expected) {
        char found[33];
        content_checksum(found, file->entries, file->count, file->notes, NULL, true);
        if (strcmp(found, expected) != 0)
            sound = safetensors_damaged(
                file, "the checksum does not match: the file was changed or damaged "
                      "after it was written");
    }
    if (sound && quantized_read(file)) return file;
    safetensors_close(file);
    return NULL;
}

void safetensors_close(Safetensors *file) {
    if (!file) return;
    for (int i = 0; i < file->count; i++) free(file->entries[i].name);
    free(file->entries);
    free(file->sorted);
    free((char *)(uintptr_t)file->path);
    json_decref(file->notes);
    file_unmap(&file->mapping);
    free(file);
}

const TensorEntry *safetensors_find(const Safetensors *file, const char *name) {
    int low = 0, high = file->count;
    while (low < high) {
        int middle = (low + high) / 2;
        int order = strcmp(name, file->entries[file->sorted[middle]].name);
        if (order == 0) return &file->entries[file->sorted[middle]];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

json_t *safetensors_files(const Safetensors *file) {
    json_t *files = json_object(), *value;
    const char *name;
    json_object_foreach(file->notes, name, value) {
        if (strncmp(name, "file:", 5) == 0) json_object_set(files, name, value);
    }
    return files;
}

const char *safetensors_note(const Safetensors *file, const char *name) {
    return json_field_text(file->notes, name);
}

const char *safetensors_type(const TensorEntry *entry) {
    return entry->number >= NUMBER_OTHER ? entry->type : numbers[entry->number].name;
}

static bool is_integer_type(Number number) {
    return number >= NUMBER_I32 && number < NUMBER_OTHER;
}

static float one_whole(Number number, const unsigned char *from) {
    int64_t wide;
    int32_t word;
    int16_t half;
    switch (number) {
    case NUMBER_I64:
        memcpy(&wide, from, sizeof wide);
        return (float)wide;
    case NUMBER_I16:
        memcpy(&half, from, sizeof half);
        return (float)half;
    case NUMBER_U8:
        return (float)*from;
    default:
        memcpy(&word, from, sizeof word);
        return (float)word;
    }
}

static float one_float(Number number, const unsigned char *from) {
    uint16_t half;
    uint32_t bits;
    double wide;
    float value;
    switch (number) {
    case NUMBER_F64:
        memcpy(&wide, from, sizeof wide);
        return (float)wide;
    case NUMBER_F16:
        memcpy(&half, from, sizeof half);
        return half_value(half);
    case NUMBER_BF16:
        memcpy(&half, from, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&value, &bits, sizeof value);
        return value;
    default:
        memcpy(&value, from, sizeof value);
        return value;
    }
}

float safetensors_float(const TensorEntry *entry, size_t element) {
    if (entry->number == NUMBER_BLOCKS)
        return block_value(entry->blocks, entry->data, quantized_position(&entry->order, element));
    return one_float(entry->number,
                     (const unsigned char *)entry->data + element * numbers[entry->number].bytes);
}

bool safetensors_floats(const Safetensors *file, const TensorEntry *entry, float *values,
                        size_t count) {
    if (is_integer_type(entry->number) || entry->number == NUMBER_OTHER)
        return error_message("convert it to F32", "%s: tensor %s is not of a floating-point type",
                             file->path, entry->name);
    return safetensors_numbers(file, entry, values, count);
}

bool safetensors_numbers(const Safetensors *file, const TensorEntry *entry, float *values,
                         size_t count) {
    if (entry->number == NUMBER_OTHER)
        return error_message("convert it to F32 or I32",
                             "%s: tensor %s has type %s, which is not supported", file->path,
                             entry->name, entry->type);
    const bool blocks = entry->number == NUMBER_BLOCKS;
    const size_t size = blocks ? 0 : numbers[entry->number].bytes,
                 found = blocks
                             ? entry->bytes / entry->blocks->bytes * (size_t)entry->blocks->elements
                             : entry->bytes / size;
    if (found != count || (!blocks && entry->bytes != count * size))
        return error_message("use weights made for this model",
                             "%s: tensor %s has %zu elements, but the model needs %zu", file->path,
                             entry->name, found, count);
    if (blocks) {
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < count; i++) values[i] = safetensors_float(entry, i);
        return true;
    }
    if (entry->number == NUMBER_F32) {
        memcpy(values, entry->data, entry->bytes);
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const unsigned char *from = (const unsigned char *)entry->data + i * size;
        values[i] = is_integer_type(entry->number) ? one_whole(entry->number, from)
                                                   : one_float(entry->number, from);
    }
    return true;
}

static char *header_text(const TensorEntry *entries, int count, json_t *notes) {
    json_t *header = json_object();
    json_object_set(header, "__metadata__", notes);
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        size_t end = offset + entries[i].bytes;
        json_object_set_new(header, entries[i].name,
                            json_make("{s:s, s:o, s:[I,I]}", "dtype",
                                      numbers[entries[i].number].name, "shape",
                                      json_integers(entries[i].shape, entries[i].rank),
                                      "data_offsets", (json_int_t)offset, (json_int_t)end));
        offset = end;
    }
    return json_write_new(header, JSON_COMPACT);
}

static bool write_file(const char *path, const TensorEntry *entries, int count, json_t *notes,
                       const Maker *maker) {
    char digits[33];
    content_checksum(digits, entries, count, notes, maker, false);
    json_object_set_new(notes, "checksum", json_text(digits));
    AUTO_FREE char *header = header_text(entries, count, notes);
    size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    Aside aside;
    bool opened = aside_open(&aside, path, true);
    if (opened) {
        unsigned char start[8];
        for (int i = 0; i < 8; i++) start[i] = (unsigned char)((uint64_t)padded >> (8 * i));
        aside_write(&aside, start, sizeof start);
        aside_write(&aside, header, length);
        aside_write(&aside, "        ", padded - length);
        for (int i = 0; i < count; i++)
            aside_write(&aside, entry_bytes(entries, i, maker), entries[i].bytes);
    }
    return opened && aside_close(&aside);
}

bool safetensors_write(const char *path, const TensorEntry *entries, int count, json_t *notes) {
    return write_file(path, entries, count, notes, NULL);
}

bool safetensors_write_made(const char *path, const TensorEntry *entries, int count, json_t *notes,
                            EntryFill make, void *context) {
    size_t most = 0;
    for (int i = 0; i < count; i++)
        if (entries[i].bytes > most) most = entries[i].bytes;
    Maker maker = {make, context, memory_map(most + 1)};
    if (!maker.bytes)
        return error_message("use a machine with more memory",
                             "cannot allocate %zu bytes for a tensor", most);
    bool written = write_file(path, entries, count, notes, &maker);
    memory_unmap(maker.bytes, most + 1);
    return written;
}

/* quantized: tensors of a checkpoint as blocks of integers with a scale, made by moec quantize.
 *
 *     ternary      64 terms of a sum: a float32 scale and 16 bytes; bits 2 (i % 4) and the next of
 *                  byte i / 4 are term i plus 1
 *     int4         32 terms of a sum: a binary16 scale and 16 bytes, Q4_0 of GGUF
 *     mxfp4        32 terms of a sum: e and 16 bytes, MXFP4 of GGUF: numbers of E2M1 times
 *                  2^(e - 127)
 *     nvfp4        the same with e, two bytes of E4M3 and 16 bytes: one factor for the terms 0 to
 *                  15, one for the others
 *     fp8, mxfp8   32 terms of a sum: e and 32 bytes of E4M3
 *     int8         64 adjacent elements: a float32 scale and 64 bytes
 *
 * The entry in the file has the type U8; the note "quantized:NAME" describes the tensor:
 *
 *     {"type": "int4", "shape": [64, 128],
 *      "batch": [1, 1], "columns": [128, 1], "terms": [64, 128]}
 *
 * A pair is a size and the stride in elements. int8 has no pairs. */
#include "data/safetensors.h"

#include "abi/json_make.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/shards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static float int8_value(const unsigned char *block, int i) {
    float scale;
    memcpy(&scale, block, sizeof scale);
    return scale * (float)(signed char)block[4 + i];
}

static float ternary_value(const unsigned char *block, int i) {
    float scale;
    memcpy(&scale, block, sizeof scale);
    return scale * (float)((block[4 + i / 4] >> i % 4 * 2 & 3) - 1);
}

static float e4m3_value(unsigned char code) {
    const int exponent = code >> 3 & 15, digits = code & 7;
    const float size =
        exponent ? ldexpf((float)(8 + digits), exponent - 10) : ldexpf((float)digits, -9);
    return code & 0x80 ? -size : size;
}

static float fp8_value(const unsigned char *block, int i) {
    return ldexpf(e4m3_value(block[1 + i]), block[0] - 127);
}

static float nvfp4_value(const unsigned char *block, int i) {
    const int code = block[3 + i % 16] >> i / 16 * 4 & 15;
    return mxfp4_number(code, block[0]) * e4m3_value(block[1 + i / 16]);
}

static const char note_start[] = "quantized:";

static const char *const type_names[] = {"ternary", "int4",  "mxfp4", "nvfp4",
                                         "fp8",     "mxfp8", "int8"};

const BlockType *quantized_type(const char *name) {
    static const BlockType own[] = {
        {.name = "INT8", .elements = 64, .bytes = 68, .value = int8_value},
        {.name = "TERNARY", .elements = 64, .bytes = 20, .value = ternary_value},
        {.name = "NVFP4", .elements = 32, .bytes = 19, .value = nvfp4_value},
        {.name = "FP8", .elements = 32, .bytes = 33, .value = fp8_value},
        {.name = "MXFP8", .elements = 32, .bytes = 33, .value = fp8_value},
    };
    if (!strcmp(name, "int4")) return block_type_named("q4_0");
    if (!strcmp(name, "mxfp4")) return block_type_named(name);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcasecmp(own[i].name, name)) return &own[i];
    return NULL;
}

static json_t *pair(long size, long stride) {
    return json_make("[I, I]", (json_int_t)size, (json_int_t)stride);
}

void quantized_entry(TensorEntry *entry, const char *type, const BlockOrder *order,
                     const void *blocks, json_t *notes) {
    json_t *shape = json_array(), *note = json_make("{s:s, s:o}", "type", type, "shape", shape);
    long count = 1;
    for (int i = 0; i < entry->rank; i++) {
        json_array_append_new(shape, json_integer(entry->shape[i]));
        count *= entry->shape[i];
    }
    if (order->k > 0) {
        json_object_set_new(note, "batch", pair(order->batch, order->batch_stride));
        json_object_set_new(note, "columns", pair(order->n, order->n_stride));
        json_object_set_new(note, "terms", pair(order->k, order->k_stride));
    }
    AUTO_FREE char *key = memory_format("%s%s", note_start, entry->name),
                   *text = json_write(note, 0);
    json_object_set_new(notes, key, json_text(text));
    const BlockType *of = quantized_type(type);
    entry->number = NUMBER_U8;
    entry->bytes = (size_t)count / (size_t)of->elements * of->bytes;
    entry->rank = 1;
    entry->shape[0] = (long)entry->bytes;
    entry->data = blocks;
    json_decref(note);
}

/* The product of the sizes, or -1. */
static long shape_elements(const TensorEntry *entry) {
    long count = 1;
    for (int i = 0; i < entry->rank; i++)
        if (entry->shape[i] < 0 || __builtin_mul_overflow(count, entry->shape[i], &count))
            return -1;
    return count;
}

static bool read_shape(TensorEntry *entry, const json_t *shape) {
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_RANK) return false;
    entry->rank = (int)json_array_size(shape);
    for (int i = 0; i < entry->rank; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        entry->shape[i] = json_is_integer(size) ? (long)json_integer_value(size) : -1;
    }
    return true;
}

static bool read_pair(const json_t *note, const char *name, long *size, long *stride) {
    const json_t *values = json_object_get(note, name);
    *size = (long)json_integer_value(json_array_get(values, 0));
    *stride = (long)json_integer_value(json_array_get(values, 1));
    return *size > 0 && *stride > 0;
}

/* The entry becomes the tensor that the note describes. False if they contradict each other. */
static bool apply_note(TensorEntry *entry, const json_t *note) {
    const char *type = json_field_text(note, "type");
    const BlockType *blocks = type ? quantized_type(type) : NULL;
    BlockOrder *order = &entry->order;
    if (!blocks || entry->number != NUMBER_U8 || !read_shape(entry, json_object_get(note, "shape")))
        return false;
    const long count = shape_elements(entry);
    long ordered = count;
    if (json_object_get(note, "terms")) {
        if (!read_pair(note, "batch", &order->batch, &order->batch_stride) ||
            !read_pair(note, "columns", &order->n, &order->n_stride) ||
            !read_pair(note, "terms", &order->k, &order->k_stride) ||
            __builtin_mul_overflow(order->batch, order->n, &ordered) ||
            __builtin_mul_overflow(ordered, order->k, &ordered))
            return false;
    }
    entry->number = NUMBER_BLOCKS;
    entry->blocks = blocks;
    snprintf(entry->type, sizeof entry->type, "%s",
             strcmp(type, "int4") ? blocks->name : "INT4"); /* Q4_0 */
    return count > 0 && ordered == count && count % blocks->elements == 0 &&
           order->k % blocks->elements == 0 &&
           (size_t)count / (size_t)blocks->elements == entry->bytes / blocks->bytes &&
           entry->bytes % blocks->bytes == 0;
}

bool quantized_read(Safetensors *file) {
    const char *key;
    json_t *value;
    json_object_foreach(file->notes, key, value) {
        if (strncmp(key, note_start, sizeof note_start - 1) != 0) continue;
        const char *name = key + sizeof note_start - 1;
        TensorEntry *entry = (TensorEntry *)(uintptr_t)safetensors_find(file, name);
        json_t *note = json_loads(json_string_value(value), JSON_REJECT_DUPLICATES, NULL);
        const bool good = entry && note && apply_note(entry, note);
        json_decref(note);
        if (!good)
            return error_message("quantize the run again",
                                 "%s: the note %s does not describe a tensor of the file",
                                 file->path, key);
    }
    return true;
}

const char *safetensors_quantized(const Safetensors *file) {
    for (int i = 0; i < file->count; i++)
        for (size_t j = 0; j < sizeof type_names / sizeof *type_names; j++)
            if (file->entries[i].number == NUMBER_BLOCKS &&
                !strcasecmp(file->entries[i].type, type_names[j]))
                return type_names[j];
    return NULL;
}

size_t quantized_position(const BlockOrder *order, size_t element) {
    const long at = (long)element;
    if (!order->k) return element;
    return (size_t)((at / order->batch_stride % order->batch * order->n +
                     at / order->n_stride % order->n) *
                        order->k +
                    at / order->k_stride % order->k);
}

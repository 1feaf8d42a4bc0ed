#include "tools/exchange/exchange.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/exchange/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3, ALIGNMENT = 32 };
/* Types of values. */
enum { UINT32 = 4, INT32 = 5, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

static void add_u32(Text *text, uint32_t value) {
    text_append(text, (const char *)&value, sizeof value);
}

static void add_u64(Text *text, uint64_t value) {
    text_append(text, (const char *)&value, sizeof value);
}

static void add_string(Text *text, const char *string) {
    add_u64(text, strlen(string));
    text_append(text, string, strlen(string));
}

static void add_key(Gguf *gguf, const char *key, uint32_t type) {
    add_string(&gguf->keys, key);
    add_u32(&gguf->keys, type);
    gguf->key_count++;
}

void gguf_text(Gguf *gguf, const char *key, const char *text) {
    add_key(gguf, key, STRING);
    add_string(&gguf->keys, text);
}

void gguf_number(Gguf *gguf, const char *key, uint32_t number) {
    add_key(gguf, key, UINT32);
    add_u32(&gguf->keys, number);
}

static void gguf_real(Gguf *gguf, const char *key, float number) {
    add_key(gguf, key, FLOAT32);
    text_append(&gguf->keys, (const char *)&number, sizeof number);
}

void gguf_flag(Gguf *gguf, const char *key, bool flag) {
    const char byte = flag;
    add_key(gguf, key, BOOL);
    text_append(&gguf->keys, &byte, 1);
}

static void add_array(Gguf *gguf, const char *key, uint32_t type, size_t count) {
    add_key(gguf, key, ARRAY);
    add_u32(&gguf->keys, type);
    add_u64(&gguf->keys, count);
}

void gguf_texts(Gguf *gguf, const char *key, const char *const *texts, size_t count) {
    add_array(gguf, key, STRING, count);
    for (size_t i = 0; i < count; i++) add_string(&gguf->keys, texts[i]);
}

void gguf_numbers(Gguf *gguf, const char *key, const int32_t *numbers, size_t count) {
    add_array(gguf, key, INT32, count);
    text_append(&gguf->keys, (const char *)numbers, sizeof *numbers * count);
}

void gguf_reals(Gguf *gguf, const char *key, const float *numbers, size_t count) {
    add_array(gguf, key, FLOAT32, count);
    text_append(&gguf->keys, (const char *)numbers, sizeof *numbers * count);
}

/* The prefix "arch." is replaced by the name of the architecture. */
static void add_gguf_pair(Gguf *gguf, const MoecPair *pair, const char *architecture) {
    bool own = strncmp(pair->key, "arch.", 5) == 0;
    AUTO_FREE char *key =
        own ? memory_format("%s.%s", architecture, pair->key + 5) : memory_format("%s", pair->key);
    if (pair->kind == MOEC_PAIR_TEXT) gguf_text(gguf, key, pair->text);
    if (pair->kind == MOEC_PAIR_FLAG) gguf_flag(gguf, key, pair->number != 0);
    if (pair->kind == MOEC_PAIR_NUMBER && pair->real) gguf_real(gguf, key, (float)pair->number);
    if (pair->kind == MOEC_PAIR_NUMBER && !pair->real)
        gguf_number(gguf, key, (uint32_t)pair->number);
}

static uint32_t type_of(const TensorEntry *entry) {
    if (entry->blocks) return entry->blocks->type;
    return entry->number == NUMBER_BF16 ? 30 : entry->number == NUMBER_F16 ? 1 : 0;
}

static const char *stored_type(const TensorEntry *entry) {
    return entry->blocks ? entry->blocks->name : safetensors_type(entry);
}

/* Bytes in the file. */
static size_t stored_bytes(const TensorEntry *entry) {
    if (!entry->blocks) return entry->bytes;
    return entry_elements(entry) / (size_t)entry->blocks->elements * entry->blocks->bytes;
}

/* The type of a matrix when the others become `wanted`; NULL: not quantized. */
static const BlockType *matrix_blocks(const TensorEntry *entry, const BlockType *wanted) {
    const BlockType *fine = block_type_named("q8_0"), *short_row = block_type_named("q5_0");
    long row = entry->shape[entry->rank - 1];
    bool edge = !strcmp(entry->name, "token_embd.weight") || !strcmp(entry->name, "output.weight");
    if (entry->rank < 2 || strstr(entry->name, "ffn_gate_inp")) return NULL;
    if (row % fine->elements) return NULL;
    return edge ? fine : row % wanted->elements ? short_row : wanted;
}

char *gguf_types(const Conversion *conversion) {
    char *text = memory_format("%s", "");
    for (int i = 0; i < conversion->count; i++) {
        const char *type = stored_type(&conversion->targets[i].entry);
        int before = 0, count = 0;
        for (int j = 0; j < conversion->count; j++) {
            bool same = !strcmp(stored_type(&conversion->targets[j].entry), type);
            before += same && j < i;
            count += same;
        }
        if (!before) text = memory_append(text, "%s%s (%d)", *text ? ", " : "", type, count);
    }
    return text;
}

/* The blocks of a matrix that is int4 or mxfp4 in the run, and whose rows in the file consist of
 * such groups; else NULL. */
static const BlockType *blocks_of_run(const Conversion *conversion, int index) {
    const ConvertedTensor *target = &conversion->targets[index];
    const TensorEntry *entry = &target->entry;
    const size_t elements = entry_elements(entry);
    const BlockType *type = target->count ? target->origins[0].source->blocks : NULL;
    bool exact = type && type->quantize && entry->rank >= 2 &&
                 entry->shape[entry->rank - 1] % type->elements == 0;
    for (int i = 0; exact && i < target->count; i++)
        exact = target->origins[i].source->blocks == type;
    if (!exact) return NULL;
    AUTO_FREE float *values = memory_new(elements * sizeof *values);
    conversion_fill(conversion, index, values);
    return blocks_hold(type, values, elements) ? type : NULL;
}

/* wanted: NULL for the types of the run. */
static void quantize_matrices(Conversion *conversion, const BlockType *wanted) {
    for (int i = 0; i < conversion->count; i++) {
        TensorEntry *entry = &conversion->targets[i].entry;
        entry->blocks = wanted ? matrix_blocks(entry, wanted) : blocks_of_run(conversion, i);
        if (!entry->blocks) continue;
        entry->number = NUMBER_F32;
        entry->bytes = entry_elements(entry) * sizeof(float);
    }
}

/* The original model may have a longer context. */
static MoecPair with_context(MoecPair pair, const char *config) {
    json_auto_t *before = config && pair.least ? json_loads(config, 0, NULL) : NULL;
    const json_t *context = json_object_get(before, "max_position_embeddings");
    if (json_is_integer(context) && json_number_value(context) > pair.number)
        pair.number = json_number_value(context);
    return pair;
}

/* type: of the matrices. */
static void add_pairs(Gguf *gguf, const char *type, const MoecPair *pairs, int count,
                      const char *config) {
    const char *architecture = "llama";
    for (int i = 0; i < count; i++)
        if (!strcmp(pairs[i].key, "general.architecture")) architecture = pairs[i].text;
    for (int i = 0; i < count; i++) {
        const MoecPair pair = with_context(pairs[i], config);
        if (!gguf_rotation_says(gguf->factors, pair.key)) add_gguf_pair(gguf, &pair, architecture);
    }
    gguf_number(gguf, "general.alignment", ALIGNMENT);
    gguf_number(gguf, "general.file_type",
                gguf->blocks                ? gguf->blocks->file_type
                : !strcmp(type, "bfloat16") ? 32
                                            : !strcmp(type, "float16"));
    if (gguf->blocks) gguf_number(gguf, "general.quantization_version", 2);
}

static uint64_t aligned_size(uint64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void write_padding(Aside *aside, uint64_t bytes) {
    static const char zeros[ALIGNMENT];
    aside_write(aside, zeros, aligned_size(bytes) - bytes);
}

/* Magic number, counts, keys, and offset of each tensor; axes in GGUF order, innermost first. */
static void add_header(const Gguf *gguf, const Conversion *conversion, Text *header) {
    uint64_t offset = 0;
    text_append(header, "GGUF", 4);
    add_u32(header, VERSION);
    add_u64(header, (uint64_t)conversion->count + (gguf->factors ? 1 : 0));
    add_u64(header, gguf->key_count);
    text_append(header, gguf->keys.bytes, gguf->keys.length);
    for (int i = 0; i < conversion->count; i++) {
        const TensorEntry *entry = &conversion->targets[i].entry;
        add_string(header, entry->name);
        add_u32(header, (uint32_t)entry->rank);
        for (int j = entry->rank - 1; j >= 0; j--) add_u64(header, (uint64_t)entry->shape[j]);
        add_u32(header, type_of(entry));
        add_u64(header, offset);
        offset += aligned_size(stored_bytes(entry));
    }
    if (!gguf->factors) return;
    add_string(header, "rope_freqs.weight");
    add_u32(header, 1);
    add_u64(header, (uint64_t)gguf->factor_count);
    add_u32(header, 0);
    add_u64(header, offset);
}

static void write_factors(const Gguf *gguf, Aside *aside) {
    size_t bytes = sizeof *gguf->factors * (size_t)gguf->factor_count;
    aside_write(aside, gguf->factors, bytes);
    write_padding(aside, bytes);
}

static bool write_tensors(Conversion *conversion, Aside *aside) {
    size_t most = 0;
    for (int i = 0; i < conversion->count; i++)
        if (conversion->targets[i].entry.bytes > most) most = conversion->targets[i].entry.bytes;
    unsigned char *bytes = memory_map(most + 1);
    if (!bytes)
        return error_message("use a machine with more memory",
                             "cannot allocate %zu bytes for a tensor", most);
    for (int i = 0; i < conversion->count; i++) {
        const TensorEntry *entry = &conversion->targets[i].entry;
        size_t length = stored_bytes(entry);
        conversion_fill(conversion, i, bytes);
        if (entry->blocks)
            blocks_quantize(entry->blocks, (const float *)(void *)bytes, entry_elements(entry),
                            bytes);
        aside_write(aside, bytes, length);
        write_padding(aside, length);
    }
    memory_unmap(bytes, most + 1);
    return true;
}

bool gguf_write(Gguf *gguf, const char *path, Conversion *conversion, const MoecPair *pairs,
                int count, const char *config) {
    Aside aside;
    Text header = {0};
    const char *type = conversion_type(conversion);
    conversion_widen_vectors(conversion);
    quantize_matrices(conversion, gguf->blocks);
    for (int i = 0; i < conversion->count && !gguf->blocks; i++)
        gguf->blocks = conversion->targets[i].entry.blocks;
    gguf->factors = gguf_rotation_factors(pairs, count, &gguf->factor_count);
    add_pairs(gguf, type, pairs, count, config);
    add_header(gguf, conversion, &header);
    bool good = aside_open(&aside, path, false);
    if (good) {
        aside_write(&aside, header.bytes, header.length);
        write_padding(&aside, header.length);
        bool whole = write_tensors(conversion, &aside);
        if (whole && gguf->factors) write_factors(gguf, &aside);
        if (!whole) aside.failed = ENOMEM;
        good = aside_close(&aside) && whole;
    }
    text_free(&header);
    text_free(&gguf->keys);
    free(gguf->factors);
    gguf->factors = NULL;
    return good;
}

#include "tools/exchange/internal.h"

#include "abi/json_make.h"
#include "abi/utf8_cut.h"
#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters of llama3_rotary of stdlib/rotary.moe. */
typedef struct Ramp {
    double base, factor, low, high, original;
    int pairs;
} Ramp;

static const double turn = 6.283185307179586;

/* Number of rotations of a pair in the original context. */
static double turns(const Ramp *ramp, int pair) {
    return ramp->original * pow(ramp->base, -(double)pair / ramp->pairs) / turn;
}

static double ramp_fraction(const Ramp *ramp, int pair) {
    double share = (turns(ramp, pair) - ramp->low) / (ramp->high - ramp->low);
    return fmax(0, fmin(1, share));
}

/* Factor of the wavelength: the frequency is multiplied by (1 - share) / factor + share. */
static double stretch(const Ramp *ramp, int pair) {
    double share = ramp_fraction(ramp, pair);
    return 1 / ((1 - share) / ramp->factor + share);
}

/* ---- from a file ---- */

static const TensorEntry *rope_factors(const GgufFile *file) {
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, "rope_freqs.weight") == 0) return &file->entries[i];
    return NULL;
}

static double config_number(const json_t *config, const char *key, double otherwise) {
    const json_t *value = json_object_get(config, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* The nearest number with few digits. */
static double short_number(double number) {
    char text[32];
    snprintf(text, sizeof text, "%.5g", number);
    return strtod(text, NULL);
}

/* Two pairs inside the ramp determine both ends. With fewer, high is 4, as in all Llama 3 models,
 * and the original context is chosen to fit. */
static void find_ramp(Ramp *ramp, const TensorEntry *entry) {
    int first = -1, last = -1, whole = -1;
    double shares[2] = {0, 0};
    for (int i = 0; i < ramp->pairs; i++) {
        double share = (1 / (double)safetensors_float(entry, (size_t)i) - 1 / ramp->factor) /
                       (1 - 1 / ramp->factor);
        if (share > 1 - 1e-5) whole = i;
        if (share < 1e-5 || share > 1 - 1e-5) continue;
        if (first < 0) first = i;
        last = i;
        shares[i != first] = share;
    }
    const Ramp one = {.base = ramp->base, .original = 1, .pairs = ramp->pairs};
    ramp->low = 1;
    ramp->high = 4;
    ramp->original = 8192;
    if (first >= 0 && last > first) {
        double slope = (shares[0] - shares[1]) / (turns(&one, first) - turns(&one, last));
        double offset = slope * turns(&one, first) - shares[0]; /* low / (high - low) */
        ramp->high = short_number(1 / offset + 1);
        ramp->original = round(slope / offset);
    } else if (first >= 0) {
        ramp->original = round((shares[0] * 3 + 1) / turns(&one, first));
    } else if (ramp_fraction(ramp, whole < 0 ? 0 : whole) < 1) {
        ramp->original = ceil(4 / turns(&one, whole < 0 ? 0 : whole));
    }
}

static bool ramp_fits(const Ramp *ramp, const TensorEntry *entry) {
    for (int i = 0; i < ramp->pairs; i++) {
        double told = (double)safetensors_float(entry, (size_t)i), found = stretch(ramp, i);
        if (!(fabs(told - found) <= 1e-4 * found)) return false;
    }
    return ramp->original >= 1 && ramp->original < 1e9;
}

static bool is_floats(const TensorEntry *entry) {
    return entry->rank == 1 && entry->shape[0] <= 1 << 20 &&
           (entry->number == NUMBER_F32 || entry->number == NUMBER_F16 ||
            entry->number == NUMBER_BF16);
}

static void put_rope_scaling(json_t *config, const char *what, json_t *value) {
    AUTO_FREE char *key = memory_format("arch.rope.scaling.%s", what);
    json_object_set_new(config, key, value);
}

bool gguf_rotation_read(const GgufFile *file, json_t *config) {
    const TensorEntry *entry = rope_factors(file);
    const char *type = json_field_text(config, "arch.rope.scaling.type");
    Ramp ramp = {.base = config_number(config, "arch.rope.freq_base", 10000), .factor = 1};
    bool plain = !type || strcmp(type, "none") == 0;
    /* equivalent to a missing key */
    if (type && plain) json_object_del(config, "arch.rope.scaling.type");
    if (!entry) return true;
    if (!plain)
        return error_message("convert the model again from its original folder",
                             "%s: both RoPE scaling '%.*s' and rope_freqs.weight are present",
                             file->path, utf8_cut(type, 60), type);
    bool good = is_floats(entry);
    ramp.pairs = good ? (int)entry->shape[0] : 0;
    for (int i = 0; i < ramp.pairs; i++)
        ramp.factor = fmax(ramp.factor, (double)safetensors_float(entry, (size_t)i));
    ramp.factor = short_number(ramp.factor);
    if (good && ramp.factor > 1) find_ramp(&ramp, entry);
    if (!good || (ramp.factor > 1 && !ramp_fits(&ramp, entry)))
        return error_message("import the original Hugging Face model directory",
                             "%s: rope_freqs.weight does not match RoPE scaling of Llama 3",
                             file->path);
    if (ramp.factor == 1) return true;
    put_rope_scaling(config, "type", json_text("llama3"));
    put_rope_scaling(config, "factor", json_real(ramp.factor));
    put_rope_scaling(config, "low_freq_factor", json_real(ramp.low));
    put_rope_scaling(config, "high_freq_factor", json_real(ramp.high));
    put_rope_scaling(config, "original_context_length", json_integer((json_int_t)ramp.original));
    return true;
}

/* ---- to a file ---- */

static const MoecPair *pair_called(const MoecPair *pairs, int count, const char *key) {
    for (int i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0) return &pairs[i];
    return NULL;
}

static double pair_number(const MoecPair *pairs, int count, const char *key, double otherwise) {
    const MoecPair *pair = pair_called(pairs, count, key);
    return pair && pair->kind == MOEC_PAIR_NUMBER ? pair->number : otherwise;
}

float *gguf_rotation_factors(const MoecPair *pairs, int pair_count, int *count) {
    const MoecPair *type = pair_called(pairs, pair_count, "arch.rope.scaling.type");
    *count = 0;
    if (!type || type->kind != MOEC_PAIR_TEXT || strcmp(type->text, "llama3") != 0) return NULL;
    double width = pair_number(pairs, pair_count, "arch.attention.key_length", 2);
    width = pair_number(pairs, pair_count, "arch.rope.dimension_count", width);
    const Ramp ramp = {
        .base = pair_number(pairs, pair_count, "arch.rope.freq_base", 10000),
        .factor = pair_number(pairs, pair_count, "arch.rope.scaling.factor", 1),
        .low = pair_number(pairs, pair_count, "arch.rope.scaling.low_freq_factor", 1),
        .high = pair_number(pairs, pair_count, "arch.rope.scaling.high_freq_factor", 4),
        .original = pair_number(pairs, pair_count, "arch.rope.scaling.original_context_length", 1),
        .pairs = (int)width / 2};
    float *factors = memory_new(sizeof *factors * (size_t)ramp.pairs);
    for (int i = 0; i < ramp.pairs; i++) factors[i] = (float)stretch(&ramp, i);
    *count = ramp.pairs;
    return factors;
}

bool gguf_rotation_says(const float *factors, const char *key) {
    return factors && strncmp(key, "arch.rope.scaling.", 18) == 0;
}

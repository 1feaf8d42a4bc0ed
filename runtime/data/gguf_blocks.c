#include "data/shards.h"

#include <math.h>
#include <string.h>
#include <strings.h>

float half_value(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             fraction = half & 1023;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_at(const unsigned char *bytes) {
    return half_value((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* Bits shift .. shift + width - 1 of a byte. */
static int bits(unsigned char byte, int shift, int width) {
    return byte >> shift & ((1 << width) - 1);
}

/* ---- blocks of 32 elements: scale, offset, fifth bits, then elements i and i + 16 ---- */

static int nibble(const unsigned char *packed, int i) {
    return bits(packed[i % 16], i / 16 * 4, 4);
}

static int five_bits(const unsigned char *fifth, int i) {
    return nibble(fifth + 4, i) | bits(fifth[i / 8], i % 8, 1) << 4;
}

static float q4_0_value(const unsigned char *block, int i) {
    return half_at(block) * (float)(nibble(block + 2, i) - 8);
}

static float q4_1_value(const unsigned char *block, int i) {
    return half_at(block) * (float)nibble(block + 4, i) + half_at(block + 2);
}

static float q5_0_value(const unsigned char *block, int i) {
    return half_at(block) * (float)(five_bits(block + 2, i) - 16);
}

static float q5_1_value(const unsigned char *block, int i) {
    return half_at(block) * (float)five_bits(block + 4, i) + half_at(block + 2);
}

static float q8_0_value(const unsigned char *block, int i) {
    return half_at(block) * (float)(int8_t)block[2 + i];
}

float mxfp4_number(int code, int exponent) {
    static const float numbers[] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return ldexpf(numbers[code], exponent - 127);
}

static float mxfp4_value(const unsigned char *block, int i) {
    return mxfp4_number(nibble(block + 1, i), block[0]);
}

/* The nearest number, of two the smaller one. */
static void mxfp4_quantize(const float *values, unsigned char *block) {
    float most = 0;
    int exponent = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(values[i]));
    if (most > 0) exponent = ilogbf(most) - 2 + 127;
    memset(block, 0, 17);
    block[0] = (unsigned char)(exponent < 0 ? 0 : exponent);
    for (int i = 0; i < 32; i++) {
        int best = 0;
        for (int code = 1; code < 16; code++)
            if (fabsf(mxfp4_number(code, block[0]) - values[i]) <
                fabsf(mxfp4_number(best, block[0]) - values[i]))
                best = code;
        block[1 + i % 16] |= (unsigned char)(best << i / 16 * 4);
    }
}

/* The 16 levels of the non-linear 4-bit types. */
static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static float iq4_nl_value(const unsigned char *block, int i) {
    return half_at(block) * (float)levels[nibble(block + 2, i)];
}

/* ---- blocks of 256 elements: groups of 16 or 32 elements have scales of 4, 6 or 8 bits ---- */

/* The two low bits of elements in Q2_K and Q3_K: four elements per byte, 32 apart. */
static int two_bits(const unsigned char *packed, int i) {
    return bits(packed[i / 128 * 32 + i % 32], i % 128 / 32 * 2, 2);
}

/* Four bits in Q4_K and Q5_K: two elements per byte, 32 apart. */
static int four_bits(const unsigned char *packed, int i) {
    return bits(packed[i / 64 * 32 + i % 32], i % 64 / 32 * 4, 4);
}

static float q2_k_value(const unsigned char *block, int i) {
    const unsigned char scales = block[i / 16], *packed = block + 16;
    float scale = half_at(block + 80) * (float)bits(scales, 0, 4),
          least = half_at(block + 82) * (float)bits(scales, 4, 4);
    return scale * (float)two_bits(packed, i) - least;
}

static float q3_k_value(const unsigned char *block, int i) {
    const unsigned char *third = block, *packed = block + 32, *scales = block + 96;
    int group = i / 16, scale = bits(scales[group % 8], group / 8 * 4, 4) |
                                bits(scales[8 + group % 4], group / 4 * 2, 2) << 4;
    int value = two_bits(packed, i) - 4 + (bits(third[i % 32], i / 32, 1) << 2);
    return half_at(block + 108) * (float)(scale - 32) * (float)value;
}

/* Scale (which = 0) or minimum (which = 1) of group 0 to 7 in Q4_K and Q5_K: six bits. */
static int six_bits(const unsigned char *scales, int group, int which) {
    if (group < 4) return bits(scales[group + 4 * which], 0, 6);
    return bits(scales[group + 4], 4 * which, 4) | bits(scales[group - 4 + 4 * which], 6, 2) << 4;
}

/* Block start of Q4_K and Q5_K: scale, scale of the minima, scales and minima of the groups. */
static float with_minimum(const unsigned char *block, int group, int value) {
    float scale = half_at(block) * (float)six_bits(block + 4, group, 0),
          least = half_at(block + 2) * (float)six_bits(block + 4, group, 1);
    return scale * (float)value - least;
}

static float q4_k_value(const unsigned char *block, int i) {
    return with_minimum(block, i / 32, four_bits(block + 16, i));
}

static float q5_k_value(const unsigned char *block, int i) {
    int value = four_bits(block + 48, i) | bits(block[16 + i % 32], i / 32, 1) << 4;
    return with_minimum(block, i / 32, value);
}

static float q6_k_value(const unsigned char *block, int i) {
    const unsigned char *low = block, *high = block + 128, *scales = block + 192;
    int value = bits(low[i / 128 * 64 + i % 64], i % 128 / 64 * 4, 4) | two_bits(high, i) << 4;
    return half_at(block + 208) * (float)(int8_t)scales[i / 16] * (float)(value - 32);
}

static float iq4_xs_value(const unsigned char *block, int i) {
    const unsigned char *high = block + 2, *low = block + 4, *packed = block + 8 + i / 32 * 16;
    int group = i / 32, scale = bits(low[group / 2], group % 2 * 4, 4) |
                                bits(high[group / 4], group % 4 * 2, 2) << 4;
    return half_at(block) * (float)(scale - 32) * (float)levels[nibble(packed, i % 32)];
}

/* ---- quantization ---- */

/* Float to IEEE 754 half precision, rounded to nearest, ties to even. */
static uint16_t half_of(float value) {
    uint32_t word, sign;
    memcpy(&word, &value, sizeof word);
    sign = word >> 16 & 0x8000;
    float size = fabsf(value);
    if (isnan(value)) return (uint16_t)(sign | 0x7E00);
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7C00);
    if (size < 0x1p-14f) return (uint16_t)(sign | (uint32_t)rintf(size * 0x1p24f));
    uint32_t rest = word & 0x7FFFFFFF;
    rest += 0xFFF + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

static void put_half(unsigned char *bytes, float value) {
    uint16_t half = half_of(value);
    bytes[0] = (unsigned char)half;
    bytes[1] = (unsigned char)(half >> 8);
}

static int clamp(float value, int least, int most) {
    return value <= (float)least ? least : value >= (float)most ? most : (int)value;
}

/* The value with the largest magnitude. */
static float extreme(const float *values, int count) {
    float found = 0;
    for (int i = 0; i < count; i++)
        if (fabsf(values[i]) > fabsf(found)) found = values[i];
    return found;
}

static void q8_0_quantize(const float *values, unsigned char *block) {
    float scale = fabsf(extreme(values, 32)) / 127, inverse = scale != 0 ? 1 / scale : 0;
    put_half(block, scale);
    for (int i = 0; i < 32; i++)
        block[2 + i] = (unsigned char)(int8_t)clamp(roundf(values[i] * inverse), -127, 127);
}

/* True if all values are multiples -8 to 7 of the scale, which is exact in half precision. */
static bool is_q4_0_scale(const float *values, float scale) {
    if (half_value(half_of(scale)) != scale || scale == 0) return false;
    for (int i = 0; i < 32; i++) {
        const float level = rintf(values[i] / scale);
        if (level < -8 || level > 7 || level * scale != values[i]) return false;
    }
    return true;
}

/* The value with the largest magnitude becomes -8, the level without a positive counterpart. If
 * another level of it makes all values exact, as in weights that were int4 before, it is that
 * level. */
static float q4_0_scale(const float *values) {
    static const int levels_of_extreme[] = {-8, 7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1};
    const float most = extreme(values, 32);
    for (size_t i = 0; i < sizeof levels_of_extreme / sizeof *levels_of_extreme; i++)
        if (is_q4_0_scale(values, most / (float)levels_of_extreme[i]))
            return most / (float)levels_of_extreme[i];
    return most / -8;
}

static void q4_0_quantize(const float *values, unsigned char *block) {
    float scale = q4_0_scale(values), inverse = scale != 0 ? 1 / scale : 0;
    put_half(block, scale);
    for (int i = 0; i < 16; i++)
        block[2 + i] = (unsigned char)(clamp(values[i] * inverse + 8.5f, 0, 15) |
                                       clamp(values[i + 16] * inverse + 8.5f, 0, 15) << 4);
}

static void q5_0_quantize(const float *values, unsigned char *block) {
    float scale = extreme(values, 32) / -16, inverse = scale != 0 ? 1 / scale : 0;
    memset(block, 0, 22);
    put_half(block, scale);
    for (int i = 0; i < 32; i++) {
        int level = clamp(values[i] * inverse + 16.5f, 0, 31);
        block[2 + i / 8] |= (unsigned char)(level >> 4 << i % 8);
        block[6 + i % 16] |= (unsigned char)((level & 15) << i / 16 * 4);
    }
}

enum { GROUP = 32, GROUPS = 8 };

/* Sum of squared errors of scale * level - least over a group; sets the levels. */
static double group_error(const float *values, float scale, float least, int *level) {
    double error = 0;
    float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < GROUP; i++) {
        level[i] = clamp(rintf((values[i] + least) * inverse), 0, 15);
        double gap = (double)(scale * (float)level[i] - least - values[i]);
        error += gap * gap;
    }
    return error;
}

/* Scale and minimum that approximate a group best: levels for a range of scales, each followed by
 * the least-squares fit of both numbers to these levels. */
static void fit_group(const float *values, float *scale, float *least) {
    float low = 0, high = values[0];
    int level[GROUP];
    for (int i = 0; i < GROUP; i++) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
    }
    *least = -low;
    *scale = (high - low) / 15;
    if (!(*scale > 0)) {
        *scale = 0;
        return;
    }
    double best = group_error(values, *scale, *least, level);
    for (int step = -10; step <= 10; step++) {
        double s = 0, l = 0, ll = 0, v = 0, lv = 0;
        group_error(values, (high - low) / (15 + 0.1f * (float)step), -low, level);
        for (int i = 0; i < GROUP; i++) {
            s++;
            l += level[i];
            ll += (double)level[i] * level[i];
            v += (double)values[i];
            lv += level[i] * (double)values[i];
        }
        double divisor = s * ll - l * l;
        if (divisor <= 0) continue;
        double fitted = (s * lv - l * v) / divisor, offset = (l * lv - ll * v) / divisor;
        if (offset < 0) { /* minima are not positive */
            offset = 0;
            fitted = lv / ll;
        }
        double error = group_error(values, (float)fitted, (float)offset, level);
        if (!(error < best) || fitted <= 0) continue;
        best = error;
        *scale = (float)fitted;
        *least = (float)offset;
    }
}

/* Packs the six-bit scales and minima of the groups: the inverse of six_bits. */
static void put_six_bits(unsigned char *packed, const int *scale, const int *least) {
    for (int i = 0; i < 4; i++) {
        packed[i] = (unsigned char)(scale[i] | scale[i + 4] >> 4 << 6);
        packed[i + 4] = (unsigned char)(least[i] | least[i + 4] >> 4 << 6);
        packed[i + 8] = (unsigned char)((scale[i + 4] & 15) | (least[i + 4] & 15) << 4);
    }
}

static void q4_k_quantize(const float *values, unsigned char *block) {
    float scales[GROUPS], minima[GROUPS], most[2] = {0, 0};
    int scale[GROUPS], least[GROUPS], levels_of[GROUPS][GROUP];
    for (int i = 0; i < GROUPS; i++) {
        fit_group(values + i * GROUP, &scales[i], &minima[i]);
        most[0] = fmaxf(most[0], scales[i]);
        most[1] = fmaxf(most[1], minima[i]);
    }
    put_half(block, most[0] / 63);
    put_half(block + 2, most[1] / 63);
    for (int i = 0; i < GROUPS; i++) {
        scale[i] = most[0] > 0 ? clamp(rintf(63 * scales[i] / most[0]), 0, 63) : 0;
        least[i] = most[1] > 0 ? clamp(rintf(63 * minima[i] / most[1]), 0, 63) : 0;
        group_error(values + i * GROUP, half_at(block) * (float)scale[i],
                    half_at(block + 2) * (float)least[i], levels_of[i]);
    }
    put_six_bits(block + 4, scale, least);
    for (int i = 0; i < 128; i++) {
        const int group = i / 32 * 2, at = i % 32;
        block[16 + i] = (unsigned char)(levels_of[group][at] | levels_of[group + 1][at] << 4);
    }
}

enum { LARGEST_BLOCK = 210 };

static const BlockType types[] = {
    {2, "Q4_0", 32, 18, q4_0_value, q4_0_quantize, 2},
    {3, "Q4_1", 32, 20, q4_1_value, NULL, 0},
    {6, "Q5_0", 32, 22, q5_0_value, q5_0_quantize, 8},
    {7, "Q5_1", 32, 24, q5_1_value, NULL, 0},
    {8, "Q8_0", 32, 34, q8_0_value, q8_0_quantize, 7},
    {10, "Q2_K", 256, 84, q2_k_value, NULL, 0},
    {11, "Q3_K", 256, 110, q3_k_value, NULL, 0},
    {12, "Q4_K", 256, 144, q4_k_value, q4_k_quantize, 14},
    {13, "Q5_K", 256, 176, q5_k_value, NULL, 0},
    {14, "Q6_K", 256, 210, q6_k_value, NULL, 0},
    {20, "IQ4_NL", 32, 18, iq4_nl_value, NULL, 0},
    {39, "MXFP4", 32, 17, mxfp4_value, mxfp4_quantize, 38},
    {23, "IQ4_XS", 256, 136, iq4_xs_value, NULL, 0},
};

const BlockType *block_type(uint32_t type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}

const BlockType *block_type_named(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].quantize && strcasecmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

float block_value(const BlockType *type, const unsigned char *data, size_t element) {
    size_t size = (size_t)type->elements;
    return type->value(data + element / size * type->bytes, (int)(element % size));
}

void blocks_quantize(const BlockType *type, const float *values, size_t count,
                     unsigned char *data) {
    unsigned char block[LARGEST_BLOCK];
    size_t size = (size_t)type->elements;
    for (size_t i = 0; i < count / size; i++) {
        type->quantize(values + i * size, block);
        memcpy(data + i * type->bytes, block, type->bytes);
    }
}

bool blocks_hold(const BlockType *type, const float *values, size_t count) {
    unsigned char block[LARGEST_BLOCK];
    const size_t size = (size_t)type->elements;
    for (size_t i = 0; i < count; i += size) {
        type->quantize(values + i, block);
        for (size_t j = 0; j < size; j++)
            if (type->value(block, (int)j) != values[i + j]) return false;
    }
    return true;
}

/* The quantized types of GGUF: pseudo-random blocks have the values of the Python package gguf, bit
 * by bit, and values have its blocks. tests/transformers/gguf_blocks.py prints the table. */
#include "data/shards.h"

#define XXH_INLINE_ALL
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

enum { BLOCKS = 200, LONGEST = 256 };

static const struct {
    const char *name;
    uint32_t type;
    int halves[2];           /* byte offsets of half-precision numbers in a block */
    uint64_t values, blocks; /* hashes; blocks: 0 if the package cannot quantize */
} expected[] = {
    {"Q4_0", 2, {0, 0}, 0x4B2FCEF5710D058B, 0x61163539F73B5847},
    {"Q4_1", 3, {0, 2}, 0x1BA676DBE2986ADA, 0xFD56C6C7F80A0AAD},
    {"Q5_0", 6, {0, 0}, 0x49A4434C62DF6C00, 0xAD441E5562EBFEF0},
    {"Q5_1", 7, {0, 2}, 0x7169001315EC557A, 0x64FD9CC086B0D9AA},
    {"Q8_0", 8, {0, 0}, 0xB4C8E2032C8E83DE, 0xB3A76B3E253E01C9},
    {"Q2_K", 10, {80, 82}, 0x411F04D37C87E192, 0x0000000000000000},
    {"Q3_K", 11, {108, 108}, 0xDFC55DD2A4D119B3, 0x0000000000000000},
    {"Q4_K", 12, {0, 2}, 0xB15C3563FA4A539F, 0x0000000000000000},
    {"Q5_K", 13, {0, 2}, 0x0EC9ADD62B584DB7, 0x0000000000000000},
    {"Q6_K", 14, {208, 208}, 0xF2A4A9D3E023F289, 0x0000000000000000},
    {"IQ4_NL", 20, {0, 0}, 0xA7EDA9DC41278827, 0x0000000000000000},
    {"IQ4_XS", 23, {0, 0}, 0x7F4F629B5E6C4E2A, 0x0000000000000000},
    {"MXFP4", 39, {0, 0}, 0x64912A3AE6F867D5, 0xF0BE9B965F31E413},
};

static void test_values(void **state) {
    static unsigned char blocks[BLOCKS * LONGEST];
    static float values[BLOCKS * LONGEST];
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const BlockType *type = block_type(expected[i].type);
        assert_non_null(type);
        assert_string_equal(type->name, expected[i].name);
        uint32_t random = 1;
        for (size_t j = 0; j < BLOCKS * type->bytes; j++) {
            random = random * 1664525 + 1013904223;
            blocks[j] = (unsigned char)(random >> 24);
        }
        for (size_t j = 0; j < BLOCKS; j++)
            for (int k = 0; k < 2; k++)
                blocks[j * type->bytes + (size_t)expected[i].halves[k] + 1] &= 0xBF;
        size_t count = BLOCKS * (size_t)type->elements;
        for (size_t j = 0; j < count; j++) values[j] = block_value(type, blocks, j);
        if (XXH3_64bits(values, count * sizeof *values) != expected[i].values)
            fail_msg("%s has other values", type->name);
    }
}

/* Values from -0.5 to 0.5. */
static void pseudo_random(float *values, size_t count) {
    uint32_t random = 1;
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525 + 1013904223;
        values[i] = (float)(random >> 8) * 0x1p-24f - 0.5f;
    }
}

static void test_quantize(void **state) {
    static unsigned char blocks[BLOCKS * LONGEST];
    static float values[BLOCKS * LONGEST];
    int tried = 0;
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const BlockType *type = block_type_named(expected[i].name);
        if (!type || !expected[i].blocks) continue;
        size_t count = BLOCKS * (size_t)type->elements;
        pseudo_random(values, count);
        blocks_quantize(type, values, count, blocks);
        if (XXH3_64bits(blocks, BLOCKS * type->bytes) != expected[i].blocks)
            fail_msg("%s has other blocks", type->name);
        tried++;
    }
    assert_int_equal(tried, 4);
}

static double error_of(const char *name, const float *values, size_t count) {
    static unsigned char blocks[BLOCKS * LONGEST];
    const BlockType *type = block_type_named(name);
    double sum = 0;
    blocks_quantize(type, values, count, blocks);
    for (size_t i = 0; i < count; i++) {
        double gap = (double)(block_value(type, blocks, i) - values[i]);
        sum += gap * gap;
    }
    return sqrt(sum / (double)count);
}

/* Q4_K: at most the error of 16 equally spaced levels per group of 32 with its own minimum and
 * maximum, plus 1 % for their six-bit scales; blocks of one value are exact. */
static void test_q4_k(void **state) {
    static float values[BLOCKS * LONGEST];
    size_t count = BLOCKS * 256;
    double sum = 0;
    (void)state;
    pseudo_random(values, count);
    for (size_t i = 0; i < count; i += 32) {
        float low = 0, high = 0;
        for (size_t j = 0; j < 32; j++) low = fminf(low, values[i + j]);
        for (size_t j = 0; j < 32; j++) high = fmaxf(high, values[i + j]);
        float step = (high - low) / 15;
        for (size_t j = 0; j < 32; j++) {
            double gap = (double)(rintf((values[i + j] - low) / step) * step + low - values[i + j]);
            sum += gap * gap;
        }
    }
    assert_true(error_of("q4_k", values, count) <= 1.01 * sqrt(sum / (double)count));
    assert_true(error_of("q4_k", values, count) < error_of("q4_0", values, count));
    for (size_t i = 0; i < count; i++) values[i] = i < 256 ? 0 : i < 512 ? 63 * 15 : -63;
    assert_true(error_of("q4_k", values, 768) == 0);
}

static void test_unknown(void **state) {
    (void)state;
    assert_null(block_type(0));
    assert_null(block_type(99));
    assert_null(block_type_named("q6_k"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_quantize), cmocka_unit_test(test_q4_k),
                                       cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

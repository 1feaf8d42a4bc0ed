/* The tiles of products on the simulated device, compared with sums in double precision. Grouped: rows that are gathered or
 * not; groups that are empty, of one row, of many rows. Dense: both memory orders of the operands, epilogues. Sizes are not
 * multiples of the tiles. Runs in the root of the project.
 *
 *   test_products           all kernels
 *   test_products KERNEL    only this one
 *   test_products --list    the names of the kernels */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shapes.h"

#include <cmocka.h>

#include "cuda_opened.h"

static struct {
    int (*cuMemAlloc_v2)(void **, size_t);
    int (*cuMemFree_v2)(void *);
    int (*cuMemcpyHtoDAsync_v2)(void *, const void *, size_t, void *);
    int (*cuMemcpyDtoHAsync_v2)(void *, const void *, size_t, void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                          void **);
    int (*nvrtcCreateProgram)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*nvrtcCompileProgram)(void *, int, const char *const *);
    int (*nvrtcGetProgramLogSize)(void *, size_t *);
    int (*nvrtcGetProgramLog)(void *, char *);
    int (*nvrtcGetCUBINSize)(void *, size_t *);
    int (*nvrtcGetCUBIN)(void *, char *);
    int (*nvrtcDestroyProgram)(void **);
    int (*cuTensorMapEncodeTiled)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                                  const uint32_t *, int, int, int, int);
} cuda;

static void *module;

/* One kernel per tile: its products, and the memory order of its weights. */
typedef struct Kernel {
    const char *name, *tile;
    bool rows, stored; /* rows by rows; operands are bf16 in memory */
    bool exact, across; /* across: neighboring weights differ in k */
    bool twice;         /* the first terms again, see more_terms */
} Kernel;

static const Kernel kernels[] = {
    {"exact", "MoecTileExact", false, false, true, false, false},
    {"exact_across", "MoecTileExact", false, false, true, true, false},
    {"rounded", "MoecTileRounded", false, false, false, false, false},
    {"rounded_across", "MoecTileRounded", false, false, false, true, false},
    {"mixed", "MoecTileRounded", false, true, false, false, false},
    {"large", "MoecTileStored<128, 128, true, false>", false, true, false, false, false},
    {"large_across", "MoecTileStored<128, 128, true, true>", false, true, false, true, false},
    {"flat", "MoecTileStored<64, 128, true, false>", false, true, false, false, false},
    {"narrow_across", "MoecTileStored<128, 64, true, true>", false, true, false, true, false},
    {"small", "MoecTileStored<64, 64, true, false>", false, true, false, false, false},
    {"exact_rows", "MoecTileExact", true, false, true, false, false},
    {"rounded_rows", "MoecTileRounded", true, false, false, false, false},
    {"large_rows", "MoecTileStored<128, 128, false, false>", true, true, false, false, false},
    {"small_rows", "MoecTileStored<64, 64, false, false>", true, true, false, false, false},
    {"group", "MoecTileWgmma<128, 128, true, false>", false, true, false, false, false},
    {"group_across", "MoecTileWgmma<128, 128, true, true>", false, true, false, true, false},
    {"group_flat", "MoecTileWgmma<64, 128, true, false>", false, true, false, false, false},
    {"group_flat_across", "MoecTileWgmma<64, 128, true, true>", false, true, false, true, false},
    {"group_narrow", "MoecTileWgmma<128, 64, true, false>", false, true, false, false, false},
    {"group_narrow_across", "MoecTileWgmma<128, 64, true, true>", false, true, false, true, false},
    {"group_rows", "MoecTileWgmma<128, 128, false, false>", true, true, false, false, false},
    {"group_flat_rows", "MoecTileWgmma<64, 128, false, false>", true, true, false, false, false},
    {"wide", "MoecTileWgmma<128, 256, true, false>", false, true, false, false, false},
    {"wide_across", "MoecTileWgmma<128, 256, true, true>", false, true, false, true, false},
    {"wide_rows", "MoecTileWgmma<128, 256, false, false>", true, true, false, false, false},
    {"group_narrow_rows", "MoecTileWgmma<128, 64, false, false>", true, true, false, false, false},
    {"twice", "MoecTileStored<128, 128, true, false>", false, true, false, false, true},
    {"twice_across", "MoecTileStored<64, 128, true, true>", false, true, false, true, true},
    {"group_twice", "MoecTileWgmma<128, 128, true, false>", false, true, false, false, true},
    {"group_twice_across", "MoecTileWgmma<64, 128, true, true>", false, true, false, true, true},
    {"wide_twice", "MoecTileWgmma<128, 256, true, false>", false, true, false, false, true},
    {"wide_twice_across", "MoecTileWgmma<128, 256, true, true>", false, true, false, true, true},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* The same for dense products. */
typedef struct Dense {
    const char *name, *tile;
    bool stored, exact; /* as in Kernel */
    bool down, across;  /* neighboring elements of a differ in m, of b in k */
    bool half;          /* the result and the epilogue operands are bf16 */
    const char *a, *b;  /* the formats of units, or NULL */
    long block;         /* terms that share a scale; 0: all */
} Dense;

static const Dense dense[] = {
    {"dense_exact", "MoecTileExact", false, true, false, false, false, NULL, NULL, 0},
    {"dense_exact_transposed", "MoecTileExact", false, true, true, true, false, NULL, NULL, 0},
    {"dense_rounded", "MoecTileRounded", false, false, false, true, false, NULL, NULL, 0},
    {"dense_large", "MoecTileStored<128, 128, true, false>", true, false, false, false, false, NULL, NULL, 0},
    {"dense_across", "MoecTileStored<128, 64, true, true>", true, false, false, true, true, NULL, NULL, 0},
    {"dense_down", "MoecTileStored<64, 128, false, false>", true, false, true, false, false, NULL, NULL, 0},
    {"dense_transposed", "MoecTileStored<64, 64, false, true>", true, false, true, true, true, NULL, NULL, 0},
    {"dense_units", "MoecTileUnits<128, 128, 0>", false, true, false, true, false, "MoecE4M3", "MoecE4M3", 0},
    {"dense_units_flat", "MoecTileUnits<64, 128, 0>", false, true, false, true, true, "MoecE5M2", "MoecE4M3", 0},
    {"dense_units_narrow", "MoecTileUnits<128, 64, 0>", false, true, false, true, false, "MoecE4M3", "MoecE5M2", 0},
    {"dense_blocks", "MoecTileUnits<64, 128, 32>", false, true, false, true, true, "MoecE4M3", "MoecE4M3", 32},
    {"dense_small_blocks", "MoecTileUnits<64, 64, 16>", false, true, false, true, false, "MoecE4M3", "MoecE4M3", 16},
};
enum { DENSE = sizeof dense / sizeof *dense };

#define FIND(name) cuda_find(#name, &cuda.name)

static char *file_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot read %s", path);
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, length + 1);
    assert_int_equal(fread(text, 1, length, file), length);
    fclose(file);
    return text;
}

/* The name of the only kernel to test, or NULL. */
static const char *only;

static bool is_tested(const char *name) { return !only || strcmp(only, name) == 0; }

/* The instruction for units of two formats, and its replacement; loading and storing units. Fragments: as in the PTX manual. */
static const char *const instructions[] = {"units", "units_as_half"}, *const formats[] = {"MoecE4M3", "MoecE5M2"};

static size_t write_instructions(char *text, size_t size) {
    size_t length = 0;
    for (int i = 0; i < 8; i++)
        length += (size_t)snprintf(
            text + length, size - length,
            "extern \"C\" __global__ void mma_%d(const unsigned char *a, const unsigned char *b, float *c) {\n"
            "    const int g = threadIdx.x / 4, t = threadIdx.x %% 4;\n"
            "    const unsigned *x = (const unsigned *)a, *y = (const unsigned *)b;\n"
            "    const unsigned left[4] = {x[g * 8 + t], x[(g + 8) * 8 + t], x[g * 8 + 4 + t], x[(g + 8) * 8 + 4 + t]};\n"
            "    const unsigned right[2] = {y[g * 8 + t], y[g * 8 + 4 + t]};\n"
            "    float *upper = c + g * 8 + t * 2, *lower = upper + 64;\n"
            "    float d[4] = {upper[0], upper[1], lower[0], lower[1]};\n"
            "    moec_mma_%s<%s, %s>(d, left, right);\n"
            "    upper[0] = d[0], upper[1] = d[1], lower[0] = d[2], lower[1] = d[3];\n}\n",
            i, instructions[i / 4], formats[i / 2 % 2], formats[i % 2]);
    for (int i = 0; i < 2; i++)
        length += (size_t)snprintf(
            text + length, size - length,
            "extern \"C\" __global__ void store_%d(const %s *from, %s *to, float *c) {\n"
            "    for (int i = threadIdx.x; i < 256; i += 32) c[i] = moec_load(from[i]), moec_store(to + i, c[i]);\n}\n",
            i, formats[i], formats[i]);
    return length;
}

static void write_kernels(char *text, size_t size) {
    size_t length = (size_t)snprintf(text, size, "#include \"product_wgmma.cuh\"\n#include \"product_units.cuh\"\n");
    for (int i = 0; i < KERNELS; i++) {
        const Kernel *one = &kernels[i];
        if (!is_tested(one->name)) continue;
        const char *type = one->stored ? "MoecBf16" : "float";
        bool boxed = strstr(one->tile, "Wgmma") != NULL;
        length += (size_t)snprintf(
            text + length, size - length,
            "extern \"C\" __global__ void __launch_bounds__(MOEC_TILE_THREADS) %s(MoecGroupedOnDevice g, const int32_t "
            "*group, const int32_t *x, const int32_t *y, const %s *a, const %s *b, float *c, MoecGroupedOnDevice more%s) {\n"
            "    moec_by_%s%s%s<%s>(g, group, x, %sa, b, %s%s%sMoecPlainStore<float>{g, c});\n}\n",
            one->name, type, type,
            boxed ? ", const __grid_constant__ MoecMap a_map, const __grid_constant__ MoecMap b_map, "
                    "const __grid_constant__ MoecMap more_a, const __grid_constant__ MoecMap more_b"
                  : "",
            one->rows ? "rows" : "weight", one->twice ? "_twice" : "", boxed ? "_boxed" : "", one->tile,
            one->rows ? "y, " : "", one->twice ? "more, y, a, b, " : "", boxed ? "a_map, b_map, " : "",
            boxed && one->twice ? "more_a, more_b, " : "");
    }
    for (int i = 0; i < DENSE; i++) {
        const Dense *one = &dense[i];
        if (!is_tested(one->name)) continue;
        const char *type = one->stored ? "MoecBf16" : "float";
        length += (size_t)snprintf(
            text + length, size - length,
            "extern \"C\" __global__ void __launch_bounds__(MOEC_TILE_THREADS) %s(MoecProduct p, MoecEpilogue e, const %s *a, "
            "const %s *b, %s *c) {\n    moec_dense%s<%s>(p, e, a, b, c);\n}\n",
            one->name, one->a ? one->a : type, one->b ? one->b : type, one->half ? "MoecBf16" : "float",
            one->a ? "_units" : "", one->tile);
    }
    length += write_instructions(text + length, size - length);
    assert_true(length < size);
}

static int load(void **state) {
    (void)state;
    static const char *const names[] = {"product_wgmma.cuh", "product_units.cuh", "product_stored.cuh", "wgmma.cuh",
                                        "product.cuh",       "prelude.cuh",       "shapes.h",           "abi.h"};
    enum { COUNT = sizeof names / sizeof *names };
    const char *headers[COUNT];
    char path[1024], text[1 << 15];
    void *program;
    FIND(cuMemAlloc_v2), FIND(cuMemFree_v2), FIND(cuMemcpyHtoDAsync_v2), FIND(cuMemcpyDtoHAsync_v2);
    FIND(cuModuleLoadData), FIND(cuModuleGetFunction), FIND(cuLaunchKernel), FIND(nvrtcCreateProgram);
    FIND(nvrtcCompileProgram), FIND(nvrtcGetProgramLogSize), FIND(nvrtcGetProgramLog), FIND(nvrtcGetCUBINSize);
    FIND(nvrtcGetCUBIN), FIND(nvrtcDestroyProgram), FIND(cuTensorMapEncodeTiled);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "runtime/%s%s", i >= COUNT - 2 ? "abi/" : "kernels/cuda/", names[i]);
        headers[i] = file_text(path);
    }
    write_kernels(text, sizeof text);
    cuda_begin();
    assert_int_equal(cuda.nvrtcCreateProgram(&program, text, "products.cu", COUNT, headers, names), 0);
    const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17"};
    int result = cuda.nvrtcCompileProgram(program, 2, options);
    size_t bytes = 0;
    cuda.nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(1, bytes + 1);
    cuda.nvrtcGetProgramLog(program, log);
    if (result) fail_msg("%s", log);
    assert_int_equal(cuda.nvrtcGetCUBINSize(program, &bytes), 0);
    char *image = malloc(bytes);
    assert_int_equal(cuda.nvrtcGetCUBIN(program, image), 0);
    cuda.nvrtcDestroyProgram(&program);
    assert_int_equal(cuda.cuModuleLoadData(&module, image), 0);
    free(image);
    free(log);
    for (int i = 0; i < COUNT; i++) free((void *)(uintptr_t)headers[i]);
    return 0;
}

/* ---- numbers ---- */

static uint64_t seed = 5;

static float random_number(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(seed >> 40) / 8388608.0f - 1.0f;
}

static uint16_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float rounded(float x) {
    uint32_t bits = (uint32_t)bits_of(x) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void *on_device(const void *from, size_t bytes) {
    void *memory;
    assert_int_equal(cuda.cuMemAlloc_v2(&memory, bytes), 0);
    assert_int_equal(cuda.cuMemcpyHtoDAsync_v2(memory, from, bytes, NULL), 0);
    return memory;
}

/* An operand in the format of the kernel; `values` receive the numbers that the kernel multiplies. */
static void *operand(bool stored, bool exact, float *values, size_t count) {
    uint16_t *halves = calloc(count, sizeof *halves);
    void *memory = stored ? NULL : on_device(values, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        halves[i] = bits_of(values[i]);
        if (!exact) values[i] = rounded(values[i]);
    }
    if (stored) memory = on_device(halves, count * sizeof *halves);
    free(halves);
    return memory;
}

/* ---- one product ---- */

typedef struct Case {
    long groups, n, k;
    int sizes[8];
    bool gathers, accumulates;
    bool right_packed; /* gathers only the left operand */
} Case;

enum { TOKENS = 70 };

/* Stride between rows of the result: not always a multiple of 16 bytes. */
static long result_row(const Case *one) {
    return one->n + (one->accumulates && one->gathers ? 1 : 0);
}

typedef struct Memory {
    float *a, *b, *c;
    size_t a_count, b_count, c_count;
    int32_t group[9], *x, *y;
    long rows;
} Memory;

static Memory make(const Kernel *kernel, const Case *one) {
    Memory memory = {.rows = 0};
    for (long g = 0; g < one->groups; g++) memory.group[g + 1] = memory.group[g] + one->sizes[g];
    memory.rows = memory.group[one->groups];
    memory.x = calloc((size_t)memory.rows, sizeof *memory.x);
    memory.y = calloc((size_t)memory.rows, sizeof *memory.y);
    for (long r = 0; r < memory.rows; r++) {
        memory.x[r] = (int32_t)((random_number() + 1) / 2 * (TOKENS - 1));
        memory.y[r] = (int32_t)((random_number() + 1) / 2 * (TOKENS - 1));
    }
    long lines = one->gathers ? TOKENS : memory.rows, right_lines = one->right_packed ? memory.rows : lines;
    memory.a_count = (size_t)((kernel->twice && memory.rows > lines ? memory.rows : lines) * one->k);
    memory.b_count = (size_t)(kernel->rows ? right_lines * one->n : one->groups * one->k * one->n);
    memory.c_count = (size_t)((kernel->rows ? one->groups * one->k : memory.rows) * result_row(one));
    memory.a = calloc(memory.a_count, sizeof *memory.a);
    memory.b = calloc(memory.b_count, sizeof *memory.b);
    memory.c = calloc(memory.c_count, sizeof *memory.c);
    for (size_t i = 0; i < memory.a_count; i++) memory.a[i] = random_number();
    for (size_t i = 0; i < memory.b_count; i++) memory.b[i] = random_number();
    for (size_t i = 0; i < memory.c_count; i++) memory.c[i] = one->accumulates ? random_number() : NAN;
    return memory;
}

/* Terms of the second pair of operands: the first terms of the first pair. */
static long more_terms(const Kernel *kernel, const Case *one) {
    return kernel->twice ? one->k / 16 * 8 : 0;
}

static double expected(const Kernel *kernel, const Case *one, const Memory *memory, long g, long i, long j) {
    double sum = 0;
    if (!kernel->rows) {
        const float *b = memory->b + g * one->k * one->n;
        long line = one->gathers ? memory->x[i] : i, other = one->gathers && !one->right_packed ? memory->y[i] : i;
        for (long k = 0; k < one->k; k++) {
            double weight = (double)b[kernel->across ? j * one->k + k : k * one->n + j];
            sum += (double)memory->a[line * one->k + k] * weight;
            if (k < more_terms(kernel, one)) sum += (double)memory->a[other * one->k + k] * weight;
        }
        return sum;
    }
    for (long r = memory->group[g]; r < memory->group[g + 1]; r++) {
        long x = one->gathers ? memory->x[r] : r, y = one->gathers && !one->right_packed ? memory->y[r] : r;
        sum += (double)memory->a[x * one->k + i] * memory->b[y * one->n + j];
    }
    return sum;
}

static void compare(const Kernel *kernel, const Case *one, const Memory *memory, const float *result) {
    double difference = 0, norm = 0;
    for (long g = 0; g < one->groups; g++) {
        long first = kernel->rows ? 0 : memory->group[g], last = kernel->rows ? one->k : memory->group[g + 1];
        for (long i = first; i < last; i++)
            for (long j = 0; j < one->n; j++) {
                long at = ((kernel->rows ? g * one->k : 0) + i) * result_row(one) + j;
                double wanted = expected(kernel, one, memory, g, i, j) + (one->accumulates ? memory->c[at] : 0);
                difference += (wanted - result[at]) * (wanted - result[at]);
                norm += wanted * wanted;
            }
    }
    if (!(sqrt(difference) <= 2e-6 * sqrt(norm)))
        fail_msg("%s, %ld groups, n %ld, k %ld: off by %g of %g", kernel->name, one->groups, one->n, one->k,
                 sqrt(difference), sqrt(norm));
}

typedef struct Map {
    _Alignas(64) unsigned char bytes[128];
} Map;

/* Of bf16 matrices: `lines` lines of `length` adjacent elements with a stride of `line` elements. */
static Map map_of(void *at, long length, long lines, long matrices, long line, long matrix) {
    enum { BF16 = 9, SWIZZLE_128 = 3 };
    Map map;
    const uint64_t sizes[] = {(uint64_t)length, (uint64_t)lines, (uint64_t)matrices};
    const uint64_t strides[] = {2 * (uint64_t)line, 2 * (uint64_t)matrix};
    const uint32_t box[] = {MOEC_BOX, MOEC_BOX, 1}, steps[] = {1, 1, 1};
    assert_int_equal(
        cuda.cuTensorMapEncodeTiled(&map, BF16, 3, at, sizes, strides, box, steps, 0, SWIZZLE_128, 0, 0), 0);
    return map;
}

static void run(const Kernel *kernel, const Case *one, unsigned blocks) {
    Memory memory = make(kernel, one);
    void *device[] = {on_device(memory.group, sizeof memory.group),
                      on_device(memory.x, (size_t)memory.rows * sizeof *memory.x),
                      on_device(memory.y, (size_t)memory.rows * sizeof *memory.y),
                      operand(kernel->stored, kernel->exact, memory.a, memory.a_count),
                      operand(kernel->stored, kernel->exact, memory.b, memory.b_count),
                      on_device(memory.c, memory.c_count * sizeof *memory.c)};
    MoecGroupedOnDevice shape = {.groups = one->groups, .n = one->n, .k = one->k, .a_row = one->k,
                                 .b_group = one->k * (kernel->rows ? result_row(one) : one->n), .c_row = result_row(one),
                                 .accumulate = one->accumulates};
    shape.b_k = kernel->rows ? one->n : kernel->across ? 1 : one->n;
    shape.b_n = kernel->across ? one->k : 1;
    void *none = NULL, *function;
    unsigned shared = strstr(kernel->tile, "256")     ? MOEC_WIDE_SHARED
                      : strstr(kernel->tile, "Wgmma") ? MOEC_WGMMA_SHARED
                                                      : 0;
    MoecGroupedOnDevice more = shape;
    more.k = more_terms(kernel, one);
    Map maps[4];
    void *x = one->gathers ? &device[1] : &none, *y = one->gathers && !one->right_packed ? &device[2] : &none;
    void *arguments[] = {&shape, &device[0], x, y, &device[3], &device[4], &device[5], &more, &maps[0], &maps[1], &maps[2],
                         &maps[3]};
    for (int i = 0; kernel->stored && i < (kernel->twice ? 2 : 1); i++) {
        long k = i ? more.k : one->k, rows = memory.rows, n = one->n, matrix = one->k * n;
        maps[2 * i] = map_of(device[3], k, rows, 1, one->k, rows * one->k);
        maps[2 * i + 1] = kernel->rows     ? map_of(device[4], n, rows, 1, n, rows * n)
                          : kernel->across ? map_of(device[4], k, n, one->groups, one->k, matrix)
                                           : map_of(device[4], n, k, one->groups, n, matrix);
    }
    assert_int_equal(cuda.cuModuleGetFunction(&function, module, kernel->name), 0);
    cuda_allow_shared(function, shared);
    if (cuda.cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, shared, NULL, arguments, NULL))
        fail_msg("%s, %ld groups, n %ld, k %ld", kernel->name, one->groups, one->n, one->k);
    float *result = calloc(memory.c_count, sizeof *result);
    assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(result, device[5], memory.c_count * sizeof *result, NULL), 0);
    compare(kernel, one, &memory, result);
    for (int i = 0; i < 6; i++) cuda.cuMemFree_v2(device[i]);
    free(memory.a), free(memory.b), free(memory.c), free(memory.x), free(memory.y), free(result);
}

/* Tiles that are exactly full and one element more, several stages and none, more groups than rows. */
static const Case cases[] = {
    {3, 136, 40, {130, 0, 5}, true, false, false},
    {4, 72, 152, {1, 64, 0, 40}, false, true, false},
    {8, 24, 16, {0, 1, 0, 0, 2, 0, 1, 0}, true, false, false},
    {1, 128, 32, {128}, false, false, false},
    {5, 72, 200, {0, 1, 63, 64, 65}, true, true, false},
    {2, 264, 328, {129, 7}, true, false, true},
};

static void test_tiles(void **state) {
    (void)state;
    for (int i = 0; i < KERNELS; i++)
        for (size_t j = 0; is_tested(kernels[i].name) && j < sizeof cases / sizeof *cases; j++) run(&kernels[i], &cases[j], j % 2 ? 64 : 3);
}

/* ---- dense products ---- */

/* The epilogue of a sum, and the values that it stores for the operands that it adds and saves. */
typedef struct Ended {
    float *a, *b, *c, *add, *bias, *kept;
    long add_m, kept_m;
} Ended;

static double ended(const Ended *one, int epilogue_ops, long row, long column, double x, double *kept) {
    const double scale = 0.7978845608028654;
    if (epilogue_ops & MOEC_SCALE) x *= 0.25;
    if (epilogue_ops & MOEC_ADD) x += (double)one->add[row * one->add_m + column];
    if (epilogue_ops & MOEC_BIAS) x += (double)one->bias[column];
    *kept = x;
    if (epilogue_ops & MOEC_GELU) x *= 0.5 * (1 + tanh(scale * (x + 0.044715 * x * x * x)));
    if (epilogue_ops & MOEC_GELU_BACK) {
        double y = (double)one->kept[row * one->kept_m + column], t = tanh(scale * (y + 0.044715 * y * y * y));
        x *= 0.5 * (1 + t) + 0.5 * y * (1 - t * t) * scale * (1 + 3 * 0.044715 * y * y);
    }
    return x;
}

static float *random_numbers(size_t count) {
    float *numbers = calloc(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++) numbers[i] = random_number();
    return numbers;
}

/* Numbers from the device, converted to f32. */
static float *from_device(const void *memory, bool half, size_t count) {
    float *numbers = calloc(count, sizeof *numbers);
    uint16_t *halves = calloc(count, sizeof *halves);
    size_t bytes = count * (half ? sizeof *halves : sizeof *numbers);
    assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(half ? (void *)halves : numbers, (void *)(uintptr_t)memory, bytes, NULL), 0);
    for (size_t i = 0; half && i < count; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(&numbers[i], &bits, sizeof bits);
    }
    free(halves);
    return numbers;
}

static void compare_dense(const Dense *kernel, const MoecProduct *p, const Ended *one, const float *c, const float *kept) {
    double difference = 0, norm = 0;
    for (long batch = 0; batch < p->batch[0]; batch++)
        for (long i = 0; i < p->m; i++)
            for (long j = 0; j < p->n; j++) {
                double sum = 0, before;
                long at = batch * p->c_batch[0] + i * p->c_m + j;
                for (long k = 0; k < p->k; k++)
                    sum += (double)one->a[batch * p->a_batch[0] + i * p->a_m + k * p->a_k] *
                           (double)one->b[batch * p->b_batch[0] + k * p->b_k + j * p->b_n];
                double wanted = ended(one, p->epilogue_ops, i, j, sum, &before) + (p->accumulate ? (double)one->c[at] : 0);
                difference += (wanted - (double)c[at]) * (wanted - (double)c[at]);
                norm += wanted * wanted;
                if (!(p->epilogue_ops & MOEC_KEEP)) continue;
                double off = before - (double)kept[i * p->kept_m + j];
                difference += off * off;
                norm += before * before;
            }
    if (!(sqrt(difference) <= (kernel->half ? 4e-3 : 2e-6) * sqrt(norm)))
        fail_msg("%s, %ld x %ld x %ld, epilogue_ops %d: off by %g of %g", kernel->name, p->m, p->n, p->k, p->epilogue_ops,
                 sqrt(difference), sqrt(norm));
}

/* ---- units ---- */

/* A number of E4M3 or E5M2 by its definition. */
static float small_number(const char *format, unsigned bits) {
    const int fraction = strcmp(format, "MoecE4M3") == 0 ? 3 : 2, bias = fraction == 3 ? 7 : 15;
    const int exponent = (int)(bits & 0x7f) >> fraction, rest = (int)bits & ((1 << fraction) - 1);
    const double value = exponent ? ldexp(1 + ldexp(rest, -fraction), exponent - bias) : ldexp(rest, 1 - bias - fraction);
    return (float)(bits & 0x80 ? -value : value);
}

static bool is_number(const char *format, unsigned bits) {
    return strcmp(format, "MoecE4M3") == 0 ? (bits & 0x7f) != 0x7f : (bits & 0x7f) < 0x7c;
}

static uint8_t random_unit(const char *format) {
    for (;;) {
        const unsigned bits = (unsigned)((random_number() + 1) * 128);
        if (is_number(format, bits)) return (uint8_t)bits;
    }
}

/* The scales of a line are contiguous in a, those of a block in b. */
static void set_scales(const Dense *kernel, MoecProduct *p) {
    const long blocks = kernel->block ? (p->k + kernel->block - 1) / kernel->block : 1;
    p->scales = (MoecScales){.block = kernel->block, .a_m = blocks, .a_k = 1, .b_k = p->n, .b_n = 1};
    p->scales.a_batch[0] = p->m * blocks, p->scales.b_batch[0] = p->n * blocks;
}

/* Random units; `values` receive them times their scales. */
static void *units(const char *format, const MoecProduct *p, bool right, const float *scales, float *values, size_t count) {
    uint8_t *bits = calloc(count, 1);
    const long lines = right ? p->n : p->m, *batch = right ? p->scales.b_batch : p->scales.a_batch;
    const long line = right ? p->scales.b_n : p->scales.a_m, step = right ? p->scales.b_k : p->scales.a_k;
    for (size_t i = 0; i < count; i++) {
        const long k = (long)i % p->k, at = (long)i / p->k % lines, matrix = (long)i / p->k / lines;
        bits[i] = random_unit(format);
        values[i] = small_number(format, bits[i]) *
                    scales[matrix * batch[0] + at * line + (p->scales.block ? k / p->scales.block * step : 0)];
    }
    void *memory = on_device(bits, count);
    free(bits);
    return memory;
}

static void launch(const char *name, void **arguments) {
    void *function;
    assert_int_equal(cuda.cuModuleGetFunction(&function, module, name), 0);
    assert_int_equal(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL), 0);
}

/* Products of single units are exact. Sums are near those in double precision, and one unit that is no number reaches all
 * results of its row. */
static void run_instruction(int number, bool single) {
    const char *left = formats[number / 2 % 2], *right = formats[number % 2];
    uint8_t a[16][32] = {{0}}, b[8][32] = {{0}};
    float c[16][8] = {{0}};
    for (int k = 0; k < 32; k++) {
        for (int i = 0; i < 16; i++)
            if (!single || k == i * 2) a[i][k] = random_unit(left);
        for (int j = 0; j < 8; j++) b[j][k] = random_unit(right);
    }
    if (!single) a[3][17] = 0x7f;
    void *device[] = {on_device(a, sizeof a), on_device(b, sizeof b), on_device(c, sizeof c)};
    void *arguments[] = {&device[0], &device[1], &device[2]};
    char name[16];
    snprintf(name, sizeof name, "mma_%d", number);
    launch(name, arguments);
    assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(c, device[2], sizeof c, NULL), 0);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double sum = 0, size = 0;
            for (int k = 0; k < 32; k++) {
                const double term = (double)small_number(left, a[i][k]) * (double)small_number(right, b[j][k]);
                sum += term, size += fabs(term);
            }
            if (!single && i == 3 ? !isnan(c[i][j]) : !(fabs(sum - (double)c[i][j]) <= (single ? 0 : 2e-6 * size)))
                fail_msg("instruction %d, result [%d,%d]: %g instead of %g", number, i, j, (double)c[i][j], sum);
        }
    for (int i = 0; i < 3; i++) cuda.cuMemFree_v2(device[i]);
}

static void test_instructions(void **state) {
    (void)state;
    for (int number = 0; number < 8; number++)
        for (int i = 0; i < 40; i++) run_instruction(number, i % 2);
}

static void test_stored_units(void **state) {
    (void)state;
    for (int format = 0; format < 2; format++) {
        uint8_t bits[256], stored[256];
        float loaded[256];
        for (int i = 0; i < 256; i++) bits[i] = (uint8_t)i;
        void *device[] = {on_device(bits, sizeof bits), on_device(bits, sizeof bits), on_device(loaded, sizeof loaded)};
        void *arguments[] = {&device[0], &device[1], &device[2]};
        launch(format ? "store_1" : "store_0", arguments);
        assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(stored, device[1], sizeof stored, NULL), 0);
        assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(loaded, device[2], sizeof loaded, NULL), 0);
        for (int i = 0; i < 256; i++) {
            if ((i & 0x7f) == 0x7f) {
                assert_true(isnan(loaded[i]) && (stored[i] & 0x7f) == 0x7f);
            } else if (is_number(formats[format], (unsigned)i)) {
                assert_true(loaded[i] == small_number(formats[format], (unsigned)i));
                assert_int_equal(stored[i], i);
            }
        }
        for (int i = 0; i < 3; i++) cuda.cuMemFree_v2(device[i]);
    }
}

/* wider: the added, saved and stored matrices have longer lines than the result. */
static void run_dense(const Dense *kernel, long m, long n, long k, int epilogue_ops, long wider, bool batched) {
    const unsigned blocks = wider % 2 ? 64 : 2;
    long count = batched ? 3 : 1;
    MoecProduct p = {.m = m, .n = n, .k = k, .batch = {count, 1}, .c_m = n + wider, .epilogue_ops = epilogue_ops, .accumulate = batched, .scale = 0.25f};
    p.a_m = kernel->down ? 1 : k, p.a_k = kernel->down ? m : 1;
    p.b_k = kernel->across ? 1 : n, p.b_n = kernel->across ? k : 1;
    p.a_batch[0] = m * k, p.b_batch[0] = k * n, p.c_batch[0] = m * p.c_m;
    p.add_m = n + 2 * wider, p.kept_m = n + 3 * wider;
    size_t a = (size_t)(count * m * k), b = (size_t)(count * k * n), c = (size_t)(count * m * p.c_m);
    size_t add = (size_t)(m * p.add_m), kept = (size_t)(m * p.kept_m);
    Ended one = {random_numbers(a), random_numbers(b), random_numbers(c), random_numbers(add), random_numbers((size_t)n),
                 random_numbers(kept), p.add_m, p.kept_m};
    float *scales[] = {random_numbers(a), random_numbers(b)};
    if (kernel->a) set_scales(kernel, &p);
    void *device[] = {kernel->a ? units(kernel->a, &p, false, scales[0], one.a, a)
                                : operand(kernel->stored, kernel->exact, one.a, a),
                      kernel->a ? units(kernel->b, &p, true, scales[1], one.b, b)
                                : operand(kernel->stored, kernel->exact, one.b, b),
                      operand(kernel->half, !kernel->half, one.c, c), operand(kernel->half, !kernel->half, one.add, add),
                      operand(kernel->half, !kernel->half, one.bias, (size_t)n),
                      operand(kernel->half, !kernel->half, one.kept, kept),
                      on_device(scales[0], a * sizeof(float)),
                      on_device(scales[1], b * sizeof(float))};
    MoecEpilogue epilogue = {device[3], device[4], device[5], device[6], device[7]};
    void *arguments[] = {&p, &epilogue, &device[0], &device[1], &device[2]}, *function;
    assert_int_equal(cuda.cuModuleGetFunction(&function, module, kernel->name), 0);
    if (cuda.cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL))
        fail_msg("%s, %ld x %ld x %ld, epilogue_ops %d", kernel->name, m, n, k, epilogue_ops);
    float *stored = from_device(device[2], kernel->half, c), *left = from_device(device[5], kernel->half, kept);
    compare_dense(kernel, &p, &one, stored, left);
    for (int i = 0; i < 8; i++) cuda.cuMemFree_v2(device[i]);
    free(scales[0]), free(scales[1]), free(one.a), free(one.b), free(one.c), free(one.add), free(one.bias), free(one.kept), free(stored), free(left);
}

/* Several tiles per dimension, the last ones partial; a single row; every epilogue; results that are summed over batches; lines
 * that start at multiples of 16 bytes and others. */
static void test_dense(void **state) {
    (void)state;
    static const int epilogue_ops[] = {0, MOEC_ADD, MOEC_ADD | MOEC_BIAS, MOEC_BIAS | MOEC_KEEP | MOEC_GELU, MOEC_GELU_BACK,
                                  MOEC_SCALE | MOEC_ADD};
    for (int i = 0; i < DENSE; i++) {
        if (!is_tested(dense[i].name)) continue;
        const long few = dense[i].a ? 96 : 24, step = dense[i].a ? 32 : 8;
        for (int j = 0; j < 6; j++) run_dense(&dense[i], 136, 152, (5 + j) * step, epilogue_ops[j], 7 + (i + j) % 2, false);
        run_dense(&dense[i], 8, 72, few, 0, 8, true);
        if (!dense[i].down) run_dense(&dense[i], 1, 72, few, MOEC_ADD, 7, false);
    }
}

static bool is_known(const char *name) {
    bool known = false;
    for (int i = 0; i < KERNELS; i++) known |= strcmp(name, kernels[i].name) == 0;
    for (int i = 0; i < DENSE; i++) known |= strcmp(name, dense[i].name) == 0;
    return known;
}

static int list_kernels(void) {
    for (int i = 0; i < KERNELS; i++) puts(kernels[i].name);
    for (int i = 0; i < DENSE; i++) puts(dense[i].name);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "--list") == 0) return list_kernels();
    if (count > 1 && !is_known(only = arguments[1])) return fprintf(stderr, "no kernel '%s'\n", only), 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_dense), cmocka_unit_test(test_instructions),
                                       cmocka_unit_test(test_stored_units)};
    return cmocka_run_group_tests(tests, load, NULL);
}

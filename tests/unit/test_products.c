/* The tiles of products over packed rows on the simulated device, compared with sums in double precision: rows that are
 * gathered or not, groups that are empty, of one row, of many; sizes that divide nothing evenly. Runs in the root of the
 * project; BUILD is where libmoec_sim.so stands. */
#include <dlfcn.h>
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

static struct {
    int (*cuInit)(unsigned);
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
} cuda;

static void *module;

/* One kernel for each tile: how it multiplies, and how its weights lie. */
typedef struct Kernel {
    const char *name, *tile;
    bool rows, stored; /* rows by rows; operands are bf16 in memory */
    bool exact, across; /* across: neighbours of a weight differ in k */
} Kernel;

static const Kernel kernels[] = {
    {"exact", "MoecTileExact", false, false, true, false},
    {"exact_across", "MoecTileExact", false, false, true, true},
    {"rounded", "MoecTileRounded", false, false, false, false},
    {"rounded_across", "MoecTileRounded", false, false, false, true},
    {"mixed", "MoecTileRounded", false, true, false, false},
    {"large", "MoecTileStored<128, 128, true, false>", false, true, false, false},
    {"large_across", "MoecTileStored<128, 128, true, true>", false, true, false, true},
    {"flat", "MoecTileStored<64, 128, true, false>", false, true, false, false},
    {"narrow_across", "MoecTileStored<128, 64, true, true>", false, true, false, true},
    {"small", "MoecTileStored<64, 64, true, false>", false, true, false, false},
    {"exact_rows", "MoecTileExact", true, false, true, false},
    {"rounded_rows", "MoecTileRounded", true, false, false, false},
    {"large_rows", "MoecTileStored<128, 128, false, false>", true, true, false, false},
    {"small_rows", "MoecTileStored<64, 64, false, false>", true, true, false, false},
    {"group", "MoecTileWgmma<128, 128, true, false>", false, true, false, false},
    {"group_across", "MoecTileWgmma<128, 128, true, true>", false, true, false, true},
    {"group_flat", "MoecTileWgmma<64, 128, true, false>", false, true, false, false},
    {"group_flat_across", "MoecTileWgmma<64, 128, true, true>", false, true, false, true},
    {"group_narrow", "MoecTileWgmma<128, 64, true, false>", false, true, false, false},
    {"group_narrow_across", "MoecTileWgmma<128, 64, true, true>", false, true, false, true},
    {"group_rows", "MoecTileWgmma<128, 128, false, false>", true, true, false, false},
    {"group_flat_rows", "MoecTileWgmma<64, 128, false, false>", true, true, false, false},
    {"wide", "MoecTileWgmma<128, 256, true, false>", false, true, false, false},
    {"wide_across", "MoecTileWgmma<128, 256, true, true>", false, true, false, true},
    {"wide_rows", "MoecTileWgmma<128, 256, false, false>", true, true, false, false},
    {"group_narrow_rows", "MoecTileWgmma<128, 64, false, false>", true, true, false, false},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static void find_symbol(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (!symbol) fail_msg("%s: %s", name, dlerror());
    memcpy(function, &symbol, sizeof symbol);
}
#define FIND(name) find_symbol(library, #name, &cuda.name)

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

static void write_kernels(char *text, size_t size) {
    size_t length = (size_t)snprintf(text, size, "#include \"product_wgmma.cuh\"\n");
    for (int i = 0; i < KERNELS; i++) {
        const Kernel *one = &kernels[i];
        const char *type = one->stored ? "MoecBf16" : "float";
        length += (size_t)snprintf(
            text + length, size - length,
            "extern \"C\" __global__ void __launch_bounds__(MOEC_TILE_THREADS) %s(MoecGroupedOnDevice g, const int32_t "
            "*group, const int32_t *x, const int32_t *y, const %s *a, const %s *b, float *c) {\n"
            "    moec_by_%s<%s>(g, group, x, %sa, b, MoecPlainStore<float>{g, c});\n}\n",
            one->name, type, type, one->rows ? "rows" : "weight", one->tile, one->rows ? "y, " : "");
    }
    assert_true(length < size);
}

static int load(void **state) {
    (void)state;
    static const char *const names[] = {"product_wgmma.cuh", "product_stored.cuh", "wgmma.cuh", "product.cuh", "prelude.cuh", "shapes.h", "abi.h"};
    enum { COUNT = sizeof names / sizeof *names };
    const char *build = getenv("BUILD"), *headers[COUNT];
    char path[1024], text[1 << 14];
    snprintf(path, sizeof path, "%s/libmoec_sim.so", build ? build : "build");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *program;
    if (!library) fail_msg("%s", dlerror());
    FIND(cuInit), FIND(cuMemAlloc_v2), FIND(cuMemFree_v2), FIND(cuMemcpyHtoDAsync_v2), FIND(cuMemcpyDtoHAsync_v2);
    FIND(cuModuleLoadData), FIND(cuModuleGetFunction), FIND(cuLaunchKernel), FIND(nvrtcCreateProgram);
    FIND(nvrtcCompileProgram), FIND(nvrtcGetProgramLogSize), FIND(nvrtcGetProgramLog), FIND(nvrtcGetCUBINSize);
    FIND(nvrtcGetCUBIN);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "runtime/%s%s", i == COUNT - 1 ? "" : "kernels/", names[i]);
        headers[i] = file_text(path);
    }
    write_kernels(text, sizeof text);
    assert_int_equal(cuda.cuInit(0), 0);
    assert_int_equal(cuda.nvrtcCreateProgram(&program, text, "products.cu", COUNT, headers, names), 0);
    const char *const options[] = {"--gpu-architecture=sm_90a"};
    int result = cuda.nvrtcCompileProgram(program, 1, options);
    size_t bytes = 0;
    cuda.nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(1, bytes + 1);
    cuda.nvrtcGetProgramLog(program, log);
    if (result) fail_msg("%s", log);
    assert_int_equal(cuda.nvrtcGetCUBINSize(program, &bytes), 0);
    char *image = malloc(bytes);
    assert_int_equal(cuda.nvrtcGetCUBIN(program, image), 0);
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

/* An operand as the kernel wants it; `values` become what the kernel multiplies. */
static void *operand(const Kernel *kernel, float *values, size_t count) {
    uint16_t *halves = calloc(count, sizeof *halves);
    void *memory = kernel->stored ? NULL : on_device(values, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        halves[i] = bits_of(values[i]);
        if (!kernel->exact) values[i] = rounded(values[i]);
    }
    if (kernel->stored) memory = on_device(halves, count * sizeof *halves);
    free(halves);
    return memory;
}

/* ---- one product ---- */

typedef struct Case {
    long groups, n, k;
    int sizes[8];
    bool gathers, accumulates;
} Case;

enum { TOKENS = 70 };

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
    long lines = one->gathers ? TOKENS : memory.rows;
    memory.a_count = (size_t)(lines * one->k);
    memory.b_count = (size_t)(kernel->rows ? lines * one->n : one->groups * one->k * one->n);
    memory.c_count = (size_t)(kernel->rows ? one->groups * one->k * one->n : memory.rows * one->n);
    memory.a = calloc(memory.a_count, sizeof *memory.a);
    memory.b = calloc(memory.b_count, sizeof *memory.b);
    memory.c = calloc(memory.c_count, sizeof *memory.c);
    for (size_t i = 0; i < memory.a_count; i++) memory.a[i] = random_number();
    for (size_t i = 0; i < memory.b_count; i++) memory.b[i] = random_number();
    for (size_t i = 0; i < memory.c_count; i++) memory.c[i] = one->accumulates ? random_number() : NAN;
    return memory;
}

static double expected(const Kernel *kernel, const Case *one, const Memory *memory, long g, long i, long j) {
    double sum = 0;
    if (!kernel->rows) {
        const float *b = memory->b + g * one->k * one->n;
        long line = one->gathers ? memory->x[i] : i;
        for (long k = 0; k < one->k; k++)
            sum += (double)memory->a[line * one->k + k] * b[kernel->across ? j * one->k + k : k * one->n + j];
        return sum;
    }
    for (long r = memory->group[g]; r < memory->group[g + 1]; r++) {
        long x = one->gathers ? memory->x[r] : r, y = one->gathers ? memory->y[r] : r;
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
                long at = ((kernel->rows ? g * one->k : 0) + i) * one->n + j;
                double wanted = expected(kernel, one, memory, g, i, j) + (one->accumulates ? memory->c[at] : 0);
                difference += (wanted - result[at]) * (wanted - result[at]);
                norm += wanted * wanted;
            }
    }
    if (!(sqrt(difference) <= 2e-6 * sqrt(norm)))
        fail_msg("%s, %ld groups, n %ld, k %ld: off by %g of %g", kernel->name, one->groups, one->n, one->k,
                 sqrt(difference), sqrt(norm));
}

static void run(const Kernel *kernel, const Case *one, unsigned blocks) {
    Memory memory = make(kernel, one);
    void *device[] = {on_device(memory.group, sizeof memory.group),
                      on_device(memory.x, (size_t)memory.rows * sizeof *memory.x),
                      on_device(memory.y, (size_t)memory.rows * sizeof *memory.y),
                      operand(kernel, memory.a, memory.a_count),
                      operand(kernel, memory.b, memory.b_count),
                      on_device(memory.c, memory.c_count * sizeof *memory.c)};
    MoecGroupedOnDevice shape = {.groups = one->groups, .n = one->n, .k = one->k, .a_row = one->k,
                                 .b_group = one->k * one->n, .c_row = one->n, .accumulate = one->accumulates};
    shape.b_k = kernel->rows ? one->n : kernel->across ? 1 : one->n;
    shape.b_n = kernel->across ? one->k : 1;
    void *none = NULL, *function;
    unsigned shared = strstr(kernel->tile, "256")     ? MOEC_WIDE_SHARED
                      : strstr(kernel->tile, "Wgmma") ? MOEC_WGMMA_SHARED
                                                      : 0;
    void *arguments[] = {&shape, &device[0], one->gathers ? &device[1] : &none, one->gathers ? &device[2] : &none,
                         &device[3], &device[4], &device[5]};
    assert_int_equal(cuda.cuModuleGetFunction(&function, module, kernel->name), 0);
    if (cuda.cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, shared, NULL, arguments, NULL))
        fail_msg("%s, %ld groups, n %ld, k %ld", kernel->name, one->groups, one->n, one->k);
    float *result = calloc(memory.c_count, sizeof *result);
    assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(result, device[5], memory.c_count * sizeof *result, NULL), 0);
    compare(kernel, one, &memory, result);
    for (int i = 0; i < 6; i++) cuda.cuMemFree_v2(device[i]);
    free(memory.a), free(memory.b), free(memory.c), free(memory.x), free(memory.y), free(result);
}

/* A tile that is full to the last place and beyond, several stages and none, more groups than rows. */
static const Case cases[] = {
    {3, 136, 40, {130, 0, 5}, true, false},
    {4, 72, 152, {1, 64, 0, 40}, false, true},
    {8, 24, 16, {0, 1, 0, 0, 2, 0, 1, 0}, true, false},
    {1, 128, 32, {128}, false, false},
    {5, 72, 200, {0, 1, 63, 64, 65}, true, true},
    {2, 264, 328, {129, 7}, true, false},
};

static void test_tiles(void **state) {
    (void)state;
    for (int i = 0; i < KERNELS; i++)
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) run(&kernels[i], &cases[j], j % 2 ? 64 : 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles)};
    return cmocka_run_group_tests(tests, load, NULL);
}

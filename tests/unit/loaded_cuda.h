/* A CUDA program, compiled and loaded on the simulated device with separate memory. The including program includes cmocka
 * first. BUILD is the folder of libmoec_sim.so. */
#ifndef LOADED_CUDA_H
#define LOADED_CUDA_H

#include "../../runtime/base/files.h"
#include "device/device.h"

#include "cuda_opened.h"

/* VARIANT in the environment, a suffix: kernels with this variant and without tensor maps are launched in it. */
static const char *wanted_variant;
static int in_variant;

enum { SEED = 7, MOST = 64 };

/* ---- the driver ---- */

static struct {
    int (*cuMemAlloc_v2)(void **, size_t);
    int (*cuMemFree_v2)(void *);
    int (*cuMemcpyHtoDAsync_v2)(void *, const void *, size_t, void *);
    int (*cuMemcpyDtoHAsync_v2)(void *, const void *, size_t, void *);
    int (*cuMemsetD8Async)(void *, unsigned char, size_t, void *);
    int (*cuStreamSynchronize)(void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleUnload)(void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);
    int (*nvrtcCreateProgram)(void **, const char *, const char *, int, const char *const *,
                              const char *const *);
    int (*nvrtcCompileProgram)(void *, int, const char *const *);
    int (*nvrtcGetProgramLogSize)(void *, size_t *);
    int (*nvrtcGetProgramLog)(void *, char *);
    int (*nvrtcGetCUBINSize)(void *, size_t *);
    int (*nvrtcGetCUBIN)(void *, char *);
    int (*nvrtcDestroyProgram)(void **);
} cuda;

static int open_driver(void **state) {
    (void)state;
#define FIND(name) cuda_find(#name, &cuda.name)
    FIND(cuMemAlloc_v2), FIND(cuMemFree_v2), FIND(cuMemcpyHtoDAsync_v2);
    FIND(cuMemcpyDtoHAsync_v2), FIND(cuMemsetD8Async), FIND(cuStreamSynchronize);
    FIND(cuModuleLoadData), FIND(cuModuleUnload), FIND(cuModuleGetFunction), FIND(cuLaunchKernel);
    FIND(nvrtcCreateProgram), FIND(nvrtcCompileProgram), FIND(nvrtcGetProgramLogSize);
    FIND(nvrtcGetProgramLog), FIND(nvrtcGetCUBINSize), FIND(nvrtcGetCUBIN),
        FIND(nvrtcDestroyProgram);
#undef FIND
    cuda_begin();
    return 0;
}

/* ---- a compiled program and its memory ---- */

typedef struct Loaded {
    void *module;
    MoecDeviceProgram *program;
    const MoecTable *table;
    const MoecGraphEntry *graph;
    void *functions[512];
    void *weights, *rounded, *gradients, *states, *cache, *arena, *seed;
    void *inputs[MOST], *outputs[MOST];
} Loaded;

/* Frees the program with `loaded`. */
static void load_program(MoecDeviceProgram *made, Loaded *loaded) {
    enum { HEADERS = 64 };
    assert_non_null(made);
    loaded->program = made;
    loaded->table = made->table;
    const char *text = made->kernels.text;
    static const char fixed[] = "#include \"fixed.cuh\"\n";
    const char *names[HEADERS], *headers[HEADERS];
    int count = 0;
    for (const EmbeddedFile *file = embedded_files; file->name; file++) {
        if (!embedded_is_header(file)) continue;
        assert_true(count < HEADERS);
        names[count] = embedded_base(file);
        headers[count++] = file->text;
    }
    void *program;
    size_t bytes;
    char *all = calloc(1, strlen(fixed) + strlen(text) + 1);
    strcat(strcat(all, fixed), text);
    assert_int_equal(cuda.nvrtcCreateProgram(&program, all, "program.cu", count, headers, names),
                     0);
    free(all);
    static const char *const options[] = {"--std=c++17", "--gpu-architecture=sm_90a"};
    bool newest = wanted_variant || getenv("DEVICE");
    int result = cuda.nvrtcCompileProgram(program, newest ? 2 : 1, options);
    cuda.nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(1, bytes + 1);
    cuda.nvrtcGetProgramLog(program, log);
    if (result) fail_msg("%s", log);
    assert_int_equal(cuda.nvrtcGetCUBINSize(program, &bytes), 0);
    char *image = malloc(bytes);
    assert_int_equal(cuda.nvrtcGetCUBIN(program, image), 0);
    assert_int_equal(cuda.cuModuleLoadData(&loaded->module, image), 0);
    cuda.nvrtcDestroyProgram(&program);
    free(image);
    free(log);
    assert_true(loaded->table->kernel_count <= 512);
    for (int i = 0; i < loaded->table->kernel_count; i++)
        if (cuda.cuModuleGetFunction(&loaded->functions[i], loaded->module,
                                     loaded->table->kernels[i]))
            fail_msg("no kernel %s", loaded->table->kernels[i]);
}

static void unload_program(Loaded *loaded) {
    cuda.cuModuleUnload(loaded->module);
    moec_device_program_free(loaded->program);
}

static void launch(void *self, int kernel, unsigned grid_x, unsigned grid_y, unsigned block,
                   unsigned shared_bytes, void **arguments) {
    Loaded *loaded = self;
    assert_true(kernel >= 0 && kernel < loaded->table->kernel_count);
    cuda_allow_shared(loaded->functions[kernel], shared_bytes);
    int result = cuda.cuLaunchKernel(loaded->functions[kernel], grid_x, grid_y, 1, block, 1, 1,
                                     shared_bytes, NULL, arguments, NULL);
    if (!result) result = cuda.cuStreamSynchronize(NULL);
    if (result) fail_msg("%s: error %d", loaded->table->kernels[kernel], result);
}

static void launch_variant(void *self, int kernel, const MoecKernelVariant *variants,
                           size_t size_bytes, const MoecWritten *written,
                           const MoecMatrices *matrices, void **arguments) {
    Loaded *loaded = self;
    char name[256];
    void *function;
    (void)size_bytes, (void)written;
    const MoecKernelVariant *variant =
        &variants[strcmp(wanted_variant, "_wide") ? MOEC_VARIANT_WGMMA : MOEC_VARIANT_WIDE];
    snprintf(name, sizeof name, "%s%s", loaded->table->kernels[kernel], wanted_variant);
    bool there =
        variant->block && !matrices && !cuda.cuModuleGetFunction(&function, loaded->module, name);
    in_variant += there;
    if (there) cuda_allow_shared(function, variant->shared_bytes);
    if (!there) {
        launch(self, kernel, variants->grid, 1, variants->block, variants->shared_bytes, arguments);
    } else if (cuda.cuLaunchKernel(function, variant->grid, 1, 1, variant->block, 1, 1,
                                   variant->shared_bytes, NULL, arguments, NULL) ||
               cuda.cuStreamSynchronize(NULL)) {
        fail_msg("%s fails", name);
    }
}

static void zero(void *self, void *memory, size_t bytes) {
    (void)self;
    assert_int_equal(cuda.cuMemsetD8Async(memory, 0, bytes, NULL), 0);
}

/* Programs must not depend on the initial content of memory: `fill` is in it. */
static void *block(size_t bytes, unsigned char fill) {
    void *memory;
    assert_int_equal(cuda.cuMemAlloc_v2(&memory, bytes ? bytes : 4), 0);
    if (bytes) assert_int_equal(cuda.cuMemsetD8Async(memory, fill, bytes, NULL), 0);
    return memory;
}

static void make_memory(Loaded *loaded) {
    const MoecTable *table = loaded->table;
    const MoecGraphEntry *graph = loaded->graph;
    uint64_t seed = SEED;
    loaded->weights = block(table->weight_bytes, 0);
    loaded->rounded = block(table->weight_bytes / 2, 0xff);
    loaded->gradients = block(table->weight_bytes, 0xff);
    loaded->states = block(table->state_bytes, 0);
    loaded->cache = block(graph->cache_bytes, 0);
    loaded->arena = block(graph->arena_bytes, 0xff);
    loaded->seed = block(sizeof seed, 0);
    assert_int_equal(cuda.cuMemcpyHtoDAsync_v2(loaded->seed, &seed, sizeof seed, NULL), 0);
}

static void free_memory(Loaded *loaded) {
    const MoecGraphEntry *graph = loaded->graph;
    void *blocks[] = {loaded->weights, loaded->rounded, loaded->gradients, loaded->states,
                      loaded->cache,   loaded->arena,   loaded->seed};
    for (int i = 0; i < graph->input_count; i++) cuda.cuMemFree_v2(loaded->inputs[i]);
    for (int i = 0; i < graph->output_count; i++) cuda.cuMemFree_v2(loaded->outputs[i]);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) cuda.cuMemFree_v2(blocks[i]);
}

static size_t bytes_of(const MoecTensor *tensor) {
    size_t count = 4;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
    return count;
}

#endif

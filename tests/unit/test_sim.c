/* The simulated driver finds faults of kernels and reports their lines. Every kernel of the text below except the first has one
 * fault. Runs in the root of the project; BUILD is the folder of libmoec_sim.so. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cuda_library.h"

#include <cmocka.h>

/* One kernel per line: the reported line identifies the kernel. */
static const char text[] =
    "extern \"C\" __global__ void fine(float *x) { MOEC_SHARED(float, s); s[threadIdx.x] = "
    "x[threadIdx.x]; __syncthreads(); "
    "float y = s[(threadIdx.x + 33) % 64]; y += __shfl_xor_sync(0xffffffffu, y, 1); x[threadIdx.x] "
    "= y; }\n"
    "extern \"C\" __global__ void reads_outside(float *x) { x[threadIdx.x] = x[threadIdx.x + 1]; "
    "}\n"
    "extern \"C\" __global__ void writes_outside(float *x) { x[(int)threadIdx.x - 1] = 0; }\n"
    "extern \"C\" __global__ void shared_outside(float *x) { MOEC_SHARED(float, s); s[threadIdx.x "
    "+ 1] = 0; }\n"
    "extern \"C\" __global__ void nobody_wrote(float *x) { MOEC_SHARED(float, s); if (threadIdx.x) "
    "s[threadIdx.x] = 1; "
    "__syncthreads(); x[threadIdx.x] = s[threadIdx.x]; }\n"
    "extern \"C\" __global__ void no_barrier(float *x) { MOEC_SHARED(float, s); s[threadIdx.x] = "
    "x[threadIdx.x]; "
    "x[threadIdx.x] = s[threadIdx.x ^ 1]; }\n"
    "extern \"C\" __global__ void overwrites(float *x) { MOEC_SHARED(float, s); s[threadIdx.x] = "
    "x[threadIdx.x]; "
    "__syncthreads(); x[threadIdx.x] = s[(threadIdx.x + 63) % 64]; s[threadIdx.x] = 0; }\n"
    "extern \"C\" __global__ void leaves_early(float *x) { if (threadIdx.x < 10) return; "
    "__syncthreads(); x[0] = 1; }\n"
    "extern \"C\" __global__ void two_barriers(float *x) { if (threadIdx.x < 10) __syncthreads();\n"
    "    else __syncthreads(); }\n"
    "extern \"C\" __global__ void lanes_missing(float *x) { if (threadIdx.x % 2) x[0] = "
    "__shfl_sync(0xffffffffu, 1.0f, 0); }\n"
    "extern \"C\" __global__ void not_waited(float *x) { MOEC_SHARED(float, s); sim_copy_async(s + "
    "4 * threadIdx.x, x, 16); "
    "sim_copy_commit(); x[threadIdx.x] = s[4 * threadIdx.x]; }\n"
    "extern \"C\" __global__ void misaligned(float *x) { x[0] = (float)*(double *)(x + "
    "threadIdx.x); }\n"
    "extern \"C\" __global__ void waits_once(float *x) { MOEC_SHARED(float, s); float *own = s + 4 "
    "* "
    "(threadIdx.x % 16); if (threadIdx.x > 15) return; sim_copy_async(own, x, 16); "
    "sim_copy_commit(); "
    "sim_copy_wait(0); x[1] = own[0]; sim_copy_async(own, x, 16); x[2] = own[0]; }\n"
    /* Products of warpgroups: ones by ones, 16 terms. From line 24 on. */
    "static const int many = 128;\n"
    "#define FILL MOEC_SHARED(uint16_t, s); float d[32] = {}; "
    "for (int i = threadIdx.x; i < 2048; i += many) s[i] = 0x3f80;\n"
    "#define SEEN sim_fence_async(); __syncthreads();\n"
    "#define AT(place) ((sim_shared_place(place) >> 4) | 8ull << 16 | 16ull << 32)\n"
    "#define ADD sim_wgmma(d, 64, AT(s), AT(s + 1024), false, false);\n"
    "#define FENCE sim_wgmma_fence();\n"
    "#define DONE sim_wgmma_commit(); sim_wgmma_wait(0);\n"
    "#define GIVE x[threadIdx.x % 64] = d[threadIdx.x % 32];\n"
    "\n"
    "extern \"C\" __global__ void group_fine(float *x) { FILL SEEN FENCE ADD ADD DONE FENCE ADD "
    "DONE GIVE }\n"
    "extern \"C\" __global__ void group_unseen(float *x) { FILL __syncthreads(); FENCE ADD DONE "
    "GIVE }\n"
    "extern \"C\" __global__ void group_unfenced(float *x) { FILL SEEN FENCE ADD DONE ADD DONE "
    "GIVE }\n"
    "extern \"C\" __global__ void group_early(float *x) { FILL SEEN FENCE ADD GIVE DONE }\n"
    "extern \"C\" __global__ void group_overwrites(float *x) { FILL SEEN FENCE ADD SEEN s[2 * "
    "threadIdx.x] = 0; DONE GIVE }\n"
    "extern \"C\" __global__ void group_left(float *x) { FILL SEEN FENCE ADD }\n"
    "extern \"C\" __global__ void group_outside(float *x) { FILL SEEN FENCE "
    "sim_wgmma(d, 64, AT(s), AT(s + 2000), false, false); DONE GIVE }\n"
    "extern \"C\" __global__ void group_apart(float *x) { FILL SEEN FENCE "
    "sim_wgmma(d, 64, AT(s + threadIdx.x / 32 * 8), AT(s + 1024), false, false); DONE GIVE }\n"
    "extern \"C\" __global__ void group_some(float *x) { FILL SEEN FENCE if (threadIdx.x / 32) { "
    "ADD } DONE GIVE }\n"
    /* Launched with permission to start early; those with `after` follow a kernel. */
    "extern \"C\" __global__ void early_fine(float *x) { sim_begin(); x[threadIdx.x] = 1; }\n"
    "extern \"C\" __global__ void early_unwaited(float *x) { if (threadIdx.x) sim_begin(); } "
    "extern \"C\" __global__ void early_settled(float *x) { sim_read_constant(x, 4); float old = "
    "x[threadIdx.x]; sim_begin(); x[threadIdx.x] = old + 1; } "
    "extern \"C\" __global__ void early_after_read(float *x) { float old = x[threadIdx.x]; "
    "sim_begin(); x[threadIdx.x] = old; } "
    "extern \"C\" __global__ void early_after_write(float *x) { x[threadIdx.x] = 1; "
    "sim_begin(); } "
    "extern \"C\" __global__ void early_after_constant(float *x) { sim_begin(); "
    "sim_read_constant(x, 4); }\n";

/* After those: boxes of a tensor of two lines of 32 floats, x. From line 35 on. */
static const char boxes[] =
    "struct alignas(64) Map { uint64_t words[16]; };\n"
    "#define BEGIN MOEC_SHARED(float, s); __shared__ uint64_t a[1]; if (threadIdx.x == 0) "
    "sim_arrivals_begin(a, 1);\n"
    "#define BEGUN BEGIN sim_fence_async(); __syncthreads();\n"
    "#define BOX(to, x, y, bytes) { const int at[2] = {x, y}; sim_arrivals_expect(a, bytes); "
    "sim_copy_box(to, &map, at, 2, a); sim_arrivals_arrive(a); }\n"
    "#define ASK BEGUN if (threadIdx.x == 63) BOX(s, 0, 0, 512)\n"
    "#define WAIT sim_arrivals_wait(a, 0);\n"
    "#define TAKE x[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 64];\n"
    "\n"
    "extern \"C\" __global__ void box_fine(float *x, Map map) { ASK WAIT TAKE }\n"
    "extern \"C\" __global__ void box_shared(float *x, Map map) { ASK if (threadIdx.x == 0) WAIT "
    "__syncthreads(); TAKE }\n"
    "extern \"C\" __global__ void box_edge(float *x, Map map) { BEGUN if (threadIdx.x == 63) "
    "BOX(s, -4, 1, 512) WAIT TAKE }\n"
    "extern \"C\" __global__ void box_early(float *x, Map map) { ASK TAKE WAIT }\n"
    "extern \"C\" __global__ void box_unwaited(float *x, Map map) { ASK if (threadIdx.x) WAIT "
    "TAKE }\n"
    "extern \"C\" __global__ void box_hangs(float *x, Map map) { ASK WAIT sim_arrivals_wait(a, "
    "1); TAKE }\n"
    "extern \"C\" __global__ void box_short(float *x, Map map) { BEGUN if (threadIdx.x == 63) "
    "BOX(s, 0, 0, 256) WAIT TAKE }\n"
    "extern \"C\" __global__ void box_unknown(float *x, Map map) { BEGIN __syncthreads(); if "
    "(threadIdx.x == 63) BOX(s, 0, 0, 512) WAIT TAKE }\n"
    "extern \"C\" __global__ void box_unmet(float *x, Map map) { BEGIN sim_fence_async(); if "
    "(threadIdx.x == 63) BOX(s, 0, 0, 512) WAIT TAKE }\n"
    "extern \"C\" __global__ void box_again(float *x, Map map) { ASK WAIT if (threadIdx.x == 0) "
    "sim_arrivals_begin(a, 1); }\n"
    "extern \"C\" __global__ void box_crowd(float *x, Map map) { ASK if (threadIdx.x == 63) "
    "BOX(s, 0, 0, 512) WAIT }\n"
    "extern \"C\" __global__ void box_overwrites(float *x, Map map) { ASK WAIT TAKE if "
    "(threadIdx.x == 62) BOX(s, 0, 0, 512) }\n"
    "extern \"C\" __global__ void box_unfenced(float *x, Map map) { BEGUN s[threadIdx.x] = 2; "
    "__syncthreads(); if (threadIdx.x == 63) BOX(s, 0, 0, 512) WAIT TAKE }\n"
    "extern \"C\" __global__ void box_askew(float *x, Map map) { BEGUN if (threadIdx.x == 63) "
    "BOX(s + 4, 0, 0, 512) WAIT }\n"
    "extern \"C\" __global__ void box_outside(float *x, Map map) { BEGUN if (threadIdx.x == 63) "
    "BOX(s + 992, 0, 0, 512) WAIT }\n"
    "extern \"C\" __global__ void box_lost(float *x, Map map) { map.words[0] = 0; ASK WAIT }\n"
    "extern \"C\" __global__ void box_left(float *x, Map map) { ASK }\n"
    "extern \"C\" __global__ void box_ended(float *x, Map map) { ASK if (threadIdx.x == 63) "
    "sim_arrivals_end(a); WAIT }\n"
    "extern \"C\" __global__ void box_arrives(float *x, Map map) { BEGUN sim_arrivals_arrive(a); "
    "}\n"
    /* The left operand in registers, each with a one and a zero; the first product does not add. */
    "#define KEEP unsigned one[4]; for (int i = 0; i < 4; i++) one[i] = 0x3f80; "
    "sim_wgmma_kept(d, 64, one, AT(s + 1024), false);\n"
    "extern \"C\" __global__ void group_kept(float *x) { FILL SEEN for (int i = 0; i < 32; i++) "
    "d[i] = 9; FENCE "
    "sim_wgmma(d, 64, AT(s), AT(s + 1024), false, false, true); KEEP DONE GIVE }\n"
    "extern \"C\" __global__ void group_kept_unfenced(float *x) { FILL SEEN KEEP DONE GIVE }\n";

static struct {
    int (*cuInit)(unsigned);
    int (*cuMemAlloc_v2)(void **, size_t);
    int (*cuMemcpyHtoDAsync_v2)(void *, const void *, size_t, void *);
    int (*cuMemcpyDtoHAsync_v2)(void *, const void *, size_t, void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);
    int (*cuLaunchKernelEx)(const CudaLaunchShape *, void *, void **, void **);
    int (*nvrtcCreateProgram)(void **, const char *, const char *, int, const char *const *,
                              const char *const *);
    int (*nvrtcCompileProgram)(void *, int, const char *const *);
    int (*nvrtcGetProgramLog)(void *, char *);
    int (*nvrtcGetCUBINSize)(void *, size_t *);
    int (*nvrtcGetCUBIN)(void *, char *);
    int (*nvrtcDestroyProgram)(void **);
    int (*cuTensorMapEncodeTiled)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *,
                                  const uint32_t *, const uint32_t *, int, int, int, int);
} cuda;

enum { THREADS = 64, BYTES = THREADS * sizeof(float), GROUP = 128, GROUP_BYTES = 4096 };

typedef struct Map {
    _Alignas(64) unsigned char bytes[128];
} Map;

static void *module;

static void find_symbol(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (!symbol) fail_msg("%s: %s", name, dlerror());
    memcpy(function, &symbol, sizeof symbol);
}
#define FIND(name) find_symbol(library, #name, &cuda.name)

static int load(void **state) {
    (void)state;
    const char *build = getenv("BUILD");
    char path[1024], log[1 << 16], all[1 << 14];
    snprintf(path, sizeof path, "%s/libmoec_sim.so", build ? build : "build");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *program;
    if (!library) fail_msg("%s", dlerror());
    FIND(cuInit), FIND(cuMemAlloc_v2), FIND(cuMemcpyHtoDAsync_v2), FIND(cuMemcpyDtoHAsync_v2),
        FIND(cuModuleLoadData);
    FIND(cuModuleGetFunction), FIND(cuLaunchKernel), FIND(cuLaunchKernelEx),
        FIND(nvrtcCreateProgram), FIND(nvrtcCompileProgram);
    FIND(nvrtcGetProgramLog), FIND(nvrtcGetCUBINSize), FIND(nvrtcGetCUBIN),
        FIND(nvrtcDestroyProgram);
    FIND(cuTensorMapEncodeTiled);
    assert_int_equal(cuda.cuInit(0), 0);
    snprintf(all, sizeof all, "%s%s", text, boxes);
    assert_int_equal(cuda.nvrtcCreateProgram(&program, all, "wrong.cu", 0, NULL, NULL), 0);
    if (cuda.nvrtcCompileProgram(program, 0, NULL)) {
        cuda.nvrtcGetProgramLog(program, log);
        fail_msg("%s", log);
    }
    size_t bytes = 0;
    assert_int_equal(cuda.nvrtcGetCUBINSize(program, &bytes), 0);
    char *image = malloc(bytes);
    assert_int_equal(cuda.nvrtcGetCUBIN(program, image), 0);
    cuda.nvrtcDestroyProgram(&program);
    assert_int_equal(cuda.cuModuleLoadData(&module, image), 0);
    free(image);
    return 0;
}

/* A tensor map of two lines of 32 floats; its boxes have four lines and permuted vectors. */
static int map_of(Map *map, void *at, uint64_t stride, uint32_t width, uint32_t height) {
    enum { F32 = 7, SWIZZLE_128 = 3 };
    const uint64_t sizes[] = {32, 2};
    const uint32_t box[] = {width, height}, steps[] = {1, 1};
    return cuda.cuTensorMapEncodeTiled(map, F32, 2, at, sizes, &stride, box, steps, 0, SWIZZLE_128,
                                       0, 0);
}

/* Returns the result of a launch, and its output on stderr in `report`. */
static int launch(const char *name, float *values, char *report, size_t size) {
    void *function, *memory;
    assert_int_equal(cuda.cuModuleGetFunction(&function, module, name), 0);
    assert_int_equal(cuda.cuMemAlloc_v2(&memory, BYTES), 0);
    assert_int_equal(cuda.cuMemcpyHtoDAsync_v2(memory, values, BYTES, NULL), 0);
    FILE *file = tmpfile();
    int kept = dup(2);
    dup2(fileno(file), 2);
    Map map;
    assert_int_equal(map_of(&map, memory, 128, 32, 4), 0);
    void *arguments[] = {&memory, &map};
    bool group = strncmp(name, "group_", 6) == 0, box = strncmp(name, "box_", 4) == 0;
    CudaLaunchAttribute early = {.kind = CUDA_LAUNCH_OVERLAPS, .value = {.on = 1}};
    const CudaLaunchShape shape = {
        .grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .attributes = &early, .attribute_count = 1};
    void *before;
    if (strncmp(name, "early_after_", 12) == 0) {
        assert_int_equal(cuda.cuModuleGetFunction(&before, module, "early_fine"), 0);
        assert_int_equal(
            cuda.cuLaunchKernel(before, 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL), 0);
    }
    int result =
        strncmp(name, "early_", 6) == 0
            ? cuda.cuLaunchKernelEx(&shape, function, arguments, NULL)
            : cuda.cuLaunchKernel(function, 1, 1, 1, group ? GROUP : THREADS, 1, 1,
                                  group || box ? GROUP_BYTES : BYTES, NULL, arguments, NULL);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(file);
    report[fread(report, 1, size - 1, file)] = 0;
    fclose(file);
    if (!result) assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(values, memory, BYTES, NULL), 0);
    return result;
}

static void runs_what_is_fine(void **state) {
    (void)state;
    float values[THREADS];
    char report[4096];
    for (int i = 0; i < THREADS; i++) values[i] = (float)i;
    assert_int_equal(launch("fine", values, report, sizeof report), 0);
    assert_string_equal(report, "");
    for (int i = 0; i < THREADS; i++)
        assert_true(values[i] == (float)((i + 33) % 64 + ((i ^ 1) + 33) % 64));
}

/* A failed device stays failed: each faulty kernel has a separate process. */
static void expect(const char *name, const char *what, const char *where) {
    pid_t child = fork();
    if (child == 0) {
        float values[THREADS] = {0};
        char report[4096];
        int result = launch(name, values, report, sizeof report);
        bool reported = strstr(report, name) && strstr(report, what) && strstr(report, where);
        if (!result || !reported)
            fprintf(stderr, "%s: returns %d, prints:\n%s", name, result, report);
        _exit(!result || !reported);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void finds_accesses_out_of_bounds(void **state) {
    (void)state;
    expect("reads_outside", "read out of bounds", "wrong.cu:2, thread 63");
    expect("writes_outside", "write out of bounds", "wrong.cu:3, thread 0");
    expect("shared_outside", "write out of bounds", "wrong.cu:4, thread 63");
    expect("misaligned", "misaligned access", "wrong.cu:13, thread 1");
}

static void finds_what_nobody_wrote(void **state) {
    (void)state;
    expect("nobody_wrote", "read of uninitialized shared memory", "wrong.cu:5, thread 0");
    expect("waits_once", "read of uninitialized shared memory", "wrong.cu:14, thread 0");
    expect("not_waited", "read of uninitialized shared memory", "wrong.cu:12, thread 0");
}

static void finds_missing_barriers(void **state) {
    (void)state;
    expect("no_barrier", "shared memory", "wrong.cu:6, thread 0");
    expect("overwrites", "without a barrier", "wrong.cu:7, thread");
}

static void finds_divergent_barriers(void **state) {
    (void)state;
    expect("leaves_early", "divergent barrier: 54 of 64 threads wait here, 10 have left",
           "wrong.cu:8");
    expect("two_barriers", "divergent barrier: thread 0 waits at the barrier of wrong.cu:9",
           "wrong.cu:10");
    expect("lanes_missing", "lanes wait here for other lanes of their warp that never arrive",
           "wrong.cu:11");
}

static void multiplies_by_warpgroups(void **state) {
    (void)state;
    float values[THREADS] = {0};
    char report[4096];
    assert_int_equal(launch("group_fine", values, report, sizeof report), 0);
    assert_string_equal(report, "");
    for (int i = 0; i < THREADS; i++) assert_true(values[i] == 48);
    assert_int_equal(launch("group_kept", values, report, sizeof report), 0);
    assert_string_equal(report, "");
    for (int i = 0; i < THREADS; i++) assert_true(values[i] == 16 + 8);
}

static void finds_wrong_products(void **state) {
    (void)state;
    expect("group_unseen", "without a fence for the tensor cores", "wrong.cu:25, thread");
    expect("group_unfenced", "used in a product without a fence", "wrong.cu:26, thread");
    expect("group_early", "access to sums of a product in flight", "wrong.cu:27, thread");
    expect("group_overwrites", "write to shared memory that a product in flight reads",
           "wrong.cu:28, thread");
    expect("group_left", "the kernel ends with products in flight", "thread");
    expect("group_outside", "reads outside of shared memory", "wrong.cu:30, thread 0");
    expect("group_apart", "issue different products", "wrong.cu:31, thread");
    expect("group_some", "1 products of a thread, 0 of the first", "thread");
    expect("group_kept_unfenced", "used in a product without a fence", "thread");
}

static void waits_for_what_was_before(void **state) {
    (void)state;
    float values[THREADS] = {0};
    char report[4096];
    assert_int_equal(launch("early_fine", values, report, sizeof report), 0);
    assert_string_equal(report, "");
    expect("early_unwaited", "does not wait for the previous launch", "");
    assert_int_equal(launch("early_settled", values, report, sizeof report), 0);
    assert_string_equal(report, "");
    for (int i = 0; i < THREADS; i++) assert_true(values[i] == 2);
    expect("early_after_read", "launch in progress without waiting for it",
           "wrong.cu:34, thread 0");
    expect("early_after_write", "launch in progress without waiting for it",
           "wrong.cu:34, thread 0");
    expect("early_after_constant", "read-only cache of memory that a launch in progress writes",
           "wrong.cu:34, thread 0");
}

static void brings_boxes(void **state) {
    (void)state;
    static const char *const names[] = {"box_fine", "box_shared", "box_edge"};
    char report[4096];
    for (int i = 0; i < 3; i++) {
        float values[THREADS];
        for (int j = 0; j < THREADS; j++) values[j] = (float)(j + 1);
        assert_int_equal(launch(names[i], values, report, sizeof report), 0);
        assert_string_equal(report, "");
        for (int j = 0; j < THREADS; j++) {
            int line = j / 32, at = (j % 32 / 4 ^ line) * 4 + j % 4;
            int expected = i < 2 ? 32 * line + at + 1 : line || at < 4 ? 0 : 32 + at - 4 + 1;
            assert_true(values[j] == (float)expected);
        }
    }
}

static void finds_wrong_boxes(void **state) {
    (void)state;
    expect("box_early", "shared memory with a box in flight", "wrong.cu:46, thread 63");
    expect("box_unwaited", "by a thread that has not waited for it", "wrong.cu:47, thread 0");
    expect("box_hangs", "wait for a phase that never ends: 1 threads have not arrived",
           "wrong.cu:48, thread 0");
    expect("box_short", "256 bytes expected, 512", "wrong.cu:49, thread 0");
    expect("box_unknown", "initialized without a fence", "wrong.cu:50, thread 63");
    expect("box_unmet", "without a barrier after their initialization by another",
           "wrong.cu:51, thread 1");
    expect("box_again", "arrivals initialized twice", "wrong.cu:52, thread 0");
    expect("box_crowd", "with a box in flight", "wrong.cu:53, thread 63");
    expect("box_overwrites", "write to shared memory that another thread reads without",
           "wrong.cu:54, thread 62");
    expect("box_unfenced", "written without a later fence", "wrong.cu:55, thread 63");
    expect("box_askew", "not a multiple of 128 bytes", "wrong.cu:56, thread 63");
    expect("box_outside", "destination of a box copy is outside of shared memory",
           "wrong.cu:57, thread 63");
    expect("box_lost", "with an invalid tensor map", "wrong.cu:58, thread 63");
    expect("box_left", "the kernel ends with boxes in flight", "thread");
    expect("box_arrives", "more threads arrive than the phase expects", "wrong.cu:61, thread 0");
    expect("box_ended", "arrivals invalidated with boxes in flight", "wrong.cu:60, thread 63");
}

static void refuses_wrong_maps(void **state) {
    (void)state;
    Map maps[2];
    void *memory;
    assert_int_equal(cuda.cuMemAlloc_v2(&memory, BYTES), 0);
    assert_int_equal(map_of(maps, memory, 128, 32, 4), 0);
    assert_int_equal(map_of((Map *)(void *)(maps->bytes + 16), memory, 128, 32, 4), 1);
    assert_int_equal(map_of(maps, (char *)memory + 8, 128, 32, 4), 1);
    assert_int_equal(map_of(maps, memory, 136, 32, 4), 1);
    assert_int_equal(map_of(maps, memory, 1ull << 40, 32, 4), 1);
    assert_int_equal(map_of(maps, memory, 128, 64, 4), 1);
    assert_int_equal(map_of(maps, memory, 128, 30, 4), 1);
    assert_int_equal(map_of(maps, memory, 128, 32, 257), 1);
    assert_int_equal(map_of(maps, memory, 128, 32, 0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_what_is_fine),
        cmocka_unit_test(finds_accesses_out_of_bounds),
        cmocka_unit_test(finds_what_nobody_wrote),
        cmocka_unit_test(finds_missing_barriers),
        cmocka_unit_test(finds_divergent_barriers),
        cmocka_unit_test(multiplies_by_warpgroups),
        cmocka_unit_test(finds_wrong_products),
        cmocka_unit_test(waits_for_what_was_before),
        cmocka_unit_test(brings_boxes),
        cmocka_unit_test(finds_wrong_boxes),
        cmocka_unit_test(refuses_wrong_maps),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}

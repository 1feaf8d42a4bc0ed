#include "device/cuda/cuda_variants.h"

#include "base/cache.h"
#include "base/message.h"
#include "device/cuda/cuda.h"
#include "base/hashing.h"
#include "base/memory.h"
#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 3,
    MAX_RUNS = 20,
    BLOCKS = 512,
    THREADS = 256,
    ALIGN = 256,
    LINE = 512,
    PLAIN_SHARED = 48 << 10,
    MATRICES = 4,
    ARGUMENTS = 256
};

/* Duration of one measurement in seconds, long compared with the clock resolution and the launch
 * overhead. */
static const double MIN_SECONDS = 3e-4;

/* Maximum difference between two summation orders, relative to the largest result: f32 sums, and
 * results that are, or derive from, values rounded to bf16. */
static const double LIMIT_F32 = 1e-3, LIMIT_BF16 = 1.0 / 128;

/* Suffix of the kernel name and keyword of each variant. */
enum { FIRST = MOEC_VARIANT_FIRST, VARIANTS = MOEC_VARIANT_COUNT, UNDECIDED = -1 };
static const struct {
    const char *ending, *name;
} kinds[VARIANTS] = {{"", "mma"}, {"_wgmma", "wgmma"}, {"_wide", "wide"}};

typedef struct Decision {
    const char *kernel; /* name in the table */
    uint64_t shape;
    int best;                 /* variant, or UNDECIDED */
    double seconds[VARIANTS]; /* infinite: missing or wrong */
} Decision;

typedef struct NamedFunction {
    CudaFunction *function; /* NULL: missing */
    char *name;
} NamedFunction;

struct CudaVariants {
    CudaDevice *device;
    int forced; /* variant from MOEC_VARIANT, used by all kernels that have it; UNDECIDED = none */
    const MoecTable *table;
    NamedFunction (*named)[VARIANTS]; /* by kernel number */
    CudaFunction *apart;
    CudaPointer most; /* result of `apart` */
    Decision *decisions;
    int count;
    char *path;                 /* path of the cached decisions, or NULL */
    CudaMap *maps;              /* MATRICES */
    void *arguments[ARGUMENTS]; /* arguments of all variants except the first */
};

int cuda_launch(const CudaDevice *device, const CudaLaunch *launch) {
    CudaLaunchAttribute attribute = {.kind = CUDA_LAUNCH_OVERLAPS, .value = {.on = 1}};
    const CudaLaunchShape shape = {.grid = {launch->grid_x, launch->grid_y, 1},
                                   .block = {launch->block, 1, 1},
                                   .shared = launch->shared,
                                   .stream = device->stream,
                                   .attributes = &attribute,
                                   .attribute_count = 1};
    if (launch->overlaps)
        return device->library->driver.launch_shaped(&shape, launch->function, launch->arguments,
                                                     NULL);
    return device->library->driver.launch(launch->function, launch->grid_x, launch->grid_y, 1,
                                          launch->block, 1, 1, launch->shared, device->stream,
                                          launch->arguments, NULL);
}

int cuda_launch_allow(const CudaDevice *device, const CudaLaunch *launch) {
    if (launch->shared <= PLAIN_SHARED) return 0;
    return device->library->driver.function_set(launch->function, CUDA_FUNCTION_SHARED,
                                                (int)launch->shared);
}

/* ---- cached decisions ---- */

static char *variant_path(const CudaProgram *program) {
    if (!program->keep) return NULL;
    XXH3_state_t *state = cache_begin();
    cache_add(state, program->text);
    cache_add(state, program->device->base.name);
    cache_add_headers(state);
    return cache_path(state, ".variants");
}

static Decision *add_decision(CudaVariants *variants, const char *kernel, uint64_t shape) {
    variants->decisions = memory_grow(variants->decisions,
                                      sizeof *variants->decisions * (size_t)(variants->count + 1));
    Decision *one = &variants->decisions[variants->count++];
    *one = (Decision){.kernel = kernel, .shape = shape, .best = UNDECIDED};
    return one;
}

/* Returns the table's own string. */
static const char *variant_name(const CudaVariants *variants, const char *name) {
    for (int i = 0; i < variants->table->kernel_count; i++)
        if (strcmp(variants->table->kernels[i], name) == 0) return variants->table->kernels[i];
    return NULL;
}

static void read_kept(CudaVariants *variants) {
    char line[LINE], name[LINE], best[LINE];
    uint64_t shape;
    double seconds[VARIANTS];
    char *text = variants->path ? cache_read_text(variants->path) : NULL;
    FILE *file = text && *text ? fmemopen(text, strlen(text), "r") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        const char *kernel = sscanf(line, "%511s %" SCNx64 " %511s %lf %lf %lf", name, &shape, best,
                                    &seconds[0], &seconds[1], &seconds[2]) == 3 + VARIANTS
                                 ? variant_name(variants, name)
                                 : NULL;
        for (int i = 0; kernel && i < VARIANTS; i++) {
            if (strcmp(best, kinds[i].name) != 0) continue;
            Decision *one = add_decision(variants, kernel, shape);
            one->best = i;
            for (int j = 0; j < VARIANTS; j++) one->seconds[j] = seconds[j] * 1e-6;
        }
    }
    if (file) fclose(file);
    free(text);
}

/* One line per decision: kernel, shape, selected variant, microseconds of each variant. */
static void write_variant(const CudaVariants *variants) {
    char *text = memory_format("%s", "");
    for (int i = 0; i < variants->count; i++) {
        const Decision *one = &variants->decisions[i];
        if (one->best == UNDECIDED) continue;
        char *more = memory_format("%s%s %016" PRIx64 " %s %.1f %.1f %.1f\n", text, one->kernel,
                                   one->shape, kinds[one->best].name, 1e6 * one->seconds[0],
                                   1e6 * one->seconds[1], 1e6 * one->seconds[2]);
        free(text);
        text = more;
    }
    if (variants->path) cache_write_text(variants->path, text);
    free(text);
}

/* ---- comparison on the device ---- */

static size_t bytes_of(const MoecWritten *written) {
    return (size_t)written->count * (written->type == MOEC_BF16 ? 2 : 4);
}

static size_t checked_bytes(const MoecWritten *written) {
    size_t bytes = 0;
    for (; written->at; written++) bytes += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    return bytes;
}

/* Copies the written elements to a block of checked_bytes, or back. */
static bool copy_all(const CudaVariants *variants, const MoecWritten *written, CudaPointer block,
                     bool back) {
    const CudaDevice *device = variants->device;
    bool good = true;
    for (; written->at && good; written++) {
        CudaPointer there = cuda_pointer(written->at);
        good = device->library->driver.copy(back ? there : block, back ? block : there,
                                            bytes_of(written), device->stream) == 0;
        block += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return good;
}

typedef enum Verdict { AGREES, DISAGREES, UNTOLD, STOPPED } Verdict;

/* Compares the written elements with a block. UNTOLD if all are 0; STOPPED if the device has
 * failed. */
static Verdict compare_times(const CudaVariants *variants, const MoecWritten *written,
                             CudaPointer block) {
    const CudaDevice *device = variants->device;
    const CudaDriver *driver = &device->library->driver;
    bool told = false;
    for (; written->at; written++) {
        long long count = written->count;
        int stored = written->type == MOEC_BF16;
        double limit = stored || written->rounded ? LIMIT_BF16 : LIMIT_F32;
        CudaPointer there = cuda_pointer(written->at), most = variants->most;
        void *arguments[] = {&block, &there, &count, &stored, &most};
        long long blocks = (count + THREADS - 1) / THREADS;
        float found[2] = {0};
        const CudaLaunch launch = {.function = variants->apart,
                                   .grid_x = blocks < BLOCKS ? (unsigned)blocks : BLOCKS,
                                   .grid_y = 1,
                                   .block = THREADS,
                                   .arguments = arguments};
        if (driver->set(most, 0, sizeof found, device->stream) || cuda_launch(device, &launch) ||
            driver->get(found, most, sizeof found, device->stream) ||
            driver->stream_wait(device->stream))
            return STOPPED;
        told |= found[0] > 0;
        if (!(found[1] <= limit * found[0])) return DISAGREES;
        block += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return told ? AGREES : UNTOLD;
}

static double time_runs(const CudaDevice *device, const CudaLaunch *launch, int runs) {
    double began = seconds_now();
    for (int i = 0; i < runs; i++)
        if (cuda_launch(device, launch)) return INFINITY;
    if (device->library->driver.stream_wait(device->stream)) return INFINITY;
    return (seconds_now() - began) / runs;
}

static double time_launch(const CudaDevice *device, const CudaLaunch *launch) {
    double best = time_runs(device, launch, 1), wanted = MIN_SECONDS / best;
    if (wanted < 1) return best;
    int runs = wanted < MAX_RUNS ? (int)wanted + 1 : MAX_RUNS;
    for (int i = 0; i < TRIES; i++) best = fmin(best, time_runs(device, launch, runs));
    return best;
}

/* Seconds of another variant. Infinite if its results differ from `results`, those of the first
 * variant; NAN if the comparison is inconclusive. `before` contains the memory before the
 * launch. */
static double try_form(const CudaVariants *variants, const MoecWritten *written, CudaPointer before,
                       CudaPointer results, const CudaLaunch *other) {
    if (!copy_all(variants, written, before, true)) return NAN;
    const CudaDevice *device = variants->device;
    Verdict verdict = !cuda_launch(device, other) ? compare_times(variants, written, results)
                      : device->library->driver.stream_wait(device->stream) ? STOPPED
                                                                            : DISAGREES;
    if (verdict == AGREES) return time_launch(variants->device, other);
    if (verdict == STOPPED) {
        error_message(
            "set MOEC_WGMMA=off to disable all warpgroup kernels; please report this with the spec",
            "%s: kernel %s stopped the device", variants->device->base.name, other->name);
        variants->device->failed = true;
        return NAN;
    }
    if (verdict == UNTOLD) return NAN;
    note_message("kernel %s differs from its other variant and is not used; please report this "
                 "with the device and the spec (MOEC_WGMMA=off disables all warpgroup kernels)",
                 other->name);
    return INFINITY;
}

/* Runs all variants on the current memory. */
static void try_all(const CudaVariants *variants, const MoecWritten *written,
                    const CudaLaunch launches[VARIANTS], Decision *decision) {
    const CudaDevice *device = variants->device;
    const CudaDriver *driver = &device->library->driver;
    CudaPointer before = 0;
    size_t bytes = checked_bytes(written);
    if (driver->allocate(&before, 2 * bytes)) return;
    bool good = copy_all(variants, written, before, false) &&
                !cuda_launch(device, &launches[FIRST]) &&
                copy_all(variants, written, before + bytes, false);
    int best = FIRST;
    for (int i = FIRST + 1; i < VARIANTS; i++) {
        decision->seconds[i] =
            !launches[i].function ? INFINITY
            : !good               ? NAN
                    : try_form(variants, written, before, before + bytes, &launches[i]);
        if (isnan(decision->seconds[i])) good = false;
    }
    decision->seconds[FIRST] = good ? time_launch(device, &launches[FIRST]) : NAN;
    for (int i = 0; i < VARIANTS; i++)
        if (decision->seconds[i] < decision->seconds[best]) best = i;
    if (good) decision->best = best;
    copy_all(variants, written, before, true);
    driver->release(before);
}

/* ---- selection ---- */

/* Hash of sizes, strides and grid, which determine the run time. For a kernel that adds two
 * products, the sizes of the first represent both. */
static uint64_t variant_shape(const CudaVariantLaunch *variant, const CudaLaunch *launch) {
    return XXH3_64bits_withSeed(launch->arguments[0], variant->size_bytes, launch->grid_x);
}

static Decision *decision_of(CudaVariants *variants, const char *kernel, uint64_t shape) {
    for (int i = 0; i < variants->count; i++)
        if (variants->decisions[i].kernel == kernel && variants->decisions[i].shape == shape)
            return &variants->decisions[i];
    return add_decision(variants, kernel, shape);
}

/* Appends a tensor map of each matrix to the arguments of a launch. */
static bool add_maps(CudaVariants *variants, const MoecMatrices *matrices, void *const *arguments) {
    const CudaDriver *driver = &variants->device->library->driver;
    int count = 0;
    for (; arguments[count]; count++) {
        if (count == ARGUMENTS - MATRICES) return false;
        variants->arguments[count] = arguments[count];
    }
    for (int i = 0; matrices[i].at; i++) {
        if (i == MATRICES || !cuda_map(driver, &matrices[i], &variants->maps[i])) return false;
        variants->arguments[count++] = &variants->maps[i];
    }
    return true;
}

/* The launch of another variant; its function is NULL if there is none. */
static CudaLaunch variant_launch(CudaVariants *variants, const CudaVariantLaunch *variant,
                                 int which, const CudaLaunch *first) {
    const NamedFunction *named = &variants->named[variant->kernel][which];
    const MoecKernelVariant *given = &variant->variants[which];
    CudaLaunch launch = *first;
    launch.function = given->block ? named->function : NULL;
    launch.name = named->name;
    launch.grid_x = given->grid;
    launch.block = given->block;
    launch.shared = given->shared_bytes;
    if (variant->matrices) launch.arguments = variants->arguments;
    if (launch.function && cuda_launch_allow(variants->device, &launch)) launch.function = NULL;
    return launch;
}

/* A forced variant is not compared with the first: MOEC_VARIANT exists to observe it. */
static void take_forced(const CudaVariants *variants, const CudaLaunch *launches,
                        CudaLaunch *launch) {
    if (launches[variants->forced].function) *launch = launches[variants->forced];
}

void cuda_variants_take(CudaVariants *variants, const CudaVariantLaunch *variant, bool may_try,
                        CudaLaunch *launch) {
    CudaLaunch launches[VARIANTS] = {*launch};
    bool several = false;
    for (int i = FIRST + 1; i < VARIANTS; i++) {
        launches[i] = variant_launch(variants, variant, i, launch);
        several |= launches[i].function != NULL;
    }
    if (!several ||
        (variant->matrices && !add_maps(variants, variant->matrices, launch->arguments)))
        return;
    if (variants->forced != UNDECIDED) {
        take_forced(variants, launches, launch);
        return;
    }
    Decision *decision = decision_of(variants, variants->table->kernels[variant->kernel],
                                     variant_shape(variant, launch));
    if (decision->best == UNDECIDED && may_try) {
        try_all(variants, variant->written, launches, decision);
        write_variant(variants);
    }
    if (decision->best > FIRST && launches[decision->best].function)
        *launch = launches[decision->best];
}

/* ---- loading ---- */

static CudaFunction *find_variant(const CudaProgram *program, const char *name) {
    CudaFunction *function = NULL;
    for (int i = 0; i < program->module_count; i++)
        if (!program->device->library->driver.function_get(&function, program->modules[i], name))
            return function;
    return NULL;
}

/* Number of other variants. */
static int count_variants(CudaVariants *variants, const CudaProgram *program) {
    int count = 0;
    for (int i = 0; i < program->table->kernel_count; i++)
        for (int j = FIRST + 1; j < VARIANTS; j++) {
            NamedFunction *one = &variants->named[i][j];
            one->name = memory_format("%s%s", program->table->kernels[i], kinds[j].ending);
            one->function = find_variant(program, one->name);
            count += one->function != NULL;
        }
    return count;
}

/* The variant in MOEC_VARIANT; UNDECIDED: by measurement. */
static int forced_form(void) {
    const char *wanted = getenv("MOEC_VARIANT");
    if (!wanted || !*wanted) return UNDECIDED;
    for (int i = 0; i < VARIANTS; i++)
        if (strcmp(wanted, kinds[i].name) == 0) return i;
    note_message(
        "MOEC_VARIANT=%s is not mma, wgmma or wide; the fastest variant of each kernel is used",
        wanted);
    return UNDECIDED;
}

CudaVariants *cuda_variants_new(const CudaProgram *program) {
    if (program->device->major != 9 || cuda_off("MOEC_WGMMA")) return NULL;
    CudaVariants *variants = memory_new(sizeof *variants);
    variants->device = program->device;
    variants->forced = forced_form();
    variants->table = program->table;
    variants->named =
        memory_new(sizeof *variants->named * (size_t)(program->table->kernel_count + 1));
    variants->apart = find_variant(program, "moec_apart");
    variants->maps = aligned_alloc(_Alignof(CudaMap), sizeof *variants->maps * MATRICES);
    if (count_variants(variants, program) && variants->apart && variants->maps &&
        !program->device->library->driver.allocate(&variants->most, 2 * sizeof(float))) {
        variants->path = variant_path(program);
        read_kept(variants);
        return variants;
    }
    cuda_variants_free(variants);
    return NULL;
}

void cuda_variants_free(CudaVariants *variants) {
    if (!variants) return;
    for (int i = 0; i < variants->table->kernel_count; i++)
        for (int j = 0; j < VARIANTS; j++) free(variants->named[i][j].name);
    if (variants->most) variants->device->library->driver.release(variants->most);
    free(variants->maps);
    free(variants->named);
    free(variants->decisions);
    free(variants->path);
    free(variants);
}

#include "cuda_twins.h"

#include "complain.h"
#include "embedded.h"
#include "files.h"
#include "hashing.h"
#include "memory.h"
#include "module.h"
#include "seconds.h"
#include "shapes.h"
#include "version.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 3, MOST_RUNS = 20, BLOCKS = 512, THREADS = 256, ALIGN = 256, LINE = 512 };

/* What one measurement shall take: longer than the clock and the launches make it uncertain. */
static const double LEAST_SECONDS = 3e-4;

/* As far apart as two orders of adding up may be, as a part of the largest result: sums in f32, and
 * those that are rounded to bf16 (or computed from what was). */
static const double LIMIT_F32 = 1e-3, LIMIT_BF16 = 1.0 / 128;

typedef enum Verdict { UNDECIDED, FIRST, SECOND, WRONG } Verdict;
static const char *const verdict_names[] = {"undecided", "first", "second", "wrong"};

typedef struct Decision {
    const char *kernel; /* its name in the table */
    uint64_t shape;
    Verdict verdict;
    double seconds[2]; /* of the forms */
} Decision;

typedef struct Twin {
    CudaFunction *function;
    char *name;
} Twin;

struct CudaTwins {
    CudaDevice *device;
    const MoecTable *table;
    Twin *twins; /* by kernel number; function: NULL where there is none */
    CudaFunction *apart;
    CudaPointer most; /* what `apart` finds */
    Decision *decisions;
    int count;
    char *path; /* of what is kept, or NULL */
};

int cuda_launch(const CudaDevice *device, const CudaLaunch *launch) {
    return device->library->driver.launch(launch->function, launch->grid_x, launch->grid_y, 1,
                                          launch->block, 1, 1, launch->shared, device->stream,
                                          launch->arguments, NULL);
}

/* ---- what was found before ---- */

static char *kept_path(const CudaProgram *program) {
    char *folder = program->keep ? module_cache_folder() : NULL;
    if (!folder) return NULL;
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, MOEC_VERSION, sizeof MOEC_VERSION);
    XXH3_128bits_update(state, program->text, strlen(program->text));
    const char *device = program->device->base.name;
    XXH3_128bits_update(state, device, strlen(device));
    for (const EmbeddedFile *file = embedded_files; file->name; file++)
        if (embedded_is_header(file)) XXH3_128bits_update(state, file->text, file->length);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    char *path = memory_format("%s/%016" PRIx64 "%016" PRIx64 ".twins", folder,
                               (uint64_t)hash.high64, (uint64_t)hash.low64);
    free(folder);
    return path;
}

static Decision *add_decision(CudaTwins *twins, const char *kernel, uint64_t shape) {
    twins->decisions = memory_grow(twins->decisions,
                                    sizeof *twins->decisions * (size_t)(twins->count + 1));
    Decision *one = &twins->decisions[twins->count++];
    *one = (Decision){.kernel = kernel, .shape = shape};
    return one;
}

/* The table's own string. */
static const char *name_of(const CudaTwins *twins, const char *name) {
    for (int i = 0; i < twins->table->kernel_count; i++)
        if (strcmp(twins->table->kernels[i], name) == 0) return twins->table->kernels[i];
    return NULL;
}

static void read_kept(CudaTwins *twins) {
    char line[LINE], name[LINE], verdict[32];
    uint64_t shape;
    double first, second;
    FILE *file = twins->path ? fopen(twins->path, "r") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%511s %" SCNx64 " %31s %lf %lf", name, &shape, verdict, &first,
                   &second) != 5)
            continue;
        const char *kernel = name_of(twins, name);
        for (int i = FIRST; kernel && i <= WRONG; i++)
            if (strcmp(verdict, verdict_names[i]) == 0) {
                Decision *one = add_decision(twins, kernel, shape);
                one->verdict = (Verdict)i;
                one->seconds[0] = first * 1e-6;
                one->seconds[1] = second * 1e-6;
            }
    }
    if (file) fclose(file);
}

static void write_kept(const CudaTwins *twins) {
    char *text = memory_format("%s", "");
    for (int i = 0; i < twins->count; i++) {
        const Decision *one = &twins->decisions[i];
        if (one->verdict == UNDECIDED) continue;
        char *more =
            memory_format("%s%s %016" PRIx64 " %s %.1f %.1f\n", text, one->kernel, one->shape,
                          verdict_names[one->verdict], 1e6 * one->seconds[0],
                          1e6 * one->seconds[1]);
        free(text);
        text = more;
    }
    if (twins->path) file_write(twins->path, text, strlen(text));
    free(text);
}

/* ---- both on the device ---- */

static size_t bytes_of(const MoecWritten *written) {
    return (size_t)written->count * (written->type == MOEC_BF16 ? 2 : 4);
}

static size_t all_bytes(const MoecWritten *written) {
    size_t bytes = 0;
    for (; written->at; written++) bytes += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    return bytes;
}

/* Copies what is written to a block of all_bytes, or back. */
static bool copy_all(const CudaTwins *twins, const MoecWritten *written, CudaPointer block,
                     bool back) {
    const CudaDevice *device = twins->device;
    bool good = true;
    for (; written->at && good; written++) {
        CudaPointer there = cuda_pointer(written->at);
        good = device->library->driver.copy(back ? there : block, back ? block : there,
                                            bytes_of(written), device->stream) == 0;
        block += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return good;
}

/* Whether what is written agrees with a block; UNDECIDED where all is 0 and nothing can be told. */
static Verdict compare(const CudaTwins *twins, const MoecWritten *written, CudaPointer block) {
    const CudaDevice *device = twins->device;
    const CudaDriver *driver = &device->library->driver;
    bool told = false;
    for (; written->at; written++) {
        long long count = written->count;
        int rounded = written->type == MOEC_BF16;
        CudaPointer there = cuda_pointer(written->at), most = twins->most;
        void *arguments[] = {&block, &there, &count, &rounded, &most};
        long long blocks = (count + THREADS - 1) / THREADS;
        float found[2] = {0};
        const CudaLaunch launch = {.function = twins->apart,
                                   .grid_x = blocks < BLOCKS ? (unsigned)blocks : BLOCKS,
                                   .grid_y = 1,
                                   .block = THREADS,
                                   .arguments = arguments};
        if (driver->set(most, 0, sizeof found, device->stream) || cuda_launch(device, &launch) ||
            driver->get(found, most, sizeof found, device->stream) ||
            driver->stream_wait(device->stream))
            return WRONG;
        told |= found[0] > 0;
        if (!(found[1] <= (rounded ? LIMIT_BF16 : LIMIT_F32) * found[0])) return WRONG;
        block += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return told ? SECOND : UNDECIDED;
}

static double time_runs(const CudaDevice *device, const CudaLaunch *launch, int runs) {
    double began = seconds_now();
    for (int i = 0; i < runs; i++)
        if (cuda_launch(device, launch)) return INFINITY;
    if (device->library->driver.stream_wait(device->stream)) return INFINITY;
    return (seconds_now() - began) / runs;
}

static double time_launch(const CudaDevice *device, const CudaLaunch *launch) {
    double best = time_runs(device, launch, 1), wanted = LEAST_SECONDS / best;
    if (wanted < 1) return best;
    int runs = wanted < MOST_RUNS ? (int)wanted + 1 : MOST_RUNS;
    for (int i = 0; i < TRIES; i++) best = fmin(best, time_runs(device, launch, runs));
    return best;
}

/* Both forms on what stands there now; block: room for it twice. */
static void try_both(const CudaTwins *twins, const MoecWritten *written, CudaPointer block,
                     const CudaLaunch *first, const CudaLaunch *second, Decision *decision) {
    const CudaDevice *device = twins->device;
    CudaPointer other = block + all_bytes(written);
    bool good = copy_all(twins, written, block, false) && !cuda_launch(device, first) &&
                copy_all(twins, written, other, false) && copy_all(twins, written, block, true);
    if (!good) return;
    decision->verdict =
        cuda_launch(device, second) ? WRONG : compare(twins, written, other);
    if (decision->verdict == SECOND) {
        decision->seconds[0] = time_launch(device, first);
        decision->seconds[1] = time_launch(device, second);
        if (!(decision->seconds[1] < decision->seconds[0])) decision->verdict = FIRST;
    }
    copy_all(twins, written, block, true);
    if (decision->verdict == WRONG)
        remark("kernel %s does not agree with its other form and is not used; please report this "
               "with the device and the spec (MOEC_WGMMA=off leaves all such kernels alone)",
               second->name);
}

/* ---- the choice ---- */

/* Sizes, strides and grid: what decides how long it takes. Where a kernel adds up two products, the
 * first of them stands for both. */
static uint64_t shape_of(const CudaLaunch *launch) {
    const size_t bytes = offsetof(MoecGroupedOnDevice, accumulate) + sizeof(int);
    return XXH3_64bits_withSeed(launch->arguments[0], bytes, launch->grid_x);
}

static Decision *decision_of(CudaTwins *twins, const char *kernel, uint64_t shape) {
    for (int i = 0; i < twins->count; i++)
        if (twins->decisions[i].kernel == kernel && twins->decisions[i].shape == shape)
            return &twins->decisions[i];
    return add_decision(twins, kernel, shape);
}

void cuda_twins_take(CudaTwins *twins, int kernel, const MoecWritten *written, bool may_try,
                     CudaLaunch *launch) {
    const CudaDriver *driver = &twins->device->library->driver;
    const Twin *twin = &twins->twins[kernel];
    if (!twin->function) return;
    CudaLaunch second = *launch;
    second.function = twin->function;
    second.name = twin->name;
    second.shared = MOEC_WGMMA_SHARED;
    Decision *decision = decision_of(twins, twins->table->kernels[kernel], shape_of(launch));
    CudaPointer block = 0;
    if (decision->verdict == UNDECIDED && may_try &&
        driver->allocate(&block, 2 * all_bytes(written)) == 0) {
        try_both(twins, written, block, launch, &second, decision);
        driver->release(block);
        write_kept(twins);
    }
    if (decision->verdict == SECOND) *launch = second;
}

/* ---- loading ---- */

static CudaFunction *find_function(const CudaProgram *program, const char *name) {
    CudaFunction *function = NULL;
    for (int i = 0; i < program->module_count; i++)
        if (!program->device->library->driver.function_get(&function, program->modules[i], name))
            return function;
    return NULL;
}

/* How many kernels have a second form. */
static int find_twins(CudaTwins *twins, const CudaProgram *program) {
    const CudaDriver *driver = &program->device->library->driver;
    int count = 0;
    for (int i = 0; i < program->table->kernel_count; i++) {
        Twin *twin = &twins->twins[i];
        twin->name = memory_format("%s_wgmma", program->table->kernels[i]);
        twin->function = find_function(program, twin->name);
        if (twin->function &&
            driver->function_set(twin->function, CUDA_FUNCTION_SHARED, MOEC_WGMMA_SHARED))
            twin->function = NULL;
        count += twin->function != NULL;
    }
    return count;
}

CudaTwins *cuda_twins_new(const CudaProgram *program) {
    const char *wanted = getenv("MOEC_WGMMA");
    if (program->device->major != 9 || (wanted && strcmp(wanted, "off") == 0)) return NULL;
    CudaTwins *twins = memory_new(sizeof *twins);
    twins->device = program->device;
    twins->table = program->table;
    twins->twins = memory_new(sizeof(Twin) * (size_t)(program->table->kernel_count + 1));
    twins->apart = find_function(program, "moec_apart");
    if (find_twins(twins, program) && twins->apart &&
        !program->device->library->driver.allocate(&twins->most, 2 * sizeof(float))) {
        twins->path = kept_path(program);
        read_kept(twins);
        return twins;
    }
    cuda_twins_free(twins);
    return NULL;
}

void cuda_twins_free(CudaTwins *twins) {
    if (!twins) return;
    for (int i = 0; i < twins->table->kernel_count; i++) free(twins->twins[i].name);
    if (twins->most) twins->device->library->driver.release(twins->most);
    free(twins->twins);
    free(twins->decisions);
    free(twins->path);
    free(twins);
}

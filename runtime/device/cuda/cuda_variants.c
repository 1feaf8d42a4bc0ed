#include "device/cuda/cuda_variants.h"

#include "base/cache.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512, PLAIN_SHARED = 48 << 10, MATRICES = 4, ARGUMENTS = 256 };

/* Suffix of the kernel name and keyword of each variant. */
static const struct {
    const char *ending, *name;
} kinds[VARIANTS] = {{"", "mma"}, {"_wgmma", "wgmma"}, {"_wide", "wide"}};
/* Name of TRYING. */
static const char *const trying = "trying";

typedef struct Decision {
    const char *kernel; /* name in the table */
    uint64_t shape;
    int best;                 /* variant, UNDECIDED or TRYING */
    double seconds[VARIANTS]; /* infinite: missing or wrong */
    bool used;
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
    CudaTrial *trial;
    bool *refused; /* by kernel number: a trial stopped an earlier process */
    Decision *decisions;
    int count;
    char *name, *path;          /* of the decisions: in a checkpoint; in the cache, or NULL */
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
    const CudaDriver *driver = &device->library->driver;
    /* a preference: several blocks may fit then */
    driver->function_set(launch->function, CUDA_FUNCTION_SHARED_SHARE, 100);
    return driver->function_set(launch->function, CUDA_FUNCTION_SHARED, (int)launch->shared);
}

/* ---- cached decisions ---- */

/* Other kernels, another compiler, device or driver: other results and times. */
static char *variants_name(const CudaProgram *program) {
    XXH3_state_t *state = cache_begin();
    cache_add(state, program->text);
    cache_add(state, program->device->base.name);
    cache_add_headers(state);
    cuda_hash_library(state, program->device->library);
    int driver = 0;
    program->device->library->driver.version(&driver);
    AUTO_FREE char *rest =
        memory_format("driver %d, %s", driver, cuda_choices_are_fixed() ? "fixed" : "timed");
    cache_add(state, rest);
    return cache_file_name(state, ".variants");
}

static Decision *add_decision(CudaVariants *variants, const char *kernel, uint64_t shape) {
    variants->decisions = memory_grow(variants->decisions,
                                      sizeof *variants->decisions * (size_t)(variants->count + 1));
    Decision *one = &variants->decisions[variants->count++];
    *one = (Decision){.kernel = kernel, .shape = shape, .best = UNDECIDED};
    return one;
}

static Decision *decision_of(CudaVariants *variants, const char *kernel, uint64_t shape) {
    for (int i = 0; i < variants->count; i++)
        if (variants->decisions[i].kernel == kernel && variants->decisions[i].shape == shape)
            return &variants->decisions[i];
    return add_decision(variants, kernel, shape);
}

/* The number of a kernel of the table, or -1. */
static int table_kernel(const CudaVariants *variants, const char *name) {
    for (int i = 0; i < variants->table->kernel_count; i++)
        if (strcmp(variants->table->kernels[i], name) == 0) return i;
    return -1;
}

static int variant_number(const char *name) {
    for (int i = 0; i < VARIANTS; i++)
        if (strcmp(name, kinds[i].name) == 0) return i;
    return strcmp(name, trying) == 0 ? TRYING : UNDECIDED;
}

/* The process of an unfinished trial has died, since a trial holds the lock of the file. */
static void refuse_variants(CudaVariants *variants, int kernel) {
    if (!variants->refused[kernel])
        note_message("only the first variant of kernel %s is used, since its trial stopped an "
                     "earlier process; remove %s to repeat it",
                     variants->table->kernels[kernel], variants->path);
    variants->refused[kernel] = true;
}

static void read_decision(CudaVariants *variants, const char *line) {
    char name[LINE], best[LINE];
    uint64_t shape;
    double seconds[VARIANTS];
    if (sscanf(line, "%511s %" SCNx64 " %511s %lf %lf %lf", name, &shape, best, &seconds[0],
               &seconds[1], &seconds[2]) != 3 + VARIANTS)
        return;
    const int kernel = table_kernel(variants, name), number = variant_number(best);
    if (kernel < 0 || number == UNDECIDED) return;
    Decision *one = decision_of(variants, variants->table->kernels[kernel], shape);
    if (one->best != UNDECIDED) return;
    one->best = number;
    for (int i = 0; i < VARIANTS; i++) one->seconds[i] = seconds[i] * 1e-6;
    if (number == TRYING) refuse_variants(variants, kernel);
}

static void read_decisions(CudaVariants *variants, const char *text) {
    char line[LINE];
    AUTO(FILE) *file = text && *text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : NULL;
    while (file && fgets(line, sizeof line, file)) read_decision(variants, line);
}

/* The recorded decisions, and the cached ones for other kernels. */
static void read_kept(CudaVariants *variants) {
    if (!cuda_choices_are_fixed())
        read_decisions(variants, cuda_recorded_choice(variants->device, variants->name));
    for (int i = 0; i < variants->count; i++) variants->decisions[i].used = true;
    if (!variants->path) return;
    const int lock = cache_making(variants->path);
    AUTO_FREE char *text = cache_read_text(variants->path);
    read_decisions(variants, text);
    cache_made(lock, variants->path);
}

/* One line per decision: kernel, shape, selected variant, microseconds of each variant. For a
 * checkpoint, those that are used, without times. */
static char *decisions_text(const CudaVariants *variants, bool for_checkpoint) {
    char *text = memory_format("%s", "");
    for (int i = 0; i < variants->count; i++) {
        const Decision *one = &variants->decisions[i];
        if (one->best == UNDECIDED || (for_checkpoint && !one->used)) continue;
        double times[VARIANTS] = {0};
        for (int j = 0; j < VARIANTS && !for_checkpoint; j++) times[j] = 1e6 * one->seconds[j];
        char *more = memory_format("%s%s %016" PRIx64 " %s %.1f %.1f %.1f\n", text, one->kernel,
                                   one->shape, one->best < 0 ? trying : kinds[one->best].name,
                                   times[0], times[1], times[2]);
        free(text);
        text = more;
    }
    return text;
}

static void write_decisions(const CudaVariants *variants) {
    if (!variants->path) return;
    AUTO_FREE char *text = decisions_text(variants, false);
    cache_write_text(variants->path, text);
}

static void record_use(CudaVariants *variants, Decision *decision) {
    if (decision->used || decision->best < 0 || cuda_choices_are_fixed()) return;
    decision->used = true;
    AUTO_FREE char *text = decisions_text(variants, true);
    cuda_record_choice(variants->device, variants->name, text);
}

/* Tries all variants. The file contains the unfinished trial. If the trial ends the process, later
 * processes do not repeat it. */
static void try_variants(CudaVariants *variants, const MoecWritten *written,
                         const CudaLaunch launches[VARIANTS], Decision *decision) {
    const int lock = variants->path ? cache_making(variants->path) : -1;
    decision->best = TRYING;
    write_decisions(variants);
    const int best = cuda_trial_run(variants->trial, written, launches, decision->seconds);
    if (!variants->device->failed) {
        decision->best = best;
        write_decisions(variants);
    }
    if (variants->path) cache_made(lock, variants->path);
}

/* ---- selection ---- */

/* Hash of sizes, strides and grid, which determine the run time. For a kernel that adds two
 * products, the sizes of the first represent both. */
static uint64_t variant_shape(const CudaVariantLaunch *variant, const CudaLaunch *launch) {
    return XXH3_64bits_withSeed(launch->arguments[0], variant->size_bytes, launch->grid_x);
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
static int decided(CudaVariants *variants, const CudaVariantLaunch *variant, bool may_try,
                   const CudaLaunch launches[VARIANTS]) {
    if (variants->forced != UNDECIDED) return variants->forced;
    if (variants->refused[variant->kernel]) return FIRST;
    Decision *decision = decision_of(variants, variants->table->kernels[variant->kernel],
                                     variant_shape(variant, &launches[FIRST]));
    if (decision->best == UNDECIDED && may_try)
        try_variants(variants, variant->written, launches, decision);
    record_use(variants, decision);
    return decision->best;
}

int cuda_variants_take(CudaVariants *variants, const CudaVariantLaunch *variant, bool may_try,
                       CudaLaunch *launch) {
    CudaLaunch launches[VARIANTS] = {*launch};
    bool several = false;
    if (cuda_launch_allow(variants->device, launch)) return FIRST; /* its launch reports it */
    for (int i = FIRST + 1; i < VARIANTS; i++) {
        launches[i] = variant_launch(variants, variant, i, launch);
        several |= launches[i].function != NULL;
    }
    if (!several ||
        (variant->matrices && !add_maps(variants, variant->matrices, launch->arguments)))
        return FIRST;
    const int best = decided(variants, variant, may_try, launches);
    if (best < 0 || !launches[best].function) return FIRST;
    *launch = launches[best];
    return best;
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

int cuda_forced_variant(const char **name) {
    const char *wanted = getenv("MOEC_VARIANT");
    *name = NULL;
    if (!wanted || !*wanted) return UNDECIDED;
    for (int i = 0; i < VARIANTS; i++)
        if (strcmp(wanted, kinds[i].name) == 0) {
            *name = kinds[i].name;
            return i;
        }
    note_message(
        "MOEC_VARIANT=%s is not mma, wgmma or wide; the fastest variant of each kernel is used",
        wanted);
    return UNDECIDED;
}

CudaVariants *cuda_variants_new(const CudaProgram *program, int forced) {
    if (program->device->major != 9 || cuda_off("MOEC_WGMMA")) return NULL;
    CudaVariants *variants = memory_new(sizeof *variants);
    variants->device = program->device;
    variants->forced = forced;
    variants->table = program->table;
    variants->named =
        memory_new(sizeof *variants->named * (size_t)(program->table->kernel_count + 1));
    variants->refused =
        memory_new(sizeof *variants->refused * (size_t)(program->table->kernel_count + 1));
    CudaFunction *compare = find_variant(program, "moec_compare");
    variants->maps = aligned_alloc(_Alignof(CudaMap), sizeof *variants->maps * MATRICES);
    if (count_variants(variants, program) && compare && variants->maps &&
        (variants->trial = cuda_trial_new(program->device, compare))) {
        variants->name = variants_name(program);
        variants->path = program->keep ? cache_within(variants->name) : NULL;
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
    cuda_trial_free(variants->trial);
    free(variants->maps);
    free(variants->named);
    free(variants->refused);
    free(variants->decisions);
    free(variants->name);
    free(variants->path);
    free(variants);
}

/* cuda_engine: execution of the kernels of a program on a CUDA device.
 *
 * In a CUDA graph a kernel may start before its predecessor ends, and reads weights before it waits
 * for it. This is safe because no graph both writes weights and multiplies by them. Launches
 * outside of CUDA graphs do not overlap, since the weights may just have been rounded. */
#include "device/cuda/cuda_engine.h"

#include "base/message.h"
#include "base/memory.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIN_KERNELS = 12 };
enum { SUM_THREADS = 256, ADD_BLOCKS = 1024, ARG_MAX_THREADS = 1024 };

static CudaEngine *engine_of(Engine *engine) {
    CudaEngine *cuda = (CudaEngine *)(void *)engine;
    cuda_enter(cuda->device);
    return cuda;
}

static CudaPointer seed_place(const CudaEngine *engine) {
    return engine->scratch + (sizeof(double) * engine->chunks + 63) / 64 * 64;
}

static CudaPointer range_place(const CudaEngine *engine) {
    return seed_place(engine) + 16;
}

static size_t numbers_bytes(const MoecUpdate *update) {
    return sizeof(float) * (size_t)update->group_count * (size_t)update->scalar_count;
}

static CudaPointer tokens_place(const CudaEngine *engine) {
    return seed_place(engine) + 64;
}

static CudaPointer scalars_place(const CudaEngine *engine) {
    return tokens_place(engine) + sizeof(int32_t) * DEVICE_LIKELY_ROWS;
}

/* ---- services for the program ---- */

typedef struct LaunchWork {
    const CudaDevice *device;
    CudaLaunch launch;
} LaunchWork;

static int work_launch(void *data) {
    const LaunchWork *work = data;
    return cuda_launch(work->device, &work->launch);
}

/* An error ends a capture; outside of captures it ends the use of the device. */
static void note_error(CudaEngine *engine, int error, const char *doing) {
    if (error && engine->capturing)
        engine->refused = error;
    else
        cuda_good(engine->device, error, doing);
}

static void engine_launch(CudaEngine *engine, const CudaLaunch *one) {
    engine->has_work = true;
    LaunchWork work = {engine->device, *one};
    int error = cuda_launch_allow(engine->device, one);
    cuda_range_push(one->name);
    if (!error)
        error = engine->profile
                    ? cuda_profile_work(engine->profile, one->name, 0, work_launch, &work)
                    : work_launch(&work);
    cuda_range_pop();
    if (engine->profile)
        kernel_times_threads(engine->profile->times,
                             (double)one->grid_x * (double)one->grid_y * (double)one->block);
    note_error(engine, error, one->name);
}

/* True if further work would be ignored. */
static bool is_idle(const CudaEngine *engine) {
    return engine->device->failed || engine->refused;
}

static bool has_function(CudaEngine *engine, int kernel) {
    if (engine->functions[kernel]) return true;
    if (!engine->capturing) return cuda_load_spare(engine);
    engine->wants_spare = true;
    engine->refused = CUDA_NOT_IN_CAPTURE;
    return false;
}

static void host_launch(void *self, int kernel, unsigned grid_x, unsigned grid_y, unsigned block,
                        unsigned shared, void **arguments) {
    CudaEngine *engine = self;
    if (is_idle(engine) || !has_function(engine, kernel)) return;
    const CudaLaunch one = {engine->functions[kernel],
                            engine->base.table->kernels[kernel],
                            grid_x,
                            grid_y,
                            block,
                            shared,
                            arguments,
                            engine->capturing && engine->overlaps && !engine->foreign[kernel]};
    engine_launch(engine, &one);
}

/* Counts kernels with variants, not launches. */
static void count_forced(CudaEngine *engine, int kernel, bool used) {
    enum { UNSEEN, LACKING, USED };
    char *use = &engine->forced_uses[kernel];
    if (*use == USED || (*use == LACKING && !used)) return;
    engine->base.variant_missing += !used ? 1 : *use == LACKING ? -1 : 0;
    engine->base.variant_launched += used;
    *use = used ? USED : LACKING;
}

static void host_launch_variant(void *self, int kernel, const MoecKernelVariant *variants,
                                size_t size_bytes, const MoecWritten *written,
                                const MoecMatrices *matrices, void **arguments) {
    CudaEngine *engine = self;
    const CudaVariantLaunch variant = {kernel, variants, size_bytes, written, matrices};
    CudaLaunch one = {engine->functions[kernel],
                      engine->base.table->kernels[kernel],
                      variants->grid,
                      1,
                      variants->block,
                      variants->shared_bytes,
                      arguments,
                      engine->capturing && engine->overlaps};
    if (is_idle(engine)) return;
    const int used = engine->variants
                         ? cuda_variants_take(engine->variants, &variant, !engine->capturing, &one)
                         : MOEC_VARIANT_FIRST;
    if (is_idle(engine)) return;
    if (engine->base.variant) count_forced(engine, kernel, used == engine->forced);
    engine_launch(engine, &one);
}

static void host_zero(void *self, void *memory, size_t bytes) {
    CudaEngine *engine = self;
    engine->has_work = true;
    if (!is_idle(engine))
        note_error(engine,
                   engine->device->library->driver.set(cuda_pointer(memory), 0, bytes,
                                                       engine->device->stream),
                   "clear memory");
}

typedef struct ProductWork {
    const CudaEngine *engine;
    int index;
    const void *a, *b;
    void *c;
    const MoecEpilogue *epilogue;
} ProductWork;

static int work_product(void *data) {
    const ProductWork *work = data;
    return cuda_products_run(work->engine->products, work->index, work->a, work->b, work->c,
                             work->epilogue);
}

static int host_product(void *self, int index, const void *a, const void *b, void *c,
                        const MoecEpilogue *epilogue) {
    CudaEngine *engine = self;
    ProductWork work = {engine, index, a, b, c, epilogue};
    if (!engine->products) return 1;
    engine->has_work = true;
    if (is_idle(engine)) return 0;
    if (!engine->profile && !cuda_ranges_on()) return work_product(&work);
    const MoecProduct *one = &engine->base.table->products[index];
    double count = (double)(one->batch[0] * one->batch[1]);
    char name[96];
    snprintf(name, sizeof name, "%.0f product(s) %ld x %ld x %ld", count, one->m, one->n, one->k);
    cuda_range_push(name);
    const int result =
        engine->profile
            ? cuda_profile_work(engine->profile, name,
                                2 * count * (double)one->m * (double)one->n * (double)one->k,
                                work_product, &work)
            : work_product(&work);
    cuda_range_pop();
    return result;
}

/* ---- loading ---- */

/* Compilation of one source text in its own thread. */
typedef struct EngineBuild {
    const CudaLibrary *library;
    CudaText text;
    CudaImage image;
    bool good;
} EngineBuild;

static void *make_image(void *data) {
    EngineBuild *making = data;
    making->good = cuda_compile(making->library, &making->text, &making->image);
    return NULL;
}

static bool make_images(CudaDevice *device, EngineBuild *makings, int count) {
    pthread_t threads[PART_LIMIT + 1];
    bool started[PART_LIMIT + 1] = {false}, good = true;
    for (int i = 0; i < count; i++) {
        makings[i].library = device->library;
        makings[i].text.major = device->major;
        makings[i].text.minor = device->minor;
        started[i] = i > 0 && pthread_create(&threads[i], NULL, make_image, &makings[i]) == 0;
    }
    for (int i = 0; i < count; i++)
        if (!started[i]) make_image(&makings[i]);
    for (int i = 0; i < count; i++) {
        if (started[i]) pthread_join(threads[i], NULL);
        good = good && makings[i].good;
    }
    return good;
}

/* Marks, by kernel number, the own kernels of dense products that cuBLASLt computes instead. They
 * dominate the compile time of a dense model. */
static bool *spare_kernels(const CudaEngine *engine) {
    const MoecTable *table = engine->base.table;
    bool *spare = memory_new(sizeof *spare * (size_t)(table->kernel_count + 1));
    const bool known = engine->products && table->own_products;
    for (int i = 0; known && i < table->product_count; i++)
        spare[table->own_products[i].kernel] = true;
    for (int i = 0; known && i < table->product_count; i++)
        if (!cuda_products_taken(engine->products, i)) spare[table->own_products[i].kernel] = false;
    return spare;
}

/* Searches all modules; the assignment of kernels to parts is arbitrary. */
static CudaFunction *find_function(const CudaEngine *engine, const char *name) {
    CudaFunction *function = NULL;
    for (int i = 0; i < engine->module_count; i++)
        if (!engine->device->library->driver.function_get(&function, engine->modules[i], name))
            return function;
    error_message("please report this with the spec", "the program has no kernel %s", name);
    return NULL;
}

CudaFunction *cuda_engine_function(Engine *engine, const char *name) {
    return find_function(engine_of(engine), name);
}

static bool load_module(CudaEngine *engine, const EngineBuild *making) {
    CudaModule **module = &engine->modules[engine->module_count];
    bool good = cuda_good(engine->device,
                          engine->device->library->driver.module_load(module, making->image.bytes),
                          "load the kernels");
    engine->module_count += good;
    return good;
}

/* The functions of all kernels except the spare ones. */
static bool load_functions(CudaEngine *engine, const EngineBuild *makings, int count,
                           const bool *spare) {
    const MoecTable *table = engine->base.table;
    bool good = true;
    for (int i = 0; i < count && good; i++) good = load_module(engine, &makings[i]);
    engine->functions = memory_new(sizeof(CudaFunction *) * (size_t)(table->kernel_count + 1));
    for (int i = 0; good && i < table->kernel_count; i++)
        good = spare[i] || (engine->functions[i] = find_function(engine, table->kernels[i]));
    return good && (engine->square_chunks = find_function(engine, "moec_square_chunks")) &&
           (engine->add = find_function(engine, "moec_add")) &&
           (engine->most_likely = find_function(engine, "moec_most_likely"));
}

bool cuda_load_spare(CudaEngine *engine) {
    const MoecTable *table = engine->base.table;
    EngineBuild making = {.text = {.name = "program.cu", .text = engine->spare}};
    if (engine->device->failed) return false;
    bool good = make_images(engine->device, &making, 1) && load_module(engine, &making);
    for (int i = 0; good && i < table->kernel_count; i++)
        if (!engine->functions[i])
            good = (engine->functions[i] = find_function(engine, table->kernels[i])) != NULL;
    free(making.image.bytes);
    if (!good) engine->device->failed = true;
    return good;
}

/* Number of parts to compile in parallel: one per processor if there are enough kernels for
 * each. */
static int part_count(int kernels) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN), worth = kernels / MIN_KERNELS;
    long parts = processors < worth ? processors : worth;
    return parts < 1 ? kernels > 0 : parts < PART_LIMIT ? (int)parts : PART_LIMIT;
}

static void startup_add(char *text, size_t size, const char *format, ...) {
    const size_t length = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + length, size - length, format, values);
    va_end(values);
}

static void write_startup(CudaEngine *engine, int kernels, double making, double loading) {
    char *startup = engine->base.startup;
    const size_t size = sizeof engine->base.startup;
    startup_add(startup, size, "%s: opened in %.2f s, %d kernels %s in %.2f s, loaded in %.2f s",
                engine->device->base.name, engine->device->seconds, kernels,
                engine->base.cached ? "found" : "compiled", making, loading);
    startup_add(startup, size, "%s",
                !engine->graphs    ? ", no CUDA graphs"
                : engine->overlaps ? ", overlapping launches"
                                   : "");
    if (!engine->products) return;
    startup_add(startup, size, ", products by cuBLASLt, %d timed",
                cuda_products_timed(engine->products));
    const int declined = cuda_products_declined(engine->products);
    if (declined) startup_add(startup, size, ", %d by the own kernels", declined);
}

/* Distributes the wanted pieces over source texts, and adds the kernels that are the same in every
 * program. Returns the number of texts. */
static int make_texts(EngineBuild *makings, const MoecKernels *kernels, const bool *wanted,
                      bool keep) {
    int parts = part_count(cuda_kernels(kernels, wanted));
    for (int i = 0; i < parts; i++)
        makings[i].text = (CudaText){
            .name = "program.cu", .text = cuda_part(kernels, wanted, i, parts), .keep = keep};
    makings[parts].text = (CudaText){
        .name = "fixed.cu",
        .text = memory_format(
            "#include \"fixed.cuh\"\n#include \"sums.cuh\"\n#include \"exchange.cuh\"\n"),
        .keep = keep};
    return parts + 1;
}

static bool load_kernels(CudaEngine *engine, const MoecKernels *kernels, bool keep) {
    EngineBuild makings[PART_LIMIT + 1] = {{.good = false}};
    AUTO_FREE bool *spare = spare_kernels(engine), *wanted = cuda_pieces(kernels, spare, false);
    AUTO_FREE bool *rest = cuda_pieces(kernels, spare, true);
    engine->spare = cuda_part(kernels, rest, 0, 1);
    int count = make_texts(makings, kernels, wanted, keep);
    double start = seconds_now();
    bool good = make_images(engine->device, makings, count);
    double made = seconds_now();
    engine->base.cached = makings[0].image.cached;
    good = good && load_functions(engine, makings, count, spare);
    if (good)
        engine->variants = cuda_variants_new(
            &(const CudaProgram){engine->device, engine->base.table, engine->modules,
                                 engine->module_count, engine->functions, kernels->text, keep},
            engine->forced);
    double loaded = seconds_now();
    engine->base.seconds = loaded - start;
    write_startup(engine, cuda_kernels(kernels, wanted), made - start, loaded - made);
    for (int i = 0; i < count; i++) {
        free(makings[i].image.bytes);
        free((void *)(uintptr_t)makings[i].text.text);
    }
    return good;
}

/* MoecTable.round */
static void run_rounding(const MoecHost *host, const float *weights, void *rounded) {
    const CudaEngine *engine = host->self;
    steps_run(
        engine->program->round,
        &(const MoecRun){.weights = (float *)(uintptr_t)weights, .rounded = rounded, .host = host});
}

Engine *cuda_engine_new(Device *device, const MoecTable *table, MoecDeviceProgram *program,
                        bool keep) {
    CudaEngine *engine = memory_new(sizeof *engine);
    engine->device = (CudaDevice *)(void *)device;
    engine->base.device = device;
    engine->base.table = table;
    engine->program = program;
    if (program->round) program->table->round = run_rounding;
    cuda_enter(engine->device);
    engine->forced = cuda_forced_variant(&engine->base.variant);
    engine->forced_uses = memory_new((size_t)table->kernel_count + 1);
    engine->foreign = memory_new(sizeof *engine->foreign * ((size_t)table->kernel_count + 1));
    for (int i = 0; i < program->kernels.count; i++)
        if (program->kernels.pieces[i].foreign)
            engine->foreign[program->kernels.pieces[i].kernel] = true;
    engine->graphs = !cuda_off("MOEC_GRAPH") && !cuda_ranges_on();
    engine->overlaps = engine->graphs && engine->device->major >= 9 && !cuda_off("MOEC_OVERLAP");
    engine->products = cuda_products_new(engine->device, table, keep);
    engine->base.host = (MoecHost){.self = engine,
                                   .product = host_product,
                                   .launch = host_launch,
                                   .zero = host_zero,
                                   .launch_variant = host_launch_variant};
    size_t numbers = table->update ? numbers_bytes(table->update) : 0;
    engine->chunks = table->weight_bytes / sizeof(float) / DEVICE_CHUNK + 1;
    size_t bytes =
        sizeof(double) * engine->chunks + 128 + numbers + sizeof(int32_t) * DEVICE_LIKELY_ROWS;
    if (cuda_good(engine->device, engine->device->library->driver.allocate(&engine->scratch, bytes),
                  "allocate memory") &&
        load_kernels(engine, &program->kernels, keep))
        return &engine->base;
    cuda_engine_free(&engine->base);
    return NULL;
}

bool cuda_engine_time_kernels(Engine *base, KernelTimes *times) {
    CudaEngine *engine = engine_of(base);
    cuda_profile_free(engine->profile);
    engine->profile = times ? cuda_profile_new(engine->device, times) : NULL;
    return !times || engine->profile;
}

void cuda_engine_free(Engine *base) {
    CudaEngine *engine = engine_of(base);
    const CudaDriver *driver = &engine->device->library->driver;
    if (!engine->device->hung) {
        cuda_profile_free(engine->profile);
        for (int i = 0; i < engine->capture_count; i++)
            cuda_free_segments(engine, &engine->captures[i]);
        cuda_products_free(engine->products);
        for (int i = 0; i < engine->module_count; i++) driver->module_free(engine->modules[i]);
    }
    cuda_variants_free(engine->variants);
    cuda_free(engine->device, engine->scratch);
    free(engine->functions);
    free(engine->forced_uses);
    free(engine->foreign);
    free(engine->spare);
    free(engine);
}

/* ---- running ---- */

typedef struct GraphWork {
    const MoecSteps *steps;
    const MoecRun *run;
} GraphWork;

static void work_graph(CudaEngine *engine, const void *data) {
    const GraphWork *work = data;
    MoecRun run = *work->run;
    if (engine->capturing && steps_wait(work->steps)) run.host = &engine->capture_host;
    steps_run(work->steps, &run);
}

/* Copies the seed of a run, unless the device has it. */
static bool put_seed(CudaEngine *engine, uint64_t seed) {
    if (engine->seeded && engine->seed == seed) return true;
    engine->seed = seed;
    engine->seeded = engine->base.device->kind->put(
        engine->base.device, (void *)(uintptr_t)seed_place(engine), &engine->seed, sizeof seed);
    return engine->seeded;
}

bool cuda_engine_run(Engine *base, const MoecGraphEntry *graph, MoecRun *run) {
    static const char *const names[] = {
        [MOEC_GRAPH_FORWARD] = "forward", [MOEC_GRAPH_TRAIN] = "train",
        [MOEC_GRAPH_DECODE] = "decode",   [MOEC_GRAPH_MEASURE] = "eval",
        [MOEC_GRAPH_STEP] = "step",       [MOEC_GRAPH_GATHER] = "gather",
        [MOEC_GRAPH_REFINE] = "refine",   [MOEC_GRAPH_PREPARE] = "prepare"};
    CudaEngine *engine = engine_of(base);
    run->host = &base->host;
    run->device_seed = (const uint64_t *)(uintptr_t)seed_place(engine);
    if (!put_seed(engine, run->seed)) return false;
    const CaptureKey key = {graph,
                            graph->input_count ? run->inputs[0] : NULL,
                            graph->output_count ? run->outputs[0] : NULL,
                            run->cache,
                            run->first_micro_batch,
                            run->last_micro_batch};
    const GraphWork work = {engine->program->graphs[graph - base->table->graphs], run};
    cuda_range_push(names[graph->kind]);
    const bool good = cuda_repeat(engine, &key, &(const RepeatedCall){work_graph, &work});
    cuda_range_pop();
    return good;
}

static int launch_fixed(const CudaEngine *engine, CudaFunction *function, size_t blocks,
                        unsigned threads, void **arguments) {
    return engine->device->library->driver.launch(function, (unsigned)blocks, 1, 1, threads, 1, 1,
                                                  0, engine->device->stream, arguments, NULL);
}

bool cuda_engine_square_sums(Engine *base, const float *block, size_t count, double *sums) {
    CudaEngine *engine = engine_of(base);
    const size_t chunks = (count + DEVICE_CHUNK - 1) / DEVICE_CHUNK;
    long long length = (long long)count;
    CudaPointer values = cuda_pointer(block), there = engine->scratch;
    void *arguments[] = {&values, &length, &there};
    return !chunks ||
           (cuda_good(engine->device,
                      launch_fixed(engine, engine->square_chunks, chunks, SUM_THREADS, arguments),
                      "add up") &&
            base->device->kind->get(base->device, sums, (const void *)(uintptr_t)there,
                                    sizeof *sums * chunks));
}

bool cuda_engine_most_likely(Engine *base, const float *logits, long rows, long width,
                             int32_t *tokens) {
    CudaEngine *engine = engine_of(base);
    CudaPointer from = cuda_pointer(logits), there = tokens_place(engine);
    void *arguments[] = {&from, &width, &there};
    return cuda_good(
               engine->device,
               launch_fixed(engine, engine->most_likely, (size_t)rows, ARG_MAX_THREADS, arguments),
               "find the most likely token") &&
           base->device->kind->get(base->device, tokens, (const void *)(uintptr_t)there,
                                   sizeof *tokens * (size_t)rows);
}

bool cuda_engine_add_tree(Engine *base, float *const *parts, int count, size_t length, float *to) {
    CudaEngine *engine = engine_of(base);
    const size_t wanted = (length / 4 + SUM_THREADS - 1) / SUM_THREADS;
    const unsigned blocks = wanted < ADD_BLOCKS ? (unsigned)wanted : ADD_BLOCKS;
    long long elements = (long long)length;
    int error = 0;
    for (int apart = 1; apart < count; apart *= 2)
        for (int i = 0; i + apart < count && !error; i += 2 * apart) {
            CudaPointer left = cuda_pointer(parts[i]), right = cuda_pointer(parts[i + apart]),
                        sum = 2 * apart < count ? left : cuda_pointer(to);
            void *arguments[] = {&sum, &left, &right, &elements};
            error = launch_fixed(engine, engine->add, blocks, SUM_THREADS, arguments);
        }
    return cuda_good(engine->device, error, "add up");
}

static void work_update(CudaEngine *engine, const void *data) {
    const BlockUpdate *given = data;
    const int states = engine->base.table->update->state_count;
    AUTO_FREE const void **inputs = memory_new(sizeof *inputs * (size_t)(states + 2));
    for (int i = 0; i < states; i++) inputs[i] = given->moments[i];
    inputs[states] = (const void *)(uintptr_t)scalars_place(engine);
    inputs[states + 1] = (const void *)(uintptr_t)range_place(engine);
    steps_run(engine->program->update,
              &(const MoecRun){.weights = given->weights,
                               .gradients = (float *)(uintptr_t)given->gradients,
                               .rounded = given->rounded,
                               .inputs = inputs,
                               .host = &engine->base.host});
}

double cuda_engine_rate(const Engine *base, double step, double steps) {
    return moec_rate(((const CudaEngine *)(const void *)base)->program, step, steps);
}

bool cuda_engine_round(Engine *base, const float *weights, void *rounded) {
    CudaEngine *engine = engine_of(base);
    base->table->round(&base->host, weights, rounded);
    return cuda_good(engine->device, 0, "");
}

bool cuda_engine_update(Engine *base, const BlockUpdate *given) {
    CudaEngine *engine = engine_of(base);
    const MoecUpdate *update = base->table->update;
    AUTO_FREE float *numbers = update_numbers(base->table, given);
    const long long range[] = {(long long)given->start, (long long)given->end};
    bool good = base->device->kind->put(base->device, (void *)(uintptr_t)scalars_place(engine),
                                        numbers, numbers_bytes(update)) &&
                base->device->kind->put(base->device, (void *)(uintptr_t)range_place(engine), range,
                                        sizeof range);
    const CaptureKey key = {.what = update};
    return good && cuda_repeat(engine, &key, &(const RepeatedCall){work_update, given});
}

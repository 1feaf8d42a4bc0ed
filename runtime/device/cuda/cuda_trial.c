#include "device/cuda/cuda_variants.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ROUNDS = 3,
    MAX_RUNS = 20,
    REPETITIONS = 10,
    BLOCKS = 512,
    THREADS = 256,
    ALIGN = 256,
    POLL_MICROSECONDS = 20
};

/* Launches of this many seconds raise the clock of the device before the first measurement. */
static const double WARM_SECONDS = 0.2;

/* Duration of one measurement in seconds, long compared with the clock resolution and the launch
 * overhead. */
static const double MIN_SECONDS = 3e-4;

/* Seconds until a launch counts as endless. */
static const double PATIENCE = 2;

/* Difference between two summation orders, relative to the results: of the largest values, and of
 * the sums of squares. */
typedef struct DifferenceLimits {
    double largest, squares;
} DifferenceLimits;
/* f32 sums; those stored as bf16, where a change of the last bit everywhere is 8e-6; results
 * derived from values rounded to bf16, at different points. */
static const DifferenceLimits f32_limits = {1e-3, 1e-8}, bf16_limits = {1.0 / 128, 2e-5},
                              rounded_limits = {1.0 / 128, 1e-4}, equal_bits = {0, 0};

/* Seconds of the variants with MOEC_CHOICE=first. */
static const double fixed_seconds[VARIANTS] = {3e-6, 1e-6, 2e-6};

struct CudaTrial {
    CudaDevice *device;
    CudaFunction *compare;
    CudaPointer parts; /* results of `compare`: 4 numbers per block */
    CudaEvent *events[2];
    bool warm;
};

CudaTrial *cuda_trial_new(CudaDevice *device, CudaFunction *compare) {
    const CudaDriver *driver = &device->library->driver;
    CudaTrial *trial = memory_new(sizeof *trial);
    *trial = (CudaTrial){.device = device, .compare = compare};
    if (!driver->allocate(&trial->parts, sizeof(double) * 4 * BLOCKS) &&
        !driver->event_new(&trial->events[0], 0) && !driver->event_new(&trial->events[1], 0))
        return trial;
    cuda_trial_free(trial);
    return NULL;
}

void cuda_trial_free(CudaTrial *trial) {
    if (!trial) return;
    for (int i = 0; i < 2; i++)
        if (trial->events[i]) trial->device->library->driver.event_free(trial->events[i]);
    cuda_free(trial->device, trial->parts);
    free(trial);
}

/* ---- saved memory ---- */

static size_t bytes_of(const MoecWritten *written) {
    return (size_t)written->count * (written->type == MOEC_BF16 ? 2 : 4);
}

static size_t saved_bytes(const MoecWritten *written) {
    size_t bytes = 0;
    for (; written->at; written++) bytes += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    return bytes;
}

/* Copies the written elements to a block of saved_bytes, or back. */
static bool copy_written(const CudaTrial *trial, const MoecWritten *written, CudaPointer block,
                         bool back) {
    const CudaDevice *device = trial->device;
    bool good = true;
    for (; written->at && good; written++) {
        CudaPointer there = cuda_pointer(written->at);
        good = device->library->driver.copy(back ? there : block, back ? block : there,
                                            bytes_of(written), device->stream) == 0;
        block += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return good;
}

/* ---- comparison ---- */

typedef enum Verdict { AGREES, DISAGREES, UNTOLD, STOPPED } Verdict;

/* Waits for the device without blocking in the driver: a kernel that never ends is found. Returns
 * an error number. */
static int wait_patiently(const CudaDevice *device) {
    const double began = seconds_now();
    int error;
    while ((error = device->library->driver.stream_query(device->stream)) == CUDA_NOT_READY) {
        if (seconds_now() - began > PATIENCE) break;
        usleep(POLL_MICROSECONDS);
    }
    return error;
}

/* Results of one array: largest value and difference, sums of squares of values and differences. */
typedef struct ArrayDifference {
    double largest, apart, squares, apart_squares;
} ArrayDifference;

/* Returns an error number. */
static int compare_array(const CudaTrial *trial, const MoecWritten *written, CudaPointer block,
                         ArrayDifference *found) {
    const CudaDevice *device = trial->device;
    const CudaDriver *driver = &device->library->driver;
    long long count = written->count, blocks = (count + THREADS - 1) / THREADS;
    int stored = written->type == MOEC_BF16;
    CudaPointer there = cuda_pointer(written->at), parts = trial->parts;
    void *arguments[] = {&block, &there, &count, &stored, &parts};
    double values[4 * BLOCKS];
    const CudaLaunch launch = {.function = trial->compare,
                               .grid_x = blocks < BLOCKS ? (unsigned)blocks : BLOCKS,
                               .grid_y = 1,
                               .block = THREADS,
                               .arguments = arguments};
    int error = cuda_launch(device, &launch);
    if (!error)
        error = driver->get(values, parts, sizeof(double) * 4 * launch.grid_x, device->stream);
    if (!error) error = driver->stream_wait(device->stream);
    *found = (ArrayDifference){0};
    for (unsigned i = 0; i < launch.grid_x && !error; i++) {
        const double *part = &values[4 * (size_t)i];
        found->largest = fmax(found->largest, part[0]);
        found->apart = fmax(found->apart, part[1]);
        found->squares += part[2];
        found->apart_squares += part[3];
    }
    return error;
}

static const DifferenceLimits *rounding_limits(const MoecWritten *written) {
    return written->rounded             ? &rounded_limits
           : written->type == MOEC_BF16 ? &bf16_limits
                                        : &f32_limits;
}

/* Compares the written elements with a block; limits: NULL = rounding. UNTOLD if all are 0. */
static Verdict compare_written(const CudaTrial *trial, const MoecWritten *written,
                               CudaPointer block, const DifferenceLimits *limits) {
    bool told = false;
    for (; written->at; written++) {
        const DifferenceLimits *limit = limits ? limits : rounding_limits(written);
        ArrayDifference found;
        if (compare_array(trial, written, block, &found)) return STOPPED;
        told |= found.largest > 0;
        if (!(found.apart <= limit->largest * found.largest &&
              found.apart_squares <= limit->squares * found.squares))
            return DISAGREES;
        block += (bytes_of(written) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return told ? AGREES : UNTOLD;
}

/* A kernel has failed or never ends, which ends the use of the device. */
static Verdict report_stop(CudaDevice *device, const CudaLaunch *launch, int error) {
    device->hung = error == CUDA_NOT_READY;
    device->failed = true;
    error_message(
        "run it again: this variant will not be used; MOEC_WGMMA=off disables all warpgroup "
        "kernels; please report this with the spec",
        device->hung ? "%s: kernel %s does not end" : "%s: kernel %s stopped the device",
        device->base.name, launch->name);
    return STOPPED;
}

/* The memory of a trial: the written elements before the launch, and results to compare with. */
typedef struct SavedMemory {
    const MoecWritten *written;
    CudaPointer before, results;
} SavedMemory;

/* Launches a variant on the memory before the launch and compares the results. */
static Verdict try_variant(const CudaTrial *trial, const SavedMemory *saved,
                           const CudaLaunch *launch, const DifferenceLimits *limits) {
    CudaDevice *device = trial->device;
    if (!copy_written(trial, saved->written, saved->before, true)) return STOPPED;
    const int refused = cuda_launch(device, launch), error = wait_patiently(device);
    if (error) return report_stop(device, launch, error);
    return refused ? DISAGREES : compare_written(trial, saved->written, saved->results, limits);
}

static void report_difference(const CudaLaunch *launch, const char *what) {
    note_message("kernel %s %s and is not used; please report this with the device and the spec "
                 "(MOEC_WGMMA=off disables all warpgroup kernels)",
                 launch->name, what);
}

/* Repeats a variant: the kernels are deterministic, so different bits are a race. */
static Verdict repeat_variant(const CudaTrial *trial, const SavedMemory *saved,
                              const CudaLaunch *launch) {
    Verdict verdict = try_variant(trial, saved, launch, NULL);
    if (verdict != AGREES) return verdict;
    if (!copy_written(trial, saved->written, saved->results, false)) return STOPPED;
    for (int i = 1; i < REPETITIONS && verdict == AGREES; i++)
        verdict = try_variant(trial, saved, launch, &equal_bits);
    if (verdict == DISAGREES) report_difference(launch, "has other results in each run");
    return verdict;
}

/* ---- timing ---- */

/* Seconds per launch, infinite after an error. */
static double time_runs(const CudaTrial *trial, const CudaLaunch *launch, int runs) {
    CudaDevice *device = trial->device;
    const CudaDriver *driver = &device->library->driver;
    float milliseconds = 0;
    int error = driver->event_record(trial->events[0], device->stream);
    for (int i = 0; i < runs && !error; i++) error = cuda_launch(device, launch);
    if (!error) error = driver->event_record(trial->events[1], device->stream);
    const int stopped = wait_patiently(device);
    if (stopped) report_stop(device, launch, stopped);
    if (!error && !stopped)
        error = driver->event_time(&milliseconds, trial->events[0], trial->events[1]);
    return error || stopped ? INFINITY : 1e-3 * (double)milliseconds / runs;
}

static void warm_up(CudaTrial *trial, const CudaLaunch *launch) {
    const double began = seconds_now();
    int runs = 1;
    while (!trial->warm && !trial->device->failed && seconds_now() - began < WARM_SECONDS) {
        if (isinf(time_runs(trial, launch, runs))) break;
        if (runs < MAX_RUNS) runs++;
    }
    trial->warm = true;
}

/* The least seconds of each variant that agrees, measured in turn: A B A B. */
static void time_variants(CudaTrial *trial, const CudaLaunch launches[VARIANTS],
                          const Verdict verdicts[VARIANTS], double seconds[VARIANTS]) {
    if (cuda_choices_are_fixed()) {
        for (int i = 0; i < VARIANTS; i++)
            if (verdicts[i] == AGREES) seconds[i] = fixed_seconds[i];
        return;
    }
    warm_up(trial, &launches[FIRST]);
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < VARIANTS && !trial->device->failed; i++) {
            if (verdicts[i] != AGREES) continue;
            const double wanted = round ? MIN_SECONDS / seconds[i] : 1;
            const int runs = wanted < 1 ? 1 : wanted < MAX_RUNS ? (int)wanted + 1 : MAX_RUNS;
            seconds[i] = fmin(seconds[i], time_runs(trial, &launches[i], round ? runs : 1));
        }
}

/* ---- the trial ---- */

static int fastest(const double seconds[VARIANTS]) {
    int best = FIRST;
    for (int i = 0; i < VARIANTS; i++)
        if (seconds[i] < seconds[best]) best = i;
    return best;
}

/* True if each variant agrees or disagrees with the first. */
static bool compare_variants(const CudaTrial *trial, const SavedMemory *saved,
                             const CudaLaunch launches[VARIANTS], Verdict verdicts[VARIANTS]) {
    CudaDevice *device = trial->device;
    bool good = copy_written(trial, saved->written, saved->before, false) &&
                cuda_good(device, cuda_launch(device, &launches[FIRST]), launches[FIRST].name) &&
                cuda_good(device, device->library->driver.stream_wait(device->stream),
                          launches[FIRST].name) &&
                copy_written(trial, saved->written, saved->results, false);
    verdicts[FIRST] = AGREES;
    for (int i = FIRST + 1; i < VARIANTS && good; i++) {
        verdicts[i] = DISAGREES;
        if (!launches[i].function) continue;
        verdicts[i] = try_variant(trial, saved, &launches[i], NULL);
        if (verdicts[i] == DISAGREES)
            report_difference(&launches[i], "differs from its other variant");
        good = verdicts[i] == AGREES || verdicts[i] == DISAGREES;
    }
    return good;
}

/* The fastest variant that has the same bits in each run; UNDECIDED after an error. */
static int select_variant(const CudaTrial *trial, const SavedMemory *saved,
                          const CudaLaunch launches[VARIANTS], double seconds[VARIANTS]) {
    for (;;) {
        const int best = fastest(seconds);
        if (best == FIRST) return best;
        const Verdict verdict = repeat_variant(trial, saved, &launches[best]);
        if (verdict != DISAGREES) return verdict == AGREES ? best : UNDECIDED;
        seconds[best] = INFINITY;
        /* the results of the first variant, for the next one */
        if (!copy_written(trial, saved->written, saved->before, true) ||
            cuda_launch(trial->device, &launches[FIRST]) ||
            !copy_written(trial, saved->written, saved->results, false))
            return UNDECIDED;
    }
}

int cuda_trial_run(CudaTrial *trial, const MoecWritten *written,
                   const CudaLaunch launches[VARIANTS], double seconds[VARIANTS]) {
    CudaDevice *device = trial->device;
    const size_t bytes = saved_bytes(written);
    Verdict verdicts[VARIANTS];
    SavedMemory saved = {.written = written};
    int best = UNDECIDED;
    for (int i = 0; i < VARIANTS; i++) seconds[i] = INFINITY;
    if (device->library->driver.allocate(&saved.before, 2 * bytes)) {
        note_message("%s: kernel %s uses its first variant: no memory to compare its %.0f MB with "
                     "another one",
                     device->base.name, launches[FIRST].name, 1e-6 * (double)bytes);
        return UNDECIDED;
    }
    saved.results = saved.before + bytes;
    if (compare_variants(trial, &saved, launches, verdicts)) {
        time_variants(trial, launches, verdicts, seconds);
        if (!device->failed) best = select_variant(trial, &saved, launches, seconds);
    }
    if (!device->failed) copy_written(trial, written, saved.before, true);
    cuda_free(device, saved.before);
    return device->failed ? UNDECIDED : best;
}

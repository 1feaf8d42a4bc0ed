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
    BLOCKS = 512,
    THREADS = 256,
    ALIGN = 256,
    POLL_MICROSECONDS = 20
};

/* Duration of one measurement in seconds, long compared with the clock resolution and the launch
 * overhead. */
static const double MIN_SECONDS = 3e-4;

/* Seconds until a launch counts as endless. */
static const double PATIENCE = 2;

/* Maximum difference between two summation orders, relative to the largest result: f32 sums, and
 * results that are, or derive from, values rounded to bf16. */
static const double LIMIT_F32 = 1e-3, LIMIT_BF16 = 1.0 / 128;

struct CudaTrial {
    CudaDevice *device;
    CudaFunction *compare;
    CudaPointer most; /* result of `compare` */
    CudaEvent *events[2];
};

CudaTrial *cuda_trial_new(CudaDevice *device, CudaFunction *compare) {
    const CudaDriver *driver = &device->library->driver;
    CudaTrial *trial = memory_new(sizeof *trial);
    *trial = (CudaTrial){.device = device, .compare = compare};
    if (!driver->allocate(&trial->most, 2 * sizeof(float)) &&
        !driver->event_new(&trial->events[0], 0) && !driver->event_new(&trial->events[1], 0))
        return trial;
    cuda_trial_free(trial);
    return NULL;
}

void cuda_trial_free(CudaTrial *trial) {
    if (!trial) return;
    for (int i = 0; i < 2; i++)
        if (trial->events[i]) trial->device->library->driver.event_free(trial->events[i]);
    cuda_free(trial->device, trial->most);
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

/* Compares the written elements with a block. UNTOLD if all are 0. */
static Verdict compare_written(const CudaTrial *trial, const MoecWritten *written,
                               CudaPointer block) {
    const CudaDevice *device = trial->device;
    const CudaDriver *driver = &device->library->driver;
    bool told = false;
    for (; written->at; written++) {
        long long count = written->count;
        int stored = written->type == MOEC_BF16;
        double limit = stored || written->rounded ? LIMIT_BF16 : LIMIT_F32;
        CudaPointer there = cuda_pointer(written->at), most = trial->most;
        void *arguments[] = {&block, &there, &count, &stored, &most};
        long long blocks = (count + THREADS - 1) / THREADS;
        float found[2] = {0};
        const CudaLaunch launch = {.function = trial->compare,
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

/* Launches a variant on the memory `before` and compares its results with `results`. */
static Verdict try_variant(const CudaTrial *trial, const MoecWritten *written, CudaPointer before,
                           CudaPointer results, const CudaLaunch *launch) {
    CudaDevice *device = trial->device;
    if (!copy_written(trial, written, before, true)) return STOPPED;
    const int refused = cuda_launch(device, launch), error = wait_patiently(device);
    if (error) return report_stop(device, launch, error);
    Verdict verdict = refused ? DISAGREES : compare_written(trial, written, results);
    if (verdict == DISAGREES)
        note_message("kernel %s differs from its other variant and is not used; please report this "
                     "with the device and the spec (MOEC_WGMMA=off disables all warpgroup kernels)",
                     launch->name);
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

/* The least seconds of each variant that agrees, measured in turn: A B A B. */
static void time_variants(const CudaTrial *trial, const CudaLaunch launches[VARIANTS],
                          const Verdict verdicts[VARIANTS], double seconds[VARIANTS]) {
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
static bool compare_variants(const CudaTrial *trial, const MoecWritten *written, CudaPointer before,
                             CudaPointer results, const CudaLaunch launches[VARIANTS],
                             Verdict verdicts[VARIANTS]) {
    CudaDevice *device = trial->device;
    bool good = copy_written(trial, written, before, false) &&
                cuda_good(device, cuda_launch(device, &launches[FIRST]), launches[FIRST].name) &&
                cuda_good(device, device->library->driver.stream_wait(device->stream),
                          launches[FIRST].name) &&
                copy_written(trial, written, results, false);
    verdicts[FIRST] = AGREES;
    for (int i = FIRST + 1; i < VARIANTS && good; i++) {
        verdicts[i] = launches[i].function
                          ? try_variant(trial, written, before, results, &launches[i])
                          : DISAGREES;
        good = verdicts[i] == AGREES || verdicts[i] == DISAGREES;
    }
    return good;
}

int cuda_trial_run(CudaTrial *trial, const MoecWritten *written,
                   const CudaLaunch launches[VARIANTS], double seconds[VARIANTS]) {
    CudaDevice *device = trial->device;
    const size_t bytes = saved_bytes(written);
    Verdict verdicts[VARIANTS];
    CudaPointer before = 0;
    for (int i = 0; i < VARIANTS; i++) seconds[i] = INFINITY;
    if (device->library->driver.allocate(&before, 2 * bytes)) return UNDECIDED;
    const bool good = compare_variants(trial, written, before, before + bytes, launches, verdicts);
    if (good) time_variants(trial, launches, verdicts, seconds);
    if (!device->failed) copy_written(trial, written, before, true);
    cuda_free(device, before);
    return good && !device->failed ? fastest(seconds) : UNDECIDED;
}

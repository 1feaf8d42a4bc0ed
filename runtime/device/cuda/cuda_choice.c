#include "device/cuda/cuda_choice.h"

#include "base/cache.h"
#include "base/memory.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 8, TRIES = 3, MAX_RUNS = 20, VERSION_PARTS = 3 };

/* Duration of one measurement in seconds, long compared with the clock resolution and the launch
 * overhead. */
static const double MIN_SECONDS = 3e-4;

bool cuda_epilogue(const BlasWork *work, const BlasTask *task, const MoecProduct *product,
                   const BlasOperands *operands) {
    const CudaBlas *blas = work->blas;
    const void *bias = (const void *)(uintptr_t)operands->bias;
    const void *kept = (const void *)(uintptr_t)operands->kept;
    return (!(product->epilogue_ops & MOEC_BIAS) ||
            !blas->product_set(task->product, BLAS_BIAS_POINTER, &bias, sizeof bias)) &&
           (!product->kept_m ||
            !blas->product_set(task->product, BLAS_KEPT_POINTER, &kept, sizeof kept));
}

bool cuda_multiply(const BlasWork *work, const BlasTask *task, const BlasChoice *choice,
                   const MoecProduct *product, const BlasOperands *operands) {
    const bool adds = product->epilogue_ops & MOEC_ADD;
    const float scale = product->epilogue_ops & MOEC_SCALE ? product->scale : 1;
    const float start = adds || product->accumulate ? 1 : 0;
    if (!cuda_epilogue(work, task, product, operands)) return false;
    for (size_t call = 0; call < (size_t)task->calls; call++) {
        CudaPointer result = operands->c + call * task->c_step;
        if (work->blas->run(work->handle, task->product, &scale, operands->b + call * task->b_step,
                            task->left, operands->a + call * task->a_step, task->right, &start,
                            adds ? operands->add : result, task->added, result, task->result,
                            choice->algorithm, work->workspace, BLAS_WORKSPACE,
                            work->device->stream))
            return false;
    }
    return true;
}

/* ---- cached choices ---- */

/* All inputs of the choice, as text. */
static char *describe_choice(const BlasWork *work, const MoecProduct *p, int alignment) {
    int version[VERSION_PARTS] = {0};
    for (int i = 0; i < VERSION_PARTS; i++) work->blas->property(i, &version[i]);
    return memory_format(
        "%s; cuBLASLt %d.%d.%d; %d bytes; %ld %ld %ld; %ld %ld %ld %ld %ld; %ld %ld; "
        "%ld %ld; %ld %ld; %ld %ld; %d %d %d %d %d; %d %ld %ld\n",
        work->device->base.name, version[0], version[1], version[2], alignment, p->m, p->n, p->k,
        p->a_m, p->a_k, p->b_k, p->b_n, p->c_m, p->batch[0], p->batch[1], p->a_batch[0],
        p->a_batch[1], p->b_batch[0], p->b_batch[1], p->c_batch[0], p->c_batch[1], p->accumulate,
        p->rounded, (int)p->a_type, (int)p->b_type, (int)p->c_type, p->epilogue_ops, p->add_m,
        p->kept_m);
}

static char *choice_name(const char *text) {
    XXH3_state_t *state = cache_begin();
    cache_add(state, text);
    return cache_file_name(state, ".product");
}

/* Asks cuBLASLt whether it still supports the algorithm. */
static bool choice_is_known(const BlasWork *work, const BlasTask *task, BlasChoice *choice) {
    BlasChoice checked = {.status = 0};
    if (work->blas->check(work->handle, task->product, task->left, task->right, task->added,
                          task->result, choice->algorithm, &checked) ||
        checked.workspace > BLAS_WORKSPACE)
        return false;
    choice->workspace = checked.workspace;
    return true;
}

/* The recorded algorithm, as hexadecimal words. */
static bool read_recorded(const BlasWork *work, const char *name, BlasChoice *choice) {
    const char *text = cuda_recorded_choice(work->device, name);
    int used, words = 0;
    for (; text && words < BLAS_ALGORITHM_WORDS; words++, text += used)
        if (sscanf(text, "%llx%n", &choice->algorithm[words], &used) != 1) break;
    return words == BLAS_ALGORITHM_WORDS;
}

static void record_choice(const BlasWork *work, const char *name, const BlasChoice *choice) {
    char text[BLAS_ALGORITHM_WORDS * 20], *end = text;
    for (int i = 0; i < BLAS_ALGORITHM_WORDS; i++)
        end += snprintf(end, 20, "%s%llx", i ? " " : "", choice->algorithm[i]);
    cuda_record_choice(work->device, name, text);
}

/* Reads the recorded choice, else the cached one. */
static bool read_kept_choice(const BlasWork *work, const BlasTask *task, const char *name,
                             const char *path, const char *text, BlasChoice *choice) {
    *choice = (BlasChoice){.status = 0};
    if (read_recorded(work, name, choice) && choice_is_known(work, task, choice)) return true;
    size_t length = strlen(text), found = 0;
    AUTO_FREE char *bytes = path ? cache_read(path, &found) : NULL;
    bool same = bytes && found == length + sizeof choice->algorithm && !memcmp(bytes, text, length);
    if (same) memcpy(choice->algorithm, bytes + length, sizeof choice->algorithm);
    return same && choice_is_known(work, task, choice);
}

static void write_choice(const char *path, const char *text, const BlasChoice *choice) {
    size_t length = strlen(text);
    if (!path) return;
    AUTO_FREE char *bytes = memory_new(length + sizeof choice->algorithm);
    memcpy(bytes, text, length);
    memcpy(bytes + length, choice->algorithm, sizeof choice->algorithm);
    cache_write(path, bytes, length + sizeof choice->algorithm);
}

/* ---- candidates ---- */

/* Seconds per product over `runs` consecutive runs; infinite if it fails. */
static double time_choice_runs(const BlasWork *work, const BlasTask *task, const BlasChoice *choice,
                               const MoecProduct *product, int runs) {
    const CudaDriver *driver = &work->device->library->driver;
    double began = seconds_now();
    for (int i = 0; i < runs; i++)
        if (!cuda_multiply(work, task, choice, product, &work->operands)) return INFINITY;
    if (driver->stream_wait(work->device->stream)) return INFINITY;
    return (seconds_now() - began) / runs;
}

static double time_choice(const BlasWork *work, const BlasTask *task, const BlasChoice *choice,
                          const MoecProduct *product) {
    double best = time_choice_runs(work, task, choice, product, 1); /* loads the kernel */
    if (isinf(best)) return best;
    best = time_choice_runs(work, task, choice, product, 1);
    double wanted = MIN_SECONDS / best;
    int runs = wanted < 1 ? 1 : wanted < MAX_RUNS ? (int)wanted + 1 : MAX_RUNS;
    for (int i = 0; i < TRIES; i++)
        best = fmin(best, time_choice_runs(work, task, choice, product, runs));
    return best;
}

static bool choose_anew(BlasWork *work, const BlasTask *task, const MoecProduct *product,
                        BlasChoice *choice) {
    BlasChoice choices[CANDIDATES];
    int found = 0, best = 0;
    bool trying = work->operands.a != 0;
    if (work->blas->choose(work->handle, task->product, task->left, task->right, task->added,
                           task->result, work->preference, trying ? CANDIDATES : 1, choices,
                           &found) ||
        found < 1)
        return false;
    double least = INFINITY;
    for (int i = 0; trying && found > 1 && i < found; i++) {
        double seconds =
            choices[i].status ? INFINITY : time_choice(work, task, &choices[i], product);
        if (seconds >= least) continue;
        least = seconds;
        best = i;
    }
    work->timed += trying && found > 1;
    *choice = choices[best];
    return true;
}

bool cuda_choose(BlasWork *work, const BlasTask *task, const MoecProduct *product, int alignment,
                 BlasChoice *choice) {
    if (cuda_choices_are_fixed()) return choose_anew(work, task, product, choice);
    AUTO_FREE char *text = describe_choice(work, product, alignment), *name = choice_name(text);
    AUTO_FREE char *path = work->keep ? cache_within(name) : NULL;
    bool found = read_kept_choice(work, task, name, path, text, choice);
    bool good = found || choose_anew(work, task, product, choice);
    if (good && !found && work->operands.a) write_choice(path, text, choice);
    if (good) record_choice(work, name, choice);
    work->found += found;
    return good;
}

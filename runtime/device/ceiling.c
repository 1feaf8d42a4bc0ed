/* What a thread packs into is allocated while our own kernel is measured: as a variable of every
 * thread it would cost each command's start. */
static _Thread_local struct MoecScratch *thread_scratch;
#define moec_scratch (*thread_scratch)
#include "kernels.h"

#include "device/ceiling.h"

#include "base/seconds.h"
#include "device/products.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- products ---- */

typedef struct Trial {
    MoecProduct product;
    Products *library; /* NULL: our own kernel */
    void *a, *b, *c;
} Trial;

/* The fastest of several runs of one product, in seconds; negative when the library does not do it.
 */
static double trial_seconds(const Trial *trial, double patience) {
    double best = -1, begin = seconds_now();
    for (int run = 0; run < 4 || seconds_now() - begin < patience; run++) {
        double start = seconds_now();
        if (!trial->library)
            moec_multiply(&trial->product, trial->a, trial->b, trial->c);
        else if (products_run(trial->library, 0, trial->a, trial->b, trial->c, NULL) != 0)
            return -1;
        double seconds = seconds_now() - start;
        if (best < 0 || seconds < best) best = seconds;
    }
    return best;
}

/* The same by our own kernel. */
static double own_seconds(Trial trial, double patience) {
    bool good = true;
    trial.library = NULL;
#pragma omp parallel reduction(&& : good)
    good = (thread_scratch = aligned_alloc(64, (sizeof *thread_scratch + 63) / 64 * 64)) != NULL;
    double seconds = good ? trial_seconds(&trial, patience) : INFINITY;
#pragma omp parallel
    free(thread_scratch);
    return seconds;
}

/* GFLOP/s of a square product by the library, or by our own kernel where that does not do it. */
static double square_rate(float *memory, long size, bool rounded, double patience) {
    MoecProduct product = square_product(size);
    product.rounded = rounded;
    product.a_type = product.b_type = rounded ? MOEC_BF16 : MOEC_F32;
    const MoecTable table = {.products = &product, .product_count = 1};
    Products *library = products_new(&table);
    Trial trial = {product, library, memory, memory + size * size, memory + 2 * size * size};
    double seconds = library ? trial_seconds(&trial, patience) : -1;
    products_free(library);
    if (seconds < 0) seconds = own_seconds(trial, patience);
    return 2e-9 * (double)size * (double)size * (double)size / seconds;
}

static double best_rate(const long *sizes, int count, bool rounded, double patience) {
    long largest = sizes[count - 1];
    float *memory = malloc((size_t)(3 * largest * largest) * sizeof *memory);
    double best = 0;
    if (!memory) return 0;
    for (long i = 0; i < 3 * largest * largest; i++) memory[i] = (float)(i % 17) - 8;
    if (rounded)
        for (long i = 0; i < 6 * largest * largest; i++)
            moec_store((MoecBf16 *)(void *)memory + i, (float)(i % 17) - 8);
    for (int i = 0; i < count; i++) {
        double rate = square_rate(memory, sizes[i], rounded, patience);
        if (rate > best) best = rate;
    }
    free(memory);
    return best;
}

double ceiling_products(bool rounded) {
    return best_rate((const long[]){1024, 1536, 2048}, 3, rounded, 0.25);
}

double ceiling_products_quick(bool rounded) {
    return best_rate((const long[]){1024}, 1, rounded, 0.05);
}

/* ---- reading ---- */

enum { READ_PARTS = 64, READ_WIDTH = 64, READ_STREAMS = 8 };

/* Sums `streams` parts of it side by side, READ_WIDTH numbers at a time, so that the loop waits for
 * memory only. */
static float read_part(const float *from, long count, const long streams) {
    float sum[READ_WIDTH] = {0}, total = 0;
    long part = count / streams, width = READ_WIDTH / streams;
    for (long i = 0; i < part; i += width)
        for (long stream = 0; stream < streams; stream++)
#pragma omp simd
            for (long j = 0; j < width; j++) sum[stream * width + j] += from[stream * part + i + j];
    for (long j = 0; j < READ_WIDTH; j++) total += sum[j];
    return total;
}

/* Constants make the loops unroll. */
static double read_seconds(const float *block, size_t bytes, bool side_by_side) {
    const long part = (long)(bytes / sizeof *block / READ_PARTS);
    float sums[READ_PARTS], sum = 0;
    double start = seconds_now();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < READ_PARTS; i++)
        sums[i] = side_by_side ? read_part(block + i * part, part, READ_STREAMS)
                               : read_part(block + i * part, part, 1);
    double seconds = seconds_now() - start;
    for (long i = 0; i < READ_PARTS; i++) sum += sums[i];
    /* the sum is 0; asking keeps the reading from being left out */
    return sum == 0 ? seconds : INFINITY;
}

/* Which of the two is faster depends on the processor. */
double ceiling_read_pass(const void *block, size_t bytes) {
    double together = read_seconds(block, bytes, false), aside = read_seconds(block, bytes, true);
    return (double)bytes / fmin(together, aside) * 1e-9;
}

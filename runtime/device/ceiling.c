#include "device/device.h"

#include "base/clock.h"
#include "prelude.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- products ---- */

struct ProductsTrial {
    MoecProduct product;
    Products *library; /* NULL: the own kernel */
    void *scratch;     /* scratch of all threads for the own kernel */
    float *memory;     /* three matrices */
};

/* Returns false if oneDNN cannot compute the product. */
static bool multiply_once(const ProductsTrial *trial) {
    const long matrix = trial->product.m * trial->product.m;
    float *a = trial->memory, *b = a + matrix, *c = b + matrix;
    if (trial->library) return products_run(trial->library, 0, a, b, c, NULL) == 0;
    own_product()->multiply(&trial->product, a, b, c, trial->scratch);
    return true;
}

static bool multiply_ourselves(ProductsTrial *trial) {
    const size_t bytes = (size_t)moec_threads() * own_product()->scratch;
    products_free(trial->library);
    trial->library = NULL;
    trial->scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return trial->scratch && multiply_once(trial);
}

static void fill_operands(float *memory, long count, bool rounded) {
    for (long i = 0; i < count && !rounded; i++) memory[i] = (float)(i % 17) - 8;
    for (long i = 0; i < 2 * count && rounded; i++)
        moec_store((MoecBf16 *)(void *)memory + i, (float)(i % 17) - 8);
}

/* Square matrices of this size; computes one product. rounded: bf16 operands, if those are
 * faster. */
static ProductsTrial *trial_new(long size, bool rounded) {
    rounded = rounded && products_of_bf16();
    ProductsTrial *trial = calloc(1, sizeof *trial);
    if (!trial) return NULL;
    trial->product = plain_product(size, size, size);
    trial->product.rounded = rounded;
    trial->product.a_type = trial->product.b_type = rounded ? MOEC_BF16 : MOEC_F32;
    trial->memory = malloc((size_t)(3 * size * size) * sizeof *trial->memory);
    if (trial->memory) {
        const MoecTable table = {.products = &trial->product, .product_count = 1};
        fill_operands(trial->memory, 3 * size * size, rounded);
        trial->library = products_new(&table);
        if ((trial->library && multiply_once(trial)) || multiply_ourselves(trial)) return trial;
    }
    products_trial_free(trial);
    return NULL;
}

void products_trial_free(ProductsTrial *trial) {
    if (!trial) return;
    products_free(trial->library);
    free(trial->scratch);
    free(trial->memory);
    free(trial);
}

double products_trial_rate(const ProductsTrial *trial, double seconds) {
    const double size = (double)trial->product.m, began = seconds_now();
    double took = 0;
    long runs = 0;
    for (; !runs || took < seconds; took = seconds_now() - began, runs++) multiply_once(trial);
    return 2e-9 * size * size * size * (double)runs / took;
}

/* Best rate over at least `runs` runs and `seconds` seconds. */
static double best_rate(const ProductsTrial *trial, int runs, double seconds) {
    double best = 0, began = seconds_now();
    for (int run = 0; run < runs || seconds_now() - began < seconds; run++)
        best = fmax(best, products_trial_rate(trial, 0));
    return best;
}

ProductsTrial *products_trial_new(bool rounded, bool brief) {
    const long sizes[] = {1024, 1536, 2048};
    ProductsTrial *fastest = NULL;
    double best = 0;
    for (int i = 0; i < (brief ? 1 : 3); i++) {
        ProductsTrial *trial = trial_new(sizes[i], rounded);
        const double rate = trial && !brief ? best_rate(trial, 4, 0.1) : 0;
        const bool faster = trial && (!fastest || rate > best);
        products_trial_free(faster ? fastest : trial);
        if (!faster) continue;
        fastest = trial;
        best = rate;
    }
    return fastest;
}

double ceiling_products_quick(bool rounded) {
    ProductsTrial *trial = products_trial_new(rounded, true);
    const double best = trial ? best_rate(trial, 4, 0.05) : 0;
    products_trial_free(trial);
    return best;
}

/* ---- memory reads ---- */

enum { READ_PARTS = 64, READ_WIDTH = 64, READ_STREAMS = 8 };
/* Prefetch distances in floats, as in products with few rows: into the first-level and the
 * second-level cache. */
enum { READ_NEAR = 64, READ_FAR = 512 };

/* Access patterns of the measurement; the fastest depends on the processor. */
typedef enum ReadWay { READ_IN_ORDER, READ_SIDE_BY_SIDE, READ_ASKED, READ_WAYS } ReadWay;

/* Sums `streams` parts concurrently, READ_WIDTH floats at a time: the loop is limited by memory
 * only. */
MOEC_INLINE float read_part(const float *from, long count, const long streams, const bool ask) {
    float sum[READ_WIDTH] = {0}, total = 0;
    long part = count / streams, width = READ_WIDTH / streams;
    for (long i = 0; i < part; i += width)
        for (long stream = 0; stream < streams; stream++) {
            const float *at = from + stream * part + i;
            if (ask) __builtin_prefetch(at + READ_NEAR);
            if (ask) __builtin_prefetch(at + READ_FAR, 0, 2);
#pragma omp simd
            for (long j = 0; j < width; j++) sum[stream * width + j] += at[j];
        }
    for (long j = 0; j < READ_WIDTH; j++) total += sum[j];
    return total;
}

/* Constant arguments let the compiler unroll the loops. */
static float read_so(const float *from, long count, ReadWay way) {
    if (way == READ_ASKED) return read_part(from, count, READ_STREAMS, true);
    if (way == READ_SIDE_BY_SIDE) return read_part(from, count, READ_STREAMS, false);
    return read_part(from, count, 1, false);
}

static double read_seconds(const float *block, size_t bytes, ReadWay way) {
    const long part = (long)(bytes / sizeof *block / READ_PARTS);
    float sums[READ_PARTS], sum = 0;
    double start = seconds_now();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < READ_PARTS; i++) sums[i] = read_so(block + i * part, part, way);
    double seconds = seconds_now() - start;
    for (long i = 0; i < READ_PARTS; i++) sum += sums[i];
    /* the sum is 0; the test prevents the compiler from removing the reads */
    return sum == 0 ? seconds : INFINITY;
}

double ceiling_read_pass(const void *block, size_t bytes) {
    double least = INFINITY;
    for (int way = 0; way < READ_WAYS; way++)
        least = fmin(least, read_seconds(block, bytes, (ReadWay)way));
    return (double)bytes / least * 1e-9;
}

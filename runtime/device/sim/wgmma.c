/* wgmma: products by warpgroups, whose operands the tensor cores read asynchronously from shared
 * memory.
 *
 * Operand descriptors follow the PTX ISA (9.7.15.5.1.2: canonical layouts, swizzles, matrix
 * descriptors). A product is computed when it is issued. Its sums are NaN until the thread has
 * waited for it, and its operands may not be written before. Operand reads are checked like reads
 * of the thread, and require a fence after the write. */
#include "block.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 128, GROUPS = SIM_THREADS / GROUP, ROWS = 16, DEPTH = 16, VECTOR = 16, RING = 64 };

/* An operand described by its descriptor. Values in bytes; width: number of permuted 16-byte
 * vectors per line. */
typedef struct SharedMatrix {
    unsigned start, leading, stride, width;
    bool transposed; /* adjacent elements are rows or columns, not terms */
} SharedMatrix;

/* The product that the first thread of a warpgroup issued, by product number. */
typedef struct Asked {
    int number;
    uint32_t epoch; /* product numbers restart in every block */
    uint64_t a, b;
    int n;
} Asked;

static Asked asked[GROUPS][RING];

static void refuse(const char *file, int line, const char *what) {
    check_report(file, line, NULL, "%s", what);
    block_fail();
}

/* ---- operands ---- */

static unsigned decoded(uint64_t field) {
    return (unsigned)(field & 0x3fff) << 4;
}

static SharedMatrix matrix_of(uint64_t descriptor, bool transposed) {
    static const unsigned widths[4] = {1, 8, 4, 2};
    return (SharedMatrix){.start = decoded(descriptor),
                          .leading = decoded(descriptor >> 16),
                          .stride = decoded(descriptor >> 32),
                          .width = widths[descriptor >> 62],
                          .transposed = transposed};
}

/* Address of row (or column) i and term k; 16-byte vectors are permuted by the address bits above
 * them. */
static unsigned operand_address(const SharedMatrix *matrix, unsigned i, unsigned k) {
    unsigned width = matrix->width, at = matrix->start;
    if (matrix->transposed && width == 1)
        at += i % 8 * 2 + i / 8 * matrix->stride + k % 8 * 16 + k / 8 * matrix->leading;
    else if (matrix->transposed)
        at += i % 8 * 2 + i / 8 % width * 16 + i / (8 * width) * matrix->leading +
              k % 8 * width * 16 + k / 8 * matrix->stride;
    else
        at += i % 8 * width * 16 + i / 8 * matrix->stride + k % 8 * 2 +
              k / 8 * (width == 1 ? matrix->leading : 16);
    return at ^ (at >> 7 & (width - 1)) << 4;
}

static float stored_number(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float element(const SharedMatrix *matrix, unsigned i, unsigned k) {
    uint16_t bits;
    unsigned place = operand_address(matrix, i, k);
    if (place >= SIM_SHARED) return NAN; /* touch reports it */
    memcpy(&bits, sim_now.shared + place, sizeof bits);
    return stored_number(bits);
}

/* Starts (or ends) the read of rows `first` to `last` of an operand. Returns the error, or NULL. */
static const char *touch_operand(const SharedMatrix *matrix, unsigned first, unsigned last,
                                 bool begins) {
    unsigned i_step = matrix->transposed ? 8 : 1, k_step = matrix->transposed ? 1 : 8;
    for (unsigned i = first; i < last; i += i_step)
        for (unsigned k = 0; k < DEPTH; k += k_step) {
            const unsigned char *at = sim_now.shared + operand_address(matrix, i, k);
            const char *wrong = begins ? check_reading(at, VECTOR) : NULL;
            if (!begins) check_read(at, VECTOR);
            if (wrong) return wrong;
        }
    return NULL;
}

/* A warp reads its rows of the left operand and the whole right operand. */
static const char *touch_both(const SimReading *reading, bool begins) {
    SharedMatrix a = matrix_of(reading->a, reading->transposed_a),
                 b = matrix_of(reading->b, reading->transposed_b);
    unsigned row = (unsigned)(sim_now.thread->number % GROUP / SIM_WARP * ROWS);
    const char *wrong = reading->kept ? NULL : touch_operand(&a, row, row + ROWS, begins);
    return wrong ? wrong : touch_operand(&b, 0, (unsigned)reading->n, begins);
}

static void begin_reading(const SimReading *reading, const char *file, int line) {
    Thread *thread = sim_now.thread;
    if (thread->place.lane != 0) return;
    if (thread->reading_count == READING_LIMIT) refuse(file, line, "too many products in flight");
    const char *wrong = touch_both(reading, true);
    if (wrong) refuse(file, line, wrong);
    thread->readings[thread->reading_count++] = *reading;
}

/* ---- agreement within a warpgroup ---- */

static void compare_asked(const SimReading *reading, const char *file, int line) {
    Thread *thread = sim_now.thread;
    Asked *one = &asked[thread->number / GROUP][thread->product_count % RING];
    if (one->number != thread->product_count || one->epoch != sim_now.epoch)
        *one = (Asked){thread->product_count, sim_now.epoch, reading->a, reading->b, reading->n};
    if (one->a != reading->a || one->b != reading->b || one->n != reading->n)
        refuse(file, line, "threads of a warpgroup issue different products");
    thread->product_count++;
}

bool wgmma_agree(Thread *threads, int count) {
    for (int i = 0; i < count; i++) {
        const Thread *first = &threads[i / GROUP * GROUP];
        if (threads[i].product_count == first->product_count) continue;
        sim_now.thread = &threads[i];
        check_report("the end of the kernel", 0, NULL,
                     "%d products of a thread, %d of the first thread of its warpgroup",
                     threads[i].product_count, first->product_count);
        return false;
    }
    return true;
}

/* ---- sums ---- */

bool wgmma_adds(const Thread *thread, const unsigned char *at) {
    for (int i = 0; i < thread->sums_count; i++) {
        const unsigned char *sums = (const unsigned char *)thread->sums[i].at;
        if (at >= sums && at < sums + (size_t)thread->sums[i].count * sizeof(float)) return true;
    }
    return false;
}

/* The sums that `d` will receive. Sums that are not in flight yet are read from `d`. */
static SimSums *accumulators_of(float *d, int count, const char *file, int line) {
    Thread *thread = sim_now.thread;
    for (int i = 0; i < thread->sums_count; i++)
        if (thread->sums[i].at == d) return &thread->sums[i];
    if (!thread->product_fence)
        refuse(file, line, "sums accessed by the thread are used in a product without a fence");
    if (thread->sums_count == SUMS_LIMIT) refuse(file, line, "too many products in flight");
    SimSums *sums = &thread->sums[thread->sums_count++];
    sums->at = d;
    sums->count = count;
    memcpy(sums->values, d, (size_t)count * sizeof *d);
    for (int i = 0; i < count; i++) d[i] = NAN;
    return sums;
}

/* The factor of all products, 1 on a device without faults. MOEC_SIM=wrong: products are wrong;
 * near: by less than the comparison of the largest values finds; races: different in each run;
 * stops: they fail; hangs: they never end. */
static float sign_of(void) {
    static float known;
    static bool stops, races;
    if (known == 0) {
        const char *word = getenv("MOEC_SIM");
        if (!word) word = "";
        known = strstr(word, "wrong") ? 1.01f : strstr(word, "near") ? 1.0005f : 1.0f;
        stops = strstr(word, "stops");
        races = strstr(word, "races");
        sim_now.endless = strstr(word, "hangs");
    }
    if (stops) block_fail();
    return races ? 1 + 1e-5f * (float)(sim_now.epoch % 7) : known;
}

/* Term k of the row lane / 4 + 8 half in the registers of the lanes: two terms per register, eight
 * per row of four lanes (9.7.15.5.1.1). */
static float kept_element(const SimLanes *lanes, unsigned lane, unsigned half, unsigned k) {
    uint16_t bits;
    size_t at = (k / 8 * 2 + half) * sizeof(unsigned) + k % 2 * sizeof bits;
    memcpy(&bits, lanes->bytes[lane / 4 * 4 + k % 8 / 2] + at, sizeof bits);
    return stored_number(bits);
}

/* The right operand of one product of a warp, [term][column]. */
typedef struct RightOperand {
    float values[DEPTH][2 * SIM_SUMS];
    int number;
    uint32_t epoch;
} RightOperand;

/* The lanes of a warp issue a product together: the first one converts the operand for all. */
static RightOperand *right_operand(const SimReading *reading) {
    static RightOperand warps[SIM_THREADS / SIM_WARP];
    const Thread *thread = sim_now.thread;
    RightOperand *right = &warps[thread->number / SIM_WARP];
    if (right->number == thread->product_count && right->epoch == sim_now.epoch) return right;
    const SharedMatrix b = matrix_of(reading->b, reading->transposed_b);
    for (unsigned column = 0; column < (unsigned)reading->n; column++)
        for (unsigned k = 0; k < DEPTH; k++) right->values[k][column] = element(&b, column, k);
    right->number = thread->product_count;
    right->epoch = sim_now.epoch;
    return right;
}

static void add_products(SimSums *sums, const SimReading *reading, const SimLanes *lanes) {
    SharedMatrix a = matrix_of(reading->a, reading->transposed_a);
    unsigned thread = (unsigned)(sim_now.thread->number % GROUP), lane = thread % SIM_WARP;
    unsigned row = thread / SIM_WARP * ROWS + lane / 4;
    const float times = sign_of();
    RightOperand *right = right_operand(reading);
    for (unsigned k = 0; k < DEPTH; k++)
        for (unsigned half = 0; half < 2; half++) {
            const float left = times * (reading->kept ? kept_element(lanes, lane, half, k)
                                                      : element(&a, row + 8 * half, k));
            float *at = sums->values + 2 * half;
            for (unsigned eight = 0; eight < (unsigned)reading->n / 8; eight++)
                for (unsigned i = 0; i < 2; i++)
                    at[4 * eight + i] += left * right->values[k][8 * eight + lane % 4 * 2 + i];
        }
}

/* ---- requests of threads ---- */

unsigned sim_shared_place(const void *at) {
    const unsigned char *place = at;
    if (place < sim_now.shared || place >= sim_now.shared + sim_now.launch->dynamic_bytes) {
        check_report(NULL, 0, __builtin_return_address(0),
                     "an operand is outside of dynamic shared memory");
        block_fail();
    }
    return (unsigned)(place - sim_now.shared);
}

void sim_fence_async(void) {
    sim_now.fenced[sim_now.thread->number] = ++sim_now.fences;
}

void sim_wgmma_fence(void) {
    sim_now.thread->product_fence = true;
}

void sim_wgmma_on(const SimProduct *product, const char *file, int line) {
    Thread *thread = sim_now.thread;
    const int n = product->n;
    SimReading reading = {.a = product->a,
                          .b = product->b,
                          .n = n,
                          .group = thread->product_group,
                          .transposed_a = product->transposed_a,
                          .transposed_b = product->transposed_b,
                          .kept = product->kept != NULL};
    const SimLanes *lanes = sim_exchange(0xffffffffu, product->kept,
                                         reading.kept ? 4 * sizeof(unsigned) : 0, 0, file, line);
    if ((reading.a | reading.b) >> 49 & 7)
        refuse(file, line, "matrix descriptors with a base offset are not simulated");
    if (n % 8 || n / 2 > SIM_SUMS) refuse(file, line, "unsupported number of columns of a product");
    compare_asked(&reading, file, line);
    begin_reading(&reading, file, line);
    SimSums *sums = accumulators_of(product->d, n / 2, file, line);
    sums->group = thread->product_group;
    for (int i = 0; product->fresh && i < n / 2; i++) sums->values[i] = 0;
    add_products(sums, &reading, lanes);
}

void sim_wgmma_commit(void) {
    sim_now.thread->product_group++;
}

void sim_wgmma_wait(int groups_left) {
    Thread *thread = sim_now.thread;
    int pending = thread->product_group - groups_left, kept = 0;
    for (int i = 0; i < thread->reading_count; i++) {
        if (thread->readings[i].group < pending)
            touch_both(&thread->readings[i], false);
        else
            thread->readings[kept++] = thread->readings[i];
    }
    thread->reading_count = kept;
    kept = 0;
    for (int i = 0; i < thread->sums_count; i++) {
        SimSums *sums = &thread->sums[i];
        if (sums->group < pending)
            memcpy(sums->at, sums->values, (size_t)sums->count * sizeof *sums->at);
        else
            thread->sums[kept++] = *sums;
    }
    if (kept < thread->sums_count) thread->product_fence = false;
    thread->sums_count = kept;
}

void wgmma_end(void) {
    if (sim_now.thread->sums_count)
        refuse("the kernel ends with products in flight", 0,
               "the kernel ends with products in flight");
}

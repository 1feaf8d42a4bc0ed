/* Speed of the kernels compared with the peak of the machine, in CPU time of one thread. Manual
 * use:
 *
 *     cc -std=gnu11 -D_GNU_SOURCE -O2 -ftree-vectorize -march=native -mprefer-vector-width=512
 *         -fno-math-errno -fno-trapping-math -fopenmp -Icompiler -Iruntime -Iruntime/abi
 *         -Iruntime/kernels tests/bench/kernels.c build/libruntime.a build/libmoec_compiler.a
 *         -ljansson -lpcre2-8 -lutf8proc -ldl -lm
 *     export GLIBC_TUNABLES=glibc.malloc.hugetlb=1   memory as programs have it
 *     export GLIBC_TUNABLES=glibc.malloc.hugetlb=1   huge pages, as in programs
 */
#include "kernels.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static float *numbers(long count) {
    float *x = malloc((size_t)count * sizeof *x);
    if (!x) abort();
    for (long i = 0; i < count; i++) x[i] = (float)(i % 31) / 31 - 0.5f;
    return x;
}

/* CPU time of this thread: other programs use the machine, too. */
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A measurement: `run` receives `data`. The result is the fastest run within a quarter of a
 * second. */
static double fastest(void (*run)(void *data), void *data) {
    double best = 1e9, begin = seconds();
    run(data);
    do {
        double start = seconds();
        run(data);
        double taken = seconds() - start;
        if (taken < best) best = taken;
    } while (seconds() - begin < 0.25);
    return best;
}

/* ---- products ---- */

typedef struct Work {
    MoecProduct product;
    Products *products;
    float *a, *b, *c;
} Work;

static void run_ours(void *data) {
    Work *work = data;
    moec_multiply(&work->product, work->a, work->b, work->c);
}

static void run_library(void *data) {
    Work *work = data;
    products_run(work->products, 0, work->a, work->b, work->c, NULL);
}

/* The same numbers in that type, in the same memory. */
static float *as_type(float *x, long count, MoecType type) {
    for (long i = 0; i < count && type == MOEC_BF16; i++)
        ((MoecBf16 *)(void *)x)[i] = moec_bf16(x[i]);
    return x;
}

static void measure_product(long m, long n, long k, const char *form, MoecType type) {
    MoecProduct product = plain_product(m, n, k);
    if (form[0] == 't') product.a_m = 1, product.a_k = m;
    if (form[1] == 't') product.b_k = 1, product.b_n = k;
    product.a_type = product.b_type = type;
    product.rounded = type == MOEC_BF16;
    const MoecTable table = {.products = &product, .product_count = 1};
    Work work = {product, products_new(&table), as_type(numbers(m * k), m * k, type),
                 as_type(numbers(n * k), n * k, type), numbers(m * n)};
    const double flops = 2.0 * (double)m * (double)n * (double)k,
                 bytes = (type == MOEC_BF16 ? 2.0 : 4.0) * (double)n * (double)k;
    const double ours = fastest(run_ours, &work);
    printf("%5ld %5ld %5ld %s %s  ours %7.1f GFLOP/s %6.1f GB/s", m, n, k, form,
           type == MOEC_BF16 ? "bf16" : "f32 ", flops / ours * 1e-9, bytes / ours * 1e-9);
    if (work.products && products_run(work.products, 0, work.a, work.b, work.c, NULL) == 0)
        printf("   library %7.1f GFLOP/s", flops / fastest(run_library, &work) * 1e-9);
    printf("\n");
    products_free(work.products);
    free(work.a), free(work.b), free(work.c);
}

/* ---- attention ---- */

typedef struct Attention {
    MoecAttend attend;
    float *q, *k, *v, *o, *lse, *grad, *dq, *dk, *dv, *chosen;
} Attention;

static void run_attend(void *data) {
    Attention *x = data;
    moec_attend(&x->attend, x->q, x->k, x->v, NULL, NULL, x->o, x->lse);
}

static void run_attend_grad(void *data) {
    Attention *x = data;
    const MoecAttendSaved saved = {
        .q = x->q, .k = x->k, .v = x->v, .o = x->o, .lse = x->lse, .output_grad = x->grad};
    moec_attend_grad(&x->attend, &saved, x->dq, x->dk, x->dv, NULL, NULL);
}

static void run_chosen(void *data) {
    Attention *x = data;
    const MoecAttendWork work = {
        .q = x->q, .k = x->k, .v = x->v, .o = x->o, .lse = x->lse, .chosen = x->chosen};
    moec_attend_chosen(&x->attend, &work);
}

static void run_chosen_grad(void *data) {
    Attention *x = data;
    const MoecAttendSaved saved = {.q = x->q,
                                   .k = x->k,
                                   .v = x->v,
                                   .o = x->o,
                                   .lse = x->lse,
                                   .output_grad = x->grad,
                                   .chosen = x->chosen};
    moec_attend_chosen_grad(&x->attend, &saved, x->dq, x->dk, x->dv, NULL, NULL);
}

static void run_attend_step(void *data) {
    Attention *x = data;
    const MoecAttendWork work = {.q = x->q, .k = x->k, .v = x->v, .o = x->o, .lse = x->lse};
    moec_attend_step(&x->attend, x->attend.keys - x->attend.queries, &work);
}

static Attention attention_new(MoecAttend attend) {
    const long q = attend.batch * attend.queries * attend.heads, k = attend.batch * attend.keys;
    const long keys = k * attend.key_heads * attend.width,
               values = k * attend.value_heads * attend.value_width;
    return (Attention){attend,
                       numbers(q * attend.width),
                       numbers(keys),
                       numbers(values),
                       numbers(q * attend.value_width),
                       numbers(q),
                       numbers(q * attend.value_width),
                       numbers(q * attend.width),
                       numbers(keys),
                       numbers(values),
                       NULL};
}

static void attention_free(Attention *x) {
    float *all[] = {x->q, x->k, x->v, x->o, x->lse, x->grad, x->dq, x->dk, x->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Causal attention; its FLOPs are those of the unmasked half. */
static void measure_attention(long batch, long length, long heads, long width) {
    const MoecAttend attend = {.batch = batch,
                               .queries = length,
                               .keys = length,
                               .places = length,
                               .heads = heads,
                               .key_heads = heads,
                               .value_heads = heads,
                               .width = width,
                               .value_width = width,
                               .scale = 0.1f};
    Attention x = attention_new(attend);
    const double flops =
        2.0 * (double)(batch * heads * width) * (double)length * (double)(length + 1);
    printf("attend %ld x %ld, %ld heads of %ld: forward %.1f GFLOP/s", batch, length, heads, width,
           flops / fastest(run_attend, &x) * 1e-9);
    printf(", backward %.1f GFLOP/s\n", 2.5 * flops / fastest(run_attend_grad, &x) * 1e-9);
    attention_free(&x);
}

/* Causal attention to the own block and to others, 1/16 of all blocks, compared with full attention.
 * Each query selects other blocks. */
static void measure_chosen(long length, long width, long block) {
    const long blocks = length / block;
    const MoecAttend attend = {.batch = 1,
                               .queries = length,
                               .keys = length,
                               .places = length,
                               .heads = 1,
                               .key_heads = 1,
                               .value_heads = 1,
                               .width = width,
                               .value_width = width,
                               .scale = 0.1f,
                               .chosen_block = {1, 1, block}};
    Attention x = attention_new(attend);
    x.chosen = calloc((size_t)(length * blocks), sizeof *x.chosen);
    if (!x.chosen) abort();
    for (long s = 0; s < length; s++) {
        const long own = s / block, wanted = own < blocks / 16 ? own : blocks / 16 - 1;
        x.chosen[s * blocks + own] = 1;
        for (long i = 0; i < wanted; i++)
            x.chosen[s * blocks + (own < blocks / 16 ? i : (s * 7 + i * (own / wanted)) % own)] = 1;
    }
    const double full = fastest(run_attend, &x), full_grad = fastest(run_attend_grad, &x),
                 chosen = fastest(run_chosen, &x), chosen_grad = fastest(run_chosen_grad, &x);
    printf("1/16 of %ld blocks of %ld, heads of %ld: forward %.2f, backward %.2f, both %.2f times "
           "as fast as all\n",
           blocks, block, width, full / chosen, full_grad / chosen_grad,
           (full + full_grad) / (chosen + chosen_grad));
    free(x.chosen);
    attention_free(&x);
}

static void measure_step(long length, long heads, long key_heads, long value_heads) {
    const MoecAttend attend = {.batch = 1,
                               .queries = 1,
                               .keys = length,
                               .places = length,
                               .heads = heads,
                               .key_heads = key_heads,
                               .value_heads = value_heads,
                               .width = 64,
                               .value_width = 64,
                               .scale = 0.1f};
    Attention x = attention_new(attend);
    const double bytes = 4.0 * (double)length * 64 * (double)(key_heads + value_heads);
    printf("one token against %ld, heads %ld/%ld/%ld: %.1f GB/s\n", length, heads, key_heads,
           value_heads, bytes / fastest(run_attend_step, &x) * 1e-9);
    attention_free(&x);
}

/* ---- dispatched rows ---- */

typedef struct Packed {
    MoecGrouped grouped;
    MoecRows rows;
    float *a, *b, *c;
} Packed;

static void run_grouped(void *data) {
    Packed *x = data;
    moec_grouped_product(&x->grouped, &x->rows, x->a, x->b, x->c);
}

/* Groups of increasing sizes; rows are gathered from half as many. */
static void measure_grouped(MoecGroupedKind kind, long groups, long rows, long n, long k) {
    int *group = calloc((size_t)groups + 1, sizeof *group),
        *gather = malloc((size_t)rows * sizeof *gather);
    if (!group || !gather) abort();
    for (long g = 0; g <= groups; g++)
        group[g] = (int)(rows * g * (g + 1) / (groups * (groups + 1)));
    for (long r = 0; r < rows; r++) gather[r] = (int)(r * 7 % (rows / 2));
    const int by_rows = kind == MOEC_ROWS_BY_ROWS;
    Packed x = {{kind, groups, n, k, k, n * k, n, 1, n, 0},
                {group, gather, NULL},
                numbers(rows * k),
                numbers(by_rows ? rows * n : groups * n * k),
                numbers(by_rows ? groups * n * k : rows * n)};
    printf("%ld rows in %ld groups, %ld x %ld, by %s: %.1f GFLOP/s\n", rows, groups, k, n,
           by_rows ? "rows" : "weight",
           2.0 * (double)rows * (double)n * (double)k / fastest(run_grouped, &x) * 1e-9);
    free(group), free(gather), free(x.a), free(x.b), free(x.c);
}

int main(void) {
    const long shapes[][3] = {{512, 512, 512},   {1024, 1024, 1024}, {2048, 384, 384},
                              {2048, 1536, 384}, {2048, 384, 1536},  {384, 1536, 2048},
                              {64, 64, 64},      {32, 1024, 1024},   {8, 1024, 1024},
                              {4, 1024, 4096},   {1, 4096, 4096},    {1, 1024, 1024},
                              {1, 8192, 1024}};
    const char *const forms[] = {"nn", "nt", "tn"};
    printf("ceilings: products %.1f GFLOP/s, reading %.1f GB/s\n", ceiling_products_quick(false),
           device_ceiling_read(device_cpu()));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 3; form++)
            for (int rounded = 0; rounded < 2; rounded++)
                measure_product(shapes[i][0], shapes[i][1], shapes[i][2], forms[form],
                                rounded ? MOEC_BF16 : MOEC_F32);
    measure_attention(8, 256, 6, 64);
    measure_attention(1, 2048, 8, 64);
    measure_attention(4, 512, 8, 32);
    measure_chosen(16384, 64, 128);
    measure_chosen(16384, 128, 64);
    measure_step(8192, 16, 16, 16);
    measure_step(8192, 32, 4, 16);
    for (int kind = 0; kind < 2; kind++) {
        measure_grouped((MoecGroupedKind)kind, 16, 4096, 128, 256);
        measure_grouped((MoecGroupedKind)kind, 8, 4096, 384, 384);
        measure_grouped((MoecGroupedKind)kind, 64, 8192, 64, 384);
    }
    return 0;
}

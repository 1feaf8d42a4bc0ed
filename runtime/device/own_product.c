/* Compiled once per instruction-set level (see Makefile). If OWN_LEVEL is defined, the file
 * contains only the kernel of that level. */

/* Pack buffer of a thread, passed as a pointer: a thread-local buffer would add to the start time
 * of each command. */
static _Thread_local struct MoecScratch *thread_scratch;
#define moec_scratch (*thread_scratch)
#include "kernels.h"

#include "device/device.h"

static void multiply(const MoecProduct *product, const void *a, const void *b, void *c,
                     void *scratch) {
#pragma omp parallel
    thread_scratch = (MoecScratch *)scratch + moec_thread();
    moec_multiply(product, a, b, c);
}

static void multiply_rows(const MoecProduct *product, const void *a, const void *b, void *c,
                          void *scratch) {
#pragma omp parallel
    thread_scratch = (MoecScratch *)scratch + moec_thread();
    moec_multiply_parts(product, moec_product_depths(product, 1), a, b, c);
}

/* Only products that read b without packing have the same sums for any number of rows. */
static long most_rows(const MoecProduct *product) {
    if (product->m != 1 || product->batch[0] * product->batch[1] != 1) return 1;
    const long sums = product->n * moec_product_depths(product, 1);
    const long fit = moec_least(MOEC_DEPTH_SUMS / sums, MOEC_FEW_ROWS);
    if (product->b_n == 1) return fit < 1 ? 1 : fit;
    const int packs = moec_is_quantized(product->b_type) && !moec_is_f32(product->a_type);
    return product->a_k == 1 && product->b_k == 1 && !packs ? MOEC_FEW_ROWS : 1;
}

#ifdef OWN_LEVEL

extern const OwnProduct OWN_LEVEL;
const OwnProduct OWN_LEVEL = {sizeof(MoecScratch), multiply, multiply_rows, most_rows};

#else

extern const OwnProduct own_product_v3, own_product_v4;

const OwnProduct *own_product(void) {
    static const OwnProduct plain = {sizeof(MoecScratch), multiply, multiply_rows, most_rows};
#ifdef OWN_LEVELS
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &own_product_v4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &own_product_v3;
#endif
    return &plain;
}

#endif

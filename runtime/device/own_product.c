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

#ifdef OWN_LEVEL

extern const OwnProduct OWN_LEVEL;
const OwnProduct OWN_LEVEL = {sizeof(MoecScratch), multiply};

#else

extern const OwnProduct own_product_v3, own_product_v4;

const OwnProduct *own_product(void) {
    static const OwnProduct plain = {sizeof(MoecScratch), multiply};
#ifdef OWN_LEVELS
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &own_product_v4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &own_product_v3;
#endif
    return &plain;
}

#endif

/* rounding: the weights as bf16, for those who would round them each time they are read. */
#ifndef MOEC_ROUNDING_CUH
#define MOEC_ROUNDING_CUH

#include "prelude.cuh"

/* Eight at a time; blocks of weights are multiples of 64 bytes. */
extern "C" __global__ void moec_round(const float *__restrict__ weights, void *rounded,
                                      long count) {
    moec_begin();
    const float4 *fours = (const float4 *)weights;
    for (long i = moec_first(); i < count / 8; i += moec_step()) {
        const float4 a = fours[2 * i], b = fours[2 * i + 1];
        ((uint4 *)rounded)[i] = make_uint4(moec_bf16_pair(a.x, a.y), moec_bf16_pair(a.z, a.w),
                                           moec_bf16_pair(b.x, b.y), moec_bf16_pair(b.z, b.w));
    }
}

#endif

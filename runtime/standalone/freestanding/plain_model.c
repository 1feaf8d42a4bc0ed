/* The model @MODEL@ in C99, written by moec @VERSION@. model.h explains its functions.
 *
@MEMORY@
 *
 * Needed of the environment: a compiler with <stddef.h>, <stdint.h> and IEEE 754 floats; memset,
 * memcpy and memmove, which compilers call for loops. No C library, no libm, no threads, no
 * recursion. */
#include "model.h"

#include <stddef.h>

#ifdef __clang__ /* gcc does not contract with -std=c99 */
#pragma STDC FP_CONTRACT OFF
#endif

/* ---- functions that the program calls ---- */

/* @SUPPORT@ */
/* ---- weights ---- */

/* Placement of the weights, for example __attribute__((section(".weights"))). */
#ifndef MODEL_WEIGHTS
#define MODEL_WEIGHTS
#endif

/* @WEIGHTS@ */
/* ---- the program: comments show the equations and their source lines ---- */

/* @PROGRAM@ */
/* ---- the interface ---- */

void model_reset(Model *model) {
    for (size_t i = 0; i < sizeof model->cache; i++) model->cache[i] = 0;
    model->position = 0;
}

/* Every logit is a number, and one at least is finite. */
static int model_is_sense(const float *logits) {
    int finite = 0;
    for (long i = 0; i < MODEL_VOCABULARY; i++) {
        if (!(logits[i] <= 3.402823466e+38f)) return 0;
        finite |= logits[i] >= -3.402823466e+38f;
    }
    return finite;
}

int model_step(Model *model, int32_t token, const float **logits) {
    if (token < 0 || token >= MODEL_VOCABULARY) return MODEL_BAD_TOKEN;
    if (model->position >= MODEL_CONTEXT) return MODEL_FULL;
    model->token = token;
    run_decode(model);
    model->position++;
    *logits = model->logits;
    return model_is_sense(model->logits) ? MODEL_FINE : MODEL_NONSENSE;
}

/* Whether token a comes before token b in the order of decreasing logits. */
static int model_is_before(const float *logits, int32_t a, int32_t b) {
    return logits[a] == logits[b] ? a < b : logits[a] > logits[b];
}

/* The token that follows `last` in that order; last < 0: the first one. */
static int32_t model_next(const float *logits, int32_t last) {
    int32_t next = -1;
    for (int32_t i = 0; i < MODEL_VOCABULARY; i++)
        if ((last < 0 || model_is_before(logits, last, i)) &&
            (next < 0 || model_is_before(logits, i, next)))
            next = i;
    return next;
}

static double model_weight(const float *logits, int32_t token, int32_t best, float temperature) {
    return moec_double_exp(((double)logits[token] - (double)logits[best]) / (double)temperature);
}

int32_t model_pick(const float *logits, float temperature, double u) {
    const int32_t best = model_next(logits, -1);
    int32_t token = best;
    double left = 0.0;
    if (!(temperature > 0.0f)) return best;
    for (int32_t i = 0; i < MODEL_VOCABULARY; i++)
        left += u * model_weight(logits, i, best, temperature);
    for (int32_t i = 0; i < MODEL_VOCABULARY; i++) {
        const int32_t next = model_next(logits, token);
        left -= model_weight(logits, token, best, temperature);
        if (next < 0 || left < 0.0) break;
        token = next;
    }
    return token;
}

/* The finalizer of splitmix64. */
static uint64_t model_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double model_random(uint64_t seed, uint64_t index) {
    const uint64_t bits = model_mix(model_mix(seed + 0x9E3779B97F4A7C15u * (index + 1)) ^ seed);
    return (double)(int64_t)(bits >> 11) / 9007199254740992.0;
}

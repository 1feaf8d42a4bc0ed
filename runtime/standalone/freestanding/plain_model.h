/* model: the sequence model @MODEL@, one token at a time, in C99 without a library. Written by moec
 * @VERSION@.
 *
 *     static Model model;                      // @RAM@ bytes: in static memory, not on a stack
 *     const float *logits;
 *     model_reset(&model);                     // before a text
 *     for each token of the prompt: model_step(&model, token, &logits);
 *     next = model_pick(logits, 0.8f, model_random(seed, 0));
 *
 * Nothing is allocated, printed or read. A state is used by one thread at a time; there may be
 * several. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MODEL_VOCABULARY = MARK_VOCABULARY,
    MODEL_CONTEXT = MARK_CONTEXT /* tokens that fit between two resets */
};

/* Results of model_step. */
enum {
    MODEL_FINE,
    MODEL_BAD_TOKEN, /* outside of the vocabulary; nothing was read */
    MODEL_FULL,      /* the context is full; nothing was read */
    MODEL_NONSENSE   /* the logits are no finite numbers: the weights are damaged */
};

/* The state of a text. Its members belong to the functions. */
typedef struct Model {
    unsigned char cache[MARK_CACHE] __attribute__((aligned(16)));
    unsigned char arena[MARK_ARENA] __attribute__((aligned(16)));
    float logits[MODEL_VOCABULARY];
    int32_t token, position; /* position: how many tokens were read */
} Model;

/* A new text begins. */
void model_reset(Model *model);
/* Reads one token. *logits: MODEL_VOCABULARY numbers, which hold until the next call. */
int model_step(Model *model, int32_t token, const float **logits);
/* The most likely token if temperature <= 0. Else one with its probability at that temperature, by
 * a number 0 <= u < 1. */
int32_t model_pick(const float *logits, float temperature, double u);
/* Number `index` of the sequence of a seed, 0 <= u < 1: those of moec generate --seed. */
double model_random(uint64_t seed, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif

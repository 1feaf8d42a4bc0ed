/* sample: the next token from logits. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Sampling {
    double temperature; /* 0: the most likely token, lowest number first */
    long top_k;         /* only the k most likely; 0: all */
    double top_p;       /* only the most likely that together reach p; 1: all */
    uint64_t seed;
} Sampling;

/* False when the logits are nonsense: one is no number, or the largest is infinite. */
bool sample_possible(const float *logits, long vocabulary);
/* place: the number of the token, so that a choice depends on (seed, place, logits) alone. */
int32_t sample_token(const Sampling *sampling, const float *logits, long vocabulary,
                     uint64_t place);

#endif

/* pick: picks a token from logits with a random number. Also part of standalone exports, so that
 * they generate the same text. */
#ifndef PICK_H
#define PICK_H

#include <stdint.h>

/* Restrictions of the choice; see sample.h. */
typedef struct Picking {
    double temperature;
    long top_k;
    double top_p, min_p;
} Picking;

/* A token with its unnormalized probability. */
typedef struct Candidate {
    double weight;
    int32_t token;
} Candidate;

/* The most likely token; ties: lowest id. */
int32_t pick_most_likely(const float *logits, long vocabulary);
/* Picks a token with the number u in [0, 1). candidates: room for [vocabulary]. */
int32_t pick_token(const Picking *picking, const float *logits, long vocabulary, double u,
                   Candidate *candidates);

#endif

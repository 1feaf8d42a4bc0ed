/* sample: the next token from logits. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Sampling {
    double temperature; /* 0: the most likely token, lowest number first */
    long top_k;         /* only the k most likely; 0: all */
    double top_p;       /* only the most likely that together reach p; 1: all */
    double min_p;       /* only those at least so many times as likely as the most likely; 0: all */
    double repetition;  /* above 1: what was said before becomes less likely; 1: as it is */
    uint64_t seed;
} Sampling;

/* False when the logits are nonsense: one is no number, or the largest is infinite. */
bool sample_possible(const float *logits, long vocabulary);
/* The logarithm of the sum of exponentials: a logit less this is the log-probability of its token.
 */
double sample_log_sum(const float *logits, long vocabulary);
/* The `count` most likely tokens, the most likely first and of equal ones the lowest number.
 * Returns how many there are. */
int sample_best(const float *logits, long vocabulary, int32_t *tokens, int count);
/* Logits of tokens that were said before, each once: divided by the penalty, or multiplied where
 * they are negative (CTRL, arXiv:1909.05858). */
void sample_penalise(const Sampling *sampling, float *logits, long vocabulary,
                     const int32_t *tokens, size_t count);
/* place: the number of the token, so that a choice depends on (seed, place, logits) alone. */
int32_t sample_token(const Sampling *sampling, const float *logits, long vocabulary,
                     uint64_t place);

#endif

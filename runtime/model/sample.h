/* sample: the next token from logits. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is added to the logit of a token. */
typedef struct TokenBias {
    int32_t token;
    float bias;
} TokenBias;

typedef struct Sampling {
    double temperature; /* 0: the most likely token, lowest number first */
    long top_k;         /* only the k most likely; 0: all */
    double top_p;       /* only the most likely that together reach p; 1: all */
    double min_p;       /* only those at least so many times as likely as the most likely; 0: all */
    double repetition;  /* above 1: what was said before becomes less likely; 1: as it is */
    double presence;    /* taken from the logit of a token that was made before */
    double frequency;   /* and for each time that it was */
    const TokenBias *biases;
    int bias_count;
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
/* A text so far: the prompt, and behind it what was made. */
typedef struct Said {
    const int32_t *tokens;
    size_t count, prompt;
} Said;

/* The logits with penalties and biases: `logits` itself where there are none, or `changed`
 * [vocabulary]. Those of tokens that were said before are divided by `repetition`, or multiplied
 * where they are negative (CTRL, arXiv:1909.05858). */
const float *sample_adjust(const Sampling *sampling, const float *logits, float *changed,
                           long vocabulary, const Said *said);
/* place: the number of the token, so that a choice depends on (seed, place, logits) alone. */
int32_t sample_token(const Sampling *sampling, const float *logits, long vocabulary,
                     uint64_t place);

#endif

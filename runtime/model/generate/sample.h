/* sample: sampling of the next token from logits. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Addend of the logit of a token. */
typedef struct TokenBias {
    int32_t token;
    float bias;
} TokenBias;

typedef struct Sampling {
    double temperature; /* 0: greedy, the most likely token; ties: lowest id */
    long top_k;         /* restriction to the k most likely tokens; 0 = all */
    /* restriction to the most likely tokens with total probability p; 1 = all */
    double top_p;
    /* restriction to tokens with this probability relative to the most likely one; 0 = all */
    double min_p;
    double repetition; /* repetition penalty of tokens that occurred before; 1 = none */
    double presence;   /* subtracted from the logits of tokens sampled before */
    double frequency;  /* subtracted once per earlier occurrence */
    const TokenBias *biases;
    int bias_count;
    const bool *allowed; /* [vocabulary]; other tokens are never sampled; NULL: all */
    uint64_t seed;
} Sampling;

/* False if a logit is NaN or the largest one is infinite. */
bool sample_possible(const float *logits, long vocabulary);
/* True if the sampled token is the one with the largest logit. */
bool sample_is_greedy(const Sampling *sampling);
/* Logarithm of the sum of exponentials; a logit minus this value is the log-probability of its
 * token. */
double sample_log_sum(const float *logits, long vocabulary);
/* The `count` most likely tokens in descending order; ties: lowest id first. Returns their
 * number. */
int sample_best(const float *logits, long vocabulary, int32_t *tokens, int count);
/* The tokens so far: the prompt, then the sampled tokens. */
typedef struct Said {
    const int32_t *tokens;
    size_t count, prompt;
} Said;

/* The logits after penalties, biases and `allowed`: `logits` itself if there are none, else
 * `changed` [vocabulary]. The logits of earlier tokens are divided by `repetition` if positive,
 * otherwise multiplied (CTRL, arXiv:1909.05858). */
const float *sample_adjust(const Sampling *sampling, const float *logits, float *changed,
                           long vocabulary, const Said *said);
/* Seed of one of several completions of a prompt: `seed` itself for completion 0, a derived one for
 * each other. Calls with adjacent seeds then share no text. */
uint64_t sample_seed(uint64_t seed, long completion);
/* Samples a token. `place`: index of the token. The result depends only on `seed`, `place` and
 * `logits`. */
int32_t sample_token(const Sampling *sampling, const float *logits, long vocabulary,
                     uint64_t place);

#endif

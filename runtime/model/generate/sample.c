#include "model/generate/sample.h"

#include "base/memory.h"
#include "data/random.h"
#include "model/pick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sample_possible(const float *logits, long vocabulary) {
    for (long i = 0; i < vocabulary; i++)
        if (isnan(logits[i])) return false;
    return isfinite(logits[pick_most_likely(logits, vocabulary)]);
}

double sample_log_sum(const float *logits, long vocabulary) {
    double largest = (double)logits[pick_most_likely(logits, vocabulary)], sum = 0;
    for (long i = 0; i < vocabulary; i++) sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

int sample_best(const float *logits, long vocabulary, int32_t *tokens, int count) {
    int found = 0;
    for (int32_t i = 0; i < vocabulary; i++) {
        if (found == count && (!count || !(logits[i] > logits[tokens[count - 1]]))) continue;
        int at = found < count ? found++ : count - 1;
        for (; at > 0 && logits[i] > logits[tokens[at - 1]]; at--) tokens[at] = tokens[at - 1];
        tokens[at] = i;
    }
    return found;
}

static void penalise(const Sampling *sampling, float *logits, long vocabulary, const Said *said) {
    AUTO_FREE bool *seen = memory_new(sizeof *seen * (size_t)vocabulary),
                   *made = memory_new(sizeof *made * (size_t)vocabulary);
    float repetition = (float)sampling->repetition;
    for (size_t i = 0; i < said->count; i++) {
        int32_t token = said->tokens[i];
        if (token < 0 || token >= vocabulary || seen[token]) continue;
        seen[token] = true;
        logits[token] *= logits[token] > 0 ? 1 / repetition : repetition;
    }
    for (size_t i = said->prompt; i < said->count; i++) {
        int32_t token = said->tokens[i];
        if (token < 0 || token >= vocabulary) continue;
        logits[token] -= (float)(sampling->frequency + (made[token] ? 0 : sampling->presence));
        made[token] = true;
    }
}

static bool penalises(const Sampling *sampling) {
    return sampling->repetition != 1 || sampling->presence != 0 || sampling->frequency != 0;
}

static bool adjusts(const Sampling *sampling) {
    return penalises(sampling) || sampling->bias_count || sampling->allowed;
}

bool sample_is_greedy(const Sampling *sampling) {
    return sampling->temperature <= 0 && !adjusts(sampling);
}

const float *sample_adjust(const Sampling *sampling, const float *logits, float *changed,
                           long vocabulary, const Said *said) {
    if (!adjusts(sampling)) return logits;
    memcpy(changed, logits, sizeof *logits * (size_t)vocabulary);
    if (penalises(sampling)) penalise(sampling, changed, vocabulary, said);
    for (int i = 0; i < sampling->bias_count; i++)
        changed[sampling->biases[i].token] += sampling->biases[i].bias;
    for (long i = 0; i < vocabulary && sampling->allowed; i++)
        if (!sampling->allowed[i]) changed[i] = -INFINITY;
    return changed;
}

uint64_t sample_seed(uint64_t seed, long completion) {
    if (!completion) return seed;
    return random_bits(random_seed_for(seed, "completion"), (uint64_t)completion);
}

int32_t sample_token(const Sampling *sampling, const float *logits, long vocabulary,
                     uint64_t place) {
    const Picking picking = {.temperature = sampling->temperature,
                             .top_k = sampling->top_k,
                             .top_p = sampling->top_p,
                             .min_p = sampling->min_p};
    AUTO_FREE Candidate *candidates = memory_new(sizeof *candidates * (size_t)vocabulary);
    return pick_token(&picking, logits, vocabulary, random_uniform(sampling->seed, place),
                      candidates);
}

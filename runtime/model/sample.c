#include "model/sample.h"

#include "base/memory.h"
#include "data/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Candidate {
    double weight;
    int32_t token;
} Candidate;

static int by_weight(const void *a, const void *b) {
    const Candidate *first = a, *second = b;
    if (first->weight != second->weight) return first->weight > second->weight ? -1 : 1;
    return first->token - second->token;
}

static int32_t most_likely(const float *logits, long vocabulary) {
    int32_t best = 0;
    for (int32_t i = 1; i < vocabulary; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Number of sorted candidates that remain after the cut, and the sum of their weights. */
static long cut(const Sampling *sampling, const Candidate *candidates, long count, double *sum) {
    if (sampling->top_k > 0 && sampling->top_k < count) count = sampling->top_k;
    while (count > 1 && candidates[count - 1].weight < sampling->min_p * candidates[0].weight)
        count--;
    double total = 0, reached = 0;
    for (long i = 0; i < count; i++) total += candidates[i].weight;
    long kept = 0;
    while (kept < count && (kept == 0 || reached < sampling->top_p * total))
        reached += candidates[kept++].weight;
    *sum = reached;
    return kept;
}

bool sample_possible(const float *logits, long vocabulary) {
    for (long i = 0; i < vocabulary; i++)
        if (isnan(logits[i])) return false;
    return isfinite(logits[most_likely(logits, vocabulary)]);
}

double sample_log_sum(const float *logits, long vocabulary) {
    double largest = (double)logits[most_likely(logits, vocabulary)], sum = 0;
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
    bool *seen = memory_new(sizeof *seen * (size_t)vocabulary),
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
    free(made);
    free(seen);
}

const float *sample_adjust(const Sampling *sampling, const float *logits, float *changed,
                           long vocabulary, const Said *said) {
    bool penalised =
        sampling->repetition != 1 || sampling->presence != 0 || sampling->frequency != 0;
    if (!penalised && !sampling->bias_count) return logits;
    memcpy(changed, logits, sizeof *logits * (size_t)vocabulary);
    if (penalised) penalise(sampling, changed, vocabulary, said);
    for (int i = 0; i < sampling->bias_count; i++)
        changed[sampling->biases[i].token] += sampling->biases[i].bias;
    return changed;
}

int32_t sample_token(const Sampling *sampling, const float *logits, long vocabulary,
                     uint64_t place) {
    int32_t best = most_likely(logits, vocabulary);
    if (sampling->temperature <= 0) return best;
    Candidate *candidates = memory_new(sizeof *candidates * (size_t)vocabulary);
    for (int32_t i = 0; i < vocabulary; i++)
        candidates[i] =
            (Candidate){exp(((double)logits[i] - (double)logits[best]) / sampling->temperature), i};
    qsort(candidates, (size_t)vocabulary, sizeof *candidates, by_weight);
    double sum;
    long kept = cut(sampling, candidates, vocabulary, &sum), chosen = 0;
    double left = random_uniform(sampling->seed, place) * sum;
    while (chosen < kept - 1 && left >= candidates[chosen].weight)
        left -= candidates[chosen++].weight;
    int32_t token = candidates[chosen].token;
    free(candidates);
    return token;
}

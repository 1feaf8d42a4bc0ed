#include "pick.h"

#include <math.h>
#include <stdlib.h>

static int by_weight(const void *a, const void *b) {
    const Candidate *first = a, *second = b;
    if (first->weight != second->weight) return first->weight > second->weight ? -1 : 1;
    return first->token - second->token;
}

int32_t pick_most_likely(const float *logits, long vocabulary) {
    int32_t best = 0;
    for (int32_t i = 1; i < vocabulary; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Number of sorted candidates that remain after the cut, and the sum of their weights. */
static long cut(const Picking *picking, const Candidate *candidates, long count, double *sum) {
    if (picking->top_k > 0 && picking->top_k < count) count = picking->top_k;
    while (count > 1 && candidates[count - 1].weight < picking->min_p * candidates[0].weight)
        count--;
    double total = 0, reached = 0;
    for (long i = 0; i < count; i++) total += candidates[i].weight;
    long kept = 0;
    while (kept < count && (kept == 0 || reached < picking->top_p * total))
        reached += candidates[kept++].weight;
    *sum = reached;
    return kept;
}

int32_t pick_token(const Picking *picking, const float *logits, long vocabulary, double u,
                   Candidate *candidates) {
    const int32_t best = pick_most_likely(logits, vocabulary);
    if (picking->temperature <= 0) return best;
    for (int32_t i = 0; i < vocabulary; i++)
        candidates[i] =
            (Candidate){exp(((double)logits[i] - (double)logits[best]) / picking->temperature), i};
    qsort(candidates, (size_t)vocabulary, sizeof *candidates, by_weight);
    double sum;
    long kept = cut(picking, candidates, vocabulary, &sum), chosen = 0;
    double left = u * sum;
    while (chosen < kept - 1 && left >= candidates[chosen].weight)
        left -= candidates[chosen++].weight;
    return candidates[chosen].token;
}

/* Each family of p-values is corrected separately: differences, equivalence, not worse. */
#include "tools/experiment/experiment.h"

#include "base/memory.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Corrects one p-value of every judgement that counts; the others become NaN. Returns their number.
 */
static int correct_field(PValueCorrection correction, Judgement *judgements, int count,
                         size_t field) {
    double *chances = memory_new((size_t)(count + 1) * sizeof *chances);
    int family = 0;
    for (int pass = 0; pass < 2; pass++) {
        int at = 0;
        for (int i = 0; i < count; i++) {
            double *own = (double *)(void *)((char *)&judgements[i] + field);
            if (!judgements[i].counts) *own = NAN;
            if (isnan(*own)) continue;
            if (pass) *own = chances[at];
            chances[at++] = *own;
        }
        if (!pass) correct_chances(correction, chances, family = at);
    }
    free(chances);
    return family;
}

int judge_differences(const TestRules *rules, bool higher, Judgement *judgements, int count) {
    double bound = rules->equivalence;
    for (int i = 0; i < count; i++) {
        Judgement *own = &judgements[i];
        own->adjusted = own->difference.chance;
        own->equivalent = bound > 0 ? difference_equivalence(&own->difference, bound) : NAN;
        own->not_worse = bound > 0 ? difference_not_worse(&own->difference, bound, higher) : NAN;
    }
    correct_field(rules->correction, judgements, count, offsetof(Judgement, equivalent));
    correct_field(rules->correction, judgements, count, offsetof(Judgement, not_worse));
    return correct_field(rules->correction, judgements, count, offsetof(Judgement, adjusted));
}

const char *judgement_verdict(const Judgement *judgement, bool higher) {
    const double level = 0.05;
    const Difference *difference = &judgement->difference;
    bool equivalent = judgement->equivalent < level;
    if (!difference->count) return "";
    if (!judgement->counts) return "not selected";
    if (!isfinite(difference->margin)) return "one seed";
    if (judgement->adjusted < level && (difference->mean < 0) != higher)
        return equivalent ? "better, equivalent" : "better";
    if (judgement->adjusted < level) return equivalent ? "worse, equivalent" : "worse";
    return equivalent                     ? "equivalent"
           : judgement->not_worse < level ? "not worse"
                                          : "not significant";
}

/* Each family of p-values is corrected separately: differences, equivalence, not worse. */
#include "tools/experiment/experiment.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

int judge_differences(const TestRules *rules, bool higher, Judgement *judgements, int count) {
    enum { TESTS = 3 };
    const double bound = rules->equivalence;
    double *chances = memory_new((size_t)(TESTS * count + 1) * sizeof *chances),
           *not_worse = chances + count, *equivalent = not_worse + count;
    for (int i = 0; i < count; i++) {
        const Difference *difference = &judgements[i].difference;
        const bool counts = judgements[i].counts, bounded = counts && bound > 0;
        chances[i] = counts ? difference->chance : NAN;
        not_worse[i] = bounded ? difference_not_worse(difference, bound, higher) : NAN;
        equivalent[i] = bounded ? difference_equivalence(difference, bound) : NAN;
    }
    correct_chances(rules->correction, not_worse, count);
    correct_chances(rules->correction, equivalent, count);
    const int family = correct_chances(rules->correction, chances, count);
    for (int i = 0; i < count; i++) {
        judgements[i].adjusted = chances[i];
        judgements[i].not_worse = not_worse[i];
        judgements[i].equivalent = equivalent[i];
    }
    free(chances);
    return family;
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

#include "tools/experiment/internal.h"

#include "base/message.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long halving_step(long steps, double share) {
    long step = (long)ceil(share * (double)steps);
    return step < 1 ? 1 : step;
}

/* Mean over seeds, less is better; infinite when a run has diverged. */
static double score(const Plan *plan, const MoecVariant *variant, long step) {
    double sum = 0;
    for (long seed = 1; seed <= plan->experiment->seeds; seed++) {
        RunResult result;
        bool found = run_result_at(plan, variant, seed, step, &result) ||
                     run_result(plan, variant, seed, &result);
        sum += found && !result.diverged && isfinite(result.loss) ? result.loss : INFINITY;
    }
    double mean = sum / (double)plan->experiment->seeds;
    return plan->experiment->higher && isfinite(mean) ? -mean : mean;
}

/* Number of remaining variants that are better; on a tie the earlier variant is better. */
static int score_rank(const double *scores, const bool *stopped, int count, int at) {
    int rank = 0;
    for (int i = 0; i < count; i++)
        rank += !stopped[i] && (scores[i] < scores[at] || (scores[i] == scores[at] && i < at));
    return rank;
}

static void stop(const Plan *plan, const MoecVariant *variant, long step) {
    bool told = false;
    for (long seed = 1; seed <= plan->experiment->seeds; seed++) {
        RunResult ended, result;
        if (run_result(plan, variant, seed, &ended)) continue;
        if (!run_result_at(plan, variant, seed, step, &result)) continue;
        result.stopped = true;
        run_keep(plan, variant, seed, &result);
        if (!told) progress_line("%s stops at step %ld", variant->name, step);
        told = true;
    }
}

static bool is_base(const Plan *plan, int variant) {
    const MoecVariant *variants = plan->experiment->variants;
    return !strcmp(variants[variant].structure, variants[0].structure);
}

void halving_stop(const Plan *plan, double share, const long *steps, bool *stopped) {
    int count = plan->experiment->count, left = 0, best_base = -1;
    AUTO_FREE double *scores = memory_new((size_t)count * sizeof *scores);
    AUTO_FREE int *ranks = memory_new((size_t)count * sizeof *ranks);
    for (int i = 0; i < count; i++) {
        if (stopped[i]) continue;
        scores[i] = score(plan, &plan->experiment->variants[i], halving_step(steps[i], share));
        left++;
    }
    for (int i = 0; i < count; i++) {
        ranks[i] = stopped[i] ? count : score_rank(scores, stopped, count, i);
        if (!stopped[i] && is_base(plan, i) && (best_base < 0 || ranks[i] < ranks[best_base]))
            best_base = i;
    }
    for (int i = 0; i < count; i++) {
        if (stopped[i] || i == best_base || ranks[i] < (left + 1) / 2) continue;
        stop(plan, &plan->experiment->variants[i], halving_step(steps[i], share));
        stopped[i] = true;
    }
    fflush(stdout);
}

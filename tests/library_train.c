/* Trains with moec_train, for checks/library_train.sh: library_train SPEC DATA OUT STEP [SET]. Prints
 * step and loss of each step, stops after STEP (0: at the end) and resumes the run if there is
 * one. A failed call prints its message to stdout and exits with 1. */
#include "moec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int on_step(void *context, const MoecProgress *progress) {
    static double validation = NAN;
    const long *stop = context;
    const double now = progress->val_loss;
    if (!progress->evaluated && now != validation && !(isnan(now) && isnan(validation))) abort();
    validation = now;
    if (progress->steps < progress->step || !(progress->grad_norm > 0) || !(progress->lr > 0))
        abort();
    printf("%ld %.9g\n", progress->step, progress->loss);
    return progress->step == *stop;
}

int main(int argc, char **argv) {
    long stop = argc > 4 ? atol(argv[4]) : 0;
    const char *set = argc > 5 ? argv[5] : NULL;
    MoecTraining training = {.data = argc > 2 ? argv[2] : NULL,
                             .out = argc > 3 ? argv[3] : NULL,
                             .sets = &set,
                             .set_count = set != NULL,
                             .resume = stop != 0,
                             .on_step = on_step,
                             .context = &stop};
    if (moec_train(argc > 1 ? argv[1] : NULL, argc > 1 ? &training : NULL) == 0) return 0;
    fputs(moec_message(), stdout);
    return 1;
}

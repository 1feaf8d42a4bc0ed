#include "base/seconds.h"

#include <time.h>

static double seconds_by(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double seconds_now(void) {
    return seconds_by(CLOCK_MONOTONIC);
}

double seconds_of_thread(void) {
    return seconds_by(CLOCK_THREAD_CPUTIME_ID);
}

#include "base/threads.h"

#include "base/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Spin counts before a thread sleeps: a few microseconds, and a few hundred microseconds. */
static const char *const busy_count = "1000", *const idle_count = "20000";

/* True if at least as many threads are runnable as there are processors. */
static int machine_is_busy(void) {
    FILE *file = fopen("/proc/loadavg", "r");
    long running = 0;
    if (file) {
        if (fscanf(file, "%*s %*s %*s %ld/", &running) != 1) running = 0;
        fclose(file);
    }
    return running - 1 >= sysconf(_SC_NPROCESSORS_ONLN);
}

static int set_count(long count) {
    char text[32];
    const char *old = getenv("OMP_NUM_THREADS");
    snprintf(text, sizeof text, "%ld", count);
    return count > 0 && !(old && !strcmp(old, text)) && setenv("OMP_NUM_THREADS", text, 1) == 0;
}

static int set_wait(void) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return 0;
    if (setenv("GOMP_SPINCOUNT", machine_is_busy() ? busy_count : idle_count, 1) != 0) return 0;
    setenv("KMP_BLOCKTIME", "0", 0); /* the same for clang's OpenMP */
    return 1;
}

void threads_begin(char **argv, long count, bool wait) {
    const ProcessGroup launch = launch_read();
    if (!count && !getenv("OMP_NUM_THREADS")) count = launch_threads(&launch);
    int changed = set_count(count);
    if (wait) changed |= set_wait();
    if (changed) execv("/proc/self/exe", argv);
}

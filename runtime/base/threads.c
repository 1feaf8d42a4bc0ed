#include "base/threads.h"

#include <stdio.h>
#include <stdlib.h>
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

void threads_wait_briefly(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    if (setenv("GOMP_SPINCOUNT", machine_is_busy() ? busy_count : idle_count, 1) != 0) return;
    setenv("KMP_BLOCKTIME", "0", 0); /* the same for clang's OpenMP */
    execv("/proc/self/exe", argv);
}

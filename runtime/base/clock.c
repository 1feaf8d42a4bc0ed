#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int by_size(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

void time_text(char text[TIME_TEXT]) {
    time_t now = time(NULL);
    struct tm parts;
    strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
}

double median(double *numbers, size_t count) {
    qsort(numbers, count, sizeof *numbers, by_size);
    return numbers[count / 2];
}

void startup_begin(Startup *startup) {
    startup->began = startup->marked = seconds_now();
    startup->text[0] = '\0';
}

void startup_part(Startup *startup, const char *phase, double seconds) {
    size_t length = strlen(startup->text);
    snprintf(startup->text + length, sizeof startup->text - length, "%s%s %.2f", length ? ", " : "",
             phase, seconds);
    startup->marked += seconds;
}

void startup_mark(Startup *startup, const char *phase) {
    startup_part(startup, phase, seconds_now() - startup->marked);
}

double startup_seconds(const Startup *startup) {
    return startup->marked - startup->began;
}

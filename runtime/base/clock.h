/* clock: time, the median of repeated measurements, and startup time by phase. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stddef.h>

/* Wall-clock seconds since an arbitrary fixed moment. */
double seconds_now(void);
/* Processor time of the current thread in seconds. */
double seconds_of_thread(void);

/* The current time in UTC: "2026-11-26T14:10:00Z". */
enum { TIME_TEXT = 40 };
void time_text(char text[TIME_TEXT]);

/* Sorts the numbers and returns the median; the upper one if count is even. Requires count > 0. */
double median(double *numbers, size_t count);

typedef struct Startup {
    double began, marked; /* time before `marked` is included in the text */
    char text[224];
} Startup;

/* Starts the clock. */
void startup_begin(Startup *startup);
/* Assigns the time since the last mark to `phase`. */
void startup_mark(Startup *startup, const char *phase);
/* The same for a phase whose duration was measured by the caller. */
void startup_part(Startup *startup, const char *phase, double seconds);
/* Seconds from startup_begin to the last mark. */
double startup_seconds(const Startup *startup);

#endif

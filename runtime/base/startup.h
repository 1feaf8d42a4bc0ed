/* startup: startup time by phase: "0.93 s: spec 0.01, program 0.71". */
#ifndef STARTUP_H
#define STARTUP_H

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

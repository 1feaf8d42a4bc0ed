/* startup: where the time of starting goes, phase by phase: "0.93 s: spec 0.01, program 0.71". */
#ifndef STARTUP_H
#define STARTUP_H

typedef struct Startup {
    double began, marked; /* everything before `marked` is in the text */
    char text[224];
} Startup;

/* The time of starting begins now. */
void startup_begin(Startup *startup);
/* What has passed since the last mark went into `phase`. */
void startup_mark(Startup *startup, const char *phase);
/* The same of which only so many seconds are known to. */
void startup_part(Startup *startup, const char *phase, double seconds);
/* From the beginning to the last mark. */
double startup_seconds(const Startup *startup);

#endif

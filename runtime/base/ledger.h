/* ledger: where the time of starting goes, phase by phase: "0.93 s: spec 0.01, program 0.71". */
#ifndef LEDGER_H
#define LEDGER_H

typedef struct Ledger {
    double began, marked; /* everything before `marked` is in the text */
    char text[224];
} Ledger;

void ledger_begin(Ledger *ledger);
/* What has passed since the last mark went into `phase`. */
void ledger_mark(Ledger *ledger, const char *phase);
/* The same of which only so many seconds are known to. */
void ledger_part(Ledger *ledger, const char *phase, double seconds);
/* From the beginning to the last mark. */
double ledger_seconds(const Ledger *ledger);

#endif

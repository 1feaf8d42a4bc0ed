/* history: the log of a run, log.jsonl, as columns: a row for each step, a column for each name. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>

typedef struct History {
    char **names;    /* the first is "step"; then as they first appear */
    char **former;   /* of a probe, where the log has it; else NULL */
    double **values; /* [column][row]; NaN where there is none, infinity where it is null */
    int columns;
    long rows, room;
    int next;   /* column that the next number is looked for at */
    bool whole; /* see history_open */
    char
        *diverged; /* value that was not finite or above the limit when training stopped, or NULL */
} History;

/* The spec of a run from its run.json, else from a checkpoint. A new string, or NULL. */
char *run_spec(const char *folder);
/* Reads FOLDER/log.jsonl; lines that are damaged are left out. Probes have the names that the
 * standard library has for them now. whole: with the values that a probe
 * has in each layer, which may be thousands (the load of every expert). False, with errno and
 * nothing to free, when there is no such file. */
bool history_open(History *history, const char *folder, bool whole);
void history_free(History *history);
/* The number of a column by its current or former name, or -1. */
int history_column(const History *history, const char *name);
/* The last number of a column; NaN when there is none. */
double history_last(const History *history, const char *name);
/* The mean of the last tenth of the steps that have this column. */
double history_tail(const History *history, const char *name);
double history_sum(const History *history, const char *name);
/* The median of the steps. */
double history_median(const History *history, const char *name);
/* The last step; 0 before the first. */
long history_step(const History *history);

#endif

/* gather: the runs that folders hold, those of one model together. */
#ifndef GATHER_H
#define GATHER_H

#include "tools/experiment/result.h"

#include <jansson.h>

typedef struct Run {
    char *folder;
    long seed; /* -1: not known */
    bool ended;
    RunResult result;
    History history;
    json_t *account; /* its run.json, or NULL */
} Run;

/* The runs of one model, which differ in their seeds. */
typedef struct Group {
    char *name, *spec; /* spec: with all that it uses, or NULL */
    Run *runs;
    int count;
    char *structure, *tuned; /* see MoecVariant; NULL where nothing is tuned */
    json_t *sets;            /* changes of an experiment to its baseline, "key=value"; or NULL */
    json_t *cost, *options;  /* cost of the model, its resolved options; or NULL */
} Group;

typedef struct Gathering {
    char *experiment; /* NULL: runs that were started one by one */
    char *metric;     /* a number of the log that the experiment asks for, or NULL */
    bool higher;      /* of it is better */
    Group *groups;
    int count;
} Gathering;

/* Each folder is that of a run, of a sweep, or holds such folders. False after a message. */
bool gather(Gathering *gathering, const char *const *folders, int count);
void gathering_free(Gathering *gathering);
/* Index of a group; -1 after a message that lists the existing ones. */
int gathering_find(const Gathering *gathering, const char *name);

#endif

/* asked: state of reading an experiment from its tree. */
#ifndef ASKED_H
#define ASKED_H

#include "elaborate/elaborate.h"

/* An experiment while it is read. */
typedef struct Asking {
    Elaborator *e;
    Experiment *experiment;
    List paths; /* Node *: every option that something changes */
} Asking;

/* The choices of `vary` or `tune`; false after a report. */
bool choices_read(Asking *asking, const Node *node, List *dimensions);
/* Those of `variants = { NAME = { ... } }`. */
bool variants_read(Asking *asking, const Node *entry);
/* Registers an option that the experiment changes. Returns false after a report if it is already
 * registered. */
bool path_claim(Asking *asking, const Node *node);

#endif

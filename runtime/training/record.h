/* record: the log of a run, one JSON object a line. */
#ifndef RECORD_H
#define RECORD_H

#include "training/events.h"

typedef struct Record {
    char *path;
    FILE *file;
    Events events; /* the same for TensorBoard, once record_events has been called */
} Record;

/* Opens for appending and drops what was written after `step` (a run that goes on from there writes
 * it again); a step of 0 starts anew. Damaged lines are removed and told of, and so is a log that
 * lacks steps. Fails with a message when another run holds it, or when it is no file. */
bool record_open(Record *record, const char *path, long step);
/* From now on the log goes to an event file beside it as well; false after a message. */
bool record_events(Record *record, const char *folder, long step);
/* Appends an object and releases it; false after a message. */
bool record_write(Record *record, json_t *object);
void record_close(Record *record);

#endif

/* record: the log of a run, one JSON object per line. */
#ifndef RECORD_H
#define RECORD_H

#include "training/events.h"

typedef struct Record {
    char *path;
    FILE *file;
    Events events; /* the same for TensorBoard, after record_events */
} Record;

/* Opens the log for appending and drops lines after `step`, which the resumed run writes again;
 * step 0 = new log. Removes damaged lines with a note; prints a note if steps are missing. Fails
 * with a message if another run has locked the log or the path is not a regular file. */
bool record_open(Record *record, const char *path, long step);
/* Also writes the log to a TensorBoard event file from now on; false after a message. */
bool record_events(Record *record, const char *folder, long step);
/* Appends an object and releases it; false after a message. */
bool record_write(Record *record, json_t *object);
void record_close(Record *record);

#endif

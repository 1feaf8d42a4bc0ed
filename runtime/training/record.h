/* record: the log of a run, also for TensorBoard. */
#ifndef RECORD_H
#define RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* events: the log of a run in TensorBoard format: TFRecords, each an Event (protocol buffer) with
 * named values. */

typedef struct Events {
    char *path;
    FILE *file;
} Events;

/* Creates an event file in the folder. In a resumed run it invalidates earlier records from `step`
 * on. False after a message. */
bool events_open(Events *events, const char *folder, long step);
/* Writes the numbers of a log line at its step; false after a message. */
bool events_write(Events *events, const json_t *line);
void events_close(Events *events);

/* record: the log of a run, one JSON object per line. */

typedef struct RunLog {
    char *path;
    FILE *file;
    char *lines;   /* lines of the step from which the run resumes, for the events */
    Events events; /* the same for TensorBoard, after record_events */
} RunLog;

/* Opens the log for appending and drops lines after `step`, which the resumed run writes again,
 * and evaluations at a stop; step 0 = new log. Removes damaged lines with a note; prints a note if
 * steps are missing. Fails with a message if another run has locked the log or the path is not a
 * regular file. */
bool record_open(RunLog *record, const char *path, long step);
/* Also writes the log to a TensorBoard event file from now on; false after a message. */
bool record_events(RunLog *record, const char *folder, long step);
/* Appends an object and releases it; false after a message. */
bool record_write(RunLog *record, json_t *object);
void record_close(RunLog *record);

#endif

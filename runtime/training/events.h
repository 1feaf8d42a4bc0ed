/* events: the log of a run as TensorBoard reads it: a file of TFRecords, each an Event (a protocol
 * buffer) with numbers by name. */
#ifndef EVENTS_H
#define EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct Events {
    char *path;
    FILE *file;
} Events;

/* Begins a file of its own in the folder; of a run that goes on, what earlier files say of later
 * steps is taken back. False after a message. */
bool events_open(Events *events, const char *folder, long step);
/* The numbers of a line of the log, as of its step; false after a message. */
bool events_write(Events *events, const json_t *line);
void events_close(Events *events);

#endif

/* events: the log of a run in TensorBoard format: TFRecords, each an Event (protocol buffer) with
 * named values. */
#ifndef EVENTS_H
#define EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct Events {
    char *path;
    FILE *file;
} Events;

/* Creates an event file in the folder. In a resumed run it invalidates earlier records after
 * `step`. False after a message. */
bool events_open(Events *events, const char *folder, long step);
/* Writes the numbers of a log line at its step; false after a message. */
bool events_write(Events *events, const json_t *line);
void events_close(Events *events);

#endif

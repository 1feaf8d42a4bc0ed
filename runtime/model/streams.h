/* streams: files and standard streams: nothing is waited for, nothing written through or half, and
 * nothing lost without a word.
 */
#ifndef STREAMS_H
#define STREAMS_H

#include <stdio.h>

/* Call it first: a standard stream that is closed would give its number to the next file. */
void streams_hold(void);
/* Call it last: what is wrong with what was printed, or NULL. */
const char *streams_end(void);
/* Opens a file for reading; NULL for a pipe, a device, a folder, too. */
FILE *stream_read(const char *path);

/* A file on its way: it is written beside its path and takes that place when it is complete. */
typedef struct Sink {
    FILE *file;
    char *path, *partial;
} Sink;

/* 0 when it cannot be begun: what is there already and no file stays what it is. */
int sink_open(Sink *sink, const char *path);
/* good: everything was written. 0 when it was not, or is not there now; then nothing is changed. */
int sink_close(Sink *sink, int good);

#endif

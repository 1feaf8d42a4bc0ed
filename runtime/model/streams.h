/* streams: safe access to files and standard streams: no blocking on pipes, no writing through
 * links, no partial files, no unreported errors. */
#ifndef STREAMS_H
#define STREAMS_H

#include <stdio.h>

/* Call it first: the number of a closed standard stream would be reused for the next file. */
void streams_hold(void);
/* Call it last: returns the error of the output to stdout, or NULL. */
const char *streams_end(void);
/* Opens a regular file for reading; NULL otherwise. */
FILE *stream_read(const char *path);

/* An atomic file write: to a temporary file, renamed to the path when complete. */
typedef struct Sink {
    FILE *file;
    char *path, *partial;
} Sink;

/* Returns 0 on failure, and if the path exists and is not a regular file. */
int sink_open(Sink *sink, const char *path);
/* Completes the write if `good`, otherwise removes the temporary file. Returns 0 on failure; the
 * old file is then unchanged. */
int sink_close(Sink *sink, int good);

#endif

/* wire: messages of the Language Server Protocol, each after a header with its length. */
#ifndef WIRE_H
#define WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { LONGEST_MESSAGE = 64 << 20 };

typedef struct Wire {
    int in, out;
    char *bytes; /* that came and are not read yet */
    size_t length, capacity;
    bool ended; /* nothing more will come */
} Wire;

/* Waits for a message for at most `milliseconds` (-1: no limit). NULL on timeout, at the end of
 * input, or on an invalid header; *broken is true in the last two cases. Invalid JSON results in an
 * empty object. */
json_t *wire_read(Wire *wire, int milliseconds, bool *broken);
/* Writes one and lets go of it; false when nobody reads. */
bool wire_write(Wire *wire, json_t *message);
void wire_close(Wire *wire);

#endif

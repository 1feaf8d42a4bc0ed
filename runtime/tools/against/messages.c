/* messages: the messages between the process of the comparison and that of the code: one line of
 * JSON, then the doubles that it announces.
 *
 *     {"options"}                               -> {"kind", "arguments", "tensors"}
 *     {"type", "tensors", "results"} + values   -> {"results", "gradients"} + values
 *
 * An answer {"error": TEXT, "where": "FILE:LINE"} reports an error of the code.
 */
#include "tools/against/against.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_bytes_of(int from, void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        const ssize_t got = read(from, (char *)bytes + done, length - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

bool against_send(int to, const json_t *message) {
    AUTO_FREE char *text = json_write(message, JSON_COMPACT);
    return write_all(to, text, strlen(text)) && write_all(to, "\n", 1);
}

/* Byte by byte: the line is short, and doubles follow it. */
json_t *against_receive(int from) {
    char *text = NULL, byte = 0;
    size_t length = 0, room = 0;
    while (read_bytes_of(from, &byte, 1) && byte != '\n') {
        if (length + 1 >= room) text = memory_grow(text, room = 2 * room + 256);
        text[length++] = byte;
    }
    if (text) text[length] = 0;
    json_t *message = text && byte == '\n' ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return message;
}

bool against_send_values(int to, const double *values, size_t count) {
    return write_all(to, values, count * sizeof *values);
}

bool against_receive_values(int from, double *values, size_t count) {
    return read_bytes_of(from, values, count * sizeof *values);
}

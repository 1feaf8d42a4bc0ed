#include "tools/lsp/server.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* More bytes; false when none came in time, or none ever will. */
static bool receive_bytes(Wire *wire, int milliseconds) {
    struct pollfd wait = {.fd = wire->in, .events = POLLIN};
    int ready = poll(&wait, 1, milliseconds);
    if (ready <= 0) return ready < 0 && errno == EINTR;
    if (wire->length + 4096 > wire->capacity) {
        wire->capacity = 2 * wire->capacity + 8192;
        wire->bytes = memory_grow(wire->bytes, wire->capacity);
    }
    ssize_t got = read(wire->in, wire->bytes + wire->length, wire->capacity - wire->length);
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) {
        wire->ended = true;
        return false;
    }
    wire->length += (size_t)got;
    return true;
}

static void drop_bytes(Wire *wire, size_t bytes) {
    wire->length -= bytes;
    memmove(wire->bytes, wire->bytes + bytes, wire->length);
}

/* The value of the Content-Length header, or -1. */
static long content_length(const char *header, size_t length) {
    static const char name[] = "Content-Length:";
    for (size_t at = 0; at + sizeof name < length; at++) {
        bool line = at == 0 || header[at - 1] == '\n';
        if (!line || strncasecmp(header + at, name, sizeof name - 1)) continue;
        long number = 0;
        for (at += sizeof name - 1; header[at] == ' '; at++) {
        }
        if (header[at] < '0' || header[at] > '9') return -1;
        for (; header[at] >= '0' && header[at] <= '9' && number <= LONGEST_MESSAGE; at++)
            number = 10 * number + (header[at] - '0');
        return number;
    }
    return -1;
}

json_t *wire_read(Wire *wire, int milliseconds, bool *broken) {
    enum { LONGEST_HEADER = 8192 };
    *broken = false;
    for (;;) {
        const char *end = wire->length ? memmem(wire->bytes, wire->length, "\r\n\r\n", 4) : NULL;
        size_t header = end ? (size_t)(end - wire->bytes) + 4 : 0;
        long length = end ? content_length(wire->bytes, header) : 0;
        if ((end && (length < 0 || length > LONGEST_MESSAGE)) ||
            (!end && wire->length > LONGEST_HEADER)) {
            *broken = true;
            return NULL;
        }
        if (end && wire->length >= header + (size_t)length) {
            json_t *message = json_loadb(wire->bytes + header, (size_t)length, 0, NULL);
            drop_bytes(wire, header + (size_t)length);
            return message ? message : json_object();
        }
        if (!receive_bytes(wire, milliseconds)) return NULL;
    }
}

bool wire_write(Wire *wire, json_t *message) {
    AUTO_FREE char *text = json_write_new(message, JSON_COMPACT | JSON_PRESERVE_ORDER);
    AUTO_FREE char *all = memory_format("Content-Length: %zu\r\n\r\n%s", strlen(text), text);
    size_t length = strlen(all), done = 0;
    while (done < length) {
        ssize_t put = write(wire->out, all + done, length - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) break;
        done += (size_t)put;
    }
    return done == length;
}

void wire_close(Wire *wire) {
    free(wire->bytes);
}

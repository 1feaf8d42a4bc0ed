#include "training/record.h"

#include "base/memory.h"
#include "base/message.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- protocol buffers: a field is a key, (number << 3 | kind), and a value ---- */

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };
/* Event, Summary, Summary.Value and SessionLog of TensorBoard's event.proto and summary.proto. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 };
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2, STATUS = 1, STATUS_START = 1 };

typedef struct Message {
    unsigned char *bytes;
    size_t length, room;
} Message;

static void put_event_bytes(Message *message, const void *bytes, size_t length) {
    if (message->length + length > message->room) {
        message->room = 2 * (message->length + length);
        message->bytes = memory_grow(message->bytes, message->room);
    }
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

/* Little-endian on every machine. */
static void put_fixed(Message *message, uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(bits >> 8 * i);
        put_event_bytes(message, &byte, 1);
    }
}

static void put_varint(Message *message, uint64_t number) {
    do {
        unsigned char byte = (unsigned char)((number & 127) | (number > 127 ? 128 : 0));
        put_event_bytes(message, &byte, 1);
        number >>= 7;
    } while (number);
}

static void put_key(Message *message, int field, int kind) {
    put_varint(message, (uint64_t)(field << 3 | kind));
}

static void put_bytes(Message *message, int field, const void *bytes, size_t length) {
    put_key(message, field, BYTES);
    put_varint(message, length);
    put_event_bytes(message, bytes, length);
}

static void put_double(Message *message, int field, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_key(message, field, FIXED_64);
    put_fixed(message, bits, 8);
}

static void put_float(Message *message, int field, float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_key(message, field, FIXED_32);
    put_fixed(message, bits, 4);
}

/* ---- TFRecords: length, its checksum, bytes, their checksum ---- */

/* CRC-32C (Castagnoli), masked as TFRecords ask for it. */
static uint32_t checksum(const unsigned char *bytes, size_t length) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static bool write_record(Events *events, const Message *message) {
    Message record = {0};
    put_fixed(&record, message->length, 8);
    put_fixed(&record, checksum(record.bytes, 8), 4);
    put_event_bytes(&record, message->bytes, message->length);
    put_fixed(&record, checksum(message->bytes, message->length), 4);
    bool good = fwrite(record.bytes, 1, record.length, events->file) == record.length &&
                fflush(events->file) == 0;
    free(record.bytes);
    return good || error_message("free some disk space, or omit the TensorBoard file",
                                 "cannot write %s: %s", events->path, strerror(errno));
}

static Message event_at(long step) {
    struct timespec now;
    Message event = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    put_double(&event, WALL_TIME, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    if (step) put_key(&event, STEP, VARINT);
    if (step) put_varint(&event, (uint64_t)step);
    return event;
}

/* ---- the log ---- */

/* The first record contains the version. A START record invalidates earlier records of its step and
 * later ones, at step 0 those of a run that was killed before its first checkpoint. The caller
 * writes the lines of this step again. */
static bool write_start(Events *events, long step) {
    static const char version[] = "brain.Event:2";
    Message event = event_at(0), session = {0};
    put_bytes(&event, FILE_VERSION, version, sizeof version - 1);
    bool good = write_record(events, &event);
    free(event.bytes);
    if (!good) return false;
    event = event_at(step);
    put_key(&session, STATUS, VARINT);
    put_varint(&session, STATUS_START);
    put_bytes(&event, SESSION_LOG, session.bytes, session.length);
    good = write_record(events, &event);
    free(event.bytes);
    free(session.bytes);
    return good;
}

/* TensorBoard reads the files of a folder sorted by name; names start with the time. */
bool events_open(Events *events, const char *folder, long step) {
    struct timespec now;
    char host[64] = "host";
    clock_gettime(CLOCK_REALTIME, &now);
    gethostname(host, sizeof host - 1);
    events->path = memory_format("%s/events.out.tfevents.%ld.%09ld.%s", folder, (long)now.tv_sec,
                                 now.tv_nsec, host);
    events->file = fopen(events->path, "wbxe");
    if (events->file) return write_start(events, step);
    return error_message("check that you can write to the folder", "cannot write %s: %s",
                         events->path, strerror(errno));
}

static void put_value(Message *summary, const char *name, double number) {
    Message value = {0};
    put_bytes(&value, TAG, name, strlen(name));
    put_float(&value, SIMPLE_VALUE, (float)number);
    put_bytes(summary, VALUE, value.bytes, value.length);
    free(value.bytes);
}

/* Values per layer, with tags such as "gate.layer/0". */
static void put_number(Message *summary, const char *name, const json_t *value) {
    const char *key;
    json_t *part;
    for (size_t i = 0; i < json_array_size(value); i++) {
        AUTO_FREE char *tag = memory_format("%s/%zu", name, i);
        put_number(summary, tag, json_array_get(value, i));
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, part) {
        AUTO_FREE char *tag = memory_format("%s/%s", name, key);
        put_number(summary, tag, part);
    }
    if (json_is_number(value)) put_value(summary, name, json_number_value(value));
    if (json_is_null(value)) put_value(summary, name, (double)NAN);
}

bool events_write(Events *events, const json_t *line) {
    Message summary = {0},
            event = event_at((long)json_integer_value(json_object_get(line, "step")));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)line, name, value) {
        if (strcmp(name, "step") == 0) continue;
        put_number(&summary, name, value);
        if (strcmp(name, "diverged") == 0) put_value(&summary, name, 1);
    }
    put_bytes(&event, SUMMARY, summary.bytes, summary.length);
    bool good = write_record(events, &event);
    free(summary.bytes);
    free(event.bytes);
    return good;
}

void events_close(Events *events) {
    if (events->file) fclose(events->file);
    free(events->path);
    *events = (Events){0};
}

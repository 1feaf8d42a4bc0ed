/* Event files: their frames, checksums (CRC-32C, compared with a table in this test) and numbers, byte for byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "training/record.h"

/* By long division of the reflected polynomial, unlike the writer. */
static uint32_t crc(const unsigned char *bytes, size_t length) {
    uint32_t table[256], sum = 0;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82f63b78 : table[i] >> 1;
    }
    sum = ~sum;
    for (size_t i = 0; i < length; i++) sum = table[(sum ^ bytes[i]) & 255] ^ sum >> 8;
    return ~sum;
}

static uint64_t little(const unsigned char *bytes, int count) {
    uint64_t number = 0;
    for (int i = 0; i < count; i++) number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* Reads the record at `at`, with its bytes and length; returns the offset of the next. */
static size_t frame(const unsigned char *file, size_t at, const unsigned char **bytes,
                    size_t *length) {
    uint32_t head = crc(file + at, 8);
    *length = (size_t)little(file + at, 8);
    *bytes = file + at + 12;
    uint32_t body = crc(*bytes, *length);
    assert_int_equal(little(file + at + 8, 4), (uint32_t)((head >> 15 | head << 17) + 0xa282ead8));
    assert_int_equal(little(*bytes + *length, 4),
                     (uint32_t)((body >> 15 | body << 17) + 0xa282ead8));
    return at + 12 + *length + 4;
}

enum { FILE_BYTES = 1024 };

/* Reads the file and removes it; returns its size. */
static size_t taken(const char *path, unsigned char file[FILE_BYTES]) {
    FILE *back = fopen(path, "rb");
    assert_non_null(back);
    size_t size = fread(file, 1, FILE_BYTES, back);
    fclose(back);
    unlink(path);
    return size;
}

static void written(void **state) {
    (void)state;
    char folder[] = "/tmp/moec_events_XXXXXX";
    unsigned char file[FILE_BYTES];
    const unsigned char *bytes;
    size_t length, at = 0;
    Events events;
    assert_int_equal(crc((const unsigned char *)"123456789", 9), 0xe3069283);
    assert_non_null(mkdtemp(folder));
    assert_true(events_open(&events, folder, 300));
    json_t *line =
        json_pack("{s:i, s:f, s:n, s:s}", "step", 301, "loss", 1.5, "a", "diverged", "x");
    assert_true(events_write(&events, line));
    json_decref(line);
    size_t size = taken(events.path, file);
    rmdir(folder);
    events_close(&events);

    at = frame(file, at, &bytes, &length); /* time, version */
    assert_memory_equal(bytes + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    at = frame(file, at, &bytes, &length); /* time, step 300, a session that starts */
    assert_memory_equal(bytes + 9, "\x10\xac\x02\x3a\x02\x08\x01", 7);
    at = frame(file, at, &bytes, &length); /* time, step 301, three numbers */
    assert_memory_equal(bytes + 9, "\x10\xad\x02\x2a", 4);
    assert_memory_equal(bytes + 14, "\x0a\x0b\x0a\x04loss\x15\x00\x00\xc0\x3f", 13);
    assert_memory_equal(bytes + 27,
                        "\x0a\x08\x0a\x01"
                        "a\x15",
                        6);
    float nothing;
    memcpy(&nothing, bytes + 33, sizeof nothing);
    assert_true(isnan(nothing));
    assert_memory_equal(bytes + 37,
                        "\x0a\x0f\x0a\x08"
                        "diverged\x15\x00\x00\x80\x3f",
                        17);
    assert_int_equal(length, 54);
    assert_int_equal(at, size);
}

/* A resumed run invalidates the records of its step and writes those again that an uninterrupted run
 * has, so the evaluation at the stop disappears. */
static void resumed(void **state) {
    (void)state;
    char folder[] = "/tmp/moec_events_XXXXXX", log[64];
    unsigned char file[FILE_BYTES];
    const unsigned char *bytes;
    size_t length, at = 0;
    RunLog record;
    assert_non_null(mkdtemp(folder));
    snprintf(log, sizeof log, "%s/log.jsonl", folder);
    FILE *before = fopen(log, "w");
    fputs("{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":1.5}\n"
          "{\"step\":2,\"val_loss\":3.5,\"stopped\":true}\n{\"step\":3,\"loss\":0.5}\n",
          before);
    fclose(before);
    assert_true(record_open(&record, log, 2));
    assert_true(record_events(&record, folder, 2));
    size_t size = taken(record.events.path, file);
    record_close(&record);
    unlink(log);
    rmdir(folder);

    at = frame(file, at, &bytes, &length); /* time, version */
    at = frame(file, at, &bytes, &length); /* time, step 2, a session that starts */
    assert_memory_equal(bytes + 9, "\x10\x02\x3a\x02\x08\x01", 6);
    at = frame(file, at, &bytes, &length); /* time, step 2, its loss */
    assert_memory_equal(bytes + 9, "\x10\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\xc0\x3f", 17);
    assert_int_equal(length, 26);
    assert_int_equal(at, size);
}

/* A run that starts again from step 0 invalidates all records. */
static void restarted(void **state) {
    (void)state;
    char folder[] = "/tmp/moec_events_XXXXXX";
    unsigned char file[FILE_BYTES];
    const unsigned char *bytes;
    size_t length, at = 0;
    Events events;
    assert_non_null(mkdtemp(folder));
    assert_true(events_open(&events, folder, 0));
    size_t size = taken(events.path, file);
    rmdir(folder);
    events_close(&events);

    at = frame(file, at, &bytes, &length); /* time, version */
    at = frame(file, at, &bytes, &length); /* time, step 0 is omitted, a session that starts */
    assert_memory_equal(bytes + 9, "\x3a\x02\x08\x01", 4);
    assert_int_equal(length, 13);
    assert_int_equal(at, size);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(written), cmocka_unit_test(resumed),
                                       cmocka_unit_test(restarted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

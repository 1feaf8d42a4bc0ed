#include "model/record.h"

#include "base/complain.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Where the lines up to `step` end. Steps only grow within a log, and a line that was cut off is no
 * JSON. */
static long end_of(FILE *file, long step) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    long end = 0;
    while ((length = getline(&line, &capacity, file)) > 0) {
        json_t *object = json_loadb(line, (size_t)length, 0, NULL);
        json_t *at = json_object_get(object, "step");
        bool keep =
            line[length - 1] == '\n' && json_is_integer(at) && json_integer_value(at) <= step;
        json_decref(object);
        if (!keep) break;
        end += length;
    }
    free(line);
    return end;
}

bool record_open(Record *record, const char *path, long step) {
    record->path = memory_format("%s", path);
    record->file = fopen(path, "a+");
    if (!record->file) {
        complain("check that the folder may be written", "cannot write %s: %s", path,
                 strerror(errno));
        record_close(record);
        return false;
    }
    if (flock(fileno(record->file), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        complain("wait for it, or choose another --out", "another run is writing to %s", path);
        record_close(record);
        return false;
    }
    rewind(record->file);
    long end = step ? end_of(record->file, step) : 0;
    if (ftruncate(fileno(record->file), end) != 0 || fseek(record->file, 0, SEEK_END) != 0) {
        complain(NULL, "cannot shorten %s: %s", path, strerror(errno));
        record_close(record);
        return false;
    }
    return true;
}

bool record_write(Record *record, json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    bool good = text && fprintf(record->file, "%s\n", text) > 0 && fflush(record->file) == 0;
    if (!good)
        complain("free some space on the disk and go on with --resume", "cannot write %s: %s",
                 record->path, strerror(errno));
    free(text);
    return good;
}

void record_close(Record *record) {
    if (record->file) fclose(record->file);
    record->file = NULL;
    free(record->path);
    record->path = NULL;
}

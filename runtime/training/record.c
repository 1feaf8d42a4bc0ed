#include "training/record.h"

#include "abi/json_make.h"
#include "base/message.h"
#include "base/memory.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Content of a log when a run resumes. */
typedef struct LogScan {
    char *kept;            /* valid lines up to the step */
    size_t length, before; /* of the kept lines, and of those before the lines of the step */
    long damaged, first;   /* number of invalid lines; line number of the first */
    long steps, last;      /* number of steps with a line; the last of them */
} LogScan;

/* Step of a line, -1 if it is damaged. Steps increase within a log. *stop: the evaluation at a
 * stop. */
static long line_step(LogScan *def_use, const char *line, size_t length, bool *stop) {
    json_auto_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *at = json_object_get(object, "step");
    json_int_t step = json_is_integer(at) ? json_integer_value(at) : -1;
    if (step > LONG_MAX || step < def_use->last || line[length - 1] != '\n') step = -1;
    *stop = json_is_true(json_object_get(object, "stopped"));
    if (step >= 0 && json_object_get(object, "loss")) def_use->steps += step > def_use->last;
    if (step > def_use->last) def_use->last = (long)step;
    return (long)step;
}

/* Omits steps after `step`, which the resumed run writes again, and evaluations at a stop, which an
 * uninterrupted run does not have. A killed run can leave a truncated last line. */
static LogScan def_use_of(FILE *file, long step) {
    LogScan def_use = {0};
    FILE *kept = open_memstream(&def_use.kept, &def_use.length);
    AUTO_FREE char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    for (long number = 1; kept && (length = getline(&line, &capacity, file)) > 0; number++) {
        LogScan before = def_use;
        bool stop;
        long at = line_step(&def_use, line, (size_t)length, &stop);
        if (at > step) {
            def_use = before;
        } else if (at >= 0 && !stop) {
            if (at < step) def_use.before += (size_t)length;
            fwrite(line, 1, (size_t)length, kept);
        } else if (at < 0 && line[length - 1] == '\n') {
            if (!def_use.damaged++) def_use.first = number;
        }
    }
    if (kept) fclose(kept);
    return def_use;
}

/* Truncates the log to the lines up to `step`; step 0 = empty log. False after a message.
 * *replaced: a damaged log was replaced by a new file. */
static bool cut_log(RunLog *record, long step, bool *replaced) {
    rewind(record->file);
    LogScan def_use = step ? def_use_of(record->file, step) : (LogScan){0};
    bool good = true;
    *replaced = def_use.damaged > 0;
    if (*replaced) {
        note_message("%s: removed %ld damaged lines, the first was line %ld", record->path,
                     def_use.damaged, def_use.first);
        good = file_write(record->path, def_use.kept, def_use.length);
    } else if (ftruncate(fileno(record->file), (off_t)def_use.length) != 0 ||
               fseek(record->file, 0, SEEK_END) != 0) {
        good = error_message("check the permissions, or choose another output directory",
                             "cannot shorten %s: %s", record->path, strerror(errno));
    }
    if (def_use.kept) record->lines = memory_format("%s", def_use.kept + def_use.before);
    if (good && def_use.steps < step)
        note_message("%s has %ld of the %ld steps so far", record->path, def_use.steps, step);
    free(def_use.kept);
    return good;
}

/* Opens and locks the log; false after a message. */
static bool open_log(RunLog *record) {
    const char *path = record->path;
    int descriptor = file_create(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (descriptor < 0) return false;
    record->file = fdopen(descriptor, "a+");
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return error_message("wait for the other run, or choose another output directory",
                             "another run is writing to %s", path);
    return true;
}

bool record_open(RunLog *record, const char *path, long step) {
    *record = (RunLog){.path = memory_format("%s", path)};
    bool replaced = false;
    bool good = open_log(record) && cut_log(record, step, &replaced);
    if (good && replaced) {
        fclose(record->file);
        good = open_log(record);
    }
    if (!good) record_close(record);
    return good;
}

bool record_events(RunLog *record, const char *folder, long step) {
    bool good = events_open(&record->events, folder, step);
    for (const char *line = record->lines; good && line && *line; line = strchr(line, '\n') + 1) {
        json_auto_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        good = events_write(&record->events, object);
    }
    return good;
}

bool record_write(RunLog *record, json_t *object) {
    bool events = !record->events.file || events_write(&record->events, object);
    AUTO_FREE char *text = json_write_new(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    bool good = text && fprintf(record->file, "%s\n", text) > 0 && fflush(record->file) == 0;
    if (!text)
        error_message(NULL, "a line of %s cannot be written as JSON", record->path);
    else if (!good)
        error_message("free some disk space, then resume the run", "cannot write %s: %s",
                      record->path, strerror(errno));
    return good && events;
}

void record_close(RunLog *record) {
    events_close(&record->events);
    if (record->file) fclose(record->file);
    record->file = NULL;
    free(record->lines);
    record->lines = NULL;
    free(record->path);
    record->path = NULL;
}

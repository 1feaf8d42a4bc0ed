#include "model/record.h"

#include "base/complain.h"
#include "base/memory.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is found in a log when a run goes on with it. */
typedef struct Survey {
    char *kept; /* the sound lines up to the step */
    size_t length;
    long damaged, first; /* lines that are no line of a log; the number of the first of them */
    long steps, last;    /* steps that have a line; the last of them */
} Survey;

/* The step of a line, -1 of one that is damaged. Steps only grow within a log. */
static long step_of(Survey *survey, const char *line, size_t length) {
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *at = json_object_get(object, "step");
    json_int_t step = json_is_integer(at) ? json_integer_value(at) : -1;
    if (step > LONG_MAX || step < survey->last || line[length - 1] != '\n') step = -1;
    if (step >= 0 && json_object_get(object, "loss")) survey->steps += step > survey->last;
    json_decref(object);
    if (step > survey->last) survey->last = (long)step;
    return (long)step;
}

/* Steps after `step` are left out: the run that goes on writes them again. A last line without its
 * end is what a killed run leaves. */
static Survey survey_of(FILE *file, long step) {
    Survey survey = {0};
    FILE *kept = open_memstream(&survey.kept, &survey.length);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    for (long number = 1; kept && (length = getline(&line, &capacity, file)) > 0; number++) {
        Survey before = survey;
        long at = step_of(&survey, line, (size_t)length);
        if (at > step) {
            survey = before;
        } else if (at >= 0) {
            fwrite(line, 1, (size_t)length, kept);
        } else if (line[length - 1] == '\n') {
            if (!survey.damaged++) survey.first = number;
        }
    }
    free(line);
    if (kept) fclose(kept);
    return survey;
}

/* An empty log, or one with the lines up to `step` alone; false after a message. *replaced: another
 * file has taken the place of the damaged one. */
static bool shorten(Record *record, long step, bool *replaced) {
    rewind(record->file);
    Survey survey = step ? survey_of(record->file, step) : (Survey){0};
    bool good = true;
    *replaced = survey.damaged > 0;
    if (*replaced) {
        remark("%s: %ld damaged lines are removed, the first was line %ld", record->path,
               survey.damaged, survey.first);
        good = file_write(record->path, survey.kept, survey.length);
    } else if (ftruncate(fileno(record->file), (off_t)survey.length) != 0 ||
               fseek(record->file, 0, SEEK_END) != 0) {
        good = complain(NULL, "cannot shorten %s: %s", record->path, strerror(errno));
    }
    if (good && survey.steps < step)
        remark("%s holds %ld of the %ld steps so far", record->path, survey.steps, step);
    free(survey.kept);
    return good;
}

/* Opens and locks the file, which is one: nothing is waited for and nothing else written to. */
static bool open_log(Record *record) {
    const char *path = record->path;
    int descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return complain("check that the folder may be written", "cannot write %s: %s", path,
                        strerror(errno));
    record->file = fdopen(descriptor, "a+");
    if (!S_ISREG(status.st_mode))
        return complain("choose another --out", "cannot write %s: it is not a file", path);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return complain("wait for it, or choose another --out", "another run is writing to %s",
                        path);
    return true;
}

bool record_open(Record *record, const char *path, long step) {
    *record = (Record){.path = memory_format("%s", path)};
    bool replaced = false;
    bool good = open_log(record) && shorten(record, step, &replaced);
    if (good && replaced) {
        fclose(record->file);
        good = open_log(record);
    }
    if (!good) record_close(record);
    return good;
}

bool record_write(Record *record, json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    bool good = text && fprintf(record->file, "%s\n", text) > 0 && fflush(record->file) == 0;
    if (!text)
        complain(NULL, "a line of %s cannot be said as JSON", record->path);
    else if (!good)
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

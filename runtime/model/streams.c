#if defined(__unix__) || defined(__APPLE__)
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* realpath, lstat */
#endif
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#define FILES_HAVE_KINDS
#endif

#include "streams.h"

#include <stdlib.h>
#include <string.h>

void streams_hold(void) {
#ifdef FILES_HAVE_KINDS
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream < 2 ? O_RDONLY : O_WRONLY) < 0)
            return;
#endif
}

const char *streams_end(void) {
    int failed = ferror(stdout);
    return fflush(stdout) != 0 || failed ? "cannot write standard output" : NULL;
}

FILE *stream_read(const char *path) {
#ifdef FILES_HAVE_KINDS
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
#endif
    return fopen(path, "rb");
}

static char *copy_of(const char *text, const char *ending) {
    char *copy = malloc(strlen(text) + strlen(ending) + 1);
    return copy ? strcat(strcpy(copy, text), ending) : NULL;
}

/* The target of a path after symbolic links, or the path of a new file; NULL if it is not a regular
 * file. */
static char *target_path(const char *path) {
#ifdef FILES_HAVE_KINDS
    struct stat status;
    if (lstat(path, &status) == 0) {
        char *place = realpath(path, NULL);
        if (place && stat(place, &status) == 0 && S_ISREG(status.st_mode)) return place;
        free(place);
        return NULL;
    }
#endif
    return copy_of(path, "");
}

/* Removes a regular file that a killed program left; opening fails on anything else. */
static void remove_left(const char *partial) {
#ifdef FILES_HAVE_KINDS
    struct stat status;
    if (lstat(partial, &status) != 0 || !S_ISREG(status.st_mode)) return;
#endif
    remove(partial);
}

int sink_open(Sink *sink, const char *path) {
    *sink = (Sink){.path = target_path(path)};
    sink->partial = sink->path ? copy_of(sink->path, ".partial") : NULL;
    if (sink->partial) {
        remove_left(sink->partial);
        sink->file = fopen(sink->partial, "wbx"); /* x: do not follow links */
    }
    if (sink->file) return 1;
    free(sink->path);
    free(sink->partial);
    return 0;
}

int sink_close(Sink *sink, int good) {
    good = fclose(sink->file) == 0 && good;
    good = good && rename(sink->partial, sink->path) == 0;
    if (!good) remove(sink->partial);
    free(sink->path);
    free(sink->partial);
    return good;
}

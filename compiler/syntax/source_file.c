/* source_file: reads a file into the arena: a spec, or a file that an `extern` names. */
#include "passes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_BYTES = (16 << 20) + 1
}; /* one byte above the limit of the parser, which reports the excess */

/* Opens a regular file, "-" is stdin, without blocking. Returns NULL and sets `problem` on failure.
 */
static FILE *open_source_file(const char *path, const char **problem) {
    const char *name = strcmp(path, "-") ? path : "/dev/stdin";
    int descriptor = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    bool good = descriptor >= 0 && fstat(descriptor, &status) == 0;
    bool regular = good && S_ISREG(status.st_mode);
    *problem = regular ? NULL : good ? "not a regular file" : strerror(errno);
    if (!regular && descriptor >= 0) close(descriptor);
    return regular ? fdopen(descriptor, "rb") : NULL;
}

/* Reads a file into the arena. Returns NULL and sets `problem` on failure. */
char *read_source_text(Arena *arena, const char *path, size_t *length, const char **problem) {
    FILE *file = open_source_file(path, problem);
    if (!file) return NULL;
    size_t capacity = 1 << 14, size = 0;
    char *buffer = NULL, *text = NULL;
    for (;;) {
        char *larger = realloc(buffer, capacity);
        if (!larger) break;
        buffer = larger;
        size += fread(buffer + size, 1, capacity - size, file);
        if (size < capacity || size >= MAX_BYTES) break;
        capacity *= 2;
    }
    if (buffer && !ferror(file)) {
        text = arena_copy(arena, buffer, size);
        *length = size;
    }
    if (!text) *problem = strerror(errno);
    free(buffer);
    fclose(file);
    return text;
}

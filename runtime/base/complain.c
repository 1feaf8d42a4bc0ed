#include "base/complain.h"

#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>

bool complain(const char *remedy, const char *format, ...) {
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    fputs("moec: error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    if (remedy) fprintf(stderr, "  help: %s\n", remedy);
    return false;
}

void remark(const char *format, ...) {
    progress_clear();
    fflush(stdout);
    va_list arguments;
    va_start(arguments, format);
    fputs("moec: note: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

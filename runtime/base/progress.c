#include "base/progress.h"

#include "base/message.h"
#include "base/seconds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* There is one terminal, hence one state. */
static int lines_stand;
static double last_shown;

bool progress_is_live(void) {
    const char *kind = getenv("TERM");
    return isatty(2) && kind && strcmp(kind, "dumb") != 0;
}

bool progress_due(void) {
    return last_shown == 0 || seconds_now() - last_shown >= (progress_is_live() ? 0.1 : 5);
}

void progress_clear(void) {
    if (!lines_stand) return; /* no write: threads of a program that uses the library get here */
    for (int i = 1; i < lines_stand; i++) fputs("\r\033[K\033[A", stderr);
    fputs("\r\033[K", stderr);
    lines_stand = 0;
}

static int terminal_width(void) {
    struct winsize size = {0};
    return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

void progress_block(const char *const *lines, int count) {
    if (!progress_is_live() || message_is_quiet()) return;
    progress_clear();
    last_shown = seconds_now();
    for (int i = 0; i < count; i++)
        fprintf(stderr, "%s%.*s", i ? "\n" : "", terminal_width(), lines[i]);
    lines_stand = count;
}

void progress_show(bool keep, const char *format, ...) {
    if (message_is_quiet() || (!keep && !progress_due())) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    last_shown = seconds_now();
    if (!progress_is_live()) {
        fprintf(stderr, "%s\n", line);
    } else {
        fprintf(stderr, "\r%.*s\033[K%s", keep ? (int)sizeof line : terminal_width(), line,
                keep ? "\n" : "");
        lines_stand = !keep;
    }
}

void progress_line(const char *format, ...) {
    if (message_is_quiet()) return;
    progress_clear();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

char *progress_time(char text[48], double seconds) {
    long whole = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (whole < 60)
        snprintf(text, 48, "%lds", whole);
    else if (whole < 3600)
        snprintf(text, 48, "%ldm%02lds", whole / 60 % 60, whole % 60);
    else
        snprintf(text, 48, "%ldh%02ldm", whole / 3600 % 100000, whole / 60 % 60);
    return text;
}

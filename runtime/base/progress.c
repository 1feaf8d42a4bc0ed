#include "base/progress.h"

#include "base/seconds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* One state, since there is only one terminal. */
static int lines_stand;
static double last_shown;

bool progress_is_live(void) {
    const char *kind = getenv("TERM");
    return isatty(1) && kind && strcmp(kind, "dumb") != 0;
}

bool progress_due(void) {
    return last_shown == 0 || seconds_now() - last_shown >= (progress_is_live() ? 0.1 : 5);
}

void progress_clear(void) {
    if (!lines_stand) return; /* no write: threads of a program that uses the library get here */
    for (int i = 1; i < lines_stand; i++) fputs("\r\033[K\033[A", stdout);
    fputs("\r\033[K", stdout);
    fflush(stdout);
    lines_stand = 0;
}

static int terminal_width(void) {
    struct winsize size = {0};
    return ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

void progress_block(const char *const *lines, int count) {
    if (!progress_is_live()) return;
    progress_clear();
    last_shown = seconds_now();
    for (int i = 0; i < count; i++) printf("%s%.*s", i ? "\n" : "", terminal_width(), lines[i]);
    lines_stand = count;
    fflush(stdout);
}

void progress_show(bool keep, const char *format, ...) {
    if (!keep && !progress_due()) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    last_shown = seconds_now();
    if (!progress_is_live()) {
        puts(line);
    } else {
        bool colour = !getenv("NO_COLOR") && !keep;
        printf("\r%s%.*s%s\033[K%s", colour ? "\033[36m" : "",
               keep ? (int)sizeof line : terminal_width(), line, colour ? "\033[0m" : "",
               keep ? "\n" : "");
        lines_stand = !keep;
    }
    fflush(stdout);
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

#include "base/progress.h"

#include "base/seconds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* There is one terminal, hence one state. */
static bool line_stands;
static double last_shown;

static bool is_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(1) && kind && strcmp(kind, "dumb") != 0;
}

bool progress_due(void) {
    return last_shown == 0 || seconds_now() - last_shown >= (is_terminal() ? 0.1 : 5);
}

void progress_clear(void) {
    if (line_stands) {
        fputs("\r\033[K", stdout);
        fflush(stdout);
    }
    line_stands = false;
}

void progress_show(bool keep, const char *format, ...) {
    if (!keep && !progress_due()) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    last_shown = seconds_now();
    if (!is_terminal()) {
        puts(line);
    } else {
        struct winsize size = {0};
        int width = ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
        bool colour = !getenv("NO_COLOR") && !keep;
        printf("\r%s%.*s%s\033[K%s", colour ? "\033[36m" : "", keep ? (int)sizeof line : width,
               line, colour ? "\033[0m" : "", keep ? "\n" : "");
        line_stands = !keep;
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

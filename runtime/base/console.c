
#include "abi/quantity.h"
#include "base/message.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <signal.h>
#include <stddef.h>

enum { TERMINAL = STDERR_FILENO };

static const double LIVE_SECONDS = 0.1, PLAIN_SECONDS = 5, PHASE_SECONDS = 10;

/* There is one terminal, hence one state, which `lock` protects. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lines_shown;
static double last_shown;

static const char *phase; /* NULL: no thread watches */
static double phase_began;
static pthread_t watcher;
static pthread_cond_t phase_changed;

bool progress_is_live(void) {
    const char *kind = getenv("TERM");
    return isatty(TERMINAL) && kind && strcmp(kind, "dumb") != 0;
}

bool progress_due(void) {
    pthread_mutex_lock(&lock);
    double shown = last_shown;
    pthread_mutex_unlock(&lock);
    return shown == 0 ||
           seconds_now() - shown >= (progress_is_live() ? LIVE_SECONDS : PLAIN_SECONDS);
}

/* ---- with the lock held ---- */

static void clear_lines(void) {
    if (!lines_shown) return; /* no write: threads of a program that uses the library get here */
    for (int i = 1; i < lines_shown; i++) fputs("\r\033[K\033[A", stderr);
    fputs("\r\033[K", stderr);
    fflush(stderr);
    lines_shown = 0;
}

static int terminal_width(void) {
    struct winsize size = {0};
    return ioctl(TERMINAL, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static void show_line(bool keep, const char *line) {
    last_shown = seconds_now();
    if (!progress_is_live()) {
        fprintf(stderr, "%s\n", line);
    } else {
        bool color = !getenv("NO_COLOR") && !keep;
        clear_lines();
        fprintf(stderr, "%s%.*s%s%s", color ? "\033[36m" : "",
                keep ? (int)strlen(line) : terminal_width(), line, color ? "\033[0m" : "",
                keep ? "\n" : "");
        lines_shown = !keep;
    }
    fflush(stderr);
}

/* ---- for callers ---- */

void progress_clear(void) {
    pthread_mutex_lock(&lock);
    clear_lines();
    pthread_mutex_unlock(&lock);
}

void progress_block(const char *const *lines, int count) {
    if (!progress_is_live() || message_is_quiet()) return;
    pthread_mutex_lock(&lock);
    clear_lines();
    last_shown = seconds_now();
    for (int i = 0; i < count; i++)
        fprintf(stderr, "%s%.*s", i ? "\n" : "", terminal_width(), lines[i]);
    lines_shown = count;
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void progress_show(bool keep, const char *format, ...) {
    if (message_is_quiet() || (!keep && !progress_due())) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    show_line(keep, line);
    pthread_mutex_unlock(&lock);
}

void progress_line(const char *format, ...) {
    if (message_is_quiet()) return;
    pthread_mutex_lock(&lock);
    clear_lines();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    pthread_mutex_unlock(&lock);
}

/* Prints the phase whenever nothing has been shown for PHASE_SECONDS, until it is NULL. */
static void *watch(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (phase) {
        double now = seconds_now(), shown = last_shown > phase_began ? last_shown : phase_began;
        if (now - shown >= PHASE_SECONDS) {
            char line[128];
            snprintf(line, sizeof line, "%s, %s", phase,
                     quantity_whole_seconds(now - phase_began).text);
            show_line(false, line);
            shown = now;
        }
        double due = shown + PHASE_SECONDS;
        struct timespec moment = {.tv_sec = (time_t)due,
                                  .tv_nsec = (long)(1e9 * (due - (double)(time_t)due))};
        pthread_cond_timedwait(&phase_changed, &lock, &moment);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static bool start_watcher(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&phase_changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return pthread_create(&watcher, NULL, watch, NULL) == 0;
}

void progress_phase(const char *name) {
    static bool watched;
    if (message_is_quiet()) return;
    pthread_mutex_lock(&lock);
    phase = name;
    phase_began = seconds_now();
    bool starts = name && !watched, ends = !name && watched;
    if (starts) watched = start_watcher();
    if (ends) pthread_cond_signal(&phase_changed);
    pthread_mutex_unlock(&lock);
    if (!ends) return;
    pthread_join(watcher, NULL);
    pthread_cond_destroy(&phase_changed);
    watched = false;
}

/* ---- interrupt ---- */

static volatile sig_atomic_t came;

static void note(int number) {
    came = number;
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int interrupt_signal(void) {
    return came;
}

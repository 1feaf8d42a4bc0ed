/* message: messages to the user on stderr: "moec: KIND: TEXT", after an error "  help: TEXT" with
 * text to type. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stdbool.h>
#include <stdio.h>

/* Redirects the messages of this thread to a file; NULL: to stderr, the initial state. Returns the
 * argument of the previous call. */
FILE *message_to(FILE *file);
/* The file that messages of this thread go to. */
FILE *message_file(void);

/* -1: errors only; 0: errors, warnings and notes, the initial state; 1: details as well. */
void message_level(int level);
bool message_is_quiet(void);
bool message_is_verbose(void);
/* "always", "never" or "auto": on a terminal, unless NO_COLOR is set; the initial state. */
void message_color(const char *mode);

/* Prints "moec: error: MESSAGE" and, when help is not NULL, "  help: HELP" to stderr. Returns
 * false, so that a function can end with it. */
bool error_message(const char *help, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line as it is: an item of a list before its error. */
void line_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "moec: note: MESSAGE" to stderr. */
void note_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "moec: MESSAGE" to stderr at level 1. */
void detail_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the reports of the compiler to stderr, the words error, warning and note in color. */
void message_reports(const char *reports);

/* console: progress lines on stderr; SIGINT and SIGTERM. */

/* progress: one line on stderr about a long operation. On a terminal it is redrawn at most 10 times
 * per second; elsewhere a plain line is printed at most every 5 s. Option -q suppresses it. */

/* Prints the line if it is due. keep: prints it always and starts a new line after it. */
void progress_show(bool keep, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line that stays. */
void progress_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* True if progress_show would print now; otherwise the caller need not prepare the line. */
bool progress_due(void);
/* On a terminal, replaces the current lines by these; nothing elsewhere. */
void progress_block(const char *const *lines, int count);
/* True if stderr is a terminal that can redraw lines. */
bool progress_is_live(void);
/* Removes an unfinished line before other output. */
void progress_clear(void);
/* Names the current phase: "compilation". While no progress is shown for 10 s, a line with the
 * phase and its duration is printed. NULL ends the phases. Only for the main thread. */
void progress_phase(const char *phase);

/* A time limit from an environment variable: seconds above 0; without the variable the usual one.
 * False after a message. */
bool seconds_limit(const char *variable, double usual, double *limit);

/* interrupt: SIGINT and SIGTERM ask for a stop after the present step; a second one stops at once.
 */

/* From here on the two signals are noticed; call it once. */
void interrupt_watch(void);
/* The signal that came, or 0. */
int interrupt_signal(void);

#endif

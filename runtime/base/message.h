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

#endif

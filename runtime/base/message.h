/* message: errors with a fix, notes, and reports of written files; on stderr. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stdbool.h>
#include <stdio.h>

/* Redirects the messages of this thread to a file; NULL: to stderr, the initial state. Returns the
 * argument of the previous call. */
FILE *message_to(FILE *file);
/* The current target of messages. */
FILE *message_file(void);

/* Prints "moec: error: MESSAGE" and, unless `remedy` is NULL, "  help: REMEDY" to stderr. Returns
 * false, for use in a return statement. */
bool error_message(const char *remedy, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints "  WHAT  NAME", one line of a list that precedes its error. */
void item_message(const char *what, const char *name);
/* Prints "moec: note: MESSAGE" to stderr. */
void note_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "wrote PATH (SIZE)" to stderr and, unless next is NULL, "  next: COMMAND". The size of a
 * folder is that of its files. */
void written_message(const char *path, const char *next, ...) __attribute__((format(printf, 2, 3)));

#endif

/* written: the message about a file or folder that a command has written. */
#ifndef WRITTEN_H
#define WRITTEN_H

/* Prints "wrote PATH (SIZE)" to stderr and, unless next is NULL, "  next: COMMAND". The size of a
 * folder is that of its files. Nothing is printed for stdout, "-". */
void written_message(const char *path, const char *next, ...) __attribute__((format(printf, 2, 3)));

#endif

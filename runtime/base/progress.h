/* progress: a status line for long operations. On a terminal the line is redrawn; elsewhere a plain
 * line is printed at intervals. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>

/* Shows the line. keep: the line stays visible on every kind of output. */
void progress_show(bool keep, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True if progress_show would print now; otherwise the caller can skip formatting the line. */
bool progress_due(void);
/* On a terminal, replaces the current lines by several lines; elsewhere prints nothing. */
void progress_block(const char *const *lines, int count);
/* True if lines are redrawn (output is a terminal). */
bool progress_is_live(void);
/* Erases an unfinished line before other output. */
void progress_clear(void);
/* "45s", "3m10s", "2h05m" into text[48]; returns text. */
char *progress_time(char text[48], double seconds);

#endif

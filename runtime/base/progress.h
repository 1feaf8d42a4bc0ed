/* progress: one line on stderr about a long computation. On a terminal it is redrawn in place;
 * otherwise a plain line is printed at intervals. Option -q suppresses it. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>

/* Shows the line. keep: it stays on a terminal and is printed in any case. */
void progress_show(bool keep, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line that stays. */
void progress_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* True if progress_show would print now; otherwise the caller can skip the line. */
bool progress_due(void);
/* On a terminal, draws several lines in place of the previous ones. */
void progress_block(const char *const *lines, int count);
/* Whether lines are redrawn in place. */
bool progress_is_live(void);
/* Removes an unfinished line before other output. */
void progress_clear(void);
/* "45s", "3m10s", "2h05m" into text[48]; returns text. */
char *progress_time(char text[48], double seconds);

#endif

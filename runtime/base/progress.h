/* progress: one line that tells how a long work stands. On a terminal it is rewritten in place;
 * elsewhere a plain line is printed now and then. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>

/* Shows the line. keep: it stays, whatever the output is. */
void progress_show(bool keep, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True when progress_show would print now; making the line can be left out otherwise. */
bool progress_due(void);
/* On a terminal, several lines in the place of those that stand; nothing elsewhere. */
void progress_block(const char *const *lines, int count);
/* Whether lines are rewritten in place. */
bool progress_is_live(void);
/* Takes an unfinished line away before something else is printed. */
void progress_clear(void);
/* "45s", "3m10s", "2h05m" into text[48]; returns text. */
char *progress_time(char text[48], double seconds);

#endif

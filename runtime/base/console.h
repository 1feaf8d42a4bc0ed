/* console: progress lines on stderr; SIGINT and SIGTERM. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdbool.h>

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

/* interrupt: SIGINT and SIGTERM ask for a stop after the present step; a second one stops at once.
 */

/* From here on the two signals are noticed; call it once. */
void interrupt_watch(void);
/* The signal that came, or 0. */
int interrupt_signal(void);

#endif

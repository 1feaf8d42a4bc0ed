/* interrupt: SIGINT and SIGTERM ask for a stop after the present step; a second one stops at once.
 */
#ifndef INTERRUPT_H
#define INTERRUPT_H

/* From here on the two signals are noticed; call it once. */
void interrupt_watch(void);
/* The signal that came, or 0. */
int interrupt_signal(void);

#endif

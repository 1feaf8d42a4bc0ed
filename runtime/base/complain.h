/* complain: what the runtime tells its user when something is wrong: what and where, then what
 * would mend it. */
#ifndef COMPLAIN_H
#define COMPLAIN_H

#include <stdbool.h>

/* Prints "moec: error: MESSAGE" and, when remedy is not NULL, "  help: REMEDY" to stderr. Returns
 * false, so that a function can end with it. */
bool complain(const char *remedy, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "moec: note: MESSAGE" to stderr. */
void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

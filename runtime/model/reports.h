/* reports: compiler diagnostics on standard error. */
#ifndef REPORTS_H
#define REPORTS_H

#include "moec.h"

/* Prints the diagnostics if there are errors; returns true if there are none. */
bool reports_good(MoecCompiler *compiler);

#endif

/* reports: what the compiler says of a spec, on standard error. */
#ifndef REPORTS_H
#define REPORTS_H

#include "moec.h"

/* Prints the reports so far when there are errors; returns true when there are none. */
bool reports_good(MoecCompiler *compiler);

#endif

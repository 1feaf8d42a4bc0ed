/* pass_times: the time of the passes of the compiler, as a table. */
#ifndef PASS_TIMES_H
#define PASS_TIMES_H

#include "moec.h"
#include "tools/command/line/arguments.h"

#define TIME_OPTION(value)                                                                         \
    { OPTION_FLAG, "--time-passes", NULL, value, "time of each compiler pass on stderr" }

/* Prints one line per pass to stderr: executions, milliseconds. */
void pass_times_print(MoecCompiler *compiler);

#endif

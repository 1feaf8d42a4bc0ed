/* must: reports a condition that does not hold. */
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

_Thread_local const char *must_pass;

void must_fail(const char *condition, const char *file, int line, const char *function) {
    fprintf(stderr, "moec: internal error: %s:%d: %s: '%s' does not hold", file, line, function,
            condition);
    if (must_pass) fprintf(stderr, " in pass '%s'", must_pass);
    fprintf(stderr, "\n");
    abort();
}

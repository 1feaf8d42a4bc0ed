/* scan: a recurrence. See ir/scan.c for its operands. */
#include "calls/calls.h"

const CallRow call_scan = {
    .name = "scan",
    .has_body = true,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .form = PROGRAM_FORMS, /* SCAN, unless it is chunked */
};

/* scan: a recurrence. See ir/scan.c for its operands. */
#include "calls/calls.h"
#include "ir/well_formed.h"

/* Its body and operands are checked with those of repeats. */
static void check(Verify *verify, const Statement *statement) {
    verify_counts(verify, statement->outputs.count >= 1);
}

static void print(Text *text, const Statement *statement) {
    text_add(text, "; %s < %ld%s", statement->index->name, statement->index->axis->size,
             statement->reverse ? " downwards" : "");
}

const CallRow call_scan = {
    .name = "scan",
    .has_body = true,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .form = PROGRAM_FORMS, /* SCAN, unless it is chunked */
    .check = check,
    .print = print,
};

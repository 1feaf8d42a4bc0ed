/* scan: a recurrence. See ir/scan.c for its operands. */
#include "calls/call_table.h"
#include "lower/lower_entry.h"
#include "ir/well_formed.h"
#include "passes.h"
#include "transform/autodiff/gradient.h"

/* Its body and operands are checked with those of repeats. */
static void check_scan(Verify *verify, const Statement *statement) {
    verify_counts(verify, statement->outputs.count >= 1);
}

static void print_scan(Text *text, const Statement *statement) {
    text_add(text, "; %s < %ld%s", statement->index->name, statement->index->axis->size,
             statement->reverse ? " downwards" : "");
}

/* Its equations run once for every position. */
static double scan_flops(const Program *program, const Statement *scan) {
    double each = 0;
    for (int i = 0; i < scan->body.statements.count; i++)
        each += statement_flops(program, scan->body.statements.items[i]);
    return each * (double)scan->index->axis->size;
}

static void lower_scan_call(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *scan = unit->statement;
    LoopKernel *loops = open_kernel(lowering, scan_kernel(&lowering->lower, scan));
    loops->launch = unit->scan->launch;
    if (lowering->target->apart)
        lower_device_scan(&lowering->lower, scan, unit->scan);
    else
        lower_scan(&lowering->lower, scan, unit->scan);
    add_params(lowering, &loops->params);
    launch_kernel(lowering, loops, NULL);
}

const CallRow call_scan = {
    .name = "scan",
    .kind = "scan",
    .title = "scan",
    .has_body = true,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .exchanges = false,
    .form = NULL,  /* SCAN, unless it is chunked */
    .backward = 0, /* its equations count */
    .function = {0},
    .check = check_scan,
    .print = print_scan,
    .flops = scan_flops,
    .along = NULL,
    .sees = NULL,
    .ahead = NULL,
    .remedy = NULL,
    .sums = NULL,
    .interpret = NULL,
    .gradient = reverse_scan,
    .decode = NULL, /* see decode.c for scans */
    .store_caches = NULL,
    .adds_up = NULL,
    .rounds = NULL,
    .fuses_operands = NULL,
    .lower = lower_scan_call,
};

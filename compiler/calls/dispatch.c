/* dispatch: pack, the selected entries of a mask as rows. */
#include "calls/calls.h"
#include "ir/well_formed.h"

/* Checks one output of pack over rows; all of them have the same count. */
static void check_rows(Verify *verify, const Statement *statement, int place, long *rows) {
    CallShape shape = verify_operand(verify, call_output(statement, place));
    if (verify->message) return;
    if (shape.rank != 1) {
        verify_error(verify, "output %d of pack has %d dimensions", place, shape.rank);
        return;
    }
    if (*rows == 0) *rows = shape.size[0];
    verify_sizes(verify, "rows of pack", *rows, shape.size[0]);
}

static void check_length(Verify *verify, const Expr *output, const char *name, long length) {
    CallShape shape = verify_operand(verify, output);
    if (verify->message) return;
    if (shape.rank != 1) verify_error(verify, "%s of pack has %d dimensions", name, shape.rank);
    verify_sizes(verify, name, length, shape.size[0]);
}

/* Any number of inputs after the mask. */
static void check(Verify *verify, const Statement *statement) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    if (!verify_counts(verify, in->count >= 1)) return;
    CallShape mask = verify_operand(verify, call_input(statement, 0));
    if (verify->message) return;
    if (out->count != mask.rank + 5) {
        verify_error(verify, "pack of %d dimensions has %d outputs", mask.rank, out->count);
        return;
    }
    long rows = 0, groups = 1, others = 1;
    for (int i = 1; i < in->count && !verify->message; i++) {
        const Expr *part = call_input(statement, i);
        verify_operand(verify, part);
        if (part->tensor->type != TYPE_INT || part->tensor->vocabulary < 1)
            verify_error(verify, "%s groups rows and has no known number of values",
                         part->tensor->name);
        groups *= part->tensor->vocabulary;
    }
    for (int i = 0; i < mask.rank; i++)
        *(statement->pack.key[i] ? &groups : &others) *= mask.size[i];
    for (int i = 0; i < mask.rank; i++) check_rows(verify, statement, i, &rows);
    check_length(verify, call_output(statement, mask.rank), "group", groups + 1);
    CallShape row_of = verify_operand(verify, call_output(statement, mask.rank + 1));
    verify_like(verify, "row_of", &mask, &row_of);
    check_rows(verify, statement, mask.rank + 2, &rows);
    check_length(verify, call_output(statement, mask.rank + 3), "start", others + 1);
    check_rows(verify, statement, mask.rank + 4, &rows);
    for (int i = 0; i < out->count; i++)
        if (call_output(statement, i)->tensor->type != TYPE_INT)
            verify_error(verify, "output %d of pack is not of integers", i);
}

/* The key dimensions. */
static void print(Text *text, const Statement *statement) {
    const Expr *mask = call_input(statement, 0);
    const char *comma = "; key = [";
    int dimension = 0; /* indices of repeats do not count */
    for (int i = 0; i < mask->count; i++) {
        if (mask->args[i]->kind != EXPR_INDEX || mask->args[i]->index->of_repeat) continue;
        if (!statement->pack.key[dimension++]) continue;
        text_add(text, "%s%s", comma, mask->args[i]->index->name);
        comma = ",";
    }
    text_add(text, "%s]", comma[0] == ';' ? comma : "");
}

const CallRow call_pack = {
    .name = "pack",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .form = PROGRAM_FORMS, /* DISPATCHED, which route notes */
    .kind = "pack",
    .title = "dispatch",
    .backward = 0,
    .check = check,
    .print = print,
    .flops = NULL,
    .along = NULL,
    .sees = NULL,
    .ahead = NULL,
    .causal_form = NULL,
    .sums = NULL,
};

/* top: the selection of the largest values. */
#include "calls/call_table.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"
#include "passes.h"

static void check_top(Verify *verify, const Statement *statement) {
    if (!verify_counts(verify, statement->inputs.count == 1 && statement->outputs.count == 1))
        return;
    CallShape p = verify_operand(verify, call_input(statement, 0));
    CallShape mask = verify_operand(verify, call_output(statement, 0));
    verify_like(verify, "the marks of top", &p, &mask);
    if (verify->message) return;
    int dimension = statement->top.dimension;
    if (dimension < 0 || dimension >= p.rank)
        verify_error(verify, "top goes along dimension %d of %d", dimension, p.rank);
    else if (statement->top.k < 1 || statement->top.k > p.size[dimension])
        verify_error(verify, "top marks %ld of %ld", statement->top.k, p.size[dimension]);
}

static void print_top(Text *text, const Statement *statement) {
    text_add(text, "; k = %ld, dimension = %d", statement->top.k, statement->top.dimension);
}

/* One comparison per value. */
static double top_flops(const Program *program, const Statement *statement) {
    (void)program;
    return access_elements(call_input(statement, 0), true);
}

static void top_along(const Statement *statement, const Index **here, const Index **there) {
    const Expr *p = call_input(statement, 0);
    const int dimension = top_dimension(statement, p);
    (void)here;
    if (dimension >= 0) *there = p->args[dimension]->index;
}

const CallRow call_top = {
    .name = "top_k",
    .kind = "top",
    .title = "top-k",
    .has_body = false,
    .selects = true,
    .fuses_store = false,
    .recomputed = false, /* rounding could change the selection */
    .form = HAS_TOP,
    .backward = 0,
    .check = check_top,
    .print = print_top,
    .flops = top_flops,
    .along = top_along,
    .sees = NULL,
    .ahead = "compares all positions of %s",
    .remedy = "choose along another axis, for each position of '%s'",
    .sums = NULL,
    .interpret = interpreter_top,
    .gradient = NULL,
    .decode = NULL,
    .store_caches = NULL,
    .rounds = NULL,
};

/* attend_row: the rows of attention and of its gradient. */
#include "calls/attend/attend_row.h"
#include "elaborate/elaborate.h"

#include "analysis/attend.h"
#include "calls/call_table.h"
#include "passes.h"

static void print_attend(Text *text, const Statement *statement) {
    const AttendOptions *attention = &statement->attention;
    text_add(text, "; scale = %.9g", attention->scale);
    if (attention->mask == MASK_CAUSAL) text_add(text, ", mask = causal");
    if (attention->mask == MASK_NONE) text_add(text, ", mask = none");
    if (attention->mask == MASK_WINDOW) text_add(text, ", window = %ld", attention->window);
    if (attention->cap != 0) text_add(text, ", cap = %.9g", attention->cap);
    if (attention->sink) text_add(text, ", sink");
    if (attention->documents) text_add(text, ", documents");
    if (attention->chosen)
        text_add(text, ", chosen by %ld x %ld x %ld", attention->block[0], attention->block[1],
                 attention->block[2]);
    if (attention->words) text_add(text, " in words");
    if (attention->bias) text_add(text, ", bias");
    if (attention->scaled[0]) text_add(text, ", k scaled");
    if (attention->scaled[1]) text_add(text, ", v scaled");
    if (attention->position) text_add(text, ", position");
    if (attention->best) text_add(text, ", best = %ld", attention->best);
}

/* The average number of keys of a position over the sequence. */
static double average_keys(const AttendOptions *options, double places) {
    const double window = attended_keys(options, places);
    if (options->mask == MASK_NONE) return window;
    return (window * (window + 1) / 2 + (places - window) * window) / places;
}

/* Scores and weighted values are products; the weight of a key is an exponential and its sum. */
static double attend_flops(const Program *program, const Statement *statement) {
    const Expr *query = statement->inputs.items[0], *key = statement->inputs.items[1],
               *value = statement->inputs.items[2];
    const AttendOptions *options = &statement->attention;
    long places = options->position ? program->context : key->tensor->axes[key->count - 3]->size;
    double each = 2 * (double)key->tensor->axes[key->count - 1]->size +
                  2 * (double)value->tensor->axes[value->count - 1]->size + op_table[OP_EXP].cost +
                  2;
    double keys = average_keys(options, (double)places);
    double queries =
        access_elements(query, true) / (double)query->tensor->axes[query->count - 1]->size;
    return each * keys * queries;
}

/* Keys with another axis have no order. */
static void attend_along(const Statement *statement, const Index **here, const Index **there) {
    const Expr *query = call_input(statement, 0), *key = call_input(statement, 1);
    const Expr *from = query->args[query->count - 3], *to = key->args[key->count - 3];
    const bool ordered = query->tensor->axes[query->count - 3] == key->tensor->axes[key->count - 3];
    if (from->kind == EXPR_INDEX && ordered) *here = from->index;
    if (to->kind == EXPR_INDEX) *there = to->index;
}

static bool attend_sees(const Statement *statement, long here, long there) {
    const AttendOptions *options = &statement->attention;
    return options->mask == MASK_NONE ||
           (there <= here && (options->mask == MASK_CAUSAL || there > here - options->window));
}

/* Scores sum over the width of queries and keys, results over the positions of values. */
static int attend_sums(const Statement *statement, int input) {
    return input > 2 ? -1 : call_input(statement, input)->count - (input == 2 ? 3 : 1);
}

/* Queries, keys, values and the output; that of chosen pairs is added up in memory. */
static unsigned attend_rounded(const Program *program, const Statement *statement) {
    const unsigned output = statement->attention.chosen ? 0 : 1u << statement->inputs.count;
    return attend_rounds(program, statement) ? 7 | output : 0;
}

/* Also the output of the forward pass, if it may be rounded, and its gradient. A sum in f32 reads
 * both as well, for which the saved bf16 values are accurate enough. */
static unsigned attend_grad_rounded(const Program *program, const Statement *statement) {
    const int own = attend_operands(&statement->attention);
    const unsigned gradients = program->target->rounded_gradients ? 7 : 0;
    const unsigned outputs = statement->attention.chosen ? 4u : 5u;
    return attend_rounds(program, statement)
               ? 7 | outputs << own | gradients << statement->inputs.count
               : 0;
}

const CallRow call_attend = {
    .name = "attend",
    .kind = "attention",
    .title = "attention",
    .has_body = false,
    .selects = false,
    .fuses_store = true,
    .recomputed = true,
    .exchanges = false,
    .form = "attention kernel",
    .backward = 2.5, /* two products of the forward pass again, and four more */
    .function = {"attend", "attend(q[s,h,e], k[s,hk,e], v[s,hv,c]; mask = causal) -> y[s,h,c]",
                 "scaled dot-product attention over the sequence axis; options: SEQUENCES.md, "
                 "Attention",
                 "q[s,h,i] = 0 * (s + h + i)\nv[s,h,i] = s + 0 * (h + i)\no = attend(q, q, v)\n"
                 "y[s] = sum[h,i] o[s,h,i] / 4",
                 "0 0.5 1", attend},
    .check = check_attend,
    .print = print_attend,
    .flops = attend_flops,
    .along = attend_along,
    .sees = attend_sees,
    .ahead = "attends to later positions of %s",
    .remedy = "use mask = causal, or a mask with t <= %s",
    .sums = attend_sums,
    .interpret = interpret_attend,
    .gradient = attend_gradient,
    .decode = attend_decode,
    .store_caches = attend_store_caches,
    .adds_up = NULL,
    .rounds = attend_rounded,
    .fuses_operands = attend_fuses_operands,
    .lower = lower_attend,
};

/* The gradient of the sink. */
static bool attend_adds_up(const Statement *statement, int output) {
    return statement->attention.sink && output == 3;
}

static double attend_grad_flops(const Program *program, const Statement *statement) {
    return call_attend.backward * attend_flops(program, statement);
}

/* The hooks that are NULL are for the forward pass only. */
const CallRow call_attend_grad = {
    .name = "attend_grad",
    .kind = "attention, backward",
    .title = "attention backward",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .exchanges = false,
    .form = "attention kernel, backward",
    .backward = 0,
    .function = {0},
    .check = check_attend_grad,
    .print = print_attend,
    .flops = attend_grad_flops,
    .along = NULL,
    .sees = NULL,
    .ahead = NULL,
    .remedy = NULL,
    .sums = NULL,
    .interpret = interpret_attend_grad,
    .gradient = NULL,
    .decode = NULL,
    .store_caches = NULL,
    .adds_up = attend_adds_up,
    .rounds = attend_grad_rounded,
    .fuses_operands = NULL,
    .lower = lower_attend,
};

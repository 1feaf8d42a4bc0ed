/* top: the selection of the largest values. */
#include "calls/call_table.h"
#include "lower/lower_entry.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"
#include "passes.h"

#include <math.h>
#include <stdlib.h>

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

/* ---- definition ----
 *
 * Evaluations that differ by rounding are compared with the same selections: one repeats those of
 * the other. The margins of both show if a selection could have been different. */

static void put_rank(const View *view, long offset, long value) {
    if (view->real)
        view->real[offset] = (double)value;
    else
        view->ints[offset] = value;
}

/* NaN is smaller than any number. */
static bool larger(double a, double b) {
    return a > b || (isnan(b) && !isnan(a));
}

/* The values of one selection: n of them, p_stride apart, marked at mask_stride from `offset`. */
typedef struct Choice {
    long n, k, p_stride, mask_stride;
} Choice;

/* Room for `count` more elements; moves nothing while another evaluation reads them. */
static void *grow_ranks(void *array, size_t count, size_t *capacity, size_t bytes) {
    if (count <= *capacity) return array;
    *capacity = 2 * count + 64;
    array = realloc(array, *capacity * bytes);
    if (!array) abort();
    return array;
}

/* The k largest values; of equal ones the earlier. */
static void find_largest(const Choice *choice, const double *p, bool *chosen) {
    for (long i = 0; i < choice->n; i++) chosen[i] = false;
    for (long round = 0; round < choice->k; round++) {
        long best = -1;
        for (long i = 0; i < choice->n; i++)
            if (!chosen[i] &&
                (best < 0 || larger(p[i * choice->p_stride], p[best * choice->p_stride])))
                best = i;
        chosen[best] = true;
    }
}

static double margin_of(const Choice *choice, const double *p, const bool *chosen) {
    double least = INFINITY, most = -INFINITY;
    for (long i = 0; i < choice->n; i++) {
        double value = p[i * choice->p_stride];
        if (chosen[i] && value < least) least = value;
        if (!chosen[i] && value > most) most = value;
    }
    return least - most;
}

static void choose(Interpreter *interpreter, const Choice *choice, const double *p,
                   const View *mask, long offset) {
    Choices *own = &interpreter->choices;
    const Choices *other = interpreter->followed;
    size_t first = own->chosen_count, n = (size_t)choice->n;
    own->chosen = grow_ranks(own->chosen, first + n, &own->chosen_capacity, sizeof *own->chosen);
    own->margins = grow_ranks(own->margins, own->margin_count + 1, &own->margin_capacity,
                              sizeof *own->margins);
    bool *chosen = own->chosen + first;
    if (other && first + n <= other->chosen_count)
        for (size_t i = 0; i < n; i++) chosen[i] = other->chosen[first + i];
    else
        find_largest(choice, p, chosen);
    own->chosen_count += n;
    own->margins[own->margin_count++] = margin_of(choice, p, chosen);
    for (long i = 0; i < choice->n; i++)
        put_rank(mask, offset + i * choice->mask_stride, chosen[i]);
}

static void interpret_top(Interpreter *interpreter, const Statement *statement) {
    View p = interpreter_view(interpreter, statement->inputs.items[0]),
         mask = interpreter_view(interpreter, statement->outputs.items[0]);
    int along = statement->top.dimension;
    Choice choice = {p.size[along], statement->top.k, p.stride[along], mask.stride[along]};
    Choices *own = &interpreter->choices;
    long others = 1;
    own->starts =
        grow_ranks(own->starts, own->start_count + 1, &own->start_capacity, sizeof *own->starts);
    own->starts[own->start_count++] = own->chosen_count;
    for (int i = 0; i < p.rank; i++)
        if (i != along) others *= p.size[i];
    for (long other = 0; other < others && !interpreter->message; other++) {
        long rest = other, from = 0, to = 0;
        for (int i = p.rank - 1; i >= 0; i--) {
            if (i == along) continue;
            from += rest % p.size[i] * p.stride[i];
            to += rest % p.size[i] * mask.stride[i];
            rest /= p.size[i];
        }
        choose(interpreter, &choice, p.real + from, &mask, to);
    }
}

/* ---- lowering ---- */

enum { FEW = 256 }; /* numbers that a warp of a GPU selects among */

/* Outer size, size and inner size of the dimension that it selects along, and the number. */
static void top_sizes(const Statement *statement, long sizes[4]) {
    const CallShape p = call_shape(call_input(statement, 0));
    for (int i = 0; i < 3; i++) sizes[i] = 1;
    for (int i = 0; i < p.rank; i++)
        sizes[(i >= statement->top.dimension) + (i > statement->top.dimension)] *= p.size[i];
    sizes[3] = statement->top.k;
}

static void launch_top(EntryLowering *lowering, const Statement *statement, const long sizes[4]) {
    List arguments = {0};
    for (int i = 0; i < 4; i++)
        add_param(lowering->lower.arena, &arguments,
                  (Param){.kind = PARAM_NUMBER, .number = sizes[i]});
    add_operand_param(lowering, &arguments, call_input(statement, 0), false);
    add_operand_param(lowering, &arguments, call_output(statement, 0), true);
    const long choices = sizes[0] * sizes[2];
    const bool few = sizes[1] <= FEW;
    const long blocks = few ? ceil_div(choices, MOEC_CHOICE_THREADS / 32) : choices;
    add_launch(lowering, device_kernel(lowering, few ? "moec_top_of_few" : "moec_top"),
               launch_of(blocks, MOEC_CHOICE_THREADS), &arguments);
}

static void lower_top(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    long sizes[4];
    top_sizes(statement, sizes);
    add_equation(lowering, statement);
    if (lowering->target->apart) {
        launch_top(lowering, statement, sizes);
        return;
    }
    HostStep *step = add_call(lowering, statement, STEP_CALL, false);
    List *values = &step->call.values;
    step->call.function = "moec_top";
    for (int i = 0; i < 4; i++) add_number(lowering->lower.arena, values, NULL, sizes[i]);
    for (int i = 0; i < 2; i++) add_operand(lowering->lower.arena, values, NULL, step, i);
}

/* ---- the row ---- */

const CallRow call_top = {
    .name = "top_k",
    .kind = "top",
    .title = "top-k",
    .has_body = false,
    .selects = true,
    .fuses_store = false,
    .recomputed = false, /* rounding could change the selection */
    .exchanges = false,
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
    .interpret = interpret_top,
    .gradient = NULL,
    .decode = NULL,
    .store_caches = NULL,
    .adds_up = NULL,
    .rounds = NULL,
    .fuses_operands = NULL,
    .lower = lower_top,
};

/* top: the selection of the largest values. */
#include "calls/call_table.h"
#include "elaborate/elaborate.h"
#include "lower/lower_entry.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"
#include "passes.h"

#include <math.h>
#include <stdlib.h>

/* ---- the function top_k ---- */

/* 1 for the k largest entries along the index. */
static Value *top_values_along(Elaborator *e, Value *value, Index *index, long k, Span span) {
    value = held_along(e, value, index);
    if (value->kind == KIND_ERROR) return value;
    Expr *read = value->expr;
    Axis *axes[MAX_RANK];
    Expr *out_subs[MAX_RANK];
    int rank = 0, dimension = -1;
    for (int i = 0; i < read->count; i++) {
        Index *sub = read->args[i]->kind == EXPR_INDEX ? read->args[i]->index : NULL;
        if (!sub || sub->of_repeat) continue; /* a fixed position of a stacked tensor */
        if (sub == index) dimension = rank;
        axes[rank] = sub->axis;
        out_subs[rank++] = read->args[i];
    }
    Tensor *mask = tensor_new(e->program, "chosen", ROLE_TEMP, TYPE_REAL, rank, axes, span);
    name_in_spec(e, mask, mask->stem);
    Statement *statement = statement_call(e->program, e->block, CALL_TOP, span);
    Expr *out = expr_read(e->program, mask, out_subs);
    list_push(e->arena, &statement->inputs, read);
    list_push(e->arena, &statement->outputs, out);
    statement->top.k = k;
    statement->top.dimension = dimension;
    return value_tensor(e, out, value->dims, value->rank, span);
}

/* The position along all indices as one number; the last index varies fastest. */
static Expr *flattened_index(Elaborator *e, Index *const *indices, int count) {
    Expr *flat_index = expr_index(e->program, indices[0]);
    for (int i = 1; i < count; i++) {
        Expr *size = expr_number(e->program, (double)indices[i]->axis->size);
        flat_index = expr_apply(e->program, OP_MUL, flat_index, size, NULL);
        flat_index =
            expr_apply(e->program, OP_ADD, flat_index, expr_index(e->program, indices[i]), NULL);
    }
    return flat_index;
}

/* The value over one index instead of several. */
static Value *joined(Elaborator *e, const Value *value, Index *const *indices, int count,
                     Index *one) {
    Expr *to[MAX_RANK], *left = expr_index(e->program, one);
    for (int i = count - 1; i >= 0; i--) {
        Expr *size = expr_number(e->program, (double)indices[i]->axis->size);
        to[i] = i ? expr_apply(e->program, OP_MOD, left, size, NULL) : left;
        left = expr_apply(e->program, OP_FLOOR, expr_apply(e->program, OP_DIV, left, size, NULL),
                          NULL, NULL);
    }
    Value *flat = without_indices(e, value, indices, count);
    flat->expr = expr_substitute(e->program, value->expr, indices, to, count);
    flat->dims[flat->rank++] = one;
    return flat;
}

/* top_k[m,n](p, k): along both indices, implemented as one index over all pairs. */
static Value *top_joined(Elaborator *e, Value *value, Index *const *indices, int count, long k,
                         Span span) {
    double elements = 1;
    for (int i = 0; i < count; i++) elements *= (double)indices[i]->axis->size;
    Axis *axis = axis_new(e->program, "pair", (long)elements, AXIS_PLAIN, span);
    Index *one = index_new(e->program, "pair", axis);
    Value *chosen = top_values_along(e, joined(e, value, indices, count, one), one, k, span);
    if (chosen->kind == KIND_ERROR) return chosen;
    Expr *flat_index = flattened_index(e, indices, count);
    return value_tensor(e, expr_substitute(e->program, chosen->expr, &one, &flat_index, 1),
                        value->dims, value->rank, span);
}

static Value *top_call(Elaborator *e, const Node *node, const Node *subs) {
    const Node *args = node->kids[1];
    if (args->count != 2)
        return value_invalid(e, node->span, "write top_k[n](p, 2)",
                             "top_k[n](p, k) expects two arguments");
    double k, elements = 1;
    Value *value = evaluate(e, args->kids[0]);
    if (value->kind == KIND_ERROR || !evaluate_number(e, args->kids[1], "the count of top", &k))
        return value_error(e, node->span);
    Index *indices[MAX_RANK];
    int count = kept_indices(e, subs, value, node->span, "top", indices);
    if (!count) return value_error(e, node->span);
    for (int i = 0; i < count; i++) elements *= (double)indices[i]->axis->size;
    if (k != floor(k) || k < 1 || k > elements || elements > MAX_SIZE) {
        report_blamed(e, blamed_here(e, args->kids[1]), args->kids[1]->span,
                      "cannot select %.9g entries of axis '%s' (size %.9g)", k,
                      indices[0]->axis->name, elements);
        report_help(e->reports, "use an integer from 1 to %.9g", elements);
        return value_error(e, node->span);
    }
    return count == 1 ? top_values_along(e, value, indices[0], (long)k, node->span)
                      : top_joined(e, value, indices, count, (long)k, node->span);
}

/* ---- properties ---- */

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
    bool of_positions;
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

/* Infinite if all values are equal, as in a row without a token: no rounding separates them, and
 * every evaluation selects the first ones. */
static double margin_of(const Choice *choice, const double *p, const bool *chosen) {
    double least = INFINITY, most = -INFINITY;
    bool equal = true;
    for (long i = 0; i < choice->n; i++) {
        double value = p[i * choice->p_stride];
        if (chosen[i] && value < least) least = value;
        if (!chosen[i] && value > most) most = value;
        equal &= value == p[0];
    }
    return equal ? INFINITY : least - most;
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
    const double margin = own->margins[own->margin_count++] = margin_of(choice, p, chosen);
    own->tied |= choice->of_positions && margin == 0;
    for (long i = 0; i < choice->n; i++)
        put_rank(mask, offset + i * choice->mask_stride, chosen[i]);
}

static void interpret_top(Interpreter *interpreter, const Statement *statement) {
    View p = interpreter_view(interpreter, statement->inputs.items[0]),
         mask = interpreter_view(interpreter, statement->outputs.items[0]);
    int along = statement->top.dimension;
    const Index *here, *there = NULL;
    top_along(statement, &here, &there);
    Choice choice = {p.size[along], statement->top.k, p.stride[along], mask.stride[along],
                     there && there->axis->kind != AXIS_PLAIN};
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
    .form = "top-k selection",
    .backward = 0,
    .function = {"top_k", "top_k[i](e, k)",
                 "1 for the k largest elements along i, else 0; on a tie, the lowest index is "
                 "selected",
                 "y[i] = top_k[i](i % 3, 2)", "0 1 1 0", top_call},
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

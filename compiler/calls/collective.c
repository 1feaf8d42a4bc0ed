/* collective: copies between the processes of a mesh. */
#include "base/must.h"
#include "calls/call_table.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"
#include "lower/lower_entry.h"

static bool moves_rows(const Statement *statement) {
    const CollectiveKind kind = statement->collective.kind;
    return kind == COLLECTIVE_DISPATCH || kind == COLLECTIVE_COMBINE;
}

/* Reductions keep the shape, all-gathers multiply one dimension, rows have another count. */
static void check_collective(Verify *verify, const Statement *statement) {
    const bool counts = statement->collective.kind == COLLECTIVE_COUNTS,
               rows = moves_rows(statement);
    if (!verify_counts(verify, statement->inputs.count == 1 + rows &&
                                   statement->outputs.count == 1 + counts))
        return;
    CallShape from = verify_operand(verify, call_input(statement, 0));
    CallShape to = verify_operand(verify, call_output(statement, 0));
    for (int i = 1; i < statement->inputs.count; i++)
        verify_operand(verify, call_input(statement, i));
    for (int i = 1; i < statement->outputs.count; i++)
        verify_operand(verify, call_output(statement, i));
    if (verify->message || counts) return;
    if (call_input(statement, 0)->tensor->type != call_output(statement, 0)->tensor->type)
        verify_error(verify, "a collective changes the type");
    if (rows && from.rank == to.rank && from.rank) from.size[0] = to.size[0];
    if (statement->collective.kind == COLLECTIVE_GATHER &&
        statement->collective.dimension < from.rank)
        from.size[statement->collective.dimension] *=
            verify->program->mesh[statement->collective.over];
    verify_like(verify, "the result of a collective", &from, &to);
}

static void print_collective(Text *text, const Statement *statement) {
    text_add(text, "; %s: %s", mesh_axis_name(statement->collective.over),
             collective_name(statement->collective.kind));
}

/* ---- definition ---- */

/* The offset of an element, by its row-major number among `size`. */
static long element_offset(const View *view, const long *size, long number) {
    long offset = 0;
    for (int i = view->rank - 1; i >= 0; i--) {
        offset += number % size[i] * view->stride[i];
        number /= size[i];
    }
    return offset;
}

static long view_elements(const View *view) {
    long elements = 1;
    for (int i = 0; i < view->rank; i++) elements *= view->size[i];
    return elements;
}

static double view_value(const View *view, long offset) {
    return view->real ? view->real[offset] : (double)view->ints[offset];
}

static void set_view_value(const View *view, long offset, double value) {
    if (view->real)
        view->real[offset] = value;
    else
        view->ints[offset] = (long)value;
}

/* One exchange: the processes of a group, each with its operands. */
typedef struct GroupExchange {
    const Statement *statement;
    Interpreter *const *ranks;
    int count; /* of the group */
} GroupExchange;

static View exchanged(const GroupExchange *exchange, int rank, bool output, int number) {
    const Statement *statement = exchange->statement;
    return interpreter_view(exchange->ranks[rank], output ? call_output(statement, number)
                                                          : call_input(statement, number));
}

static double reduce_two(CollectiveKind kind, double a, double b) {
    if (kind == COLLECTIVE_SUM) return a + b;
    return kind == COLLECTIVE_MAX ? (a >= b ? a : b) : (a <= b ? a : b);
}

static void reduce_all(const GroupExchange *exchange) {
    const View first = exchanged(exchange, 0, false, 0);
    const long elements = view_elements(&first);
    for (long i = 0; i < elements; i++) {
        double value = 0;
        for (int rank = 0; rank < exchange->count; rank++) {
            const View from = exchanged(exchange, rank, false, 0);
            const double own = view_value(&from, element_offset(&from, from.size, i));
            value = rank ? reduce_two(exchange->statement->collective.kind, value, own) : own;
        }
        for (int rank = 0; rank < exchange->count; rank++) {
            const View to = exchanged(exchange, rank, true, 0);
            set_view_value(&to, element_offset(&to, to.size, i), value);
        }
    }
}

static void gather_all(const GroupExchange *exchange) {
    const int dimension = exchange->statement->collective.dimension;
    for (int rank = 0; rank < exchange->count; rank++) {
        const View to = exchanged(exchange, rank, true, 0);
        for (int source = 0; source < exchange->count; source++) {
            const View from = exchanged(exchange, source, false, 0);
            const long elements = view_elements(&from),
                       start = source * from.size[dimension] * to.stride[dimension];
            for (long i = 0; i < elements; i++)
                set_view_value(&to, start + element_offset(&to, from.size, i),
                               view_value(&from, element_offset(&from, from.size, i)));
        }
    }
}

/* ---- rows ---- */

static void copy_row(const View *to, long to_row, const View *from, long from_row) {
    View row = *from;
    row.size[0] = 1;
    const long elements = view_elements(&row);
    for (long i = 0; i < elements; i++)
        set_view_value(
            to, to_row * to->stride[0] + element_offset(to, row.size, i),
            view_value(from, from_row * from->stride[0] + element_offset(from, row.size, i)));
}

/* The boundaries of the groups of a process: the last operand of an exchange of rows. */
static View groups_of(const GroupExchange *exchange, int rank) {
    return exchanged(exchange, rank, false, exchange->statement->inputs.count - 1);
}

/* Visits the rows that a process receives, in order. */
static void receive_rows(const GroupExchange *exchange, int receiver) {
    const CollectiveKind kind = exchange->statement->collective.kind;
    const View bounds = groups_of(exchange, receiver);
    const long groups = (bounds.size[0] - 1) / exchange->count, first = groups * receiver;
    const View to = exchanged(exchange, receiver, kind != COLLECTIVE_COMBINE, 0);
    const View number = kind == COLLECTIVE_COUNTS ? exchanged(exchange, receiver, true, 1) : to;
    long row = 0;
    for (long group = first; group < first + groups; group++) {
        if (kind == COLLECTIVE_COUNTS) to.ints[(group - first) * to.stride[0]] = row;
        for (int sender = 0; sender < exchange->count; sender++) {
            const View sent = groups_of(exchange, sender);
            const View from = exchanged(exchange, sender, kind == COLLECTIVE_COMBINE, 0);
            for (long r = sent.ints[group * sent.stride[0]];
                 r < sent.ints[(group + 1) * sent.stride[0]]; r++, row++) {
                if (kind == COLLECTIVE_COUNTS) number.ints[row * number.stride[0]] = group - first;
                if (kind == COLLECTIVE_DISPATCH) copy_row(&to, row, &from, r);
                if (kind == COLLECTIVE_COMBINE) copy_row(&from, r, &to, row);
            }
        }
    }
    if (kind == COLLECTIVE_COUNTS) to.ints[groups * to.stride[0]] = row;
}

static void exchange_in_group(const GroupExchange *exchange) {
    const CollectiveKind kind = exchange->statement->collective.kind;
    if (kind == COLLECTIVE_SUM || kind == COLLECTIVE_MAX || kind == COLLECTIVE_MIN)
        reduce_all(exchange);
    else if (kind == COLLECTIVE_GATHER)
        gather_all(exchange);
    else
        for (int rank = 0; rank < exchange->count; rank++) receive_rows(exchange, rank);
}

/* Runs once for all processes: those of a group are consecutive. */
static void interpret_collective(Interpreter *interpreter, const Statement *statement) {
    Interpreter *alone[] = {interpreter};
    Interpreter *const *ranks = interpreter->ranks ? interpreter->ranks : alone;
    const int all = interpreter->ranks ? interpreter->rank_count : 1;
    const int size =
        interpreter->ranks ? (int)interpreter->program->mesh[statement->collective.over] : 1;
    for (int first = 0; first < all; first += size)
        exchange_in_group(&(GroupExchange){statement, ranks + first, size});
}

/* ---- lowering ---- */

/* The driver compiles a local program for the interpreter only. */
static void lower_collective(EntryLowering *lowering, const ScheduleUnit *unit) {
    (void)lowering, (void)unit;
    MUST(!"the local program of a mesh is lowered");
}

/* ---- the row ---- */

const CallRow call_collective = {
    .name = "collective",
    .kind = "collective",
    .title = "collective",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = false,
    .exchanges = true,
    .form = PROGRAM_FORMS,
    .backward = 0, /* the backward pass is derived before */
    .check = check_collective,
    .print = print_collective,
    .flops = NULL,
    .along = NULL,
    .sees = NULL,
    .ahead = NULL,
    .remedy = NULL,
    .sums = NULL,
    .interpret = interpret_collective,
    .gradient = NULL,
    .decode = NULL,
    .store_caches = NULL,
    .adds_up = NULL,
    .rounds = NULL,
    .fuses_operands = NULL,
    .lower = lower_collective,
};

/* collective: copies between the processes of a mesh. */
#include "base/must.h"
#include "calls/call_table.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"
#include "lower/lower_entry.h"

/* The outputs of COUNTS. */
enum { COUNT_TABLE, COUNT_NUMBER, COUNT_SLOTS, COUNT_SLOT, COUNT_OUTPUTS };

static bool moves_rows(const Statement *statement) {
    const CollectiveKind kind = statement->collective.kind;
    return kind == COLLECTIVE_DISPATCH || kind == COLLECTIVE_COMBINE;
}

/* Reductions keep the shape, all-gathers multiply one dimension, rows have another count. */
static void check_collective(Verify *verify, const Statement *statement) {
    const bool counts = statement->collective.kind == COLLECTIVE_COUNTS,
               rows = moves_rows(statement);
    if (!verify_counts(verify, statement->inputs.count == 1 + rows &&
                                   statement->outputs.count >= (counts ? COUNT_OUTPUTS : 1)))
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
    if (statement->collective.each) text_add(text, " of %ld rows", statement->collective.each);
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

/* The boundaries of the groups of all processes, for one of them. */
static void gather_counts(const GroupExchange *exchange, int receiver) {
    const View table = exchanged(exchange, receiver, true, COUNT_TABLE);
    for (int sender = 0; sender < exchange->count; sender++) {
        const View group = exchanged(exchange, sender, false, 0);
        for (long g = 0; g < group.size[0]; g++)
            table.ints[sender * table.stride[0] + g] = group.ints[g * group.stride[0]];
    }
}

/* Sets the outputs of a received row. Keys after the slots: row-major parts of the group. */
static void set_received(const GroupExchange *exchange, int receiver, long row, long group,
                         long slot) {
    exchanged(exchange, receiver, true, COUNT_NUMBER).ints[row] = group;
    exchanged(exchange, receiver, true, COUNT_SLOT).ints[row] = slot;
    for (int i = exchange->statement->outputs.count - 1; i >= COUNT_OUTPUTS; i--) {
        const long values = call_output(exchange->statement, i)->tensor->vocabulary;
        exchanged(exchange, receiver, true, i).ints[row] = group % values;
        group /= values;
    }
}

/* The received rows: by key, then by process. */
static void count_rows(const GroupExchange *exchange, int receiver) {
    const View table = exchanged(exchange, receiver, true, COUNT_TABLE),
               slots = exchanged(exchange, receiver, true, COUNT_SLOTS);
    const long keys = call_output(exchange->statement, COUNT_SLOT)->tensor->vocabulary,
               own = keys / exchange->count, parts = (table.size[1] - 1) / keys; /* of a key */
    long row = 0;
    for (long slot = 0; slot < keys; slot++) {
        const long key = own * receiver + slot / exchange->count;
        const long *bounds = table.ints + slot % exchange->count * table.stride[0] + key * parts;
        for (long part = 0; part < parts; part++) {
            slots.ints[slot * parts + part] = row;
            for (long r = bounds[part]; r < bounds[part + 1]; r++)
                set_received(exchange, receiver, row++, key * parts + part, slot);
        }
    }
    slots.ints[keys * parts] = row;
}

/* Visits the rows that a process receives, in order. */
static void move_rows_of(const GroupExchange *exchange, int receiver) {
    const bool combine = exchange->statement->collective.kind == COLLECTIVE_COMBINE;
    const View table = exchanged(exchange, receiver, false, 1),
               here = exchanged(exchange, receiver, !combine, 0);
    const long groups = (table.size[1] - 1) / exchange->count; /* of a process */
    const long keys = exchange->statement->collective.keys / exchange->count,
               of_key = groups / keys;
    long row = 0;
    for (long key = keys * receiver; key < keys * (receiver + 1); key++)
        for (int sender = 0; sender < exchange->count; sender++) {
            const long *bounds = table.ints + sender * table.stride[0] + key * of_key;
            const View there = exchanged(exchange, sender, combine, 0);
            for (long r = bounds[0]; r < bounds[of_key]; r++, row++) {
                if (combine)
                    copy_row(&there, r, &here, row);
                else
                    copy_row(&here, row, &there, r);
            }
        }
}

static void exchange_in_group(const GroupExchange *exchange) {
    const CollectiveKind kind = exchange->statement->collective.kind;
    if (kind == COLLECTIVE_SUM || kind == COLLECTIVE_MAX || kind == COLLECTIVE_MIN)
        reduce_all(exchange);
    else if (kind == COLLECTIVE_GATHER)
        gather_all(exchange);
    for (int rank = 0; rank < exchange->count && kind == COLLECTIVE_COUNTS; rank++) {
        gather_counts(exchange, rank);
        count_rows(exchange, rank);
    }
    for (int rank = 0; rank < exchange->count && moves_rows(exchange->statement); rank++)
        move_rows_of(exchange, rank);
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

/* The elements of an operand, whose dimensions before the first that iterates are fixed. From
 * dimension `from` on, without those that are fixed. */
static long elements_from(const Expr *operand, int from) {
    const CallShape shape = call_shape(operand);
    const int fixed = operand->tensor->rank - shape.rank;
    long elements = 1;
    for (int i = 0; i < shape.rank; i++) {
        MUST(operand->args[fixed + i]->kind == EXPR_INDEX);
        MUST(operand->args[fixed + i]->index == shape.index[i]);
        if (i >= from) elements *= shape.size[i];
    }
    MUST(type_bytes(operand->tensor->type) == 4);
    return elements;
}

static MoecExchangeKind exchange_kind(CollectiveKind kind) {
    static const MoecExchangeKind kinds[] = {
        [COLLECTIVE_SUM] = MOEC_EXCHANGE_SUM,        [COLLECTIVE_MAX] = MOEC_EXCHANGE_MAX,
        [COLLECTIVE_MIN] = MOEC_EXCHANGE_MIN,        [COLLECTIVE_GATHER] = MOEC_EXCHANGE_GATHER,
        [COLLECTIVE_COUNTS] = MOEC_EXCHANGE_COUNTS,  [COLLECTIVE_DISPATCH] = MOEC_EXCHANGE_DISPATCH,
        [COLLECTIVE_COMBINE] = MOEC_EXCHANGE_COMBINE};
    return kinds[kind];
}

static const MoecExchange *exchange_of(Arena *arena, const Statement *statement) {
    const Expr *from = call_input(statement, 0), *to = call_output(statement, 0);
    const CollectiveKind kind = statement->collective.kind;
    const int dimension = statement->collective.dimension;
    MoecExchange *made = arena_alloc(arena, sizeof *made);
    made->kind = exchange_kind(kind);
    made->name =
        arena_format(arena, "%s of %s, %s", collective_name(kind),
                     call_input(statement, 0)->tensor->name, source_line(arena, statement->span));
    if (kind == COLLECTIVE_GATHER) {
        made->inner = elements_from(from, dimension + 1);
        made->size = call_shape(from).size[dimension];
        made->outer = elements_from(from, 0) / (made->size * made->inner);
    } else if (kind == COLLECTIVE_COUNTS) {
        made->key_count = statement->outputs.count - COUNT_OUTPUTS;
        for (int i = 0; i < made->key_count; i++)
            made->key_sizes[i] = call_output(statement, COUNT_OUTPUTS + i)->tensor->vocabulary;
        made->groups = elements_from(from, 0) - 1;
        made->keys = call_output(statement, COUNT_SLOT)->tensor->vocabulary;
        made->rows = elements_from(call_output(statement, COUNT_NUMBER), 0);
    } else {
        made->size = elements_from(from, moves_rows(statement));
        if (moves_rows(statement)) {
            made->groups = elements_from(call_input(statement, 1), 1) - 1;
            made->keys = statement->collective.keys;
            made->each = statement->collective.each;
            if (kind == COLLECTIVE_DISPATCH) made->rows = call_shape(to).size[0];
        }
    }
    elements_from(to, 0);
    return made;
}

/* The same as fields of a text. */
static void add_exchange_fields(Arena *arena, List *options, const MoecExchange *exchange) {
    static const char *const kinds[] = {"MOEC_EXCHANGE_SUM",    "MOEC_EXCHANGE_MAX",
                                        "MOEC_EXCHANGE_MIN",    "MOEC_EXCHANGE_GATHER",
                                        "MOEC_EXCHANGE_COUNTS", "MOEC_EXCHANGE_DISPATCH",
                                        "MOEC_EXCHANGE_COMBINE"};
    const struct {
        const char *field;
        long number;
    } numbers[] = {{"outer", exchange->outer}, {"size", exchange->size},
                   {"inner", exchange->inner}, {"groups", exchange->groups},
                   {"keys", exchange->keys},   {"key_count", exchange->key_count}};
    add_name(arena, options, "kind", kinds[exchange->kind]);
    add_name(arena, options, "name", arena_format(arena, "\"%s\"", exchange->name));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].number) add_number(arena, options, numbers[i].field, numbers[i].number);
    if (exchange->key_count)
        add_numbers(arena, options, "key_sizes", exchange->key_sizes, exchange->key_count);
    if (exchange->rows) add_number(arena, options, "rows", exchange->rows);
    if (exchange->each) add_number(arena, options, "each", exchange->each);
}

/* Both steps access all operands: in between, their memory is in use. */
static void lower_exchange_end(EntryLowering *lowering, const Statement *statement) {
    HostStep *step = add_call(lowering, statement, STEP_CALL, false);
    step->call.begun = lowering->begun.items[lowering->ended++];
    step->call.function = "moec_exchange_end";
    for (int i = statement->inputs.count; i < step->operands.count; i++)
        ((Operand *)step->operands.items[i])->access = ACCESS_ADD;
    add_name(lowering->lower.arena, &step->call.values, NULL, "run");
    list_push(lowering->lower.arena, &step->call.values, step->call.begun->call.values.items[1]);
}

static void lower_collective(EntryLowering *lowering, const ScheduleUnit *unit) {
    Arena *arena = lowering->lower.arena;
    const Statement *statement = unit->statement;
    const int in = statement->inputs.count;
    MUST(unit->phase != WHOLE_EXCHANGE);
    if (unit->phase == ENDS_EXCHANGE) {
        lower_exchange_end(lowering, statement);
        return;
    }
    add_equation(lowering, statement);
    HostStep *step = add_call(lowering, statement, STEP_CALL, false);
    List *values = &step->call.values;
    step->call.function = "moec_exchange_begin";
    step->call.exchange = exchange_of(arena, statement);
    list_push(arena, &lowering->begun, step);
    add_name(arena, values, NULL, "run");
    add_exchange_fields(arena, add_options(lowering, step, "MoecExchange"), step->call.exchange);
    add_operand(arena, values, NULL, step, 0);
    add_operand(arena, values, NULL, step, in > 1 ? 1 : -1);
    HostValue *to = add_array(arena, values, NULL, "void *const[]");
    for (int i = 0; i < statement->outputs.count; i++)
        add_operand(arena, &to->values, NULL, step, in + i);
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
    .form = NULL,
    .backward = 0, /* the backward pass is derived before */
    .function = {0},
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

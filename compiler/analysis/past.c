/* past: see past.h. */
#include "analysis/past.h"
#include "base/must.h"

#include <math.h>

static bool is_activation(const Tensor *tensor) {
    return tensor->role != ROLE_PARAMETER && tensor->role != ROLE_STATE;
}

/* ---- the current position among several ---- */

static int sequence_dimensions(const Tensor *tensor, const Axis *sequence) {
    int count = 0;
    for (int i = 0; i < tensor->rank; i++) count += tensor->axes[i] == sequence;
    return count;
}

static int first_sequence_dimension(const Tensor *tensor, const Axis *sequence) {
    int i = 0;
    while (i < tensor->rank && tensor->axes[i] != sequence) i++;
    return i < tensor->rank ? i : -1;
}

static Index *plain_index(const Expr *access, int dimension) {
    MUST(access->kind == EXPR_READ);
    const Expr *sub = dimension < 0 ? NULL : access->args[dimension];
    return sub && sub->kind == EXPR_INDEX ? sub->index : NULL;
}

Index *current_position(const Past *past, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    return plain_index(statement->target, past->dimension[statement->target->tensor->id]);
}

/* Equations determine each other: the operands of an equation have its position in the same
 * dimension. */
typedef struct PastSearch {
    Past *past;
    Index *position;
    bool changed;
} PastSearch;

enum { UNKNOWN = -2 };

static void tell_read(Expr *expr, void *data) {
    PastSearch *search = data;
    if (expr->kind != EXPR_READ || search->past->dimension[expr->tensor->id] != UNKNOWN) return;
    for (int i = 0; i < expr->count; i++) {
        if (expr->tensor->axes[i] != search->past->sequence) continue;
        if (plain_index(expr, i) != search->position) continue;
        search->past->dimension[expr->tensor->id] = i;
        search->changed = true;
    }
}

static void ask_read(Expr *expr, void *data) {
    PastSearch *search = data;
    if (expr->kind != EXPR_READ || !is_activation(expr->tensor)) return;
    bool several = sequence_dimensions(expr->tensor, search->past->sequence) > 1;
    int dimension = search->past->dimension[expr->tensor->id];
    if (several && dimension >= 0 && plain_index(expr, dimension))
        search->position = plain_index(expr, dimension);
}

/* The position of an equation, from its target or from an operand with several positions. */
static void tell_statement(Statement *statement, void *data) {
    PastSearch *search = data;
    search->position = NULL;
    if (statement_selects(statement)) {
        Expr *from = statement->inputs.items[0], *to = statement->outputs.items[0];
        ask_read(from, search);
        ask_read(to, search);
        tell_read(from, search);
        tell_read(to, search);
    }
    if (statement->kind != STATEMENT_LOOP) return;
    if (search->past->dimension[statement->target->tensor->id] >= 0)
        search->position = current_position(search->past, statement);
    else
        expr_walk(statement->value, ask_read, search);
    if (!search->position) return;
    expr_walk(statement->target, tell_read, search);
    expr_walk(statement->value, tell_read, search);
}

/* If nothing determines it, the current position is the first dimension. */
static bool decide_one(const Program *program, const Past *past) {
    for (int i = 0; i < program->tensors.count; i++) {
        if (past->dimension[i] != UNKNOWN) continue;
        past->dimension[i] = first_sequence_dimension(program->tensors.items[i], past->sequence);
        return true;
    }
    return false;
}

static void find_dimensions(Program *program, Past *past) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        bool several = is_activation(tensor) && sequence_dimensions(tensor, past->sequence) > 1;
        past->dimension[i] = !is_activation(tensor) ? -1
                             : several              ? UNKNOWN
                                       : first_sequence_dimension(tensor, past->sequence);
    }
    PastSearch search = {.past = past};
    do {
        do {
            search.changed = false;
            block_walk(&program->body, tell_statement, &search);
        } while (search.changed);
    } while (decide_one(program, past));
}

/* ---- values at later positions ---- */

/* A sum `times * (other - position) + rest`; false: it has another form. */
typedef struct Distance {
    const Index *other, *position;
    double times_other, times_position, rest;
} Distance;

static bool add_terms(Distance *distance, const Expr *expr, double times) {
    if (expr->kind == EXPR_NUMBER) {
        distance->rest += times * expr->number;
        return true;
    }
    if (expr->kind == EXPR_INDEX) {
        if (expr->index == distance->other)
            distance->times_other += times;
        else if (expr->index == distance->position)
            distance->times_position += times;
        else
            return false;
        return true;
    }
    if (expr->kind != EXPR_APPLY) return false;
    if (expr->op == OP_NEG) return add_terms(distance, expr->args[0], -times);
    for (int i = 0; i < 2 && expr->op == OP_MUL; i++)
        if (expr->args[i]->kind == EXPR_NUMBER)
            return add_terms(distance, expr->args[1 - i], times * expr->args[i]->number);
    if (expr->op != OP_ADD && expr->op != OP_SUB) return false;
    return add_terms(distance, expr->args[0], times) &&
           add_terms(distance, expr->args[1], expr->op == OP_ADD ? times : -times);
}

/* The same with the last position of a block instead of `other`. */
static bool last_distance(const Expr *comparison, const Index *other, long block,
                          const Index *position, double *times, double *rest) {
    Distance distance = {.other = other, .position = position};
    if (!add_terms(&distance, comparison->args[0], 1) ||
        !add_terms(&distance, comparison->args[1], -1))
        return false;
    *times = -distance.times_position;
    *rest = distance.rest - *times * (double)(block - 1);
    return *times != 0 && distance.times_other == *times * (double)block;
}

bool position_distance(const Expr *comparison, const Index *other, const Index *position,
                       double *times, double *rest) {
    return last_distance(comparison, other, 1, position, times, rest);
}

bool is_distance(const Expr *expr, const Index *other, const Index *position, double *times,
                 double *rest) {
    Distance distance = {.other = other, .position = position};
    if (!add_terms(&distance, expr, 1)) return false;
    *times = distance.times_other;
    *rest = distance.rest;
    return *times != 0 && distance.times_position == -*times;
}

bool is_of_position(const Expr *expr, const Index *position, double *times, double *rest) {
    Distance distance = {.position = position};
    if (!add_terms(&distance, expr, 1)) return false;
    *times = distance.times_position;
    *rest = distance.rest;
    return true;
}

/* The positions per index of an axis; 0: it has none. */
static long block_of_axis(const Past *past, const Axis *axis) {
    if (axis == past->sequence) return 1;
    const PastBlocks *blocks = list_find_by(&past->blocks, offsetof(PastBlocks, axis), axis);
    return blocks ? blocks->size : 0;
}

bool is_past_axis(const Past *past, const Axis *axis) {
    return block_of_axis(past, axis) > 0;
}

typedef enum PositionSide { AHEAD, BEHIND } PositionSide;

/* The minimum and maximum of left side - right side. */
static bool find_bounds(const Past *past, const Expr *expr, const Index *other,
                        const Index *position, PositionSide where, double *least, double *most) {
    static const struct {
        double least, most;
    } distances[] = {[AHEAD] = {1, INFINITY}, [BEHIND] = {-INFINITY, 0}};
    double times, rest, near = distances[where].least, far = distances[where].most;
    const long block = block_of_axis(past, other->axis);
    if (!last_distance(expr, other, block ? block : 1, position, &times, &rest)) return false;
    *least = times * (times > 0 ? near : far) + rest;
    *most = times * (times > 0 ? far : near) + rest;
    return true;
}

bool is_comparison(OpCode op) {
    return op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE || op == OP_EQ || op == OP_NE;
}

/* Result of a comparison of the two positions, 1 or 0, or -1 if it is not constant. */
static int truth(const Past *past, const Expr *expr, const Index *other, const Index *position,
                 PositionSide where) {
    MUST(expr->kind == EXPR_APPLY);
    double least, most;
    if (!is_comparison(expr->op) || !find_bounds(past, expr, other, position, where, &least, &most))
        return -1;
    bool apart = least > 0 || most < 0;
    switch (expr->op) {
    case OP_LT:
        return most < 0 ? 1 : least >= 0 ? 0 : -1;
    case OP_LE:
        return most <= 0 ? 1 : least > 0 ? 0 : -1;
    case OP_GT:
        return least > 0 ? 1 : most <= 0 ? 0 : -1;
    case OP_GE:
        return least >= 0 ? 1 : most < 0 ? 0 : -1;
    default:
        return !apart ? -1 : expr->op == OP_NE;
    }
}

/* `and`, `or` and `not` of known values. */
static Expr *join_truths(Program *program, OpCode op, Expr *const *args) {
    for (int i = 0; i < 2 && (op == OP_AND || op == OP_OR); i++) {
        if (!args[i] || args[i]->kind != EXPR_NUMBER) continue;
        bool holds = args[i]->number != 0;
        if (holds == (op == OP_OR)) return expr_number(program, holds);
        if (expr_is_truth(args[1 - i])) return args[1 - i];
    }
    return expr_apply(program, op, args[0], args[1], args[2]);
}

/* p[s,t] for later t, if that is constant. */
static bool is_known_score(const Past *past, const Expr *read, const Index *other,
                           const Index *position) {
    MUST(read->kind == EXPR_READ);
    const Tensor *tensor = read->tensor;
    if (!is_activation(tensor) || isnan(past->ahead[tensor->id])) return false;
    if (plain_index(read, past->dimension[tensor->id]) != position) return false;
    for (int i = 0; i < read->count; i++)
        if (plain_index(read, i) == other) return true;
    return false;
}

/* exp(-1e30 - largest[s]) is 0 if the maximum is a score. */
static bool is_left_out(const Past *past, OpCode op, const Expr *arg) {
    if (op != OP_EXP || arg->kind != EXPR_APPLY || arg->op != OP_SUB) return false;
    const Expr *number = arg->args[0], *largest = arg->args[1];
    if (largest->kind == EXPR_APPLY && largest->op == OP_STOP) largest = largest->args[0];
    return number->kind == EXPR_NUMBER && number->number <= LEFT_OUT &&
           largest->kind == EXPR_READ && past->from_score[largest->tensor->id];
}

static Expr *value_where(const Past *past, Expr *value, const Index *other, const Index *position,
                         PositionSide where) {
    if (value->kind == EXPR_READ && where == AHEAD && is_known_score(past, value, other, position))
        return expr_number(past->program, past->ahead[value->tensor->id]);
    if (value->kind != EXPR_APPLY) return value;
    int known = truth(past, value, other, position, where);
    if (known >= 0) return expr_number(past->program, known);
    Expr *args[3] = {NULL};
    for (int i = 0; i < value->count; i++)
        args[i] = value_where(past, value->args[i], other, position, where);
    if (is_left_out(past, value->op, args[0])) return expr_number(past->program, 0);
    return join_truths(past->program, value->op, args);
}

Expr *value_ahead(const Past *past, Expr *value, const Index *other, const Index *position) {
    return value_where(past, value, other, position, AHEAD);
}

Expr *value_behind(const Past *past, Expr *value, const Index *other, const Index *position) {
    return value_where(past, value, other, position, BEHIND);
}

/* ---- unknown values at later positions ---- */

bool on_left(const Statement *statement, const Index *index) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->target->count; i++)
        if (plain_index(statement->target, i) == index) return true;
    return false;
}

bool past_reads(const Past *past, const Expr *value, const Index *other) {
    for (int i = 0; i < value->count; i++)
        if (past_reads(past, value->args[i], other)) return true;
    if (value->kind != EXPR_READ || !is_activation(value->tensor)) return false;
    const Tensor *tensor = value->tensor;
    for (int i = 0; i < value->count; i++) {
        bool here = i == past->dimension[tensor->id] || past->summary[tensor->id];
        if (!here && (!is_past_axis(past, tensor->axes[i]) || !past->open[tensor->id])) continue;
        if (expr_uses_index(value->args[i], other)) return true;
    }
    return false;
}

typedef struct Tracing {
    Past *past;
    int *writers; /* by tensor */
    bool changed;
} Tracing;

static void count_writer(Statement *statement, void *data) {
    Tracing *tracing = data;
    if (statement->kind == STATEMENT_LOOP) tracing->writers[statement->target->tensor->id]++;
}

static void set_flag(Tracing *tracing, bool *flag) {
    tracing->changed |= !*flag;
    *flag = true;
}

/* True if two sides of a comparison differ by a constant at every position. */
static bool find_difference(const Expr *expr, const Index *position, double *difference) {
    Distance distance = {.position = position};
    *difference = 0;
    if (expr_equal(expr->args[0], expr->args[1])) return true;
    if (!add_terms(&distance, expr->args[0], 1) || !add_terms(&distance, expr->args[1], -1))
        return false;
    *difference = distance.rest;
    return distance.times_position == 0;
}

/* A value with `other` at the position itself: comparisons with itself are known. */
static Expr *settle(const Past *past, Expr *value, const Index *position) {
    if (value->kind != EXPR_APPLY) return value;
    double difference;
    if (is_comparison(value->op) && find_difference(value, position, &difference))
        return expr_number(past->program, op_value(value->op, difference, 0, 0));
    Expr *args[3] = {NULL};
    for (int i = 0; i < value->count; i++) args[i] = settle(past, value->args[i], position);
    return join_truths(past->program, value->op, args);
}

/* True if the value never excludes the position itself. */
static bool counts(const Past *past, const Expr *self) {
    if (self->kind == EXPR_NUMBER) return self->number > LEFT_OUT;
    if (self->kind == EXPR_READ && is_activation(self->tensor))
        return isnan(past->ahead[self->tensor->id]) || past->scored[self->tensor->id];
    for (int i = 0; i < self->count && self->kind == EXPR_APPLY; i++)
        if (!counts(past, self->args[i])) return false;
    return true;
}

static bool counts_itself(const Past *past, Expr *value, Index *other, Index *position) {
    Expr *here = expr_index(past->program, position);
    return counts(past,
                  settle(past, expr_substitute(past->program, value, &other, &here, 1), position));
}

static int past_dimensions(const Past *past, const Tensor *tensor) {
    int count = 0;
    for (int i = 0; i < tensor->rank; i++) count += is_past_axis(past, tensor->axes[i]);
    return count;
}

/* p[s,t], or the maximum or the sum over t. */
static void trace_other(Tracing *tracing, const Statement *statement, Index *other,
                        Index *position) {
    Past *past = tracing->past;
    int id = statement->target->tensor->id;
    bool reduced = !on_left(statement, other);
    bool plain = !statement->accumulate && tracing->writers[id] == 1;
    const Expr *ahead = value_ahead(past, statement->value, other, position);
    bool known = plain && ahead->kind == EXPR_NUMBER;
    bool scored = known && other->axis == past->sequence &&
                  counts_itself(past, statement->value, other, position);
    if (!reduced && past_reads(past, ahead, other)) set_flag(tracing, &past->open[id]);
    if (reduced && scored && statement->reduction == REDUCE_MAX && ahead->number <= LEFT_OUT)
        set_flag(tracing, &past->from_score[id]);
    bool alone = past_dimensions(past, statement->target->tensor) == 2;
    bool stays =
        statement->reduction == REDUCE_NONE ||
        (statement->reduction == REDUCE_SUM && ahead->kind == EXPR_NUMBER && ahead->number == 0);
    if (reduced || !known || !alone || !stays) return;
    past->ahead[id] = ahead->number;
    if (scored && statement->reduction == REDUCE_NONE) set_flag(tracing, &past->scored[id]);
}

/* ---- blocks of positions ---- */

/* floor(t / size) == b */
static bool is_position_block(const Expr *expr, const Index *position, const Index *block,
                              long *size) {
    for (int i = 0; i < 2 && expr->op == OP_EQ; i++) {
        const Expr *own = expr->args[i], *floor = expr->args[1 - i];
        if (own->kind == EXPR_INDEX && own->index == block && expr_is_block(floor, position, size))
            return true;
    }
    return false;
}

/* True if the value is 0 except where floor(t / size) == b. */
static bool is_in_block(const Expr *value, const Index *position, const Index *block, long *size) {
    if (value->kind != EXPR_APPLY) return false;
    switch (value->op) {
    case OP_MUL:
    case OP_AND:
        return is_in_block(value->args[0], position, block, size) ||
               is_in_block(value->args[1], position, block, size);
    case OP_WHERE:
        return expr_is_number(value->args[2], 0) &&
               is_in_block(value->args[0], position, block, size);
    case OP_DIV:
    case OP_NEG:
        return is_in_block(value->args[0], position, block, size);
    default:
        return is_position_block(value, position, block, size);
    }
}

/* The only position that a sum without a current position adds up; or NULL. */
static const Index *summed_position(const Past *past, const Statement *statement) {
    const Index *found = NULL;
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_SUM ||
        statement->accumulate || statement_is_scatter(statement))
        return NULL;
    for (int i = 0; i < statement->loop_count; i++) {
        if (statement->loops[i]->axis != past->sequence) continue;
        if (found || on_left(statement, statement->loops[i])) return NULL;
        found = statement->loops[i];
    }
    return found;
}

/* The blocks of which a statement adds up the positions; NULL axis: it does not. */
static PastBlocks summed_blocks(const Past *past, const Statement *statement) {
    const Index *position = summed_position(past, statement);
    long size;
    for (int i = 0; position && i < statement->loop_count; i++) {
        const Index *block = statement->loops[i];
        if (on_left(statement, block) && is_in_block(statement->value, position, block, &size))
            return (PastBlocks){block->axis, size};
    }
    return (PastBlocks){NULL, 0};
}

bool makes_summary(const Past *past, const Statement *statement) {
    const PastBlocks blocks = summed_blocks(past, statement);
    return blocks.axis && block_of_axis(past, blocks.axis) == blocks.size &&
           past->summary[statement->target->tensor->id];
}

/* An axis that two statements divide differently has no blocks. */
static void find_past_blocks(Statement *statement, void *data) {
    const Tracing *tracing = data;
    Past *past = tracing->past;
    PastBlocks found = summed_blocks(past, statement);
    if (!found.axis || found.axis == past->sequence) return;
    const long known = block_of_axis(past, found.axis);
    if (known && known != found.size)
        LIST_EACH(PastBlocks, blocks, &past->blocks)
            if (blocks->axis == found.axis) blocks->size = -1;
    if (known) return;
    PastBlocks *blocks = arena_alloc(past->program->arena, sizeof *blocks);
    *blocks = found;
    list_push(past->program->arena, &past->blocks, blocks);
}

typedef struct SummaryReads {
    const Past *past;
    const Statement *statement;
    bool any, plain;
} SummaryReads;

/* A summary is read at the block of the target. */
static void find_summary(Expr *expr, void *data) {
    SummaryReads *reads = data;
    if (expr->kind != EXPR_READ || !reads->past->summary[expr->tensor->id]) return;
    reads->any = true;
    for (int i = 0; i < expr->count; i++)
        if (is_past_axis(reads->past, expr->tensor->axes[i]))
            reads->plain &= plain_index(expr, i) && on_left(reads->statement, plain_index(expr, i));
}

/* m[b,d] = sum[t] (floor(t / 4) == b) * x[t,d], and tensors computed from it block by block. */
static void trace_summary(Statement *statement, void *data) {
    Tracing *tracing = data;
    Past *past = tracing->past;
    if (statement->kind != STATEMENT_LOOP) return;
    const int id = statement->target->tensor->id;
    if (past->summary[id] || tracing->writers[id] != 1 || past->dimension[id] >= 0) return;
    const PastBlocks blocks = summed_blocks(past, statement);
    SummaryReads reads = {past, statement, false, true};
    expr_walk(statement->value, find_summary, &reads);
    const bool sums = blocks.axis && block_of_axis(past, blocks.axis) > 0 && !reads.any,
               follows = !blocks.axis && reads.any && reads.plain && !statement->accumulate &&
                         !runs_over(statement, past->sequence);
    if (sums || follows) set_flag(tracing, &past->summary[id]);
}

static void trace_statement(Statement *statement, void *data) {
    Tracing *tracing = data;
    if (statement->kind != STATEMENT_LOOP) return;
    Index *position = current_position(tracing->past, statement);
    for (int i = 0; position && i < statement->loop_count; i++) {
        Index *other = statement->loops[i];
        if (is_past_axis(tracing->past, other->axis) && other != position)
            trace_other(tracing, statement, other, position);
    }
}

Past past_of(Program *program) {
    Arena *arena = program->arena;
    size_t count = (size_t)program->tensors.count;
    Past past = {.program = program,
                 .count = program->tensors.count,
                 .sequence = program->sequence,
                 .dimension = arena_alloc(arena, count * sizeof(int)),
                 .open = arena_alloc(arena, count * sizeof(bool)),
                 .ahead = arena_alloc(arena, count * sizeof(double)),
                 .scored = arena_alloc(arena, count * sizeof(bool)),
                 .from_score = arena_alloc(arena, count * sizeof(bool)),
                 .summary = arena_alloc(arena, count * sizeof(bool))};
    for (size_t i = 0; i < count; i++) past.ahead[i] = NAN;
    find_dimensions(program, &past);
    Tracing tracing = {.past = &past, .writers = arena_alloc(arena, count * sizeof(int))};
    block_walk(&program->body, count_writer, &tracing);
    block_walk(&program->body, find_past_blocks, &tracing);
    do {
        tracing.changed = false;
        block_walk(&program->body, trace_summary, &tracing);
    } while (tracing.changed);
    do { /* the body of a repeat may use values that it defines later */
        tracing.changed = false;
        block_walk(&program->body, trace_statement, &tracing);
    } while (tracing.changed);
    return past;
}

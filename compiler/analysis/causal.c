/* causal: checks if a decoding step can be derived, one position after the other.
 *
 * Every equation must be pointwise along the sequence or look back: attention, x[s-1],
 * x[floor(s / 2)], the first position, or other positions t whose later values have no effect, as
 * in sum[t] x[t] * (t <= s). Any other equation is an error; all of them are reported.
 */
#include "analysis/past.h"

#include "ir/call.h"
#include "base/must.h"

int dimension_of(const Tensor *tensor, const Axis *axis) {
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i] == axis) return i;
    return -1;
}

/* ---- dependence on later positions ---- */

typedef struct Check {
    Program *program;
    const Past *past;
    const Statement *statement;
    const Index *position; /* the index of the statement that runs over the sequence, or NULL */
    bool good;
} Check;

static void causal_error(Check *check, const char *what) {
    Reports *reports = check->program->reports;
    if (check->good) report_error(reports, check->statement->span, "cannot decode: this %s", what);
    check->good = false;
}

static bool is_positive(const Expr *expr) {
    return expr->kind == EXPR_NUMBER && expr->number > 0;
}

/* floor(e / n) with a number n of at least 1. */
static bool is_whole_part(const Expr *expr) {
    const Expr *quotient = expr->kind == EXPR_APPLY && expr->op == OP_FLOOR ? expr->args[0] : NULL;
    return quotient && quotient->kind == EXPR_APPLY && quotient->op == OP_DIV &&
           quotient->args[1]->kind == EXPR_NUMBER && quotient->args[1]->number >= 1;
}

/* True for values from 0 on: an index, a constant, a remainder, sums and products of these. */
static bool from_zero(const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return true;
    if (expr->kind == EXPR_NUMBER) return expr->number >= 0;
    if (expr->kind != EXPR_APPLY) return false;
    if (expr->op == OP_MOD) return is_positive(expr->args[1]);
    if (is_whole_part(expr)) return from_zero(expr->args[0]->args[0]);
    return (expr->op == OP_ADD || expr->op == OP_MUL) && from_zero(expr->args[0]) &&
           from_zero(expr->args[1]);
}

/* looks_back: see past.h. */
bool looks_back(const Expr *sub, const Index *position) {
    if (sub->kind == EXPR_INDEX) return sub->index == position;
    if (sub->kind == EXPR_NUMBER) return sub->number <= 0;
    if (sub->kind != EXPR_APPLY) return false;
    Expr *const *args = sub->args;
    if (is_whole_part(sub)) return looks_back(args[0]->args[0], position);
    switch (sub->op) {
    case OP_SUB:
        return looks_back(args[0], position) && from_zero(args[1]);
    case OP_MIN:
        return looks_back(args[0], position) || looks_back(args[1], position);
    case OP_MAX:
        return looks_back(args[0], position) && looks_back(args[1], position);
    case OP_MUL: /* floor(s / 8) * 8 */
        return is_whole_part(args[0]) && expr_equal(args[0]->args[0]->args[1], args[1]) &&
               looks_back(args[0], position);
    default:
        return false;
    }
}

/* True for another position of the statement, which check_others checks. */
static bool is_other(const Check *check, const Expr *sub) {
    if (sub->kind != EXPR_INDEX || sub->index == check->position) return false;
    for (int i = 0; i < check->statement->loop_count; i++)
        if (check->statement->loops[i] == sub->index)
            return sub->index->axis == check->program->sequence;
    return false;
}

static void causal_read(Expr *expr, void *data) {
    Check *check = data;
    if (expr->kind != EXPR_READ) return;
    if (expr->tensor->role == ROLE_PARAMETER || expr->tensor->role == ROLE_STATE) return;
    const Axis *sequence = check->program->sequence;
    int dimension = check->past->dimension[expr->tensor->id];
    bool several = false;
    for (int i = 0; i < expr->count; i++)
        several |= i != dimension && expr->tensor->axes[i] == sequence;
    for (int i = 0; i < expr->count; i++) {
        const Expr *sub = expr->args[i];
        if (expr->tensor->axes[i] != sequence) continue;
        bool here = sub->kind == EXPR_INDEX && sub->index == check->position;
        bool good = several && i == dimension ? here
                                              : looks_back(sub, check->position) ||
                                                    is_other(check, sub) || expr_is_number(sub, 0);
        if (!good) causal_error(check, "reads other positions of the sequence");
    }
}

bool runs_over(const Statement *statement, const Axis *axis) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis == axis) return true;
    return false;
}

/* The condition in an expression on the other position, or NULL. */
static const Expr *condition_on(const Expr *expr, const Index *other) {
    if (expr->kind == EXPR_APPLY && expr->op == OP_WHERE && expr_uses_index(expr->args[0], other))
        return expr->args[0];
    const Expr *found = NULL;
    for (int i = 0; i < expr->count && !found; i++) found = condition_on(expr->args[i], other);
    return found;
}

/* Describes the use of later positions, which do not exist in a decoding step. */
static const char *what_is_ahead(const Check *check, const Expr *ahead, const Index *other) {
    const Expr *condition = ahead ? condition_on(ahead, other) : NULL;
    if (condition)
        return arena_format(check->program->arena, "reads later positions where %s",
                            print_expr(check->program->arena, condition));
    return check->statement->reduction == REDUCE_SUM ? "sums over the sequence"
                                                     : "compares positions of the sequence";
}

/* Checks every position of the statement except the current one: sums must not depend on later
 * positions. */
static void check_others(Check *check) {
    const Statement *statement = check->statement;
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *other = statement->loops[i];
        if (!is_past_axis(check->past, other->axis) || other == check->position) continue;
        if (on_left(statement, other)) {
            if (other->axis != check->program->sequence) continue;
            if (!check->position || check->position->of_repeat)
                causal_error(check, "relates positions of the sequence to each other");
            continue;
        }
        const Expr *ahead = check->position
                                ? value_ahead(check->past, statement->value, other, check->position)
                                : NULL;
        if (!ahead || past_reads(check->past, ahead, other))
            causal_error(check, what_is_ahead(check, ahead, other));
    }
}

/* True if the last position of the block is not after the current one: floor((s + a) / n) + c with
 * blocks of n positions. */
static bool is_complete(const Check *check, const Expr *sub, const Axis *axis) {
    double shift = 0, times, rest;
    const PastBlocks *blocks = list_find_by(&check->past->blocks, offsetof(PastBlocks, axis), axis);
    for (; sub->kind == EXPR_APPLY && (sub->op == OP_ADD || sub->op == OP_SUB) &&
           sub->args[1]->kind == EXPR_NUMBER;
         sub = sub->args[0])
        shift += sub->op == OP_ADD ? sub->args[1]->number : -sub->args[1]->number;
    if (!blocks || !check->position || !is_whole_part(sub) ||
        sub->args[0]->args[1]->number != (double)blocks->size ||
        !is_of_position(sub->args[0]->args[0], check->position, &times, &rest) || times != 1)
        return false;
    return rest + (shift + 1) * (double)blocks->size <= 1;
}

/* Summaries of blocks are read at a position, which must not depend on later blocks, or block by
 * block. */
static void check_summary(Expr *expr, void *data) {
    Check *check = data;
    if (expr->kind != EXPR_READ || !check->past->summary[expr->tensor->id]) return;
    bool good = check->position || check->past->summary[check->statement->target->tensor->id];
    for (int i = 0; i < expr->count; i++) {
        const Axis *axis = expr->tensor->axes[i];
        if (is_past_axis(check->past, axis) && expr->args[i]->kind != EXPR_INDEX &&
            !is_complete(check, expr->args[i], axis))
            good = false;
    }
    if (!good) causal_error(check, "reads blocks of positions that are not complete");
}

static void causal_loop(Check *check) {
    if (makes_summary(check->past, check->statement)) return;
    check->position = current_position(check->past, check->statement);
    check_others(check);
    expr_walk(check->statement->value, check_summary, check);
    expr_walk(check->statement->value, causal_read, check);
}

/* True if a call does not read the elements of an operand for later positions. */
static bool is_masked(const Statement *call, int operand) {
    const AttendOptions *options = &call->attention;
    return options->chosen && options->mask != MASK_NONE && options->block[2] == 1 &&
           operand == attend_chosen(options);
}

/* A call processes one position at a time. It reads p[s,t] or p[s,b] only if that does not depend
 * on later positions. */
static void check_operands(Check *check, const List *operands) {
    const Past *past = check->past;
    for (int i = 0; i < operands->count; i++) {
        const Expr *operand = operands->items[i];
        const int id = operand->tensor->id;
        int dimensions = 0;
        for (int j = 0; j < operand->count; j++)
            dimensions += operand->tensor->axes[j] == check->program->sequence;
        const bool several = dimensions > 1 && operand->tensor->role != ROLE_PARAMETER;
        if ((past->open[id] && !is_masked(check->statement, i)) ||
            (several && check->statement->row->has_body))
            causal_error(check, "relates positions of the sequence to each other");
        if (past->summary[id])
            causal_error(check, "reads blocks of positions that are not complete");
    }
}

/* The result of a selection has its position in the same dimension. */
static bool is_along_position(const Check *check) {
    const Statement *call = check->statement;
    const Expr *from = call->inputs.items[0], *to = call->outputs.items[0];
    const int dimension = check->past->dimension[from->tensor->id];
    return dimension < 0 || (check->past->dimension[to->tensor->id] == dimension &&
                             top_dimension(call, from) != dimension);
}

static void causal_call(Check *check) {
    const Statement *call = check->statement;
    const Axis *sequence = check->program->sequence;
    check_operands(check, &call->inputs);
    if (call->row->has_body && call->reverse && call->index->axis == sequence)
        causal_error(check, "runs from the last position of the sequence to the first");
    if (!call->row->along) return;
    const Index *here = NULL, *there = NULL;
    call->row->along(call, &here, &there);
    bool over = here ? here->axis == sequence : there && there->axis == sequence;
    if (call->row->selects && is_along_position(check)) return;
    if (over && (!call->row->sees || call->row->sees(call, 0, 1)))
        causal_error(check, arena_format(check->program->arena, call->row->ahead, "the sequence"));
}

static void check_statement(Statement *statement, void *data) {
    Check *all = data, check = *all;
    check.statement = statement;
    check.good = true;
    if (statement->kind == STATEMENT_LOOP) causal_loop(&check);
    if (statement->kind == STATEMENT_CALL) causal_call(&check);
    all->good &= check.good;
}

/* check_causal: true if a decoding step can be derived; reports every equation that prevents it. */
bool check_causal(Program *program, const Past *past) {
    Check check = {.program = program, .past = past, .good = true};
    block_walk(&program->body, check_statement, &check);
    if (!check.good)
        report_help(program->reports,
                    "a decoding step has the current position and cached earlier ones: attention, "
                    "x[s - 1], sum[t] x[t] * (t <= s), softmax[t](where(t <= s, x[t], -1e30))");
    return check.good;
}

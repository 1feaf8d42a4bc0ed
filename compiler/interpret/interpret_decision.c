/* interpret_decision: the margins of comparisons that a mask depends on. Rounding can change them,
 * as it can change a selection of top: then two evaluations compute different rows.
 *
 *     id[s] = floor(6 * x[s])         x: its distance to a whole number
 *     at[s,n] = id[s] == n            none: both sides are whole numbers
 *     y[s] = sum[n in at] ...
 *
 * A condition inside of a continuous function, where(x > 0, x, 0), is none of them. */
#include "base/must.h"
#include "interpret/interpreter.h"
#include "ir/call.h"

#include <math.h>
#include <stdlib.h>

static bool compares(OpCode op) {
    return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE;
}

/* ---- the equations ---- */

/* True if the value changes in steps alone. smooth, by tensor id: the others. */
static bool changes_in_steps(const bool *smooth, const Expr *expr) {
    if (expr->kind == EXPR_READ) return !smooth[expr->tensor->id];
    if (expr->kind != EXPR_APPLY || compares(expr->op) || expr->op == OP_FLOOR) return true;
    for (int i = 0; i < expr->count; i++)
        if (!changes_in_steps(smooth, expr->args[i])) return false;
    return true;
}

static void find_smooth(Statement *statement, void *data) {
    bool *smooth = data;
    if (statement->kind == STATEMENT_LOOP && !changes_in_steps(smooth, statement->value))
        smooth[statement->target->tensor->id] = true;
    for (int i = 0; statement->kind == STATEMENT_CALL && i < statement->outputs.count; i++)
        smooth[((const Expr *)statement->outputs.items[i])->tensor->id] =
            !statement_selects(statement);
}

static void mark_decisive(Expr *expr, void *data) {
    if (expr->kind == EXPR_READ) ((bool *)data)[expr->tensor->id] = true;
}

static void follow_back(Statement *statement, void *data) {
    const Interpreter *interpreter = data;
    bool *decisive = interpreter->decisive;
    if (statement->kind == STATEMENT_LOOP && interpreter_decides(interpreter, statement))
        expr_walk(statement->value, mark_decisive, decisive);
    for (int i = 0; statement->kind == STATEMENT_CALL && i < statement->inputs.count; i++)
        decisive[((const Expr *)statement->inputs.items[i])->tensor->id] = true;
}

bool interpreter_decides(const Interpreter *interpreter, const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const int target = statement->target->tensor->id;
    return interpreter->decisive[target] && !interpreter->smooth[target];
}

void interpreter_find_decisions(Interpreter *interpreter) {
    Program *program = interpreter->program;
    const List *tensors = &program->tensors;
    const size_t count = (size_t)tensors->count + 1;
    interpreter->smooth = arena_alloc(interpreter->arena, count * sizeof *interpreter->smooth);
    interpreter->decisive = arena_alloc(interpreter->arena, count * sizeof *interpreter->decisive);
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        interpreter->smooth[i] =
            tensor->type != TYPE_INT && tensor->role != ROLE_TEMP && tensor->role != ROLE_OUTPUT;
    }
    block_walk(&program->body, find_smooth, interpreter->smooth);
    LIST_EACH(const MaskedReduction, masked, &program->masked)
        if (masked->mask->kind == EXPR_READ) interpreter->decisive[masked->mask->tensor->id] = true;
    block_walk_back(&program->body, follow_back, interpreter);
}

/* True for a comparison, or a rounding down, of values that do not change in steps. */
bool interpreter_is_decision(const Interpreter *interpreter, const Expr *expr) {
    bool steps = true;
    for (int i = 0; i < expr->count; i++)
        steps = steps && changes_in_steps(interpreter->smooth, expr->args[i]);
    return !steps && (compares(expr->op) || expr->op == OP_FLOOR);
}

/* ---- margins ---- */

static MaskDecision measured_decision(OpCode op, double a, double b) {
    if (op == OP_FLOOR) return (MaskDecision){a, floor(a), fabs(a - floor(a + 0.5))};
    const double value = a - b;
    return (MaskDecision){value, (value > 0) - (value < 0), fabs(value)};
}

void interpreter_decide(Interpreter *interpreter, const EvalNode *node, const double *const args[3],
                        int count) {
    Decisions *made = &interpreter->decisions;
    if (made->count + (size_t)count > made->capacity) {
        made->capacity = 2 * made->count + STRIP;
        made->items = realloc(made->items, made->capacity * sizeof *made->items);
        if (!made->items) abort();
    }
    for (int i = 0; i < count; i++)
        made->items[made->count++] =
            measured_decision(node->op, args[0][i], node->op == OP_FLOOR ? 0 : args[1][i]);
}

/* Both sides of the comparison are the same number: score[n] == (max[n] score[n]). */
static bool is_identity(const MaskDecision *one, const MaskDecision *other) {
    return one->margin == 0 && one->value == other->value;
}

bool interpreter_decides_alike(const Interpreter *one, const Interpreter *other, double share) {
    const Decisions *a = &one->decisions, *b = &other->decisions;
    double least = INFINITY, moved = 0;
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const MaskDecision *x = &a->items[i], *y = &b->items[i];
        if (!isfinite(x->value) || is_identity(x, y)) continue;
        if (x->side != y->side) return false;
        least = fmin(least, fmin(x->margin, y->margin));
        moved = fmax(moved, fabs(x->value - y->value));
    }
    return !a->count || least > share * moved;
}

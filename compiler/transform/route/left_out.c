/* left_out: functions that are zero where a choice leaves a value out.
 *
 *     z[b,s,n] = where(chosen[b,s,n] > 0, a[b,s,n], -1e30)
 *     m[b,s]   = max[n] z[b,s,n]
 *     p[b,s,n] = exp(z[b,s,n] - m[b,s])
 *     -->
 *     p[b,s,n] = where(chosen[b,s,n] > 0, exp(z[b,s,n] - m[b,s]), 0)
 *
 * The maximum is a chosen value if the choice selects at least one entry along the indices of the
 * maximum. Functions of one value, such as sigmoid(z[b,s,n]), are zero without a maximum.
 */
#include "transform/route/route.h"

#include "analysis/past.h"

typedef struct LeftOut {
    const Routing *routing;
    const ProgramPoint *point;
    bool selects; /* the condition reads a mask */
} LeftOut;

/* The equation that sets all of a tensor in the same block as the reader, or NULL. */
static const Statement *maker_nearby(const LeftOut *left, const Expr *read) {
    if (read->kind != EXPR_READ || read->tensor->role != ROLE_TEMP) return NULL;
    const DefUse *def_use = left->routing->def_use;
    const Statement *maker = mask_maker(left->routing, read->tensor);
    if (!maker || maker->kind != STATEMENT_LOOP) return NULL;
    const TensorAccess *write = def_use->writes[read->tensor->id].items[0];
    return def_use->points[write->position].block == left->point->block ? maker : NULL;
}

/* The equation of a value that a condition replaces by a number, or NULL. */
static const Statement *chooser(const LeftOut *left, const Expr *read) {
    const Statement *maker = maker_nearby(left, read);
    const Expr *value = maker ? maker->value : NULL;
    bool chooses = value && maker->reduction == REDUCE_NONE && value->kind == EXPR_APPLY &&
                   value->op == OP_WHERE && value->args[2]->kind == EXPR_NUMBER;
    return chooses ? maker : NULL;
}

/* True if the condition selects an entry among those that the indices in `reduced` have. */
static bool selects_one(const LeftOut *left, Expr *condition, Index *const *reduced, int count) {
    const MaskCount entries = count_in(left->routing, condition, 0);
    for (int i = 0; i < entries.along_count; i++)
        if (!indices_have(reduced, count, entries.along[i])) return false;
    return entries.least > 0;
}

/* True if `largest` is the maximum of a group of entries of the chosen value, one of which is
 * chosen. */
static bool is_largest_chosen(const LeftOut *left, const Expr *read, const Expr *largest,
                              const Statement *chosen) {
    Index *reduced[MAX_LOOPS];
    int count = 0;
    if (largest->kind == EXPR_APPLY && largest->op == OP_STOP) largest = largest->args[0];
    const Statement *maker = maker_nearby(left, largest);
    if (!maker || maker->reduction != REDUCE_MAX || maker->value->kind != EXPR_READ ||
        maker->value->tensor != read->tensor)
        return false;
    for (int i = 0; i < read->count; i++) {
        const Expr *own = maker->value->args[i];
        if (own->kind != EXPR_INDEX) return false;
        bool kept = false;
        for (int j = 0; j < maker->target->count; j++) {
            if (!expr_equal(maker->target->args[j], own)) continue;
            kept = true;
            if (!expr_equal(largest->args[j], read->args[i])) return false;
        }
        if (!kept) reduced[count++] = chosen->target->args[i]->index;
    }
    return selects_one(left, chosen->value->args[0], reduced, count);
}

static void mark_mask(Expr *expr, void *data) {
    LeftOut *left = data;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_TEMP) return;
    const Statement *maker = mask_maker(left->routing, expr->tensor);
    if (!maker || !mask_count(left->routing, maker, 0).truth) return;
    expr->tensor->selects = left->selects = true;
}

/* The condition under which the function is not zero, or NULL. */
static Expr *condition_of(const LeftOut *left, const Expr *function) {
    const Expr *read = function->args[0];
    const bool shifted = function->op == OP_EXP && read->kind == EXPR_APPLY && read->op == OP_SUB;
    const Expr *largest = shifted ? read->args[1] : NULL;
    if (shifted) read = read->args[0];
    const Statement *chosen = chooser(left, read);
    if (!chosen) return NULL;
    const double number = chosen->value->args[2]->number;
    bool zero = shifted ? number <= LEFT_OUT && is_largest_chosen(left, read, largest, chosen)
                        : op_value(function->op, number, 0, 0) == 0;
    Index *from[MAX_RANK];
    for (int i = 0; i < read->count; i++) from[i] = chosen->target->args[i]->index;
    return zero ? expr_substitute(left->routing->program, chosen->value->args[0], from, read->args,
                                  read->count)
                : NULL;
}

static Expr *without_left_out(LeftOut *left, Expr *expr) {
    Expr *args[3] = {NULL};
    Program *program = left->routing->program;
    if (expr->kind != EXPR_APPLY || op_is_random(expr->op)) return expr;
    for (int i = 0; i < expr->count; i++) args[i] = without_left_out(left, expr->args[i]);
    Expr *condition = expr->count == 1 ? condition_of(left, expr) : NULL;
    left->selects = false;
    if (condition) expr_walk(condition, mark_mask, left);
    expr = expr_with_args(program, expr, args);
    return left->selects ? expr_apply(program, OP_WHERE, condition, expr, expr_number(program, 0))
                         : expr;
}

void left_out(Routing *routing) {
    routing->def_use = def_use_new(routing->program);
    for (int i = 0; i < routing->def_use->count; i++) {
        const ProgramPoint *point = &routing->def_use->points[i];
        LeftOut left = {.routing = routing, .point = point};
        if (point->statement->kind == STATEMENT_LOOP)
            point->statement->value = without_left_out(&left, point->statement->value);
    }
}

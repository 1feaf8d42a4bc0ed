/* inline_masks: conditions inside a sum over vectors become an equation of their own, as a mask.
 *
 *     y[b,s,d] = sum[n] (p[b,s,n] >= least[b,s]) * e[b,s,n,d]
 *
 *     on[b,s,n] = p[b,s,n] >= least[b,s]
 *     y[b,s,d]  = sum[n] on[b,s,n] * e[b,s,n,d]
 *
 * The conditions are factors, as here or in where(condition, e, 0) and where(condition, 0, e).
 * Masks over the same indices that have equations become factors of the new one.
 */
#include "transform/route/route.h"

typedef struct InlineMasks {
    const Routing *routing;
    const Statement *statement;
    Expr *mask;              /* product of the conditions, or NULL */
    Index *loops[MAX_LOOPS]; /* of the mask */
    int count;
    bool has_vector;
    bool unnamed; /* a condition has no equation */
    bool guards;  /* a factor counts only where its condition holds */
} InlineMasks;

/* A temporary with all loops of the condition and others. */
static void find_wider(Expr *expr, void *data) {
    InlineMasks *search = data;
    int own = 0, shared = 0;
    if (expr->kind != EXPR_READ || expr->tensor->role != ROLE_TEMP) return;
    for (int i = 0; i < expr->count; i++) {
        if (expr->args[i]->kind != EXPR_INDEX || expr->args[i]->index->of_repeat) continue;
        own++;
        shared += indices_have(search->loops, search->count, expr->args[i]->index);
    }
    search->has_vector |= shared == search->count && own > shared;
}

/* Sets the loops of the condition; true if it selects vectors of the sum by data. */
static bool selects_vectors(InlineMasks *search, Expr *condition) {
    const Statement *statement = search->statement;
    bool reduced = false;
    if (!expr_has_reads(condition) || !is_zero_or_one(search->routing, condition)) return false;
    for (int i = 0; i < statement->loop_count; i++) {
        Index *index = statement->loops[i];
        if (!expr_uses_index(condition, index)) continue;
        search->loops[search->count++] = index;
        reduced |= index->axis->kind == AXIS_PLAIN && !expr_uses_index(statement->target, index);
    }
    expr_walk(statement->value, find_wider, search);
    return reduced && search->has_vector && search->count <= MAX_RANK;
}

/* A mask that has an equation: m[b,s,n] or m[b,s,n] > 0. */
static bool has_equation(const InlineMasks *search, const Expr *condition) {
    if (condition->kind == EXPR_READ) return true;
    Expr *mask = condition->args[0];
    return (condition->op == OP_GT || condition->op == OP_NE) && mask->kind == EXPR_READ &&
           expr_is_number(condition->args[1], 0) && is_zero_or_one(search->routing, mask);
}

/* Multiplies the mask by the condition, if it has the loops of the others. */
static bool add_condition(InlineMasks *search, Expr *condition) {
    InlineMasks own = {.routing = search->routing, .statement = search->statement};
    if (!selects_vectors(&own, condition)) return false;
    if (search->mask && own.count != search->count) return false;
    for (int i = 0; i < own.count; i++)
        if (search->mask && own.loops[i] != search->loops[i]) return false;
    for (int i = 0; i < own.count; i++) search->loops[i] = own.loops[i];
    search->count = own.count;
    search->unnamed |= !has_equation(search, condition);
    search->mask = search->mask
                       ? expr_apply(search->routing->program, OP_MUL, search->mask, condition, NULL)
                       : condition;
    return true;
}

/* The factor without its conditions, which become factors of the mask. */
static Expr *without_conditions(InlineMasks *search, Expr *factor) {
    Program *program = search->routing->program;
    Expr *const *args = factor->args;
    const bool applies = factor->kind == EXPR_APPLY;
    if (applies && factor->op == OP_MUL && !is_zero_or_one(search->routing, factor)) {
        Expr *first = without_conditions(search, args[0]);
        return expr_apply(program, OP_MUL, first, without_conditions(search, args[1]), NULL);
    }
    if (applies && factor->op == OP_WHERE) {
        const bool inside = expr_is_number(args[2], 0), outside = expr_is_number(args[1], 0);
        Expr *condition = args[0];
        if (!inside && outside)
            condition = expr_apply(program, OP_SUB, expr_number(program, 1), condition, NULL);
        if ((!inside && !outside) || !add_condition(search, condition)) return factor;
        search->guards = true;
        return without_conditions(search, args[inside ? 1 : 2]);
    }
    return add_condition(search, factor) ? expr_number(program, 1) : factor;
}

static void name_masks(const Routing *routing, Block *block, Statement *statement) {
    Program *program = routing->program;
    InlineMasks search = {.routing = routing, .statement = statement};
    Expr *rest = without_conditions(&search, statement->value);
    if (!search.unnamed) return;
    Block made = {{NULL, 0, 0}};
    const char *name = arena_format(program->arena, "%s_on", statement->target->tensor->name);
    Tensor *tensor = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, search.loops, search.count,
                                 statement->span);
    Expr *mask = expr_read_indices(program, tensor, search.loops);
    statement_assign(program, &made, mask, search.mask, statement->span)->asked = statement->asked;
    list_insert(program->arena, &block->statements, list_find(&block->statements, statement),
                &made.statements);
    statement->value = search.guards
                           ? expr_apply(program, OP_WHERE, mask, rest, expr_number(program, 0))
                           : expr_apply(program, OP_MUL, mask, rest, NULL);
}

void inline_masks(Routing *routing) {
    const DefUse *def_use = routing->def_use;
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        if (point->statement->kind == STATEMENT_LOOP && point->statement->reduction == REDUCE_SUM)
            name_masks(routing, point->block, point->statement);
    }
    routing->def_use = def_use_new(routing->program);
}

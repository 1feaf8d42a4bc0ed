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
    const ProgramPoint *point;
    Expr *mask;              /* product of the conditions, or NULL */
    Index *loops[MAX_LOOPS]; /* of the mask */
    int count;
    double share; /* that a factor states, for the only condition; 0: none */
    List weights; /* Tensor *: factors that imply conditions of the mask */
    bool unnamed; /* no equation makes the mask */
    bool guards;  /* a factor counts only where its condition holds */
} InlineMasks;

/* The loops of the statement that the condition uses; 0: it is no mask of data. */
static int loops_of_condition(const InlineMasks *search, Expr *condition, Index **loops) {
    const Statement *statement = search->point->statement;
    int count = 0;
    if (!expr_has_reads(condition) || !is_zero_or_one(search->routing, condition)) return 0;
    for (int i = 0; i < statement->loop_count; i++)
        if (expr_uses_index(condition, statement->loops[i])) loops[count++] = statement->loops[i];
    return count <= MAX_RANK && sums_vectors(statement, loops, count) ? count : 0;
}

/* A mask that has an equation: m[b,s,n] or m[b,s,n] > 0. */
static bool has_equation(const InlineMasks *search, const Expr *condition) {
    if (condition->kind == EXPR_READ) return true;
    Expr *mask = condition->args[0];
    return (condition->op == OP_GT || condition->op == OP_NE) && mask->kind == EXPR_READ &&
           expr_is_number(condition->args[1], 0) && is_zero_or_one(search->routing, mask);
}

static bool has_condition(const Expr *mask, const Expr *condition) {
    return expr_equal(mask, condition) ||
           (mask->kind == EXPR_APPLY && mask->op == OP_MUL &&
            (has_condition(mask->args[0], condition) || has_condition(mask->args[1], condition)));
}

/* Multiplies the mask by the condition, if it has the loops of the others. */
static bool add_condition(InlineMasks *search, Expr *condition) {
    Index *loops[MAX_LOOPS];
    const int count = loops_of_condition(search, condition, loops);
    if (!count || (search->mask && count != search->count)) return false;
    for (int i = 0; i < count; i++) {
        if (search->mask && loops[i] != search->loops[i]) return false;
        search->loops[i] = loops[i];
    }
    search->count = count;
    if (search->mask && has_condition(search->mask, condition)) return true;
    search->unnamed |= search->mask || !has_equation(search, condition);
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

/* A mask that routing finds without a factor: a choice, or the mask of a reduction. */
static bool is_found(const Routing *routing, const Expr *condition) {
    if (condition->kind != EXPR_READ) return false;
    const Statement *maker = mask_maker(routing, condition->tensor);
    return condition->tensor->selects || (maker && statement_selects(maker));
}

/* sum[n in mask] e, if the statement is a part of it; or NULL. */
static MaskedReduction *reduction_by(const InlineMasks *search, const Tensor *mask) {
    const List *masked = &search->routing->program->masked;
    const Span span = search->point->statement->span;
    LIST_EACH(MaskedReduction, reduction, masked)
        if (reduction->mask->kind == EXPR_READ && reduction->mask->tensor == mask &&
            reduction->span.source == span.source && reduction->span.start >= span.start &&
            reduction->span.end <= span.end)
            return reduction;
    return NULL;
}

/* Adds the conditions outside of which the factors are 0; with others, those of weights that
 * select. */
static void add_implied(InlineMasks *search, Expr *factor, bool others) {
    if (factor->kind == EXPR_APPLY && factor->op == OP_MUL) {
        add_implied(search, factor->args[0], others);
        add_implied(search, factor->args[1], others);
        return;
    }
    const bool reads = factor->kind == EXPR_READ;
    if (others && !(reads && reduction_by(search, factor->tensor))) return;
    Expr *condition = implied_condition(search->routing, search->point->repeat, factor);
    if (!condition || !add_condition(search, condition)) return;
    search->unnamed |= !is_found(search->routing, condition);
    search->share = reads && search->mask == condition ? factor->tensor->share : 0;
    if (reads) list_push(search->routing->program->arena, &search->weights, factor->tensor);
}

/* The new mask selects instead of those that are a part of it, and of weights: sum[n in w] e. */
static void replace_masks(const InlineMasks *search, Expr *mask) {
    const List *tensors = &search->routing->program->tensors;
    LIST_EACH(Tensor, tensor, tensors) {
        const bool weights = list_find(&search->weights, tensor) >= 0;
        MaskedReduction *reduction =
            weights || expr_reads(search->mask, tensor) ? reduction_by(search, tensor) : NULL;
        if (!reduction) continue;
        reduction->mask = mask;
        mask->tensor->selects = true;
        if (weights) tensor->selects = false;
    }
}

static Expr *name_mask(const InlineMasks *search) {
    Program *program = search->routing->program;
    const Statement *statement = search->point->statement;
    List *statements = &search->point->block->statements;
    Block made = {{NULL, 0, 0}};
    if (search->mask->kind == EXPR_READ) return search->mask;
    const char *name = arena_format(program->arena, "%s_on", statement->target->tensor->name);
    Tensor *tensor = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, search->loops, search->count,
                                 statement->span);
    Expr *mask = expr_read_indices(program, tensor, search->loops);
    tensor->share = search->share;
    statement_assign(program, &made, mask, search->mask, statement->span)->asked = statement->asked;
    list_insert(program->arena, statements, list_find(statements, statement), &made.statements);
    return mask;
}

/* The same in max[n] where(condition, e, -9). */
static void name_guard(const Routing *routing, const ProgramPoint *point) {
    InlineMasks search = {.routing = routing, .point = point};
    const Expr *value = point->statement->value;
    if (value->kind != EXPR_APPLY || value->op != OP_WHERE || value->args[2]->kind != EXPR_NUMBER ||
        !add_condition(&search, value->args[0]) || !search.unnamed)
        return;
    point->statement->value =
        expr_apply(routing->program, OP_WHERE, name_mask(&search), value->args[1], value->args[2]);
}

static void name_masks(const Routing *routing, const ProgramPoint *point) {
    Program *program = routing->program;
    Statement *statement = point->statement;
    InlineMasks search = {.routing = routing, .point = point};
    Expr *rest = without_conditions(&search, statement->value);
    const bool implied = !search.mask;
    add_implied(&search, rest, !implied);
    if (!search.unnamed) return;
    Expr *mask = name_mask(&search);
    replace_masks(&search, mask);
    mask->tensor->implied = implied && mask != search.mask;
    statement->value = search.guards
                           ? expr_apply(program, OP_WHERE, mask, rest, expr_number(program, 0))
                           : expr_apply(program, OP_MUL, mask, rest, NULL);
}

void inline_masks(Routing *routing) {
    const DefUse *def_use = routing->def_use;
    for (int i = 0; i < def_use->count; i++) {
        const ProgramPoint *point = &def_use->points[i];
        if (point->statement->kind != STATEMENT_LOOP) continue;
        if (point->statement->reduction == REDUCE_SUM)
            name_masks(routing, point);
        else if (point->statement->reduction != REDUCE_NONE)
            name_guard(routing, point);
    }
    routing->def_use = def_use_new(routing->program);
}

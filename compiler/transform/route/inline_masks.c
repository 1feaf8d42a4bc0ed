/* inline_masks: conditions inside of a value become an equation of their own, as a mask.
 *
 *     y[b,s,d] = sum[n] (p[b,s,n] >= least[b,s]) * e[b,s,n,d]
 *
 *     on[b,s,n] = p[b,s,n] >= least[b,s]
 *     y[b,s,d]  = sum[n] on[b,s,n] * e[b,s,n,d]
 *
 * The conditions are factors of a sum or of a term, as here or in where(condition, e, 0) and
 * where(condition, 0, e). Masks over the same indices that have equations become factors of the new
 * one. A choice between two values is two conditions:
 *
 *     where(c, e, f)  -->  where(on, e, where(off, f, 0)) with on = c, off = 1 - c
 */
#include "transform/route/route.h"

typedef struct InlineMasks {
    const Routing *routing;
    const ProgramPoint *point;
    const Expr *value;       /* of the statement, or a term of it */
    Expr *mask;              /* product of the conditions, or NULL */
    Index *loops[MAX_LOOPS]; /* of the mask */
    int count;
    double share; /* that a factor states, for the only condition; 0: none */
    List weights; /* Tensor *: factors that imply conditions of the mask */
    bool unnamed; /* no equation makes the mask */
    bool guards;  /* a factor counts only where its condition holds */
} InlineMasks;

/* The loops of a mask that the condition makes; 0: it is no mask. They are the loops that it uses.
 * A condition on positions is one for each position of the statement: on[b], on[s - 1],
 * s % 4 == 0. One on numbers of entries, h < 2, has to save networks. */
static int loops_of_condition(const InlineMasks *search, Expr *condition, Index **loops) {
    const Routing *routing = search->routing;
    const Statement *statement = search->point->statement;
    bool used[MAX_LOOPS], positions = true;
    int count = 0;
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *loop = statement->loops[i];
        used[i] = expr_uses_index(condition, loop);
        if (used[i]) positions &= loop->axis->kind != AXIS_PLAIN && !sums_over(statement, loop);
    }
    for (int i = 0; i < statement->loop_count; i++) {
        Index *loop = statement->loops[i];
        const bool position = loop->axis->kind != AXIS_PLAIN && !sums_over(statement, loop);
        if (used[i] || (positions && position)) loops[count++] = loop;
    }
    if (!is_zero_or_one(routing, condition)) return 0;
    if (!expr_has_reads(condition)) {
        const double share = condition_share(routing, condition);
        if (!share || (positions && share > MASK_SHARE) ||
            (!positions && !saves_networks(routing, search->point, search->value, loops, count)))
            return 0;
    }
    const bool saves = count <= MAX_RANK && saves_work(routing, search->point, search->value,
                                                       condition, loops, count, NULL);
    return saves ? count : 0;
}

/* True for a tensor that is read with one index per axis, as a mask of `count` loops. */
static bool is_plain_read(const Expr *read, int count) {
    int own = 0;
    for (int i = 0; i < read->count; i++) {
        if (read->args[i]->kind != EXPR_INDEX) return false;
        own += !read->args[i]->index->of_repeat;
    }
    return own == count;
}

/* A mask that has an equation: m[b,s,n] or m[b,s,n] > 0. */
static bool has_equation(const InlineMasks *search, const Expr *condition, int count) {
    if (condition->kind == EXPR_READ) return is_plain_read(condition, count);
    if (condition->kind != EXPR_APPLY) return false;
    Expr *mask = condition->args[0];
    return (condition->op == OP_GT || condition->op == OP_NE) && mask->kind == EXPR_READ &&
           is_plain_read(mask, count) && expr_is_number(condition->args[1], 0) &&
           is_zero_or_one(search->routing, mask);
}

static bool has_condition(const Expr *mask, const Expr *condition) {
    return expr_equal(mask, condition) ||
           (mask->kind == EXPR_APPLY && mask->op == OP_MUL &&
            (has_condition(mask->args[0], condition) || has_condition(mask->args[1], condition)));
}

/* True for 0 or 1 by some of the indices, none of which is one of positions: alive[n] with a mask
 * on[s,n]. It is a factor of that mask, without rows of its own. */
static bool is_part_of_entries(const InlineMasks *search, Expr *condition, Index *const *indices,
                               int count) {
    const Statement *statement = search->point->statement;
    if (condition->kind == EXPR_NUMBER || !is_zero_or_one(search->routing, condition)) return false;
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *loop = statement->loops[i];
        if (expr_uses_index(condition, loop) &&
            (loop->axis->kind != AXIS_PLAIN || !indices_have(indices, count, loop)))
            return false;
    }
    return true;
}

/* Multiplies the mask by the condition, if one has the loops of the other or a part of them. */
static bool add_condition(InlineMasks *search, Expr *condition) {
    Index *loops[MAX_LOOPS];
    const bool part =
        search->mask && is_part_of_entries(search, condition, search->loops, search->count);
    const int count = part ? search->count : loops_of_condition(search, condition, loops);
    const bool whole = search->mask && !part && count > search->count &&
                       is_part_of_entries(search, search->mask, loops, count);
    if (!count || (search->mask && count != search->count && !whole)) return false;
    for (int i = 0; i < count && !part; i++) {
        if (search->mask && !whole && loops[i] != search->loops[i]) return false;
        search->loops[i] = loops[i];
    }
    search->count = count;
    if (search->mask && has_condition(search->mask, condition)) return true;
    search->unnamed |= search->mask || !has_equation(search, condition, count);
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
    if (search->mask->kind == EXPR_READ && is_plain_read(search->mask, search->count))
        return search->mask;
    const char *name = arena_format(program->arena, "%s_on", statement->target->tensor->name);
    Tensor *tensor = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, search->loops, search->count,
                                 statement->span);
    Expr *mask = expr_read_indices(program, tensor, search->loops);
    tensor->share = search->share ? search->share : condition_share(search->routing, search->mask);
    statement_assign(program, &made, mask, search->mask, statement->span)->asked = statement->asked;
    list_insert(program->arena, statements, list_find(statements, statement), &made.statements);
    return mask;
}

/* The same in max[n] where(condition, e, -9). */
static Expr *named_guard(const Routing *routing, const ProgramPoint *point, Expr *value) {
    InlineMasks search = {.routing = routing, .point = point, .value = value};
    if (!add_condition(&search, value->args[0]) || !search.unnamed) return value;
    return expr_apply(routing->program, OP_WHERE, name_mask(&search), value->args[1],
                      value->args[2]);
}

static Expr *named_factors(const Routing *routing, const ProgramPoint *point, Expr *value) {
    Program *program = routing->program;
    InlineMasks search = {.routing = routing, .point = point, .value = value};
    Expr *rest = without_conditions(&search, value);
    const bool implied = !search.mask;
    add_implied(&search, rest, !implied);
    if (!search.unnamed) return value;
    Expr *mask = name_mask(&search);
    replace_masks(&search, mask);
    mask->tensor->implied = implied && mask != search.mask;
    return search.guards ? expr_apply(program, OP_WHERE, mask, rest, expr_number(program, 0))
                         : expr_apply(program, OP_MUL, mask, rest, NULL);
}

static Expr *named_terms(const Routing *routing, const ProgramPoint *point, Expr *value);

/* where(c, e, f) */
static Expr *named_choice(const Routing *routing, const ProgramPoint *point, const Expr *value) {
    Program *program = routing->program;
    Expr *condition = value->args[0], *zero = expr_number(program, 0),
         *off = expr_apply(program, OP_WHERE, opposite(routing, condition), value->args[2], zero),
         *other = named_factors(routing, point, off);
    Expr *rest = other == off ? named_terms(routing, point, value->args[2]) : other;
    return named_guard(routing, point,
                       expr_apply(program, OP_WHERE, condition,
                                  named_terms(routing, point, value->args[1]), rest));
}

static Expr *named_terms(const Routing *routing, const ProgramPoint *point, Expr *value) {
    Expr *const *args = value->args;
    if (value->kind != EXPR_APPLY) return value;
    if (value->op == OP_ADD || value->op == OP_SUB) {
        Expr *first = named_terms(routing, point, args[0]);
        return expr_apply(routing->program, value->op, first, named_terms(routing, point, args[1]),
                          NULL);
    }
    if (value->op == OP_WHERE && is_zero_or_one(routing, args[0]) && !expr_is_number(args[1], 0) &&
        !expr_is_number(args[2], 0))
        return named_choice(routing, point, value);
    return named_factors(routing, point, value);
}

static Expr *with_names(const Routing *routing, const ProgramPoint *point) {
    Expr *value = point->statement->value;
    switch (point->statement->reduction) {
    case REDUCE_SUM:
        return named_factors(routing, point, value);
    case REDUCE_NONE:
        return named_terms(routing, point, value);
    default:
        return value->kind == EXPR_APPLY && value->op == OP_WHERE &&
                       value->args[2]->kind == EXPR_NUMBER
                   ? named_guard(routing, point, value)
                   : value;
    }
}

void inline_masks(Routing *routing) {
    for (int i = 0; i < routing->def_use->count; i++) {
        const ProgramPoint *point = &routing->def_use->points[i];
        const int tensors = routing->program->tensors.count;
        Statement *statement = point->statement;
        if (statement->kind != STATEMENT_LOOP) continue;
        statement->value = with_names(routing, point);
        if (routing->program->tensors.count == tensors) continue;
        routing->def_use = def_use_new(routing->program);
        while (routing->def_use->points[i].statement != statement) i++;
    }
}

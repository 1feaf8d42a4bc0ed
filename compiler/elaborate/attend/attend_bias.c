/* attend_bias: a bias of the scores as an operand of the call, if it contains the positions of
 * query and key only as their distance:
 *
 *     o = attend[t](q, k, v; bias = -slope[h] * (s - t))
 * --> bias[h,r] = -slope[h] * r                 one element per distance: 0 .. |s| - 1 under a mask
 *     o = attend(q, k, v, bias)
 *
 * It replaces reads of b[h,s,t] by the equation of b.
 */
#include "elaborate/elaborate.h"

#include "analysis/past.h"

typedef struct BiasTable {
    Elaborator *e;
    const Index *query, *key;
    Expr *distance; /* s - t in terms of the index of the table */
    bool dry;       /* creates no equations */
    Expr *found;    /* the first part that needs the positions themselves; NULL: none */
} BiasTable;

static Expr *by_distance(BiasTable *table, Expr *expr);

static bool uses_positions(const BiasTable *table, Expr *expr) {
    return expr_uses_index(expr, table->query) || expr_uses_index(expr, table->key);
}

static const Statement *equation_in(const Block *block, const Tensor *tensor) {
    for (int i = block->statements.count - 1; i >= 0; i--) {
        const Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_LOOP && statement->target->tensor == tensor)
            return statement;
    }
    return NULL;
}

/* The equation of a tensor, of this block or of the whole program, with plain indices on its left
 * side. */
static const Statement *own_equation(const BiasTable *table, const Tensor *tensor) {
    const Statement *statement = equation_in(table->e->block, tensor);
    if (!statement) statement = equation_in(&table->e->program->body, tensor);
    for (int i = 0; statement && i < statement->target->count; i++)
        if (statement->target->args[i]->kind != EXPR_INDEX) return NULL;
    return statement && !statement->accumulate ? statement : NULL;
}

/* The value of an equation at the subscripts of a read. A sum becomes an equation of its own. */
static Expr *value_by_distance(BiasTable *table, const Statement *statement, const Expr *read) {
    Program *program = table->e->program;
    Index *from[MAX_RANK + MAX_LOOPS];
    Expr *to[MAX_RANK + MAX_LOOPS];
    Index *reduced[MAX_LOOPS];
    int count = 0, sums = 0;
    for (; count < read->count; count++) {
        from[count] = statement->target->args[count]->index;
        to[count] = read->args[count];
    }
    for (int i = 0; i < statement->loop_count; i++) {
        Index *loop = statement->loops[i];
        bool on_left = false;
        for (int j = 0; j < read->count; j++) on_left = on_left || from[j] == loop;
        if (on_left || statement->reduction == REDUCE_NONE) continue;
        reduced[sums] = index_new(program, loop->name, loop->axis);
        from[count] = loop;
        to[count++] = expr_index(program, reduced[sums++]);
    }
    Expr *value = by_distance(table, expr_substitute(program, statement->value, from, to, count));
    if (!value || statement->reduction == REDUCE_NONE || table->dry) return value;
    Index *dims[MAX_LOOPS];
    int rank = 0, used = 0;
    Index *all[MAX_LOOPS];
    used = free_indices(table->e, value, all);
    for (int i = 0; i < used; i++) {
        bool own = true;
        for (int j = 0; j < sums; j++) own = own && all[i] != reduced[j];
        if (own) dims[rank++] = all[i];
    }
    Value *made = define(table->e, NULL, dims, rank, statement->reduction, reduced, sums, value,
                         statement->span);
    return made->kind == KIND_ERROR ? NULL : made->expr;
}

/* The same subscripts, or the value of the tensor's equation. */
static Expr *read_by_distance(BiasTable *table, Expr *read) {
    const Statement *statement = own_equation(table, read->tensor);
    if (statement) return value_by_distance(table, statement, read);
    Expr *subs[MAX_RANK];
    for (int i = 0; i < read->count; i++)
        if (!(subs[i] = by_distance(table, read->args[i]))) return NULL;
    return expr_read(table->e->program, read->tensor, subs);
}

/* An expression without the positions, or NULL. */
static Expr *by_distance(BiasTable *table, Expr *expr) {
    Program *program = table->e->program;
    double times, rest;
    if (!uses_positions(table, expr)) return expr;
    if (is_distance(expr, table->key, table->query, &times, &rest)) {
        Expr *scaled = times == -1 ? table->distance
                                   : expr_apply(program, OP_MUL, table->distance,
                                                expr_number(program, -times), NULL);
        return rest == 0 ? scaled
                         : expr_apply(program, OP_ADD, scaled, expr_number(program, rest), NULL);
    }
    if (expr->kind == EXPR_READ) {
        Expr *read = read_by_distance(table, expr);
        if (!read && !table->found) table->found = expr;
        return read;
    }
    const bool random =
        expr->kind == EXPR_APPLY && (expr->op == OP_UNIFORM || expr->op == OP_NORMAL);
    if (expr->kind == EXPR_APPLY && is_comparison(expr->op) &&
        position_distance(expr, table->key, table->query, &times, &rest))
        return expr_apply(
            program, expr->op,
            expr_apply(program, OP_MUL, table->distance, expr_number(program, -times), NULL),
            expr_number(program, -rest), NULL);
    Expr *args[3] = {NULL};
    bool whole = expr->kind == EXPR_APPLY && !random;
    for (int i = 0; i < expr->count && whole; i++)
        whole = (args[i] = by_distance(table, expr->args[i])) != NULL;
    if (!whole && !table->found) table->found = expr;
    return whole ? expr_apply(program, expr->op, args[0], args[1], args[2]) : NULL;
}

bool is_bias_by_distance(Elaborator *e, const Attending *attending) {
    Index *query = attending->query->dims[0];
    BiasTable table = {.e = e,
                       .query = query,
                       .key = attending->key,
                       .distance = expr_number(e->program, 0),
                       .dry = true};
    return axes_match(e, query->axis, attending->key->axis) &&
           by_distance(&table, attending->bias->expr) != NULL;
}

void take_bias(Elaborator *e, Attending *attending) {
    Program *program = e->program;
    const Span span = attending->bias->span;
    Index *query = attending->query->dims[0];
    const long positions = query->axis->size;
    const bool ordered = attending->options.mask != MASK_NONE;
    Axis *axis =
        axis_new(program, "distance", ordered ? positions : 2 * positions - 1, AXIS_PLAIN, span);
    Index *dims[2] = {attending->query->dims[1], index_new(program, axis->name, axis)};
    Expr *distance = expr_index(program, dims[1]);
    if (!ordered)
        distance = expr_apply(program, OP_SUB, distance,
                              expr_number(program, (double)(positions - 1)), NULL);
    BiasTable table = {.e = e, .query = query, .key = attending->key, .distance = distance};
    Expr *value = by_distance(&table, attending->bias->expr);
    attending->table = value ? value_tensor(e, value, dims, 2, span) : NULL;
}

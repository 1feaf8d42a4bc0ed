/* attend_mask: the mask of an attention as options and operands of the call.
 *
 *     mask = t <= s and s - t < 512                       a sliding window
 *     mask = t <= s and number[s] == number[t]            document ids
 *     mask = t <= s and chosen[s,h,floor(t / 64)] > 0     an operand, one element per 64 keys:
 *                                                         few[s,h,b] = chosen[s,h,b] > 0
 *
 * Every other condition becomes the last kind. An element of the operand is for as many queries,
 * heads and keys as the condition allows: those with the same quotient.
 */
#include "elaborate/elaborate.h"

#include "analysis/past.h"
#include "base/must.h"

#include <math.h>

/* t <= s or s - t < window, in any equivalent form. */
static bool take_distance(Attending *attending, const Expr *expr) {
    MUST(expr->kind == EXPR_APPLY);
    double sign = expr->op == OP_LE || expr->op == OP_LT   ? 1
                  : expr->op == OP_GE || expr->op == OP_GT ? -1
                                                           : 0;
    double times, rest;
    if (sign == 0 ||
        !position_distance(expr, attending->key, attending->query->dims[0], &times, &rest))
        return false;
    /* times * (t - s) + rest <= 0, of integers */
    times *= sign;
    rest = rest * sign + (expr->op == OP_LT || expr->op == OP_GT);
    AttendOptions *options = &attending->options;
    if (times == 1 && rest == 0) {
        if (options->mask == MASK_NONE) options->mask = MASK_CAUSAL;
        return true;
    }
    long window = (long)(1 - rest);
    if (times != -1 || window < 1) return false;
    if (!options->window || window < options->window) options->window = window;
    return true;
}

/* number[s] == number[t] */
static bool find_document_ids(Elaborator *e, Attending *attending, const Expr *expr) {
    MUST(expr->kind == EXPR_APPLY);
    Index *query_position = attending->query->dims[0];
    Expr *other = expr_index(e->program, attending->key);
    for (int i = 0; i < 2 && expr->op == OP_EQ && !attending->documents; i++) {
        Expr *own = expr->args[i];
        bool alone = own->kind == EXPR_READ && expr_uses_index(own, query_position) &&
                     !expr_uses_index(own, attending->query->dims[1]) &&
                     !expr_uses_index(own, attending->key);
        if (!alone || !expr_equal(expr_substitute(e->program, own, &query_position, &other, 1),
                                  expr->args[1 - i]))
            continue;
        attending->documents = value_tensor(e, own, &query_position, 1, attending->mask->span);
        return true;
    }
    return false;
}

/* ---- other conditions ---- */

static long common_divisor(long a, long b) {
    while (b) {
        const long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The value depends on floor(index / n) only: the largest n; 0: it does not depend on the index. */
static long common_block(const Expr *expr, const Index *index) {
    long block = 0;
    if (expr_is_block(expr, index, &block)) return block;
    if (expr->kind == EXPR_INDEX) return expr->index == index;
    for (int i = 0; i < expr->count; i++)
        block = common_divisor(block, common_block(expr->args[i], index));
    return block;
}

/* The value at block `to` of `block` values of the index. */
static Expr *at_block(Program *program, Expr *expr, const Index *index, long block, Expr *to) {
    long divisor;
    if (expr_is_block(expr, index, &divisor)) {
        if (divisor == block) return to;
        Expr *ratio = expr_number(program, (double)(divisor / block));
        return expr_apply(program, OP_FLOOR, expr_apply(program, OP_DIV, to, ratio, NULL), NULL,
                          NULL);
    }
    if (expr->kind != EXPR_READ && expr->kind != EXPR_APPLY) return expr;
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++)
        args[i] = at_block(program, expr->args[i], index, block, to);
    return expr->kind == EXPR_READ ? expr_read(program, expr->tensor, args)
                                   : expr_apply(program, expr->op, args[0], args[1], args[2]);
}

/* Replaces an index of a condition by the index of its blocks, if they have several values. */
static Expr *by_block(Elaborator *e, Expr *condition, Index **index, long *block) {
    const Axis *axis = (*index)->axis;
    *block = common_block(condition, *index);
    if (*block == 1) return condition;
    if (*block == 0 || *block > axis->size) *block = axis->size;
    const char *name = arena_format(e->arena, "%s_block", axis->name);
    const Index *old = *index;
    *index = index_new(
        e->program, name,
        axis_new(e->program, name, (axis->size + *block - 1) / *block, AXIS_PLAIN, axis->span));
    return at_block(e->program, condition, old, *block, expr_index(e->program, *index));
}

/* True if the condition does not hold for any later key: it then implies a causal mask. */
static bool excludes_later(Elaborator *e, const Attending *attending, Expr *condition) {
    const size_t tensors = (size_t)e->program->tensors.count;
    Past past = {.program = e->program};
    past.ahead = arena_alloc(e->arena, (tensors + 1) * sizeof *past.ahead);
    past.from_score = arena_alloc(e->arena, (tensors + 1) * sizeof *past.from_score);
    for (size_t i = 0; i < tensors; i++) past.ahead[i] = NAN;
    return expr_is_number(value_ahead(&past, condition, attending->key, attending->query->dims[0]),
                          0);
}

/* The condition as an operand of the call. */
static void set_chosen(Elaborator *e, Attending *attending, Expr *condition) {
    const Span span = attending->mask->span;
    Index *dims[3] = {attending->query->dims[0], attending->query->dims[1], attending->key};
    attending->options.chosen = true;
    for (int i = 0; i < 3; i++)
        condition = by_block(e, condition, &dims[i], &attending->options.block[i]);
    attending->chosen = value_tensor(e, condition, dims, 3, span);
}

/* ---- all conditions ---- */

/* The terms of a condition that the options express; `rest`: all others, NULL: none. */
static void take_condition(Elaborator *e, Attending *attending, Expr *expr, Expr **rest) {
    if (expr_is_number(expr, 1)) return;
    if (expr->kind == EXPR_APPLY && (expr->op == OP_AND || expr->op == OP_MUL)) {
        take_condition(e, attending, expr->args[0], rest);
        take_condition(e, attending, expr->args[1], rest);
        return;
    }
    const bool ordered = axes_match(e, attending->query->dims[0]->axis, attending->key->axis);
    if (ordered && expr->kind == EXPR_APPLY &&
        (take_distance(attending, expr) || find_document_ids(e, attending, expr)))
        return;
    *rest = *rest ? expr_apply(e->program, OP_AND, *rest, expr, NULL) : expr;
}

void take_mask_terms(Elaborator *e, Attending *attending) {
    Attending known = *attending;
    Expr *rest = NULL;
    known.options.mask = MASK_NONE;
    take_condition(e, &known, attending->mask->expr, &rest);
    AttendOptions *options = &known.options;
    if (options->mask == MASK_NONE && (options->window || rest) &&
        axes_match(e, known.query->dims[0]->axis, known.key->axis) &&
        excludes_later(e, attending, attending->mask->expr))
        options->mask = MASK_CAUSAL;
    if (options->window && options->mask == MASK_NONE) { /* also later keys */
        *options = attending->options;
        known.documents = attending->documents;
        rest = attending->mask->expr;
    }
    if (options->window) options->mask = MASK_WINDOW;
    if (rest) set_chosen(e, &known, rest);
    known.mask = NULL;
    *attending = known;
}

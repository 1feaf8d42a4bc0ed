/* builtin: functions that are neither pointwise nor layers. Those with a kernel of their own are in
 * the rows of calls/.
 *
 *     sum[d] e  mean[d] e  max[d] e  min[d] e  logsumexp[d] e
 *                       reductions, each a statement of its own
 *     softmax[n](e)     exp(e - max e) / sum exp(e - max e) along n, or along several indices
 *     concat[j](a, b)   concatenation of their last dimensions
 *     size(axis)  uniform()  normal()
 */
#include "elaborate/elaborate.h"
#include "ir/call.h"

#include <limits.h>
#include <string.h>

/* The value of masked entries, beyond all others: 2^127, which f32 and bf16 represent. */
#define OUT_OF_REACH 170141183460469231731687303715884105728.0

static Index *fresh(Elaborator *e, const Index *index) {
    return index_new(e->program, index->name, index->axis);
}

Value *without_indices(Elaborator *e, const Value *value, Index *const *indices, int count) {
    Value *result = value_new(e, KIND_TENSOR, value->span);
    for (int i = 0; i < value->rank; i++)
        if (!indices_have(indices, count, value->dims[i]))
            result->dims[result->rank++] = value->dims[i];
    return result;
}

/* The dimensions of a hoisted statement: indices that are bound further out, then those of the
 * value. */
static int hoisted_dims(Elaborator *e, const Value *value, Expr *expr, Index *const *reduced,
                        int reduced_count, Index **dims) {
    Index *all[MAX_LOOPS];
    int found = free_indices(e, expr, all), count = 0;
    for (int i = 0; i < found; i++)
        if (!indices_have(value->dims, value->rank, all[i]) &&
            !indices_have(reduced, reduced_count, all[i]))
            dims[count++] = all[i];
    for (int i = 0; i < value->rank; i++)
        if (expr_uses_index(expr, value->dims[i]) &&
            !indices_have(reduced, reduced_count, value->dims[i]))
            dims[count++] = value->dims[i];
    return count;
}

static Value *hoist_reduction(Elaborator *e, Reduction reduction, Index *const *reduced, int count,
                              Value *value, Span span) {
    Index *dims[MAX_LOOPS + MAX_RANK];
    int rank = hoisted_dims(e, value, value->expr, reduced, count, dims);
    Value *defined = define(e, NULL, dims, rank, reduction, reduced, count, value->expr, span);
    if (defined->kind == KIND_ERROR) return defined;
    Value *result = without_indices(e, value, reduced, count);
    result->expr = defined->expr;
    result->span = span;
    return result;
}

static Value *held(Elaborator *e, Value *value) {
    if (value->kind != KIND_TENSOR || is_plain_read(e, value->expr)) return value;
    return hoist_reduction(e, REDUCE_NONE, NULL, 0, value, value->span);
}

Value *held_along(Elaborator *e, Value *value, Index *index) {
    if (value->kind != KIND_TENSOR) return value;
    Value *ordered = without_indices(e, value, &index, 1);
    ordered->expr = value->expr;
    ordered->dims[ordered->rank++] = index;
    Value *result = held(e, ordered);
    for (int i = 0; i < value->rank; i++) result->dims[i] = value->dims[i];
    return result;
}

static Value *logsumexp(Elaborator *e, Index *const *indices, int count, Value *value, Span span) {
    value = held(e, value);
    if (value->kind == KIND_ERROR) return value;
    Value *largest = hoist_reduction(e, REDUCE_MAX, indices, count, value, span);
    Value *stopped = apply_op(e, OP_STOP, largest, NULL, NULL, span);
    Value *shifted = apply_op(e, OP_SUB, value, stopped, NULL, span);
    Value *total = hoist_reduction(e, REDUCE_SUM, indices, count,
                                   apply_op(e, OP_EXP, shifted, NULL, NULL, span), span);
    return apply_op(e, OP_ADD, stopped, apply_op(e, OP_LOG, total, NULL, NULL, span), NULL, span);
}

Value *reduce(Elaborator *e, const char *kind, Index *const *indices, int count, Value *value,
              Span span) {
    if (value->kind != KIND_TENSOR) {
        Expr *expr = value_expr(e, value);
        if (!expr) return value_error(e, span);
        value = value_tensor(e, expr, NULL, 0, span);
    }
    Index *used[MAX_LOOPS];
    int used_count = 0;
    double all = 1, absent = 1;
    for (int i = 0; i < count; i++) {
        all *= (double)indices[i]->axis->size;
        if (expr_uses_index(value->expr, indices[i]))
            used[used_count++] = indices[i];
        else if (indices[i] == e->batch)
            absent *= (double)indices[i]->axis->size;
        else {
            report_error(e->reports, span, "the reduced expression does not depend on index '%s'",
                         indices[i]->name);
            report_help(e->reports, "remove '%s', or multiply by size(%s)", indices[i]->name,
                        indices[i]->axis->name);
            return value_error(e, span);
        }
    }
    if (!strcmp(kind, "logsumexp") && used_count == count)
        return logsumexp(e, indices, count, value, span);
    bool sum = !strcmp(kind, "sum"), mean = !strcmp(kind, "mean");
    if (!sum && !mean && strcmp(kind, "max") && strcmp(kind, "min"))
        return value_invalid(
            e, span, "remove the other indices from the brackets",
            "the reduced expression does not depend on all indices of the reduction");
    Reduction reduction = sum || mean ? REDUCE_SUM : !strcmp(kind, "max") ? REDUCE_MAX : REDUCE_MIN;
    Value *result =
        used_count ? hoist_reduction(e, reduction, used, used_count, value, span) : value;
    double factor = sum ? absent : mean ? absent / all : 1;
    if (result->kind == KIND_ERROR || factor == 1) return result;
    return apply_op(e, OP_MUL, result, value_number(e, factor, span), NULL, span);
}

/* The number of selected entries: the sum of the relation over the indices. An index that it does
 * not depend on counts with its size. */
static Value *chosen_count(Elaborator *e, Index *const *indices, int count, Value *mask,
                           Span span) {
    Index *used[MAX_LOOPS];
    int used_count = 0;
    double factor = 1;
    for (int i = 0; i < count; i++) {
        if (expr_uses_index(mask->expr, indices[i]))
            used[used_count++] = indices[i];
        else
            factor *= (double)indices[i]->axis->size;
    }
    Value *total = used_count ? reduce(e, "sum", used, used_count, mask, span) : mask;
    return apply_op(e, OP_MUL, total, value_number(e, factor, span), NULL, span);
}

/* The value if a condition holds, else a number. */
static Value *where_else(Elaborator *e, Value *condition, Value *value, double otherwise,
                         Span span) {
    return apply_op(e, OP_WHERE, condition, value, value_number(e, otherwise, span), span);
}

static Value *compare_with(Elaborator *e, OpCode op, Value *value, double number, Span span) {
    return apply_op(e, op, value, value_number(e, number, span), NULL, span);
}

/* max[n in c] e: the maximum of the selected entries, or 0 without one. */
static Value *extreme_chosen(Elaborator *e, const char *kind, Index *const *indices, int count,
                             Value *mask, Value *value, Span span) {
    const bool largest = strcmp(kind, "min") != 0;
    const double far = largest ? -OUT_OF_REACH : OUT_OF_REACH;
    Value *chosen = compare_with(e, OP_NE, mask, 0, span);
    Value *found = reduce(e, largest ? "max" : "min", indices, count,
                          where_else(e, chosen, value, far, span), span);
    Value *any = compare_with(e, largest ? OP_GT : OP_LT, found, far, span);
    return where_else(e, any, found, 0, span);
}

/* logsumexp[n in c] e = log(sum[n] c * exp(e - m)) + m for the largest selected entry m. */
static Value *logsumexp_chosen(Elaborator *e, Index *const *indices, int count, Value *mask,
                               Value *value, Span span) {
    value = held(e, value);
    Value *largest = extreme_chosen(e, "max", indices, count, mask, value, span);
    Value *stopped = apply_op(e, OP_STOP, largest, NULL, NULL, span);
    Value *chosen = compare_with(e, OP_NE, mask, 0, span);
    Value *shifted =
        where_else(e, chosen, apply_op(e, OP_SUB, value, stopped, NULL, span), 0, span);
    Value *powers = apply_op(e, OP_EXP, shifted, NULL, NULL, span);
    Value *total =
        reduce(e, "sum", indices, count, apply_op(e, OP_MUL, mask, powers, NULL, span), span);
    Value *any = compare_with(e, OP_NE, total, 0, span);
    Value *positive = where_else(e, any, total, 1, span);
    return apply_op(e, OP_ADD, stopped, apply_op(e, OP_LOG, positive, NULL, NULL, span), NULL,
                    span);
}

/* Records a masked reduction of vectors. Masked reductions of numbers are cheap and not
 * recorded. */
static void note_masked(Elaborator *e, Index *const *indices, int count, const Value *mask,
                        Span span) {
    MaskedReduction *masked = arena_alloc(e->arena, sizeof *masked);
    *masked = (MaskedReduction){.mask = mask->expr, .axis = indices[0]->axis, .entries = 1};
    masked->span = span;
    if (!is_written(span)) masked->asked = asked_here(e);
    for (int i = 0; i < count; i++) masked->entries *= indices[i]->axis->size;
    if (mask->expr->kind == EXPR_READ && mask->expr->tensor->role == ROLE_TEMP)
        mask->expr->tensor->selects = true;
    list_push(e->arena, &e->program->masked, masked);
}

/* True if the value has an index that the mask does not have. */
static bool has_others(const Value *value, const Value *mask) {
    for (int i = 0; i < value->rank; i++) {
        bool found = false;
        for (int j = 0; j < mask->rank; j++) found |= mask->dims[j] == value->dims[i];
        if (!found) return true;
    }
    return false;
}

Value *reduce_chosen(Elaborator *e, const char *kind, Index *const *indices, int count, Value *mask,
                     Value *value, Span span) {
    if (mask->kind == KIND_TENSOR && value->kind == KIND_TENSOR && has_others(value, mask)) {
        mask = held(e, mask);
        if (mask->kind == KIND_ERROR) return value_error(e, span);
        note_masked(e, indices, count, mask, span);
    }
    if (mask->kind != KIND_TENSOR || !strcmp(kind, "sum"))
        return reduce(e, kind, indices, count, apply_op(e, OP_MUL, mask, value, NULL, span), span);
    mask = held(e, mask);
    if (mask->kind == KIND_ERROR || value->kind == KIND_ERROR) return value_error(e, span);
    if (!strcmp(kind, "logsumexp")) return logsumexp_chosen(e, indices, count, mask, value, span);
    if (strcmp(kind, "mean")) return extreme_chosen(e, kind, indices, count, mask, value, span);
    Value *total =
        reduce(e, "sum", indices, count, apply_op(e, OP_MUL, mask, value, NULL, span), span);
    Value *chosen = chosen_count(e, indices, count, mask, span);
    Value *any = compare_with(e, OP_NE, chosen, 0, span);
    return apply_op(e, OP_DIV, total, where_else(e, any, chosen, 1, span), NULL, span);
}

static Index *along(Elaborator *e, const Node *subs, const Value *value, Span span,
                    const char *name) {
    if (!subs || subs->count != 1 || subs->kids[0]->kind != NODE_NAME) {
        report_error(e->reports, span, "'%s' expects the index that it runs along", name);
        report_help(e->reports, "write %s[n](...)", name);
        return NULL;
    }
    const Node *sub = subs->kids[0];
    Index *index = equation_index(e, sub->name, NULL, sub->span);
    if (!index) return NULL;
    for (int i = 0; value->kind == KIND_TENSOR && i < value->rank; i++)
        if (value->dims[i] == index) return index;
    report_error(e->reports, sub->span, "the argument of '%s' has no index '%s'", name, sub->name);
    const char *names[MAX_RANK];
    int count = value->kind == KIND_TENSOR ? value->rank : 0;
    for (int i = 0; i < count; i++) names[i] = value->dims[i]->name;
    report_choices(e->reports, sub->name, names, count, "indices");
    return NULL;
}

int kept_indices(Elaborator *e, const Node *subs, const Value *value, Span span, const char *name,
                 Index **kept) {
    int count = 0;
    for (int i = 0; subs && i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        bool fine = true;
        const List *list = axis_list(e, sub, &fine);
        if (!fine || !fits_rank(e, name, count + (list ? list->count : 1), sub->span)) return 0;
        for (int j = 0; list && j < list->count; j++)
            kept[count++] = equation_canonical(e, ((Value *)list->items[j])->axis, sub->span);
        if (list) continue;
        Node one = *subs;
        one.kids = subs->kids + i;
        one.count = 1;
        Index *index = along(e, &one, value, span, name);
        if (!index) return 0;
        kept[count++] = index;
    }
    return count ? count : along(e, subs, value, span, name) != NULL;
}

static Value *softmax(Elaborator *e, const Node *node, const Node *subs) {
    if (node->kids[1]->count != 1)
        return value_invalid(e, node->span, "write softmax[n](e) with one argument",
                             "softmax[n](e) expects one argument");
    Value *value = evaluate(e, node->kids[1]->kids[0]);
    if (value->kind == KIND_ERROR) return value;
    Index *kept[MAX_RANK], *inner[MAX_RANK];
    int count = kept_indices(e, subs, value, node->span, "softmax", kept);
    if (!count) return value_error(e, node->span);
    Span span = node->span;
    value = held(e, value);
    if (value->kind == KIND_ERROR) return value;
    /* the reductions run over new indices; the result keeps the named ones */
    Expr *to[MAX_RANK];
    for (int i = 0; i < count; i++) {
        inner[i] = fresh(e, kept[i]);
        to[i] = expr_index(e->program, inner[i]);
    }
    Value *again = value_tensor(e, expr_substitute(e->program, value->expr, kept, to, count),
                                value->dims, value->rank, span);
    for (int i = 0; i < again->rank; i++)
        for (int j = 0; j < count; j++)
            if (again->dims[i] == kept[j]) again->dims[i] = inner[j];
    Value *largest = hoist_reduction(e, REDUCE_MAX, inner, count, again, span);
    Value *stopped = apply_op(e, OP_STOP, largest, NULL, NULL, span);
    Value *powers = held(
        e, apply_op(e, OP_EXP, apply_op(e, OP_SUB, value, stopped, NULL, span), NULL, NULL, span));
    if (powers->kind == KIND_ERROR) return powers;
    Value *inner_powers =
        value_tensor(e, expr_substitute(e->program, powers->expr, kept, to, count), again->dims,
                     again->rank, span);
    Value *total = hoist_reduction(e, REDUCE_SUM, inner, count, inner_powers, span);
    return apply_op(e, OP_DIV, powers, total, NULL, span);
}

/* The index over concatenated parts with the total size `sizes`. */
static Index *joined_index(Elaborator *e, const Node *node, const Node *subs, double sizes) {
    if (!subs || subs->count != 1 || subs->kids[0]->kind != NODE_NAME) {
        report_invalid(e->reports, node->span, "write concat[j](a, b)",
                       "'concat' expects the index over all of its parts");
        return NULL;
    }
    const Node *sub = subs->kids[0];
    Index *index = equation_index(e, sub->name, NULL, sub->span);
    if (!index) return NULL;
    if (!axis_can_have(e, sub->name, sizes, node->span)) return NULL;
    if (!index->axis)
        index->axis = axis_new(e->program, sub->name, (long)sizes, AXIS_PLAIN, sub->span);
    if ((double)index->axis->size == sizes) return index;
    report_error(e->reports, sub->span, "the parts have total size %g, but axis '%s' has size %ld",
                 sizes, index->axis->name, index->axis->size);
    report_help(e->reports, "declare the axis with the sum of the sizes: axis %s = %g",
                index->axis->name, sizes);
    return NULL;
}

/* concat[j](a, b): element j of the concatenated last dimensions.
 *
 *     where(j < |a|, a[...,min(j, |a| - 1)], b[...,max(j - |a|, 0)])
 */
static Value *concat(Elaborator *e, const Node *node, const Node *subs) {
    const Node *args = node->kids[1];
    Value *parts[MAX_RANK];
    double sizes = 0;
    if (args->count < 2 || args->count > MAX_RANK)
        return value_invalid(e, node->span, "write concat[j](a, b)",
                             "concat[j](a, b) expects 2 to %d tensors", MAX_RANK);
    for (int i = 0; i < args->count; i++) {
        parts[i] = evaluate(e, args->kids[i]);
        if (parts[i]->kind == KIND_ERROR) return parts[i];
        if (parts[i]->kind != KIND_TENSOR || !parts[i]->rank) {
            report_invalid(e->reports, args->kids[i]->span, "write a subscript, such as x[i]",
                           "'concat' expects tensors with at least one dimension");
            return value_error(e, node->span);
        }
        sizes += (double)parts[i]->dims[parts[i]->rank - 1]->axis->size;
    }
    Index *index = joined_index(e, node, subs, sizes);
    if (!index) return value_error(e, node->span);
    Value *position = value_tensor(e, expr_index(e->program, index), &index, 1, node->span);
    Value *result = NULL;
    double behind = sizes;
    for (int i = args->count - 1; i >= 0; i--) {
        Index *last = parts[i]->dims[parts[i]->rank - 1];
        double size = (double)last->axis->size, before = behind - size;
        Expr *own =
            expr_apply(e->program, OP_SUB, position->expr, expr_number(e->program, before), NULL);
        if (before > 0) own = expr_apply(e->program, OP_MAX, own, expr_number(e->program, 0), NULL);
        if (result)
            own = expr_apply(e->program, OP_MIN, own, expr_number(e->program, size - 1), NULL);
        Value *part = without_indices(e, parts[i], &last, 1);
        part->expr = expr_substitute(e->program, parts[i]->expr, &last, &own, 1);
        add_dims(e, part, position);
        result = result
                     ? apply_op(e, OP_WHERE, compare_with(e, OP_LT, position, behind, node->span),
                                part, result, node->span)
                     : part;
        behind = before;
    }
    return result;
}

/* The axis of that name. In a scan, the name of its axis refers to the current position. */
static const Axis *axis_of_name(const Binding *binding) {
    const Value *value = binding->value;
    if (value->kind == KIND_AXIS) return value->axis;
    bool scanned = value->kind == KIND_TENSOR && !value->rank && value->expr->kind == EXPR_INDEX;
    return scanned ? value->expr->index->axis : NULL;
}

static Value *size(Elaborator *e, const Node *node, const Node *subs) {
    (void)subs;
    const Node *args = node->kids[1];
    double product = 1;
    for (int i = 0; i < args->count; i++) {
        const Node *arg = args->kids[i];
        Binding *binding = arg->kind == NODE_NAME ? scope_find(e->scope, arg->name) : NULL;
        const Axis *axis = binding ? axis_of_name(binding) : NULL;
        if (axis) {
            product *= (double)axis->size;
            e->program->reads_length |= axis->kind == AXIS_SEQUENCE;
            continue;
        }
        bool fine = true;
        const List *list = axis_list(e, arg, &fine);
        for (int j = 0; list && j < list->count; j++)
            product *= (double)((Value *)list->items[j])->axis->size;
        if (!fine) return value_error(e, node->span);
        if (list) continue;
        report_invalid(e->reports, arg->span, "write size(d) with the name of an axis",
                       "size(...) expects the name of an axis");
        return value_error(e, node->span);
    }
    return value_number(e, product, node->span);
}

static Value *list_length_call(Elaborator *e, const Node *node, const Node *subs) {
    (void)subs;
    const Node *args = node->kids[1];
    Value *list = args->count == 1 ? evaluate(e, args->kids[0]) : NULL;
    if (list && list->kind == KIND_ERROR) return list;
    if (list && list->kind == KIND_LIST) return value_number(e, list->list.count, node->span);
    report_invalid(e->reports, args->span, "write length(list) with the name of a list",
                   "length(...) expects a list");
    return value_error(e, node->span);
}

/* density(mask, share): the mask itself, with the expected share of entries other than 0 for the
 * cost. */
static Value *density(Elaborator *e, const Node *node, const Node *subs) {
    (void)subs;
    const Node *args = node->kids[1];
    Value *mask = args->count == 2 ? evaluate(e, args->kids[0]) : NULL;
    Value *share = args->count == 2 ? evaluate(e, args->kids[1]) : NULL;
    if ((mask && mask->kind == KIND_ERROR) || (share && share->kind == KIND_ERROR))
        return value_error(e, node->span);
    if (!mask || mask->kind != KIND_TENSOR || share->kind != KIND_NUMBER || !(share->number > 0) ||
        share->number > 1) {
        report_invalid(e->reports, args->span, "write density(p[s,n] > 0, 0.25)",
                       "density(mask, share) expects a tensor and a number above 0, at most 1");
        return value_error(e, node->span);
    }
    Value *result = hoist_reduction(e, REDUCE_NONE, NULL, 0, mask, mask->span);
    if (result->kind == KIND_TENSOR) {
        result->expr->tensor->share = share->number;
        probe_density(e, result->expr->tensor, share->number, node->span);
    }
    return result;
}

/* The tensor whose elements are numbered: the left side, or the argument. */
static Value *drawn_for(Elaborator *e, const Node *node) {
    if (node->kids[1]->count) {
        Value *like = evaluate(e, node->kids[1]->kids[0]);
        if (like->kind == KIND_ERROR || (like->kind == KIND_TENSOR && e->equation)) return like;
        report_error(e->reports, node->kids[1]->kids[0]->span, "'%s' expects a tensor",
                     node->kids[0]->name);
        report_help(e->reports,
                    "write %s() for one random number per element of the left side, or %s(x) "
                    "for one per element of a tensor x",
                    node->kids[0]->name, node->kids[0]->name);
        return value_error(e, node->span);
    }
    if (e->equation && e->equation->has_left)
        return value_tensor(e, NULL, e->equation->left, e->equation->left_count, node->span);
    report_error(e->reports, node->span,
                 "random numbers require an equation with subscripts on the left side");
    report_help(e->reports, "write %s(x) for one random number per element of a tensor x",
                node->kids[0]->name);
    return value_error(e, node->span);
}

/* The indices of repeats around the equation, outer ones first. */
static int list_iterations(const RepeatBuild *region, Index **order, int count) {
    if (!region) return count;
    count = list_iterations(region->outer, order, count);
    if (region->index && region->index->axis) order[count++] = region->index;
    return count;
}

/* The row-major number of the element: batch, iterations, mapped indices, then its own indices. It
 * is independent of the size of the batch: a text has the numbers of the first sequence. */
static Value *random_number(Elaborator *e, const Node *node, OpCode op) {
    Value *drawn = drawn_for(e, node);
    if (drawn->kind == KIND_ERROR) return drawn;
    Expr *counter = expr_number(e->program, 0);
    Index *order[MAX_RANK * 4];
    int count = 0;
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (e->frame->ambient[i] == e->batch) order[count++] = e->batch;
    count = list_iterations(e->region, order, count);
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (e->frame->ambient[i] != e->batch) order[count++] = e->frame->ambient[i];
    for (int i = 0; i < drawn->rank; i++) order[count++] = drawn->dims[i];
    for (int i = 0; i < count; i++) {
        if (!order[i]->axis) {
            report_no_axis(e, node->span, order[i]->name);
            return value_error(e, node->span);
        }
        counter = expr_apply(e->program, OP_MUL, counter,
                             expr_number(e->program, (double)order[i]->axis->size), NULL);
        counter = expr_apply(e->program, OP_ADD, counter, expr_index(e->program, order[i]), NULL);
    }
    Expr *number = expr_number(e->program, ++e->random_count);
    return value_tensor(e, expr_apply(e->program, op, number, counter, NULL), drawn->dims,
                        drawn->rank, node->span);
}

static Value *uniform_call(Elaborator *e, const Node *node, const Node *subs) {
    (void)subs;
    return random_number(e, node, OP_UNIFORM);
}

static Value *normal_call(Elaborator *e, const Node *node, const Node *subs) {
    (void)subs;
    return random_number(e, node, OP_NORMAL);
}

/* ---- calls by name ---- */

/* The functions that are neither pointwise nor have a kernel: those are in op.def, in calls/. */
static const struct Builtin {
    const char *name;
    int most;         /* maximum number of arguments */
    bool in_equation; /* the result is a tensor */
    Value *(*call)(Elaborator *e, const Node *node, const Node *subs);
} builtins[] = {
    {"size", INT_MAX, false, size},      {"length", INT_MAX, false, list_length_call},
    {"softmax", INT_MAX, true, softmax}, {"concat", INT_MAX, true, concat},
    {"uniform", 1, false, uniform_call}, {"normal", 1, false, normal_call},
    {"density", 2, true, density},
};
enum { BUILTINS = sizeof builtins / sizeof *builtins };

/* A function that is not pointwise, by number; its name is NULL for a call of passes only. */
static struct Builtin builtin_of(const CallRow *const *calls, int number) {
    if (number < BUILTINS) return builtins[number];
    const CallFunction *function = &calls[number - BUILTINS]->function;
    return (struct Builtin){function->name, INT_MAX, true, function->call};
}

/* With the name NULL if there is none. */
static struct Builtin find_builtin(const CallRow *const *calls, const char *name) {
    for (int i = 0; i < BUILTINS + CALLS; i++) {
        const struct Builtin builtin = builtin_of(calls, i);
        if (builtin.name && !strcmp(name, builtin.name)) return builtin;
    }
    return (struct Builtin){NULL, 0, false, NULL};
}

void function_names(const Unit *unit, List *names) {
    for (int i = 0; i < BUILTINS + CALLS; i++) {
        const char *name = builtin_of(unit->calls, i).name;
        if (name) list_push(unit->arena, names, (void *)(uintptr_t)name);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        const OpRow *row = &op_table[op];
        bool called = row->level == LEVEL_ATOM && row->text[0] >= 'a' && row->text[0] <= 'z';
        if (called && op != OP_NOT) list_push(unit->arena, names, (void *)(uintptr_t)row->text);
    }
}

bool is_function(const Unit *unit, const char *name, int arguments) {
    const struct Builtin builtin = find_builtin(unit->calls, name);
    return builtin.name ? arguments <= builtin.most : op_find(name, arguments) >= 0;
}

/* NULL without a function of that name and number of arguments. */
static Value *pointwise_call(Elaborator *e, const Node *node, const char *name) {
    const Node *args = node->kids[1];
    int op = args->count >= 1 && args->count <= 3 ? op_find(name, args->count) : -1;
    if (op < 0 || op_is_random((OpCode)op)) {
        for (int arity = 1; arity <= 3; arity++)
            if (op_find(name, arity) >= 0 && arity != args->count)
                return value_invalid(e, node->span, "moec doc functions lists the arguments",
                                     "'%s' expects %d argument%s, got %d", name, arity,
                                     arity == 1 ? "" : "s", args->count);
        return NULL;
    }
    if (node->kids[2]) {
        report_invalid(e->reports, node->kids[2]->span, "remove the options in braces",
                       "'%s' has no options", name);
        return value_error(e, node->span);
    }
    Value *values[3] = {NULL, NULL, NULL};
    for (int i = 0; i < args->count; i++) {
        values[i] = evaluate(e, args->kids[i]);
        if (values[i]->kind == KIND_ERROR) return values[i];
    }
    return apply_op(e, (OpCode)op, values[0], values[1], values[2], node->span);
}

Value *builtin_call(Elaborator *e, const Node *node, const char *name, const Node *subs) {
    const struct Builtin builtin = find_builtin(e->unit->calls, name);
    if (!builtin.name || node->kids[1]->count > builtin.most) return pointwise_call(e, node, name);
    if (builtin.in_equation && !needs_equation(e, node->span, arena_format(e->arena, "'%s'", name)))
        return value_error(e, node->span);
    return builtin.call(e, node, subs);
}

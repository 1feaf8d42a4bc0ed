/* subscript: read a tensor at subscripts: named indices, computed positions, lists of axes.
 *
 *     w[d,j]   embedding[tokens[s],d]   x[s - 1,d]   w[d,per]
 */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

void add_dims(Elaborator *e, Value *into, const Value *from) {
    for (int i = 0; i < from->rank; i++) {
        bool present = false;
        for (int j = 0; j < into->rank; j++)
            if (into->dims[j] == from->dims[i]) present = true;
        if (present) continue;
        if (into->rank == MAX_RANK) {
            report_invalid(e->reports, from->span, "sum over an index in a statement of its own",
                           "too many dimensions in an expression: the maximum is %d", MAX_RANK);
            return;
        }
        into->dims[into->rank++] = from->dims[i];
    }
}

static bool subscript_index(Elaborator *e, Value *result, const Node *sub, Axis *axis, Expr **to) {
    Index *index = equation_index(e, sub->name, axis, sub->span);
    if (!index) return false;
    *to = expr_index(e->program, index);
    add_dims(e, result,
             &(Value){.kind = KIND_TENSOR, .rank = 1, .dims = {index}, .span = sub->span});
    return true;
}

/* A constant of integer arithmetic that is too large, or NULL. */
static const Expr *inexact_subscript(const Expr *expr) {
    const Expr *inner = expr_is_quotient(expr) ? expr->args[0] : expr, *found = NULL;
    if (!expr_is_whole(expr)) return NULL;
    if (expr->kind == EXPR_NUMBER && fabs(expr->number) > WHOLE_MAX) return expr;
    for (int i = 0; i < inner->count && !found; i++) found = inexact_subscript(inner->args[i]);
    return found;
}

/* Integer constants above 2^53 - 1 are rounded by the parser. */
static bool subscript_is_exact(Elaborator *e, const Expr *computed, Span span) {
    const Expr *inexact = inexact_subscript(computed);
    if (!inexact) return true;
    return report_invalid(e->reports, span,
                          "use constants up to 9007199254740991; products of indices and tokens "
                          "can be larger and wrap at 64 bits",
                          "constant %.17g in this subscript exceeds 2^53 - 1", inexact->number);
}

/* Checks that a computed subscript is an integer and, if it is constant, inside the axis. */
static bool selects_one_element(Elaborator *e, const Node *sub, const Axis *axis,
                                const Expr *computed) {
    const Span span = sub->span;
    if (computed->kind == EXPR_NUMBER &&
        (computed->number != floor(computed->number) || computed->number < 0 ||
         computed->number >= (double)axis->size)) {
        report_error(e->reports, span, "subscript %.9g is outside axis '%s' of size %ld",
                     computed->number, axis->name, axis->size);
        return report_help(e->reports, "use an integer from 0 to %ld", axis->size - 1);
    }
    if (expr_is_whole(computed)) return subscript_is_exact(e, computed, span);
    report_error(e->reports, span, "a subscript must be an integer, but this can be a fraction");
    if (span.source)
        report_help(e->reports, "round it with floor(%.*s)", span.end - span.start,
                    span.source->text + span.start);
    return false;
}

/* One subscript: a plain index, or an integer expression. */
static bool one_subscript(Elaborator *e, Value *result, const Node *sub, Axis *axis, Expr **to) {
    Binding *binding = sub->kind == NODE_NAME ? scope_find(e->scope, sub->name) : NULL;
    bool plain = sub->kind == NODE_NAME &&
                 (!binding || binding->value->kind == KIND_AXIS || equation_find(e, sub->name));
    if (plain) return subscript_index(e, result, sub, axis, to);
    Value *computed = evaluate(e, sub);
    if (computed->kind == KIND_ERROR) return false;
    *to = value_expr(e, computed);
    if (*to && expr_names_whole(*to) && !expr_is_whole(*to))
        *to = expr_apply(e->program, OP_FLOOR, *to, NULL, NULL);
    if (!*to || !selects_one_element(e, sub, axis, *to)) return false;
    *to = sub_over(e->program, *to, axis);
    if ((*to)->kind == EXPR_READ && (*to)->tensor->role == ROLE_INPUT &&
        (*to)->tensor->type == TYPE_INT) {
        Tensor *input = (*to)->tensor;
        if (!input->vocabulary || axis->size < input->vocabulary) input->vocabulary = axis->size;
    }
    if (computed->kind == KIND_TENSOR) add_dims(e, result, computed);
    return true;
}

/* The subscripts of a list of axes: each must match the axis of its dimension. */
static bool list_subscripts(Elaborator *e, Value *result, const Node *sub, const List *list,
                            const Value *value, Expr **to, int *count) {
    for (int j = 0; list && j < list->count && *count < value->rank; j++) {
        Axis *axis = ((Value *)list->items[j])->axis, *dimension = value->dims[*count]->axis;
        if (!axes_match(e, axis, dimension)) {
            report_error(
                e->reports, sub->span,
                "'%s' refers to axis '%s' (size %ld), but this dimension is axis '%s' (size %ld)",
                sub->name, axis->name, axis->size, dimension->name, dimension->size);
            if (value->span.source) report_note(e->reports, value->span, "defined here");
            return report_help(e->reports, "write the subscripts one by one");
        }
        Index *index = equation_canonical(e, axis, sub->span);
        to[(*count)++] = expr_index(e->program, index);
        add_dims(e, result,
                 &(Value){.kind = KIND_TENSOR, .rank = 1, .dims = {index}, .span = sub->span});
    }
    return true;
}

/* An unused name for an index. */
static const char *unused_index_name(Elaborator *e) {
    static const char *const names[] = {"j", "i", "k", "m", "n", "p", "q", "r"};
    for (int i = 0; i < 8; i++)
        if (!equation_find(e, names[i]) && !scope_find(e->scope, names[i])) return names[i];
    return "other";
}

/* The equation with `name` instead of a subscript, also on its left side. NULL if it is not an
 * equation on one short line. */
static const char *renamed_equation(Elaborator *e, const Node *sub, const char *name) {
    const Node *node = e->equation->node, *left = node ? node->kids[0] : NULL;
    if (!left || node->kind != NODE_EQUATION || node->kids[1]->span.source != sub->span.source)
        return NULL;
    const Span right = node->kids[1]->span;
    const char *text = right.source->text;
    Text out = {.arena = e->arena};
    text_add(&out, "%s[", node->name);
    bool there = false;
    for (int i = 0; i < left->count; i++) {
        const char *own = left->kids[i]->name;
        bool same = own && !strcmp(own, sub->name);
        there |= same;
        text_add(&out, "%s%s", i ? "," : "", same ? name : own ? own : "?");
    }
    text_add(&out, "] = %.*s%s%.*s", sub->span.start - right.start, text + right.start, name,
             right.end - sub->span.end, text + sub->span.end);
    return there && out.length < 80 && !strchr(out.text, '\n') ? out.text : NULL;
}

/* w[d,d] is most likely a mistake: two dimensions over one axis need two indices. */
static void report_diagonal(Elaborator *e, const Node *sub, const Node *subs, const Value *value) {
    const EquationIndex *entry = equation_find(e, sub->name);
    const char *name = unused_index_name(e);
    const char *whole = entry && entry->reduced ? renamed_equation(e, sub, name) : NULL;
    report_error(e->reports, subs->span,
                 "index '%s' subscripts two dimensions, which reads only the diagonal", sub->name);
    if (value->span.source) report_note(e->reports, value->span, "defined here");
    if (whole) report_help(e->reports, "did you mean %s?", whole);
    if (!whole) report_help(e->reports, "use another index, such as '%s', for one of them", name);
    if (entry)
        report_help(e->reports, "for the diagonal, write a condition: (sum[%s] ... * (%s == %s))",
                    name, name, sub->name);
}

/* Reports an index that occurs twice in the subscripts. */
static bool indices_differ(Elaborator *e, const Node *subs, const Value *value) {
    for (int i = 0; i < subs->count; i++)
        for (int j = 0; j < i; j++) {
            const Node *a = subs->kids[j], *b = subs->kids[i];
            if (a->kind != NODE_NAME || b->kind != NODE_NAME || strcmp(a->name, b->name)) continue;
            const Binding *binding = scope_find(e->scope, a->name);
            bool list = binding && binding->value->kind == KIND_LIST;
            if (!list && !equation_find(e, a->name)) continue;
            report_diagonal(e, b, subs, value);
            return false;
        }
    return true;
}

/* Collects the axis of all dimensions that `name` subscripts; false if they differ. */
static bool join_axes(const Elaborator *e, const Node *node, const char *name, Axis **axis) {
    const Node *base = node->kind == NODE_INDEXED ? node->kids[0] : NULL;
    const Binding *binding =
        base && base->kind == NODE_NAME ? scope_find(e->scope, base->name) : NULL;
    const Value *value = binding ? binding->value : NULL;
    for (int i = 0; value && value->kind == KIND_TENSOR && i < node->kids[1]->count; i++) {
        const Node *sub = node->kids[1]->kids[i];
        if (sub->kind != NODE_NAME || strcmp(sub->name, name) || i >= value->rank) continue;
        if (*axis && *axis != value->dims[i]->axis) return false;
        *axis = value->dims[i]->axis;
    }
    for (int i = 0; i < node->count; i++)
        if (node->kids[i] && !join_axes(e, node->kids[i], name, axis)) return false;
    return true;
}

/* The axis of another index, if it is known. */
static Axis *axis_of_index(Elaborator *e, const Node *whole, const Node *node) {
    const EquationIndex *entry = node->kind == NODE_NAME ? equation_find(e, node->name) : NULL;
    Axis *axis = entry ? entry->index->axis : NULL;
    if (entry && !axis && !join_axes(e, whole, node->name, &axis)) return NULL;
    return axis;
}

/* Collects the axis of all indices that `name` is compared with or subtracted from: u > name, s -
 * name. */
static bool join_compared(Elaborator *e, const Node *whole, const Node *node, const char *name,
                          Axis **axis) {
    bool pair = node->kind == NODE_BINARY && strchr("<>=!-", node->name[0]);
    for (int i = 0; pair && i < 2; i++) {
        const Node *side = node->kids[i];
        if (side->kind != NODE_NAME || strcmp(side->name, name)) continue;
        Axis *other = axis_of_index(e, whole, node->kids[1 - i]);
        if (*axis && other && *axis != other) return false;
        if (other) *axis = other;
    }
    for (int i = 0; i < node->count; i++)
        if (node->kids[i] && !join_compared(e, whole, node->kids[i], name, axis)) return false;
    return true;
}

Axis *axis_subscripted(Elaborator *e, const char *name) {
    Axis *axis = NULL;
    const Node *whole = e->equation ? e->equation->node : NULL;
    if (!whole || !join_axes(e, whole, name, &axis)) return NULL;
    return axis || join_compared(e, whole, whole, name, &axis) ? axis : NULL;
}

/* x[d,s] for x[s,d]: proposes the order in which the indices match the dimensions, if it exists. */
static void advise_order(Elaborator *e, const Node *subs, const Value *value) {
    Text order = {.arena = e->arena};
    bool used[MAX_RANK] = {false};
    if (subs->count != value->rank) return;
    for (int i = 0; i < value->rank; i++) {
        int j = 0;
        for (; j < subs->count; j++) {
            const Node *sub = subs->kids[j];
            const EquationIndex *entry =
                sub->kind == NODE_NAME ? equation_find(e, sub->name) : NULL;
            Axis *axis = entry ? entry->index->axis : NULL;
            if (!used[j] && axis && axes_match(e, axis, value->dims[i]->axis)) break;
        }
        if (j == subs->count) return;
        used[j] = true;
        text_add(&order, "%s%s", i ? ", " : "", subs->kids[j]->name);
    }
    report_help(e->reports, "did you mean [%s]?", order.text);
}

Value *subscript(Elaborator *e, Value *value, const Node *subs, Span span) {
    if (value->kind == KIND_ERROR) return value;
    if (value->kind != KIND_TENSOR)
        return value_invalid(e, span, "remove the subscripts", "%s cannot have subscripts",
                             value_shown(e, value));
    Value *result = value_new(e, KIND_TENSOR, span);
    Expr *to[MAX_RANK] = {NULL};
    int count = 0;
    for (int i = 0; i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        bool fine = true;
        const List *list = axis_list(e, sub, &fine);
        if (!fine || !list_subscripts(e, result, sub, list, value, to, &count))
            return value_error(e, span);
        if (list) continue;
        if (count == value->rank) {
            count++;
            break;
        }
        if (!one_subscript(e, result, sub, value->dims[count]->axis, &to[count])) {
            advise_order(e, subs, value);
            return value_error(e, span);
        }
        count++;
    }
    if (count != value->rank) {
        Text axes = text_new(e->arena);
        for (int i = 0; i < value->rank; i++)
            text_add(&axes, "%s%s", i ? "," : "", value->dims[i]->axis->name);
        report_error(e->reports, subs->span, "expected %d subscript%s [%s], got %d", value->rank,
                     value->rank == 1 ? "" : "s", axes.text, subs->count);
        if (value->span.source) report_note(e->reports, value->span, "defined here");
        if (value->rank)
            report_help(e->reports, "write one subscript per axis: [%s]", axes.text);
        else
            report_help(e->reports, "remove the subscripts");
        return value_error(e, span);
    }
    if (!indices_differ(e, subs, value)) return value_error(e, span);
    result->expr = expr_substitute(e->program, value->expr, value->dims, to, value->rank);
    return result;
}

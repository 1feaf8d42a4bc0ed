/* express: evaluate expressions. Numbers, words, records and layers are computed immediately.
 * Tensors become index expressions, matched by axis names, and each reduction is hoisted into a
 * separate statement.
 */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

static bool is_unbound(Elaborator *e, const Node *node) {
    return node->kind == NODE_NAME && !scope_find(e->scope, node->name) &&
           !equation_find(e, node->name);
}

void report_unknown_name(Elaborator *e, const Value *value) {
    report_error(e->reports, value->span, "'%s' is not defined here", value->word);
    const char *names[256];
    int count = 0;
    for (const Scope *scope = e->scope; scope; scope = scope->parent)
        for (int i = 0; i < scope->bindings.count && count < 256; i++)
            names[count++] = ((Binding *)scope->bindings.items[i])->name;
    const char *near = did_you_mean(value->word, names, count);
    if (near) report_help(e->reports, "did you mean '%s'?", near);
    if (!strcmp(value->word, "nn") || !strcmp(value->word, "F") || !strcmp(value->word, "torch"))
        report_help(e->reports, "PyTorch is not available here: write an equation, such as "
                                "y[s, f] = sum[d] x[s, d] * w[d, f]");
} /* A layer without a result is applied only for its probes and loss terms. */
static void report_no_result(Elaborator *e, const Value *value) {
    const Node *layer = value->layer;
    report_error(e->reports, layer->name_span, "layer '%s' has no result, but its result is used",
                 layer->name);
    report_note(e->reports, value->span, "used here");
    report_help(e->reports, "declare the result: layer %s(...) -> y[...] { y = ... }", layer->name);
}

/* A value as an index expression; NULL after a report. */
Expr *value_expr(Elaborator *e, Value *value) {
    if (value->kind == KIND_TENSOR) return value->expr;
    if (value->kind == KIND_NUMBER || value->kind == KIND_FLAG)
        return expr_number(e->program, value->number);
    if (value->kind == KIND_WORD)
        report_unknown_name(e, value);
    else if (value->kind == KIND_NONE && value->layer)
        report_no_result(e, value);
    else if (value->kind != KIND_ERROR)
        report_error(e->reports, value->span, "%s cannot be used as a number in an equation",
                     value_shown(e, value));
    if (value->kind == KIND_AXIS && value->span.source)
        report_help(e->reports, "write size(%.*s) for the size of the axis",
                    value->span.end - value->span.start,
                    value->span.source->text + value->span.start);
    return NULL;
}

/* Records operands that the form of the program may depend on. Comparisons with 0 and roundings
 * without effect are left out. */
static void record_decision(Elaborator *e, OpCode op, const Value *a, const Value *b) {
    double one = a->number, two = op_table[op].arity > 1 ? b->number : 0;
    bool compares = op == OP_MIN || op == OP_MAX || op_table[op].level == LEVEL_COMPARE;
    bool rounds = (op == OP_FLOOR && one != floor(one)) || (op == OP_MOD && fabs(two) != 1);
    if (!rounds && (!compares || one == 0 || two == 0)) return;
    double *copy = arena_alloc(e->arena, 3 * sizeof *copy);
    copy[0] = op;
    copy[1] = one;
    copy[2] = two;
    list_push(e->arena, e->unit->decisions, copy);
}

Value *apply_op(Elaborator *e, OpCode op, Value *a, Value *b, Value *c, Span span) {
    Value *values[3] = {a, b, c};
    Expr *args[3] = {NULL, NULL, NULL};
    Value *result = value_new(e, KIND_TENSOR, span);
    bool constant = !op_is_random(op);
    for (int i = 0; i < op_table[op].arity; i++) {
        if (values[i]->kind == KIND_ERROR) return values[i];
        args[i] = value_expr(e, values[i]);
        if (!args[i]) return value_error(e, span);
        if (values[i]->kind == KIND_TENSOR) {
            add_dims(e, result, values[i]);
            constant = false;
        }
    }
    if (op == OP_MOD && expr_is_number(args[1], 0)) {
        report_invalid(e->reports, values[1]->span,
                       "write 'option period: int in 1..' to exclude 0",
                       "remainder of a division by zero");
        return value_error(e, span);
    }
    result->expr = expr_apply(e->program, op, args[0], args[1], args[2]);
    result->expr->span = span;
    if (constant && e->unit->decisions) record_decision(e, op, a, b);
    if (constant) {
        if (result->expr->kind != EXPR_NUMBER || !isfinite(result->expr->number))
            return value_invalid(e, span,
                                 "look for a division by 0 or the logarithm of a negative number",
                                 "the result is not a finite number");
        return value_number(e, result->expr->number, span);
    }
    return result;
}

/* A value read by name without subscripts: the index of each dimension represents its axis. */
Value *read_value(Elaborator *e, Value *value, Span span) {
    if (value->kind != KIND_TENSOR) {
        if (value->kind == KIND_AXIS && e->equation) {
            Index *index = equation_canonical(e, value->axis, span);
            return value_tensor(e, expr_index(e->program, index), &index, 1, span);
        }
        Value *copy = value_new(e, value->kind, span);
        *copy = *value;
        if (value->kind != KIND_LAYER)
            copy->span = span; /* a layer keeps the location of its selection */
        return copy;
    }
    if (!e->equation) return value;
    Expr *to[MAX_RANK] = {NULL};
    Index *dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < value->rank; i++) {
        for (int j = 0; j < i; j++)
            if (axes_match(e, value->dims[j]->axis, value->dims[i]->axis))
                return value_invalid(
                    e, span,
                    "write subscripts, such as x[i,j]; in attend[t](...), t is the position "
                    "of the keys",
                    "two dimensions have axis '%s': subscripts are required",
                    value->dims[i]->axis->name);
        Index *index = equation_canonical(e, value->dims[i]->axis, span);
        to[i] = expr_index(e->program, index);
        if (index != e->scanned) dims[rank++] = index; /* a scan has one current position */
    }
    Value *read =
        value_tensor(e, expr_substitute(e->program, value->expr, value->dims, to, value->rank),
                     dims, rank, span);
    read->results = value->results;
    return read;
}

bool evaluate_number(Elaborator *e, const Node *node, const char *what, double *number) {
    Value *value = evaluate(e, node);
    if (value->kind == KIND_NUMBER) {
        *number = value->number;
        return true;
    }
    if (value->kind == KIND_WORD && !value->record)
        report_unknown_name(e, value);
    else if (value->kind != KIND_ERROR) {
        report_error(e->reports, node->span,
                     "%s must be a number that is known at compile time, got %s", what,
                     value_shown(e, value));
        if (value->kind == KIND_AXIS)
            report_help(e->reports, "write size(%s)", value->axis->name);
        else
            report_help(e->reports, "write a number, or declare an option: option n: int = 4");
    }
    return false;
}

bool evaluate_flag(Elaborator *e, const Node *node, bool *flag) {
    Value *value = evaluate(e, node);
    if (value->kind == KIND_FLAG || value->kind == KIND_NUMBER) {
        *flag = value->number != 0;
        return true;
    }
    if (value->kind == KIND_WORD && !value->record)
        report_unknown_name(e, value);
    else if (value->kind != KIND_ERROR) {
        report_error(e->reports, node->span,
                     "a condition must be true or false at compile time, got %s",
                     value_shown(e, value));
        if (value->kind == KIND_TENSOR)
            report_help(e->reports, "write where(condition, a, b) to select between tensors");
    }
    return false;
}

static Value *flag(Elaborator *e, bool yes, Span span) {
    Value *value = value_new(e, KIND_FLAG, span);
    value->number = yes;
    return value;
}

static bool numeric(const Value *value) {
    return value->kind == KIND_NUMBER || value->kind == KIND_TENSOR || value->kind == KIND_FLAG;
}

/* A word is compared with a bare name itself, also if the name is bound: at == q, where q is a
 * tensor. */
static bool same_word(const Value *value, const Node *node, const Value *other) {
    return value->kind == KIND_WORD && other->kind != KIND_WORD && node->kind == NODE_NAME &&
           !strcmp(value->word, node->name);
}

static Value *binary(Elaborator *e, const Node *node) {
    bool either = !strcmp(node->name, "and") || !strcmp(node->name, "or");
    Value *a = evaluate(e, node->kids[0]);
    if (either && a->kind == KIND_FLAG && (a->number != 0) == !strcmp(node->name, "or")) return a;
    Value *b = evaluate(e, node->kids[1]);
    if (a->kind == KIND_ERROR) return a;
    if (b->kind == KIND_ERROR) return b;
    bool equality = !strcmp(node->name, "==") || !strcmp(node->name, "!=");
    if (a->kind == KIND_WORD && b->kind == KIND_WORD && is_unbound(e, node->kids[0]) &&
        is_unbound(e, node->kids[1])) {
        report_unknown_name(e, a); /* two bare words: one is likely a misspelled option */
        return value_error(e, node->span);
    }
    if (equality && (!numeric(a) || !numeric(b))) {
        bool same =
            value_equal(a, b) || same_word(a, node->kids[1], b) || same_word(b, node->kids[0], a);
        return flag(e, same == !strcmp(node->name, "=="), node->span);
    }
    int op = op_find(node->name, 2);
    Value *result = apply_op(e, (OpCode)op, a, b, NULL, node->span);
    bool logical = equality || either || strchr("<>", node->name[0]);
    if (logical && result->kind == KIND_NUMBER) return flag(e, result->number != 0, node->span);
    return result;
}

static Value *unary(Elaborator *e, const Node *node) {
    Value *a = evaluate(e, node->kids[0]);
    if (a->kind == KIND_ERROR) return a;
    if (!strcmp(node->name, "not")) {
        if (a->kind == KIND_FLAG || a->kind == KIND_NUMBER)
            return flag(e, a->number == 0, node->span);
        return apply_op(e, OP_NOT, a, NULL, NULL, node->span);
    }
    return apply_op(e, OP_NEG, a, NULL, NULL, node->span);
}

/* `training`, `decoding`, `probing`, `speculating`, `refining`: properties of the graph; NULL for
 * other names.
 * The step of an optimizer is part of training. */
static Value *condition_value(Elaborator *e, const Node *node) {
    Graph graph = e->program->graph;
    if (!strcmp(node->name, "training")) {
        e->program->by_training = true;
        return flag(e,
                    graph == GRAPH_TRAIN || graph == GRAPH_UPDATE || graph == GRAPH_STEP ||
                        graph == GRAPH_GATHER ||
                        (graph == GRAPH_FORWARD && e->unit->counts_training),
                    node->span);
    }
    if (!strcmp(node->name, "probing"))
        return flag(e, e->unit->probing && graph == GRAPH_MEASURE, node->span);
    if (!strcmp(node->name, "speculating"))
        return flag(e, e->unit->speculating && graph == GRAPH_DECODE, node->span);
    if (!strcmp(node->name, "refining")) return flag(e, is_refining(e), node->span);
    if (strcmp(node->name, "decoding")) return NULL;
    e->program->by_decoding = true;
    return flag(e, graph == GRAPH_DECODE, node->span);
}

static Value *name(Elaborator *e, const Node *node) {
    EquationIndex *entry = equation_find(e, node->name);
    Binding *binding = scope_find(e->scope, node->name);
    if (entry && (!binding || binding->value->kind == KIND_AXIS)) {
        if (!entry->index->axis) entry->index->axis = axis_subscripted(e, node->name);
        if (!entry->index->axis)
            return value_invalid(
                e, node->span,
                "write a tensor with this subscript before it, or use the name of an axis",
                "index '%s' is used as a number before its axis is known", node->name);
        return value_tensor(e, expr_index(e->program, entry->index), &entry->index, 1, node->span);
    }
    if (binding) {
        Value *value = value_new(e, KIND_ERROR, node->span);
        *value = *read_value(e, binding->value, node->span);
        value->written = node->name;
        return value;
    }
    if (!strcmp(node->name, "true")) return flag(e, true, node->span);
    if (!strcmp(node->name, "false")) return flag(e, false, node->span);
    if (!strcmp(node->name, "none")) return value_new(e, KIND_NONE, node->span);
    if (!strcmp(node->name, "pi")) return value_number(e, 3.14159265358979323846, node->span);
    Value *known = condition_value(e, node);
    if (known) return known;
    Expr *scalar = refining_scalar(e, node->name);
    if (scalar) return value_tensor(e, scalar, NULL, 0, node->span);
    Value *word = value_new(e, KIND_WORD, node->span);
    word->word = node->name;
    return word;
}

/* Operations on the dimensions of an array in other languages. */
static bool is_of_arrays(const char *name) {
    static const char *const names[] = {"reshape", "view",    "transpose", "permute",   "T",
                                        "flatten", "squeeze", "unsqueeze", "rearrange", "expand"};
    return text_find(names, sizeof names / sizeof *names, name) >= 0;
}

static Value *field(Elaborator *e, const Node *node) {
    Value *base = evaluate(e, node->kids[0]);
    if (base->kind == KIND_ERROR) return base;
    if (base->kind == KIND_LAYER) return layer_option(e, base, node->name, node->name_span);
    Value *result = value_result(base, node->name);
    if (result) return e->equation ? read_value(e, result, node->span) : result;
    RecordField *entry = base->kind == KIND_RECORD ? record_find(base->record, node->name) : NULL;
    if (entry) {
        watch_read(entry->value);
        return read_value(e, entry->value, node->span);
    }
    if (base->kind == KIND_WORD) {
        report_unknown_name(e, base);
        return value_error(e, node->span);
    }
    report_error(e->reports, node->name_span, "%s has no field '%s'", value_shown(e, base),
                 node->name);
    if (base->kind == KIND_TENSOR && is_of_arrays(node->name))
        report_help(e->reports, "write y[s, h, c] = ... instead of %s: axes have names",
                    node->name);
    if (base->kind == KIND_RECORD) {
        const char *names[64];
        int count = 0;
        for (int i = 0; i < base->record->entries.count && count < 64; i++)
            names[count++] = ((RecordField *)base->record->entries.items[i])->name;
        const char *near = did_you_mean(node->name, names, count);
        if (near) report_help(e->reports, "did you mean '%s'?", near);
    }
    return value_error(e, node->span);
}

static Value *list_value(Elaborator *e, const Node *node) {
    Value *result = value_new(e, KIND_LIST, node->span);
    for (int i = 0; i < node->count; i++) {
        const Node *kid = node->kids[i];
        Binding *axis = kid->kind == NODE_NAME ? scope_find(e->scope, kid->name) : NULL;
        Value *item = axis && axis->value->kind == KIND_AXIS ? axis->value : evaluate(e, kid);
        if (item->kind == KIND_ERROR) return item;
        list_push(e->arena, &result->list, item);
    }
    return result;
}

static Value *made(Elaborator *e, const Node *node) {
    Value *word = value_new(e, KIND_WORD, node->span);
    word->word = node->name;
    word->record = record_evaluate(e, node->kids[0]);
    return word;
}

/* list[2]: its third element. */
static Value *list_element(Elaborator *e, const Value *list, const Node *subs) {
    Value *sub = subs->count == 1 ? evaluate(e, subs->kids[0]) : NULL;
    if (sub && sub->kind == KIND_ERROR) return sub;
    if (!sub || sub->kind != KIND_NUMBER || sub->number != floor(sub->number))
        return value_invalid(e, subs->span, "write one integer, such as [0] for the first element",
                             "the subscript of a list must be an integer");
    if (sub->number >= 0 && sub->number < list->list.count)
        return list->list.items[(int)sub->number];
    return value_invalid(
        e, subs->span, "use a subscript from 0, or list[i % length(list)] to repeat the list",
        "subscript %.9g is outside the list of %d elements", sub->number, list->list.count);
}

static Value *indexed(Elaborator *e, const Node *node) {
    const Node *base = node->kids[0];
    Binding *list = base->kind == NODE_NAME ? scope_find(e->scope, base->name) : NULL;
    if (list && list->value->kind == KIND_LIST) {
        watch_read(list->value);
        return list_element(e, list->value, node->kids[1]);
    }
    if (list && list->value->kind == KIND_ERROR) return list->value;
    if (!needs_equation(e, node->span, "a subscript")) return value_error(e, node->span);
    if (base->kind == NODE_NAME) {
        Binding *binding = scope_find(e->scope, base->name);
        if (binding) return subscript(e, binding->value, node->kids[1], node->span);
    }
    if (base->kind == NODE_FIELD && base->kids[0]->kind == NODE_NAME) { /* o.lse[s,h] */
        Binding *binding = scope_find(e->scope, base->kids[0]->name);
        Value *result = binding ? value_result(binding->value, base->name) : NULL;
        if (result) return subscript(e, result, node->kids[1], node->span);
    }
    Value *value = evaluate(e, base);
    if (value->kind == KIND_WORD) {
        report_unknown_name(e, value);
        return value_error(e, node->span);
    }
    return subscript(e, value, node->kids[1], node->span);
}

Index *bind_reduced(Elaborator *e, const char *name, Axis *axis, Span span) {
    EquationIndex *entry = arena_alloc(e->arena, sizeof *entry);
    *entry = (EquationIndex){
        .name = name, .index = index_new(e->program, name, axis), .span = span, .reduced = true};
    list_push(e->arena, &e->equation->indices, entry);
    return entry->index;
}

/* The indices of a reduction hide outer indices of the same name. */
static bool binders(Elaborator *e, const Node *node, Index **indices, int *count) {
    int names = node->number == 1 ? node->count - 1 : node->count;
    for (int i = 0; i < names; i++) {
        const Node *binder = node->kids[i];
        Binding *binding = scope_find(e->scope, binder->name);
        Value *value = binding ? binding->value : NULL;
        bool fine = true;
        const List *list = axis_list(e, binder, &fine);
        if (!fine) return false;
        if (*count + (list ? list->count : 1) > MAX_LOOPS)
            return report_invalid(e->reports, binder->span, "reduce in two steps",
                                  "too many indices in a reduction: the maximum is %d", MAX_LOOPS);
        if (!value && !strcmp(binder->name, "batch")) {
            Index *batch = equation_index(e, binder->name, NULL, binder->span);
            if (!batch) return false;
            indices[(*count)++] = batch;
            continue;
        }
        for (int j = 0; list && j < list->count; j++) {
            Axis *axis = ((Value *)list->items[j])->axis;
            indices[(*count)++] = bind_reduced(e, axis->name, axis, binder->span);
        }
        if (list) continue;
        if (value && value->kind == KIND_ERROR) return false;
        if (names_position(e, binding)) {
            report_position(e, binder->name, binder->span);
            return false;
        }
        if (value && value->kind != KIND_AXIS) {
            report_no_index(e, binding, binder->span);
            return false;
        }
        indices[(*count)++] =
            bind_reduced(e, binder->name, value ? value->axis : NULL, binder->span);
    }
    return true;
}

void release(Elaborator *e, Index *const *indices, int count) {
    List *all = &e->equation->indices;
    int kept = 0;
    LIST_EACH(EquationIndex, entry, all) {
        bool released = false;
        for (int j = 0; j < count; j++)
            if (entry->index == indices[j]) released = true;
        if (!released) all->items[kept++] = entry;
    }
    all->count = kept;
}

/* `sum[i in d]` with an axis d does not mean sum[d]. */
static void warn_of_axis(Elaborator *e, const Node *node, const Node *mask, const Value *value) {
    if (mask->kind != NODE_NAME || value->kind != KIND_TENSOR || value->expr->kind != EXPR_INDEX)
        return;
    report_warning(e->reports, mask->span,
                   "the mask '%s' is an axis: its value is the position along it, 0 at the first "
                   "element",
                   mask->name);
    report_help(e->reports, "%s[%s] reduces over the axis; a mask is a tensor, such as %s > 0",
                node->name, mask->name, mask->name);
}

/* sum[n in chosen] e  is  sum[n] chosen * e. */
static Value *reduction(Elaborator *e, const Node *node) {
    if (!needs_equation(e, node->span, "a reduction")) return value_error(e, node->span);
    Index *indices[MAX_LOOPS];
    int count = 0;
    const Node *list = node->kids[0];
    if (!binders(e, list, indices, &count)) return value_error(e, node->span);
    Value *value = evaluate(e, node->kids[1]), *mask = NULL;
    if (value->kind != KIND_ERROR && list->number == 1) {
        mask = evaluate(e, list->kids[list->count - 1]);
        if (mask->kind == KIND_ERROR || !value_expr(e, mask)) value = value_error(e, node->span);
        warn_of_axis(e, node, list->kids[list->count - 1], mask);
    }
    release(e, indices, count);
    if (value->kind == KIND_ERROR) return value;
    for (int i = 0; i < count; i++)
        if (!indices[i]->axis) {
            report_no_axis(e, list->span, indices[i]->name);
            return value_error(e, node->span);
        }
    if (mask) return reduce_chosen(e, node->name, indices, count, mask, value, node->span);
    return reduce(e, node->name, indices, count, value, node->span);
}

/* x @ w, the matrix product of other languages. */
static void report_label(Elaborator *e, const Node *node) {
    const char *name = node->name, *label = node->kids[0]->name;
    report_error(e->reports, node->span, "'@' labels the application of a layer: %s@%s(...)", name,
                 label);
    report_help(e->reports, "write a matrix product as y[s, j] = sum[d] %s[s, d] * %s[d, j]", name,
                label);
}

static Value *expression(Elaborator *e, const Node *node) {
    count_step(e, node->span);
    switch (node->kind) {
    case NODE_NUMBER:
        return value_number(e, node->number, node->span);
    case NODE_NAME:
        return name(e, node);
    case NODE_FIELD:
        return field(e, node);
    case NODE_STRING: {
        Value *text = value_new(e, KIND_WORD, node->span);
        text->word = node->name;
        return text;
    }
    case NODE_LIST:
        return list_value(e, node);
    case NODE_RECORD: {
        Value *record = value_new(e, KIND_RECORD, node->span);
        record->record = record_evaluate(e, node);
        return record;
    }
    case NODE_MADE:
        return made(e, node);
    case NODE_INDEXED:
        return indexed(e, node);
    case NODE_REDUCE:
        return reduction(e, node);
    case NODE_CALL:
        return call_expression(e, node);
    case NODE_UNARY:
        return unary(e, node);
    case NODE_BINARY:
        return binary(e, node);
    case NODE_RANGE: {
        double low = 0, high = 0;
        if (node->kids[0] && !evaluate_number(e, node->kids[0], "the start of a range", &low))
            break;
        if (!node->kids[1] || !evaluate_number(e, node->kids[1], "the end of a range", &high))
            break;
        if (high - low > MAX_EXPANSION) {
            report_invalid(e->reports, node->span, "use a shorter range",
                           "too many values in a range: the maximum is %d", MAX_EXPANSION);
            break;
        }
        Value *range = value_new(e, KIND_LIST, node->span);
        for (double i = low; i < high; i++)
            list_push(e->arena, &range->list, value_number(e, i, node->span));
        return range;
    }
    case NODE_LABELLED:
        report_label(e, node);
        break;
    default:
        report_invalid(e->reports, node->span, "write a number, a name, a function or a layer here",
                       "this is not allowed in an expression");
    }
    return value_error(e, node->span);
}

/* Whether the expression has only names, numbers and functions, and applies no layer. */
static bool is_shareable(Elaborator *e, const Node *node) {
    const Node *callee = node->kind == NODE_CALL ? node->kids[0] : NULL;
    switch (node->kind) {
    case NODE_NUMBER:
    case NODE_STRING:
    case NODE_NAME:
        return true;
    case NODE_CALL:
        if (callee->kind != NODE_NAME || node->kids[2] || scope_find(e->scope, callee->name) ||
            find_layer(e, callee->name))
            return false;
        break;
    case NODE_LIST:
    case NODE_SUBS:
    case NODE_FIELD:
    case NODE_INDEXED:
    case NODE_UNARY:
    case NODE_BINARY:
        break;
    default:
        return false;
    }
    for (int i = 0; i < node->count; i++)
        if (node->kids[i] && !is_shareable(e, node->kids[i])) return false;
    return true;
}

Value *evaluate(Elaborator *e, const Node *node) {
    Alike *alike = e->alike;
    if (!alike || alike->index->watch->read || !is_shareable(e, node)) return expression(e, node);
    e->alike = NULL;
    Value *value = expression(e, node);
    e->alike = alike;
    if (alike->index->watch->read) compare_steps(e, node, value);
    return value;
}

/* apply: e(arguments; options) and e[n](arguments): a function of the language, or a layer applied.
 *
 *     norm(x)   norm@attention_norm(x)   part[n](x)   g(t, x; axes = [h, c])
 */
#include "elaborate/elaborate.h"

/* The callee of a call. */
typedef struct Callee {
    const Node *node;
    const Node *subs;  /* of e[n](...), or NULL */
    const char *label; /* path segment of the definitions of the layer */
    Binding *binding;  /* of a bound name, or NULL */
} Callee;

static Callee read_callee(Elaborator *e, const Node *call) {
    Callee callee = {.node = call->kids[0]};
    if (callee.node->kind == NODE_INDEXED) {
        callee.subs = callee.node->kids[1];
        callee.node = callee.node->kids[0];
    }
    bool labelled = callee.node->kind == NODE_LABELLED,
         named = labelled || callee.node->kind == NODE_NAME;
    callee.label = labelled ? callee.node->kids[0]->name : named ? callee.node->name : NULL;
    callee.binding = named ? scope_find(e->scope, callee.node->name) : NULL;
    return callee;
}

static Value *unknown_callee(Elaborator *e, const Node *node) {
    report_error(e->reports, node->span, "unknown layer or function '%s'", node->name);
    if (help_with_use(e->reports, node->name)) return value_error(e, node->span);
    const char *names[512];
    int count = 0;
    for (int i = 0; i < e->unit->layers.count && count < 400; i++)
        names[count++] = ((Node *)e->unit->layers.items[i])->name;
    for (int i = 0; i < OP_COUNT; i++) names[count++] = op_table[i].text;
    const char *near = did_you_mean(node->name, names, count);
    if (near) report_help(e->reports, "did you mean '%s'?", near);
    return value_error(e, node->span);
}

/* Whether a call of a name that both a function and a layer have means the function. It does in the
 * standard library, if the layer is in the standard library (options refer to it: act = sigmoid),
 * and in the layer itself. A label means the layer. */
static bool means_function(Elaborator *e, const Node *node, const Node *layer, int arguments) {
    if (node->kind == NODE_LABELLED || !is_function(e->unit, node->name, arguments)) return false;
    return !is_written(node->span) || !is_written(layer->span) || e->frame->layer == layer;
}

void warn_of_functions(Unit *unit) {
    LIST_EACH(const Node, layer, &unit->layers) {
        bool function = false;
        for (int arguments = 1; arguments <= 3; arguments++)
            function = function || is_function(unit, layer->name, arguments);
        if (!function || !is_written(layer->span)) continue;
        report_warning(
            unit->reports, layer->name_span,
            "'%s' is also a builtin function: in your files %s(...) refers to this layer",
            layer->name, layer->name);
        report_help(
            unit->reports,
            "rename the layer to use the function; the standard library always uses the function");
    }
}

/* The layer with a name that is not bound in the scope. */
static Value *global_layer(Elaborator *e, const Node *node, int arguments) {
    const Node *found = find_layer(e, node->name);
    if (!found || means_function(e, node, found, arguments)) return NULL;
    Value *layer = value_new(e, KIND_LAYER, node->span);
    layer->layer = found;
    layer->record = record_new(e);
    return layer;
}

static bool can_be_applied(Elaborator *e, const Callee *callee, const Value *layer, Span span) {
    if (layer->kind == KIND_LAYER && layer->layer->kind != NODE_LAYER) {
        bool written = is_written(callee->node->span);
        report_error(e->reports, written ? callee->node->span : layer->span,
                     "%s '%s' cannot be applied: expected a layer",
                     node_kind_name(layer->layer->kind), layer->layer->name);
        report_note(e->reports, layer->layer->name_span, "declared here");
        return report_help(e->reports, "apply a layer, such as rms_norm(x)");
    }
    if (layer->kind != KIND_LAYER) {
        report_error(e->reports, callee->node->span, "%s cannot be applied: expected a layer",
                     value_shown(e, layer));
        if (callee->binding) report_note(e->reports, callee->binding->span, "declared here");
        if (layer->kind == KIND_NONE)
            report_help(e->reports, "write if %s != none { ... } around it",
                        callee->label ? callee->label : "it");
        return false;
    }
    return needs_equation(e, span, "a layer");
}

/* The indices that a layer is applied under: names of indices, and lists of axes. */
static bool under_indices(Elaborator *e, const Node *subs, Index **under, int *count) {
    for (int i = 0; i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        bool fine = true;
        const List *list = axis_list(e, sub, &fine);
        if (!fine) return false;
        if (sub->kind != NODE_NAME || *count + (list ? list->count : 1) > MAX_RANK)
            return report_invalid(e->reports, sub->span,
                                  "write names in the brackets, such as layer[s](x)",
                                  "expected the name of an index");
        for (int j = 0; list && j < list->count; j++)
            under[(*count)++] = equation_canonical(e, ((Value *)list->items[j])->axis, sub->span);
        if (list) continue;
        Index *index = equation_index(e, sub->name, NULL, sub->span);
        if (!index) return false;
        if (!index->axis) {
            report_no_axis(e, sub->span, sub->name);
            return false;
        }
        under[(*count)++] = index;
    }
    return true;
}

static bool evaluate_arguments(Elaborator *e, const Node *args, Value **arguments) {
    if (args->count > MAX_RANK)
        return report_invalid(e->reports, args->span,
                              "pass fewer tensors, or join some with concat",
                              "too many arguments: the maximum is %d", MAX_RANK);
    for (int i = 0; i < args->count; i++) {
        arguments[i] = evaluate(e, args->kids[i]);
        if (arguments[i]->kind == KIND_WORD) report_unknown_name(e, arguments[i]);
        if (arguments[i]->kind == KIND_WORD || arguments[i]->kind == KIND_ERROR) return false;
    }
    return true;
}

Value *call_expression(Elaborator *e, const Node *node) {
    Callee callee = read_callee(e, node);
    Value *layer = callee.binding ? callee.binding->value : NULL;
    bool bound = layer && (layer->kind == KIND_LAYER || layer->kind == KIND_ERROR);
    if (callee.label && !layer) layer = global_layer(e, callee.node, node->kids[1]->count);
    if (callee.label &&
        (!layer || (callee.binding && !bound))) { /* an option can have the name of a function */
        Value *result = builtin_call(e, node, callee.node->name, callee.subs);
        if (result) return result;
        Value *global = layer ? global_layer(e, callee.node, node->kids[1]->count) : NULL;
        if (global && layer->kind != KIND_TENSOR) layer = global; /* or that of a layer */
        if (!layer) return unknown_callee(e, callee.node);
    }
    if (!layer) layer = evaluate(e, callee.node);
    if (layer->kind == KIND_ERROR) return layer;
    Index *under[MAX_RANK];
    Value *arguments[MAX_RANK];
    int count = 0;
    if (!can_be_applied(e, &callee, layer, node->span) ||
        (callee.subs && !under_indices(e, callee.subs, under, &count)) ||
        !evaluate_arguments(e, node->kids[1], arguments))
        return value_error(e, node->span);
    Record *options = node->kids[2] ? record_evaluate(e, node->kids[2]) : NULL;
    const char *label = callee.label ? callee.label : layer->layer->name;
    bool labelled = callee.node->kind == NODE_LABELLED;
    return apply_layer(e, layer, label, labelled, under, count, arguments, node->kids[1]->count,
                       options, node->span);
}

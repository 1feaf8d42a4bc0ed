/* layer: apply a layer to its arguments. Its formals are bound to axes and tensors of the
 * arguments, its options to the values of this application. Its body is read into the current block
 * (statement.c).
 */
#include "elaborate/elaborate.h"

#include <string.h>

static Instance *find_instance(const Table *names, const char *name) {
    const List *found = table_find(names, hash_text(HASH_START, name));
    return list_named(found, offsetof(Instance, name), name);
}

static void occupy_segment(Elaborator *e, Table *names, Instance instance) {
    Instance *taken = arena_alloc(e->arena, sizeof *taken);
    *taken = instance;
    table_add(e->arena, names, hash_text(HASH_START, taken->name), taken);
}

/* An unused name: norm, norm_2, norm_3. A name with a number is different in all tables. */
static const char *free_segment(Elaborator *e, const Table *names, const char *label) {
    const Frame *frame = e->frame;
    Instance *first = find_instance(names, label);
    const char *name = label;
    while (find_instance(names, name) ||
           (name != label &&
            (find_instance(&frame->instances, name) || find_instance(&frame->repeated, name))))
        name = arena_format(e->arena, "%s_%d", label, first->again++);
    return name;
}

const char *name_of_its_own(Elaborator *e, Table *names, const Node *node) {
    const char *name = free_segment(e, names, node->name);
    occupy_segment(e, names, (Instance){name, 2, NULL, node->span});
    return name;
}

/* The path segment of an application, NULL after a report. Each norm(x) has separate weights; all
 * norm@same(x) share the weights of `same`. Each iteration of a `for` is a different application,
 * same_2. */
static const char *instance_name(Elaborator *e, const Node *layer, const char *label, bool labelled,
                                 Span call, bool *shared) {
    Table *names = &e->frame->instances;
    const Instance *before = labelled ? find_instance(names, label) : NULL;
    bool again = before && before->call.source == call.source && before->call.start == call.start;
    if (before && (again || !before->layer)) before = NULL;
    const char *name = before ? label : free_segment(e, names, label);
    if (before && before->layer != layer) {
        report_error(e->reports, call,
                     "'%s' already refers to a layer '%s' and cannot refer to a '%s'", name,
                     before->layer->name, layer->name);
        report_note(e->reports, before->call, "first applied here");
        report_help(e->reports, "choose another label: one label has one set of weights");
        return NULL;
    }
    *shared = before != NULL;
    if (!before) occupy_segment(e, names, (Instance){name, 2, layer, call});
    return name;
}

static const char *path_below(Elaborator *e, const char *path, const char *name) {
    return *path ? arena_format(e->arena, "%s.%s", path, name) : name;
}

Span asked_here(const Elaborator *e) {
    const Frame *frame = e->frame;
    for (; frame; frame = frame->caller) {
        if (is_written(frame->call)) return frame->call;
        if (is_written(frame->chosen)) return frame->chosen;
    }
    return e->frame->call;
}

bool is_abandoned(const Elaborator *e) {
    return e->frame->caller && e->frame->refused && !is_written(e->frame->layer->span);
}

Span cause_of_error(void *data, Span span, const char **layer) {
    const Elaborator *e = data;
    const Frame *frame = e->frame;
    while (frame && frame->layer->span.source != span.source) frame = frame->caller;
    Span asked = frame ? asked_here(e) : (Span){0};
    if (!is_written(asked)) return (Span){0};
    *layer = frame->layer->name;
    return asked;
}

void report_blamed(Elaborator *e, Span blamed, Span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = arena_vformat(e->arena, format, arguments);
    va_end(arguments);
    const char *note = arena_format(e->arena, "in layer '%s'", e->frame->layer->name);
    report_caused(e->reports, blamed, span, note, "%s", message);
}

static bool bind_axis(Elaborator *e, const Node *sub, Axis *axis) {
    Binding *before = scope_find(e->scope, sub->name);
    if (!before) {
        Value *value = value_new(e, KIND_AXIS, sub->span);
        value->axis = axis;
        scope_bind(e, e->scope, sub->name, value, sub->span);
        return true;
    }
    if (before->value->kind == KIND_AXIS && axes_match(e, before->value->axis, axis)) return true;
    report_error(e->reports, e->frame->call,
                 "axis '%s' of layer '%s' is bound to both '%s' (size %ld) and '%s' (size %ld)",
                 sub->name, e->frame->layer->name, before->value->axis->name,
                 before->value->axis->size, axis->name, axis->size);
    report_note(e->reports, before->span, "first bound here");
    report_note(e->reports, sub->span, "then bound here");
    return report_help(e->reports,
                       "pass arguments with equal sizes, or declare different axes in layer '%s'",
                       e->frame->layer->name);
}

/* Checks that the subscripts of a formal are names of axes, with `...` only at the beginning. */
static bool check_formal(Elaborator *e, const Node *formal) {
    const Node *subs = formal ? formal->kids[0] : NULL;
    for (int i = 0; subs && i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        if (sub->kind == NODE_NAME || (sub->kind == NODE_ELLIPSIS && i == 0)) continue;
        report_error(e->reports, sub->span,
                     sub->kind == NODE_ELLIPSIS ? "'...' must come before the named axes"
                                                : "a dimension of '%s' must be the name of an axis",
                     formal->name);
        return report_help(e->reports, "write the names of the axes: %s[s, d]", formal->name);
    }
    return true;
}

static bool check_formals(Elaborator *e, const Node *layer) {
    const Node *formals = layer->kids[0];
    for (int i = 0; formals && i < formals->count; i++)
        if (!check_formal(e, formals->kids[i])) return false;
    return check_formal(e, layer->kids[1]);
}

static void add_formal(Elaborator *e, const char *name, const Tensor *tensor) {
    Formal *formal = arena_alloc(e->arena, sizeof *formal);
    *formal = (Formal){name, tensor};
    list_push(e->arena, &e->frame->application->formals, formal);
}

static bool bind_formal(Elaborator *e, const Node *formal, Value *value) {
    const Node *subs = formal->kids[0];
    if (subs && value->kind != KIND_TENSOR) {
        report_error(e->reports, value->span, "layer '%s' expects a tensor for '%s', got %s",
                     e->frame->layer->name, formal->name, value_shown(e, value));
        report_note(e->reports, formal->span, "declared here");
        return report_help(e->reports, "pass a tensor, such as x");
    }
    int skip = 0, count = subs ? subs->count : 0;
    if (subs && count && ((Node *)subs->kids[0])->kind == NODE_ELLIPSIS) {
        skip = value->rank - (count - 1);
        if (skip < 0) skip = -1;
    }
    if (subs &&
        (skip < 0 || (skip == 0 && count != value->rank && subs->kids[0]->kind != NODE_ELLIPSIS))) {
        report_error(e->reports, value->span, "'%s' of layer '%s' expects %d dimensions, got %d",
                     formal->name, e->frame->layer->name, count, value->rank);
        report_note(e->reports, formal->span, "declared here");
        const char *first = subs->kids[0]->name;
        if (count == value->rank + 1 && first && (!strcmp(first, "b") || !strcmp(first, "batch")))
            report_help(e->reports, "layers declare no batch axis: it is implicit");
        else if (count < value->rank)
            report_help(e->reports, "apply the layer under the other indices: y[n, ...] = %s[n](x)",
                        e->frame->layer->name);
        else
            report_help(e->reports, "pass a tensor with %d dimensions", count);
        return false;
    }
    int dim = skip;
    for (int i = 0; i < count; i++) {
        if (subs->kids[i]->kind == NODE_ELLIPSIS) continue;
        if (!bind_axis(e, subs->kids[i], value->dims[dim++]->axis)) return false;
    }
    scope_bind(e, e->scope, formal->name, value, formal->span);
    if (value->kind == KIND_TENSOR) add_formal(e, formal->name, value->expr->tensor);
    return true;
}

/* The argument inside the layer: a tensor whose dimensions have different axes. If two indices have
 * the same axis (x[d,j] over axis d twice), the later one gets an alias of the axis, which maps the
 * result back to the index. */
static Value *prepare_argument(Elaborator *e, Value *argument, Axis **axes, Index **indices,
                               int *count) {
    if (argument->kind != KIND_TENSOR) return argument;
    Value *value = materialise(e, "argument", argument);
    if (value->kind == KIND_ERROR) return value;
    Expr *to[MAX_RANK];
    Index *dims[MAX_RANK];
    for (int i = 0; i < value->rank; i++) {
        Index *index = value->dims[i];
        Axis *axis = index->axis;
        bool taken = false;
        for (int j = 0; j < *count; j++)
            if (axes[j] == axis && indices[j] != index) taken = true;
        if (taken) {
            Axis *alias = axis_new(e->program, index->name, axis->size, axis->kind, axis->span);
            alias->asked = axis->asked;
            list_push(e->arena, &e->aliases, alias);
            list_push(e->arena, &e->aliases, axis);
            axis = alias;
        }
        dims[i] = index_new(e->program, index->name, axis);
        to[i] = expr_index(e->program, dims[i]);
        if (*count < MAX_RANK * 2) {
            axes[*count] = axis;
            indices[(*count)++] = index;
        }
    }
    return value_tensor(e, expr_substitute(e->program, value->expr, value->dims, to, value->rank),
                        dims, value->rank, argument->span);
}

/* The indices that the layer is mapped over: those of its caller, those that it is applied under,
 * and other indices of its arguments that are not dimensions. */
static bool frame_ambient(Elaborator *e, Frame *frame, Index *const *under, int under_count,
                          Value **arguments, int count) {
    frame->ambient_count = 0;
    for (int i = 0; i < e->frame->ambient_count; i++)
        frame->ambient[frame->ambient_count++] = e->frame->ambient[i];
    for (int pass = 0; pass <= count; pass++) {
        Index *found[MAX_LOOPS];
        int found_count = pass ? 0 : under_count;
        for (int i = 0; i < found_count; i++) found[i] = under[i];
        if (pass && arguments[pass - 1]->kind == KIND_TENSOR)
            found_count = free_indices(e, arguments[pass - 1]->expr, found);
        for (int i = 0; i < found_count; i++) {
            bool shown = pass && indices_have(arguments[pass - 1]->dims, arguments[pass - 1]->rank,
                                              found[i]);
            if (shown || indices_have(frame->ambient, frame->ambient_count, found[i])) continue;
            if (frame->ambient_count == MAX_RANK) return false;
            frame->ambient[frame->ambient_count++] = found[i];
        }
    }
    return true;
}

/* The axes of a declared result: names of axes, and options that are lists of axes. */
static bool result_axes(Elaborator *e, const Node *layer, const Node *formal, List *axes) {
    const Node *subs = formal->kids[0];
    for (int i = 0; i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        const Binding *named = scope_find(e->scope, sub->name);
        bool fine = true;
        const List *list = axis_list(e, sub, &fine);
        if (!fine) return false;
        for (int j = 0; list && j < list->count; j++)
            list_push(e->arena, axes, ((Value *)list->items[j])->axis);
        if (list) continue;
        if (!named || named->value->kind != KIND_AXIS) {
            report_error(e->reports, sub->span, "layer '%s' has no axis '%s'", layer->name,
                         sub->name);
            return report_help(e->reports, "declare axis %s = ... or option %s: axes", sub->name,
                               sub->name);
        }
        list_push(e->arena, axes, named->value->axis);
    }
    return true;
}

static void help_with_result(Elaborator *e, const Node *formal, const List *axes) {
    Text names = {.arena = e->arena};
    for (int i = 0; i < axes->count; i++)
        text_add(&names, "%s%s", i ? ", " : "", ((Axis *)axes->items[i])->name);
    report_help(e->reports,
                axes->count ? "write %s[%s] = ..." : "write %s = ... without subscripts",
                formal->name, axes->count ? names.text : "");
}

static Value *one_result(Elaborator *e, const Node *layer, const Node *formal, Span span) {
    Binding *binding = scope_find(e->scope, formal->name);
    if (!binding) {
        report_error(e->reports, formal->span, "layer '%s' never defines its result '%s'",
                     layer->name, formal->name);
        report_help(e->reports, "add %s = ...", formal->name);
        return value_error(e, span);
    }
    Value *value = binding->value;
    const Node *subs = formal->kids[0];
    List axes = {0};
    if (value->kind == KIND_ERROR || !subs || subs->kids[0]->kind == NODE_ELLIPSIS) return value;
    if (!result_axes(e, layer, formal, &axes)) return value_error(e, span);
    if (value->kind != KIND_TENSOR || value->rank != axes.count) {
        report_error(e->reports, binding->span,
                     "the result '%s' of layer '%s' must have %d dimensions, got %d", formal->name,
                     layer->name, axes.count, value->kind == KIND_TENSOR ? value->rank : 0);
        report_note(e->reports, formal->span, "declared here");
        help_with_result(e, formal, &axes);
        return value_error(e, span);
    }
    Value *ordered = value_tensor(e, value->expr, value->dims, value->rank, value->span);
    for (int i = 0; i < axes.count; i++) {
        Axis *axis = axes.items[i];
        int dim = -1;
        for (int j = 0; j < value->rank; j++)
            if (axes_match(e, value->dims[j]->axis, axis)) dim = j;
        if (dim < 0) {
            report_error(e->reports, binding->span,
                         "the result '%s' of layer '%s' has no axis '%s'", formal->name,
                         layer->name, axis->name);
            report_note(e->reports, formal->span, "declared here");
            help_with_result(e, formal, &axes);
            return value_error(e, span);
        }
        ordered->dims[i] = value->dims[dim];
    }
    return ordered;
}

/* The first result, with the others as its additional results. */
static Value *layer_result(Elaborator *e, const Node *layer, Span span) {
    const Node *formal = layer->kids[1];
    if (!formal) {
        Value *none = value_new(e, KIND_NONE, span);
        none->layer = layer;
        return none;
    }
    Value *first = one_result(e, layer, formal, span);
    if (formal->count < 2 || first->kind != KIND_TENSOR) return first;
    Value *result = value_tensor(e, first->expr, first->dims, first->rank, first->span);
    for (int i = 1; i < formal->count; i++) {
        Value *other = one_result(e, layer, formal->kids[i], span);
        if (other->kind == KIND_ERROR) return other;
        value_add_result(e, result, formal->kids[i]->name, other);
    }
    return result;
}

/* The result in the indices of the calling equation. */
static Value *in_caller(Elaborator *e, Value *value, Axis *const *axes, Index *const *indices,
                        int count, Span span) {
    if (value->kind != KIND_TENSOR) return value;
    Expr *to[MAX_RANK];
    Index *dims[MAX_RANK];
    for (int i = 0; i < value->rank; i++) {
        dims[i] = NULL;
        for (int j = 0; j < count && !dims[i]; j++)
            if (axes[j] == value->dims[i]->axis) dims[i] = indices[j];
        if (!dims[i]) dims[i] = equation_canonical(e, value->dims[i]->axis, span);
        to[i] = expr_index(e->program, dims[i]);
    }
    Value *own =
        value_tensor(e, expr_substitute(e->program, value->expr, value->dims, to, value->rank),
                     dims, value->rank, span);
    LIST_EACH(const Binding, other, &value->results)
        value_add_result(e, own, other->name,
                         in_caller(e, other->value, axes, indices, count, span));
    return own;
}

static Record *application_options(Elaborator *e, const Value *layer, const Record *options) {
    Record *merged = record_copy(e, layer->record);
    record_merge(e, merged, options);
    return merged;
}

static Record *current_options(Elaborator *e, Record *options) {
    Value *holder = value_new(e, KIND_RECORD, e->frame->call);
    holder->record = options;
    scope_bind(e, e->scope, "(options)", holder, e->frame->call);
    return options;
}

static Value *wrong_argument_count(Elaborator *e, const Node *layer, int count, Span span) {
    Text names = {.arena = e->arena};
    const Node *formals = layer->kids[0];
    int expected = formals ? formals->count : 0;
    for (int i = 0; i < expected; i++)
        text_add(&names, "%s%s", i ? ", " : "", formals->kids[i]->name);
    report_error(e->reports, span, "layer '%s' expects %d argument%s, got %d", layer->name,
                 expected, expected == 1 ? "" : "s", count);
    report_note(e->reports, layer->name_span, "declared here");
    report_help(e->reports, "write %s(%s)", layer->name, expected ? names.text : "");
    return value_error(e, span);
}

/* The result of the layer of the frame, with an empty scope of its own. */
static Value *result_in_frame(Elaborator *e, Frame *frame, Value *layer, Value **seen, int count,
                              Record *options) {
    const Node *node = layer->layer, *formals = node->kids[0];
    Frame *caller = e->frame;
    Scope *outer = e->scope, *scope = arena_alloc(e->arena, sizeof *scope);
    Equation *equation = e->equation;
    e->frame = frame;
    e->scope = scope;
    e->equation = NULL;
    frame->given = current_options(e, application_options(e, layer, options));
    check_unknown_options(e, node, frame->given);
    bool bound = true;
    for (int i = 0; i < count && bound; i++) bound = bind_formal(e, formals->kids[i], seen[i]);
    const int first = e->block->statements.count, errors = e->reports->errors;
    if (bound) block_statements(e, layer_body(node));
    if (e->reports->errors == errors) check_passed_on(e);
    if (is_abandoned(e)) bound = false;
    Value *result = bound ? layer_result(e, node, frame->call) : value_error(e, frame->call);
    if (frame->externs.count) extern_result(e, seen, result, first);
    e->frame = caller;
    e->scope = outer;
    e->equation = equation;
    return result;
}

Value *apply_layer(Elaborator *e, Value *layer, const char *label, bool labelled,
                   Index *const *under, int under_count, Value **arguments, int count,
                   Record *options, Span span) {
    const Node *node = layer->layer, *formals = node->kids[0];
    if (count != (formals ? formals->count : 0)) return wrong_argument_count(e, node, count, span);
    if (!check_formals(e, node)) return value_error(e, span);
    if (e->frame->depth >= MAX_APPLICATIONS) {
        report_invalid(e->reports, span, "remove the application of the layer to itself",
                       "layers are nested more than %d levels deep: does '%s' apply itself?",
                       MAX_APPLICATIONS, node->name);
        report_give_up(e->reports);
    }
    Axis *axes[MAX_RANK * 2];
    Index *indices[MAX_RANK * 2];
    int dims = 0;
    Value *seen[MAX_RANK];
    for (int i = 0; i < count; i++) {
        seen[i] = prepare_argument(e, arguments[i], axes, indices, &dims);
        if (seen[i]->kind == KIND_ERROR) return seen[i];
    }
    bool shared = false;
    const char *name = instance_name(e, node, label, labelled, span, &shared);
    if (!name) return value_error(e, span);
    const char *path = path_below(e, e->frame->path, name);
    Frame frame = {.layer = node,
                   .path = path,
                   .stored = path_below(e, e->frame->stored, name),
                   .shared = e->frame->shared || shared,
                   .looped = e->frame->looped,
                   .caller = e->frame,
                   .application = application_new(e, node->name, path, span),
                   .call = span,
                   .chosen = layer->changed.source ? layer->changed : layer->span,
                   .option = layer->option,
                   .depth = e->frame->depth + 1,
                   .repeats = e->frame->repeats};
    if (!frame_ambient(e, &frame, under, under_count, seen, count))
        return value_invalid(e, span, "apply it under fewer indices",
                             "layer '%s' is mapped over more than %d indices", node->name,
                             MAX_RANK);
    Value *result = result_in_frame(e, &frame, layer, seen, count, options);
    return in_caller(e, result, axes, indices, dims, span);
}

/* provide: values that a layer provides by name, and that layers applied later request.
 *
 *     provide layer_index = i                 in the decoder, for each block
 *     request layer_index                     in any layer of the block
 *     request values[s, hv, c] = none         the values of an earlier layer; none: there are none
 *
 * A later `provide` of a name replaces the value. In a repeat, an iteration can request a
 * value of the previous one. A provided tensor exists without a statement; only a request makes the
 * repeat keep it.
 *
 * An option that a layer of the standard library sets and a user layer does not declare is passed
 * on to the layers that it applies: document ids reach the attention in a wrapper.
 */
#include "elaborate/elaborate.h"

#include <string.h>

Provided *provided_find(const List *provided, const char *name) {
    for (int i = provided->count - 1; i >= 0; i--) {
        Provided *entry = provided->items[i];
        if (!strcmp(entry->binding.name, name)) return entry;
    }
    return NULL;
}

/* Removes the entry of that name; copies of the list keep it. */
static void provided_remove(Elaborator *e, const char *name) {
    List kept = {0};
    for (int i = 0; i < e->provided.count; i++) {
        const Provided *entry = e->provided.items[i];
        if (strcmp(entry->binding.name, name)) list_push(e->arena, &kept, e->provided.items[i]);
    }
    e->provided = kept;
}

Provided *provided_set(Elaborator *e, const char *name, Value *value, Span span) {
    provided_remove(e, name);
    Provided *entry = arena_alloc(e->arena, sizeof *entry);
    entry->binding = (Binding){name, value, span};
    list_push(e->arena, &e->provided, entry);
    return entry;
}

bool provided_alike(const List *a, const List *b) {
    if (a->count != b->count) return false;
    LIST_EACH(const Provided, entry, a) {
        const Provided *other = provided_find(b, entry->binding.name);
        if (!other || other->iteration != entry->iteration) return false;
        const Value *value = entry->binding.value, *now = other->binding.value;
        bool tensors = value->kind == KIND_TENSOR && now->kind == KIND_TENSOR;
        if (!tensors && !entry->iteration && !value_equal(value, now)) return false;
    }
    return true;
}

/* A provided tensor is the same for every index that the layer is mapped over, except batch. A
 * layer of the standard library that is mapped, as attention[n](x), provides nothing. */
static bool is_mapped(Elaborator *e, const Node *node, const Value *value) {
    Index *used[MAX_RANK];
    int count = value->kind == KIND_TENSOR ? ambient_used(e, value->expr, used) : 0;
    for (int i = 0; i < count; i++) {
        if (used[i] == e->batch) continue;
        provided_remove(e, node->name);
        if (!is_written(node->span)) return true;
        report_error(e->reports, node->span,
                     "'%s' depends on index '%s', which layer '%s' is mapped over", node->name,
                     used[i]->name, e->frame->layer->name);
        report_help(e->reports, "provide it in a layer that is not applied under '%s'",
                    used[i]->name);
        return true;
    }
    return false;
}

static void provide(Elaborator *e, const Node *node) {
    const Node *right = node->kids[1];
    const Binding *named =
        right->kind == NODE_NAME && !node->kids[0] ? scope_binding(e->scope, right->name) : NULL;
    /* a name is read where it is requested */
    Value *value = named ? named->value : value_of_equation(e, node);
    if (value->kind == KIND_ERROR || is_mapped(e, node, value)) return;
    Provided *entry = provided_set(e, node->name, value, node->name_span);
    entry->region = e->region;
    entry->iteration = e->alike && value == e->alike->index;
    if (e->effects) list_push(e->arena, &e->effects->made, (void *)node->name);
}

static Value *report_not_provided(Elaborator *e, const Node *node) {
    const char *names[128];
    int count = 0;
    for (int i = 0; i < e->provided.count && count < 128; i++)
        names[count++] = ((Provided *)e->provided.items[i])->binding.name;
    report_error(e->reports, node->name_span,
                 "layer '%s' requests '%s', which no layer before it provides",
                 e->frame->layer->name, node->name);
    const char *near = did_you_mean(node->name, names, count);
    if (near)
        report_help(e->reports, "did you mean '%s'?", near);
    else
        report_help(e->reports,
                    "write provide %s = ... in a layer that is applied earlier, or a default: "
                    "request %s = none",
                    node->name, node->name);
    return value_error(e, node->span);
}

static Value *report_dimensions(Elaborator *e, const Node *node, const Provided *entry, int rank) {
    report_error(e->reports, node->span, "'%s' has %d dimensions, but %d are requested", node->name,
                 entry->binding.value->rank, rank);
    report_note(e->reports, entry->binding.span, "provided here");
    report_help(e->reports, "write one name per dimension");
    return value_error(e, node->span);
}

/* The axis of a dimension in the requesting layer: an axis that it has declared, of the same size,
 * or a new name for the axis. NULL after a report. */
static Axis *requested_axis(Elaborator *e, const Node *sub, Axis *own, Axis *axis,
                            const Provided *entry) {
    if (!own) {
        Value *value = value_new(e, KIND_AXIS, sub->span);
        value->axis = axis;
        scope_bind(e, e->scope, sub->name, value, sub->span);
        return axis;
    }
    if (axes_match(e, own, axis)) return own;
    if (own->size == axis->size) return own;
    report_error(e->reports, sub->span,
                 "'%s' is requested over axis '%s' (size %ld), but has size %ld",
                 entry->binding.name, own->name, own->size, axis->size);
    report_note(e->reports, entry->binding.span, "provided here");
    report_help(e->reports, "use the same size in both layers");
    return NULL;
}

/* The index over the axis that the layer is applied under, or NULL. */
static Index *applied_under(Elaborator *e, const Axis *axis) {
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (e->frame->ambient[i]->axis == axis && e->frame->ambient[i] != e->batch)
            return e->frame->ambient[i];
    return NULL;
}

/* Number of dimensions that the request names. */
static int requested_dimensions(Elaborator *e, const Node *subs) {
    int count = 0;
    for (int i = 0; i < subs->count; i++) {
        bool fine = subs->kids[i]->kind == NODE_NAME;
        const List *list = fine ? axis_list(e, subs->kids[i], &fine) : NULL;
        count += list ? list->count : 1;
    }
    return count;
}

/* The value in this application of a layer: dimensions over the indices that the layer is applied
 * under are those indices. NULL: it has other dimensions than the request names.
 *
 *     provide used = chosen     [s, n]   y[s,d] = sum[n in chosen] part[n](x)[s,d]
 *     request used[s]           chosen[s, n] of the own n
 */
static Provided *applied_value(Elaborator *e, const Node *node, const Provided *entry) {
    const Value *value = entry->binding.value;
    const int named = requested_dimensions(e, node->kids[0]);
    Index *left[MAX_RANK], *under[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0, free = 0;
    for (int i = 0; i < value->rank; i++) {
        Index *index = applied_under(e, value->dims[i]->axis);
        if (!index) {
            left[free++] = value->dims[i];
            continue;
        }
        under[count] = value->dims[i];
        to[count++] = expr_index(e->program, index);
    }
    if (!count || free != named) return NULL;
    Provided *own = arena_alloc(e->arena, sizeof *own);
    *own = *entry;
    Expr *read = expr_substitute(e->program, value->expr, under, to, count);
    own->binding.value = value_tensor(e, read, left, free, value->span);
    return own;
}

/* Whether the value has indices of layers that are applied under them, and this one is not. */
static bool is_for_parts(Elaborator *e, const Node *node, const Provided *entry) {
    const Value *value = entry->binding.value;
    return node->kids[0] && value->kind == KIND_TENSOR && !is_written(node->span) &&
           requested_dimensions(e, node->kids[0]) != value->rank;
}

/* The dimensions of the value by the names of the request. */
static Value *with_axes(Elaborator *e, const Node *node, const Provided *entry) {
    Value *value = entry->binding.value;
    const Node *subs = node->kids[0];
    Axis *axes[MAX_RANK];
    Expr *to[MAX_RANK];
    Index *dims[MAX_RANK];
    int rank = 0;
    if (value->kind != KIND_TENSOR) {
        report_error(e->reports, node->span, "'%s' is requested as a tensor, but is %s", node->name,
                     value_shown(e, value));
        report_note(e->reports, entry->binding.span, "provided here");
        report_help(e->reports, "write request %s", node->name);
        return value_error(e, node->span);
    }
    for (int i = 0; i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        const Binding *binding = sub->kind == NODE_NAME ? scope_find(e->scope, sub->name) : NULL;
        bool fine = sub->kind == NODE_NAME;
        const List *list = fine ? axis_list(e, sub, &fine) : NULL;
        if (!fine || (binding && !list && binding->value->kind != KIND_AXIS)) {
            report_error(e->reports, sub->span, "expected the name of an axis");
            report_help(e->reports, "write names of axes, such as %s[s, d]", node->name);
            return value_error(e, node->span);
        }
        for (int j = 0; j < (list ? list->count : 1); j++) {
            if (rank == value->rank) return report_dimensions(e, node, entry, rank + 1);
            Axis *own = list      ? ((Value *)list->items[j])->axis
                        : binding ? binding->value->axis
                                  : NULL;
            axes[rank] = requested_axis(e, sub, own, value->dims[rank]->axis, entry);
            if (!axes[rank]) return value_error(e, node->span);
            rank++;
        }
    }
    if (rank != value->rank) return report_dimensions(e, node, entry, rank);
    for (int i = 0; i < rank; i++) {
        dims[i] = index_over(e->program, axes[i]);
        to[i] = expr_index(e->program, dims[i]);
    }
    Expr *read = expr_substitute(e->program, value->expr, value->dims, to, rank);
    return value_tensor(e, read, dims, rank, node->span);
}

void provided_end(Elaborator *e, const RepeatBuild *region, const BuiltRepeat *built) {
    LIST_EACH(Provided, entry, &e->provided) {
        if (entry->region != region) continue;
        entry->region = NULL;
        entry->ended = built;
    }
}

static bool is_defined_in(const Block *block, const Tensor *tensor) {
    LIST_EACH(const Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_LOOP && statement->target->tensor == tensor) return true;
        for (int j = 0; j < statement->outputs.count; j++)
            if (((Expr *)statement->outputs.items[j])->tensor == tensor) return true;
        if (is_defined_in(&statement->body, tensor)) return true;
    }
    return false;
}

static Tensor *kept_tensor(Elaborator *e, const Provided *entry, Axis *const *axes, int rank) {
    return tensor_new(e->program, entry->binding.name, ROLE_TEMP, TYPE_REAL, rank, axes,
                      entry->binding.span);
}

static void define_kept(Elaborator *e, const Provided *entry, Block *block, Expr *target,
                        Expr *value) {
    statement_assign(e->program, block, target, value, entry->binding.span);
}

/* The value in the last iteration. Of a tensor of all iterations, such as a parameter, it is the
 * last element. Else each iteration writes a tensor. Its last element has a statement of its own,
 * so that decoding stores it alone:
 *
 *     stack[0] = 0    repeat { ... stack[i + 1] = value }    kept = stack[steps]
 */
void keep_provided(Elaborator *e, Provided *entry) {
    const BuiltRepeat *built = entry->ended;
    Value *value = entry->binding.value;
    Program *program = e->program;
    Index *step = built->statement->index;
    if (e->effects || value->kind != KIND_TENSOR) return;
    entry->ended = NULL;
    Expr *last = expr_number(program, (double)(built->steps - 1));
    if (!is_defined_in(&built->statement->body, value->expr->tensor)) {
        Expr *read = expr_substitute(program, value->expr, &step, &last, 1);
        entry->binding.value = value_tensor(e, read, value->dims, value->rank, value->span);
        return;
    }
    Axis *axes[MAX_RANK * 2] = {built->stacked};
    Expr *subs[MAX_RANK * 2];
    Index *used[MAX_RANK];
    int rank = 1, ambient = ambient_used(e, value->expr, used);
    for (int i = 0; i < ambient + value->rank; i++) {
        Index *index = i < ambient ? used[i] : value->dims[i - ambient];
        axes[rank] = index->axis;
        subs[rank++] = expr_index(program, index);
    }
    if (!fits_rank(e, entry->binding.name, rank, entry->binding.span)) return;
    Tensor *stack = kept_tensor(e, entry, axes, rank);
    Tensor *kept = kept_tensor(e, entry, axes + 1, rank - 1);
    stack->carried = true;
    Block before = {{0}}, after = {{0}};
    subs[0] = expr_number(program, 0);
    define_kept(e, entry, &before, expr_read(program, stack, subs), expr_number(program, 0));
    subs[0] = expr_apply(program, OP_ADD, expr_index(program, step), expr_number(program, 1), NULL);
    define_kept(e, entry, &built->statement->body, expr_read(program, stack, subs), value->expr);
    subs[0] = expr_number(program, (double)built->steps);
    Expr *read = expr_read(program, kept, subs + 1);
    define_kept(e, entry, &after, read, expr_read(program, stack, subs));
    List *around = &built->around->statements;
    int at = list_find(around, built->statement);
    list_insert(e->arena, around, at + 1, &after.statements);
    list_insert(e->arena, around, at, &before.statements);
    entry->binding.value = value_tensor(e, read, value->dims, value->rank, value->span);
}

static void request(Elaborator *e, const Node *node) {
    Provided *entry = provided_find(&e->provided, node->name);
    Value *value = NULL;
    const Binding *before = scope_own(scope_opaque(e->scope), node->name);
    if (before) {
        report_error(e->reports, node->name_span, "duplicate declaration of '%s'", node->name);
        report_note(e->reports, before->span, "first declared here");
        report_help(e->reports, "rename one of them");
        return;
    }
    const Node *otherwise = node->kids[1];
    bool word = otherwise && (otherwise->kind == NODE_NAME || otherwise->kind == NODE_NUMBER);
    if (!entry && !otherwise)
        value = report_not_provided(e, node);
    else if (!entry)
        value = word ? evaluate(e, otherwise) : value_of_equation(e, node);
    else {
        if (e->effects && !list_has_text(&e->effects->made, node->name))
            list_push(e->arena, &e->effects->needed, (void *)node->name);
        if (entry->ended) keep_provided(e, entry);
        const bool tensor = node->kids[0] && entry->binding.value->kind == KIND_TENSOR;
        Provided *own = tensor ? applied_value(e, node, entry) : NULL;
        if (own) entry = own;
        if (!own && otherwise && is_for_parts(e, node, entry))
            value = word ? evaluate(e, otherwise) : value_of_equation(e, node);
        else
            value = node->kids[0] ? with_axes(e, node, entry) : entry->binding.value;
    }
    scope_bind(e, e->scope, node->name, value, node->name_span);
}

void provided_statement(Elaborator *e, const Node *node) {
    if (node->kind == NODE_PROVIDE)
        provide(e, node);
    else
        request(e, node);
}

/* ---- options that a layer passes on ---- */

void pass_on(Elaborator *e, const RecordField *entry, const char *path) {
    Passed *passed = arena_alloc(e->arena, sizeof *passed);
    *passed = (Passed){.path = path, .entry = entry};
    list_push(e->arena, &e->frame->passed, passed);
}

void check_passed_on(Elaborator *e) {
    const Node *layer = e->frame->layer;
    LIST_EACH(const Passed, passed, &e->frame->passed) {
        if (passed->received) continue;
        report_error(e->reports, asked_here(e),
                     "layer '%s' has no option '%s', which layer '%s' sets", layer->name,
                     passed->path, e->frame->caller->layer->name);
        report_note(e->reports, passed->entry->span, "set here");
        report_help(e->reports,
                    "add 'option %s: any = none' to '%s' and read it, or apply a layer with it",
                    passed->path, layer->name);
    }
}

Record *with_passed(Elaborator *e, const Node *option, Record *given) {
    const Frame *frame = e->frame;
    if (!frame || !frame->caller || given_entry(given, option->name)) return given;
    for (frame = frame->caller; frame; frame = frame->caller)
        LIST_EACH(Passed, passed, &frame->passed) {
            if (strcmp(passed->path, option->name)) continue;
            passed->received = true;
            Record *more = record_copy(e, given);
            record_set(e, more, passed->path, passed->entry->value, passed->entry->span);
            return more;
        }
    return given;
}

/* value: values of expressions and options, their text and comparison; the scopes of names.
 */
#include "elaborate/elaborate.h"

#include <string.h>

Value *value_new(Elaborator *e, Kind kind, Span span) {
    Value *value = arena_alloc(e->arena, sizeof *value);
    value->kind = kind;
    value->span = span;
    return value;
}

Value *value_number(Elaborator *e, double number, Span span) {
    Value *value = value_new(e, KIND_NUMBER, span);
    value->number = number;
    return value;
}

Value *value_error(Elaborator *e, Span span) {
    return value_new(e, KIND_ERROR, span);
}

Value *value_invalid(Elaborator *e, Span span, const char *help, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report_verror(e->reports, span, format, arguments);
    va_end(arguments);
    report_help(e->reports, "%s", help);
    return value_error(e, span);
}

Value *value_tensor(Elaborator *e, Expr *expr, Index *const *dims, int rank, Span span) {
    Value *value = value_new(e, KIND_TENSOR, span);
    value->expr = expr;
    value->rank = rank;
    for (int i = 0; i < rank; i++) value->dims[i] = dims[i];
    return value;
}

Value *value_result(const Value *value, const char *name) {
    for (int i = 0; value->kind == KIND_TENSOR && i < value->results.count; i++) {
        const Binding *result = value->results.items[i];
        if (!strcmp(result->name, name)) return result->value;
    }
    return NULL;
}

void value_add_result(Elaborator *e, Value *value, const char *name, Value *result) {
    Binding *binding = arena_alloc(e->arena, sizeof *binding);
    *binding = (Binding){.name = name, .value = result, .span = result->span};
    list_push(e->arena, &value->results, binding);
}

const char *value_kind_text(const Value *value) {
    static const char *const texts[] = {
        [KIND_ERROR] = "an error",  [KIND_NONE] = "none",     [KIND_NUMBER] = "a number",
        [KIND_FLAG] = "a bool",     [KIND_WORD] = "a name",   [KIND_LIST] = "a list",
        [KIND_RECORD] = "a record", [KIND_LAYER] = "a layer", [KIND_AXIS] = "an axis",
        [KIND_TENSOR] = "a tensor",
    };
    return texts[value->kind];
}

const char *value_shown(Elaborator *e, const Value *value) {
    if (value->kind == KIND_NUMBER || value->kind == KIND_FLAG) return value_text(e, value);
    if (value->kind == KIND_WORD)
        return arena_format(e->arena, "'%s'%s", value->word, value->record ? " with options" : "");
    return value_kind_text(value);
}

static bool is_pattern(const Value *value) {
    return value->kind == KIND_WORD && strpbrk(value->word, "*.");
}

static void add_record_text(Elaborator *e, Text *text, const Record *record) {
    text_add(text, "{");
    for (int i = 0; record && i < record->entries.count; i++) {
        RecordField *entry = record->entries.items[i];
        const char *quote = is_pattern(entry->value) ? "\"" : "";
        text_add(text, "%s%s = %s%s%s", i ? ", " : " ", entry->name, quote,
                 value_text(e, entry->value), quote);
    }
    text_add(text, " }");
}

char *value_text(Elaborator *e, const Value *value) {
    Text text = {.arena = e->arena};
    switch (value->kind) {
    case KIND_NUMBER:
        text_add(&text, "%.9g", value->number);
        break;
    case KIND_FLAG:
        text_add(&text, "%s", value->number != 0 ? "true" : "false");
        break;
    case KIND_WORD:
        text_add(&text, "%s", value->word);
        break;
    case KIND_LAYER:
        text_add(&text, "%s", value->layer->name);
        break;
    case KIND_AXIS:
        text_add(&text, "%s", value->axis->name);
        break;
    case KIND_RECORD:
        break;
    case KIND_LIST:
        text_add(&text, "[");
        for (int i = 0; i < value->list.count; i++)
            text_add(&text, "%s%s", i ? ", " : "", value_text(e, value->list.items[i]));
        text_add(&text, "]");
        break;
    default:
        text_add(&text, "%s", value_kind_text(value));
    }
    bool named = value->kind == KIND_WORD || value->kind == KIND_LAYER;
    if (value->record && (!named || value->record->entries.count)) {
        if (named) text_add(&text, " ");
        add_record_text(e, &text, value->record);
    }
    return text.text ? text.text : arena_copy(e->arena, "", 0);
}

bool value_equal(const Value *a, const Value *b) {
    if (a->kind == KIND_LAYER && b->kind == KIND_WORD) return !strcmp(a->layer->name, b->word);
    if (a->kind == KIND_WORD && b->kind == KIND_LAYER) return value_equal(b, a);
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case KIND_NUMBER:
    case KIND_FLAG:
        return a->number == b->number;
    case KIND_WORD:
        return !strcmp(a->word, b->word);
    case KIND_LAYER:
        return a->layer == b->layer;
    case KIND_AXIS:
        return a->axis == b->axis;
    case KIND_NONE:
        return true;
    case KIND_LIST:
        if (a->list.count != b->list.count) return false;
        for (int i = 0; i < a->list.count; i++)
            if (!value_equal(a->list.items[i], b->list.items[i])) return false;
        return true;
    default:
        return false;
    }
}

/* Larger scopes are searched by hash. */
enum { FEW_BINDINGS = 16 };

static void index_binding(Elaborator *e, Scope *scope, Binding *binding) {
    table_add(e->arena, &scope->names, hash_text(HASH_START, binding->name), binding);
}

void scope_add(Elaborator *e, Scope *scope, Binding *binding) {
    list_push(e->arena, &scope->bindings, binding);
    if (scope->bindings.count <= FEW_BINDINGS) return;
    if (scope->names.count) {
        index_binding(e, scope, binding);
        return;
    }
    for (int i = 0; i < scope->bindings.count; i++)
        index_binding(e, scope, scope->bindings.items[i]);
}

Binding *scope_own(const Scope *scope, const char *name) {
    const List *list = &scope->bindings;
    if (scope->names.count) list = table_find(&scope->names, hash_text(HASH_START, name));
    for (int i = list->count - 1; i >= 0; i--) {
        Binding *binding = list->items[i];
        if (!strcmp(binding->name, name)) return binding;
    }
    return NULL;
}

Binding *scope_binding(const Scope *scope, const char *name) {
    Binding *binding = NULL;
    for (; scope && !binding; scope = scope->parent) binding = scope_own(scope, name);
    return binding;
}

void watch_read(const Value *value) {
    if (value->watch) value->watch->read = true;
}

Binding *scope_find(const Scope *scope, const char *name) {
    Binding *binding = scope_binding(scope, name);
    if (binding) watch_read(binding->value);
    return binding;
}

Scope *scope_opaque(Scope *scope) {
    while (scope->transparent) scope = scope->parent;
    return scope;
}

Binding *scope_bind(Elaborator *e, Scope *scope, const char *name, Value *value, Span span) {
    scope = scope_opaque(scope);
    Binding *binding = arena_alloc(e->arena, sizeof *binding);
    *binding = (Binding){name, value, span};
    scope_add(e, scope, binding);
    return binding;
}

Scope *scope_push(Elaborator *e) {
    Scope *scope = arena_alloc(e->arena, sizeof *scope);
    scope->parent = e->scope;
    e->scope = scope;
    return scope;
}

void scope_pop(Elaborator *e) {
    e->scope = e->scope->parent;
}

/* Called by the current frame. */
Application *application_new(Elaborator *e, const char *name, const char *path, Span call) {
    Application *application = arena_alloc(e->arena, sizeof *application);
    *application = (Application){.name = name, .path = path, .call = call};
    application->caller = e->frame ? e->frame->application : NULL;
    return application;
}

/* ---- scalars ---- */

Tensor *scalar_tensor(Elaborator *e, const char *name, MoecScalar kind) {
    LIST_EACH(Tensor, tensor, &e->program->tensors)
        if (tensor->role == ROLE_INPUT && tensor->scalar == kind && !strcmp(tensor->path, name))
            return tensor;
    Tensor *tensor = tensor_new(e->program, name, ROLE_INPUT, TYPE_REAL, 0, NULL, (Span){0});
    tensor->path = name;
    tensor->input = MOEC_INPUT_SCALAR;
    tensor->scalar = kind;
    tensor->init = (Init){MOEC_INIT_CONSTANT, 1, 0}; /* for a parameter without an attribute */
    return tensor;
}

bool is_refining(const Elaborator *e) {
    return e->program->graph == GRAPH_REFINE;
}

Expr *refining_scalar(Elaborator *e, const char *name) {
    static const struct {
        const char *name;
        MoecScalar kind;
    } scalars[] = {{"step", MOEC_SCALAR_SCHEDULE_STEP},
                   {"steps", MOEC_SCALAR_SCHEDULE_STEPS},
                   {"temperature", MOEC_SCALAR_TEMPERATURE}};
    for (size_t i = 0; is_refining(e) && i < sizeof scalars / sizeof *scalars; i++)
        if (!strcmp(scalars[i].name, name))
            return expr_read(e->program, scalar_tensor(e, name, scalars[i].kind), NULL);
    return NULL;
}

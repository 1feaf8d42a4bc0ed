/* emit_names: names, lines and literals of generated C. What a spec calls its tensors is kept where
 * C allows it. */
#include "codegen/emit.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

/* What the functions of an update call their parameters. */
static const char *const reserved_in_updates[] = {"elements", "scalars", "weight", "gradient",
                                                  "state",    "step",    "steps"};

Around names_around(const Emitter *emitter) {
    Around around = {.tensors = emitter->names, .tensor_count = emitter->program->tensors.count};
    for (size_t i = 0; i < sizeof reserved_in_updates / sizeof *reserved_in_updates; i++)
        if (emitter->program->graph == GRAPH_UPDATE)
            list_push(emitter->arena, &around.others, (void *)(uintptr_t)reserved_in_updates[i]);
    for (int i = 0; i < emitter->binding_count; i++)
        if (!emitter->bindings[i].name->variable)
            list_push(emitter->arena, &around.others,
                      (void *)(uintptr_t)emitter->bindings[i].name->text);
    return around;
}

static void add_binding(Emitter *emitter, Binding binding) {
    if (emitter->binding_count == emitter->binding_capacity) {
        int capacity = emitter->binding_capacity ? 2 * emitter->binding_capacity : 32;
        Binding *bindings = arena_alloc(emitter->arena, (size_t)capacity * sizeof *bindings);
        if (emitter->binding_count)
            memcpy(bindings, emitter->bindings, (size_t)emitter->binding_count * sizeof *bindings);
        emitter->bindings = bindings;
        emitter->binding_capacity = capacity;
    }
    emitter->bindings[emitter->binding_count++] = binding;
}

const char *bind_name(Emitter *emitter, const Index *index, const char *wanted) {
    const Around around = names_around(emitter);
    const char *name = free_name(emitter->arena, &around, wanted);
    add_binding(emitter, (Binding){index, term_name(emitter->arena, name)});
    return name;
}

const Term *bind_variable(Emitter *emitter, const Index *index, const char *wanted) {
    const Term *variable = term_variable(emitter->arena, wanted);
    add_binding(emitter, (Binding){index, variable});
    return variable;
}

/* What scatters and products of a device call their variables: no index in them has such a name,
 * and no tensor. */
void bind_scatter_names(Emitter *emitter) {
    static const char *const names[] = {
        "row", "own",    "earlier", "from", "end",    "part", "hit",         "hits",   "found",
        "of",  "before", "n",       "sum",  "column", "more", "more_gather", "more_a", "more_b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) bind_name(emitter, NULL, names[i]);
}

/* Before anything else has a name. */
void name_tensors(Emitter *emitter) {
    int bindings = emitter->binding_count;
    if (emitter->target->apart) bind_scatter_names(emitter);
    for (int i = 0; i < emitter->program->tensors.count; i++) {
        const Tensor *tensor = emitter->program->tensors.items[i];
        const Around around = names_around(emitter);
        emitter->names[i] = free_name(emitter->arena, &around, tensor->name);
    }
    emitter->binding_count = bindings;
}

void bind_index(Emitter *emitter, const Index *index, const Term *name) {
    const Term *bound = bound_index(emitter, index);
    if (!bound || !term_equal(bound, name)) add_binding(emitter, (Binding){index, name});
}

const Term *bound_index(const Emitter *emitter, const Index *index) {
    for (int i = emitter->binding_count - 1; i >= 0; i--)
        if (emitter->bindings[i].index == index) return emitter->bindings[i].name;
    return NULL;
}

void emit_line(Emitter *emitter, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *line = arena_vformat(emitter->arena, format, arguments);
    va_end(arguments);
    print_line(emitter->out, emitter->indent, line);
}

const char *quoted(Arena *arena, const char *text) {
    Text result = {.arena = arena};
    text_add(&result, "\"");
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            text_add(&result, "\\%c", byte);
        else if (byte >= ' ' && byte < 127 && byte != '?')
            text_add(&result, "%c", byte);
        else
            text_add(&result, "\\%03o", byte);
    }
    text_add(&result, "\"");
    return result.text;
}

const char *line_of(Arena *arena, Span span) {
    if (!span.source) return "";
    const char *path = span.source->path, *slash = strrchr(path, '/');
    bool embedded = path_is_standard(path);
    Text text = {.arena = arena};
    for (const char *c = slash && !embedded ? slash + 1 : path; *c; c++)
        text_add(&text, "%c", isalnum((unsigned char)*c) || strchr("._-/", *c) ? *c : '_');
    text_add(&text, ":%d", span_line(span));
    return text.text;
}

const char *type_name(const Tensor *tensor) {
    static const char *const names[] = {[TYPE_REAL] = "float",
                                        [TYPE_INT] = "int32_t",
                                        [TYPE_BF16] = "MoecBf16",
                                        [TYPE_INT8] = "MoecGroup"};
    return names[tensor->type];
}

const char *axes_of(Arena *arena, const Tensor *tensor) {
    Text text = {.arena = arena};
    text_add(&text, "[");
    for (int i = 0; i < tensor->rank; i++)
        text_add(&text, "%s%s", i ? ", " : "", tensor->axes[i]->name);
    text_add(&text, "]");
    return text.text;
}

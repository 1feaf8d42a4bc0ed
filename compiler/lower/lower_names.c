/* lower_names: bindings of names during the lowering of a kernel. Tensors keep their name from the
 * spec if it is valid in C. */
#include "lower/lower.h"

#include <string.h>

/* Parameter names of the functions of an update. */
static const char *const reserved_in_updates[] = {"elements", "scalars", "weight", "gradient",
                                                  "state",    "step",    "steps"};

Around names_around(const Lowering *lower) {
    Around around = {.tensors = lower->names,
                     .tensor_count = lower->program->tensors.count,
                     .keywords = lower->program->target->keywords};
    for (size_t i = 0; i < sizeof reserved_in_updates / sizeof *reserved_in_updates; i++)
        if (lower->program->graph == GRAPH_UPDATE)
            list_push(lower->arena, &around.others, (void *)(uintptr_t)reserved_in_updates[i]);
    for (int i = 0; i < lower->binding_count; i++)
        if (!lower->bindings[i].name->variable->wanted)
            list_push(lower->arena, &around.others,
                      (void *)(uintptr_t)lower->bindings[i].name->variable->name);
    return around;
}

static void add_binding(Lowering *lower, IndexName binding) {
    if (lower->binding_count == lower->binding_capacity) {
        int capacity = lower->binding_capacity ? 2 * lower->binding_capacity : 32;
        IndexName *bindings = arena_alloc(lower->arena, (size_t)capacity * sizeof *bindings);
        if (lower->binding_count)
            memcpy(bindings, lower->bindings, (size_t)lower->binding_count * sizeof *bindings);
        lower->bindings = bindings;
        lower->binding_capacity = capacity;
    }
    lower->bindings[lower->binding_count++] = binding;
}

const char *bind_name(Lowering *lower, const Index *index, const char *wanted) {
    const Around around = names_around(lower);
    const char *name = free_name(lower->arena, &around, wanted);
    add_binding(lower, (IndexName){index, term_name(lower->arena, T_I64, name)});
    return name;
}

const Term *bind_variable(Lowering *lower, const Index *index, const char *wanted) {
    const Term *variable = term_variable(lower->arena, T_I64, wanted);
    add_binding(lower, (IndexName){index, variable});
    return variable;
}

const Term *bind_real(Lowering *lower, const Statement *statement, const char *ending) {
    const Tensor *tensor = statement->target->tensor;
    const char *wanted = arena_format(lower->arena, "%s%s", tensor->name, ending);
    const Term *variable = term_variable(lower->arena, T_F32, wanted);
    variable->variable->tensor = tensor;
    add_binding(lower, (IndexName){NULL, variable});
    return variable;
}

const Term *named(Lowering *lower, TermType type, const char *name) {
    LIST_EACH(const Term, known, &lower->fixed)
        if (known->type == type && strcmp(known->variable->name, name) == 0) return known;
    const Term *made = term_name(lower->arena, type, name);
    list_push(lower->arena, &lower->fixed, (void *)(uintptr_t)made);
    return made;
}

const Term *array_term(Lowering *lower, const Tensor *tensor) {
    const Term **array = &lower->arrays[tensor->id];
    if (!*array) {
        *array = term_name(lower->arena, element_type(tensor), lower->names[tensor->id]);
        (*array)->variable->tensor = tensor;
    }
    return *array;
}

/* Variable names of scatters and products on a GPU, which no index and no tensor in them may
 * have. */
void bind_scatter_names(Lowering *lower) {
    static const char *const names[] = {
        "row", "own",    "earlier", "from", "end",    "part", "hit",         "hits",   "found",
        "of",  "before", "n",       "sum",  "column", "more", "more_gather", "more_a", "more_b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) bind_name(lower, NULL, names[i]);
}

/* Must run before any other name is bound. */
void name_tensors(Lowering *lower) {
    const size_t tensors = (size_t)lower->program->tensors.count + 1;
    int bindings = lower->binding_count;
    lower->names = arena_alloc(lower->arena, tensors * sizeof *lower->names);
    lower->arrays = arena_alloc(lower->arena, tensors * sizeof *lower->arrays);
    if (lower->program->target->launches) bind_scatter_names(lower);
    for (int i = 0; i < lower->program->tensors.count; i++) {
        const Tensor *tensor = lower->program->tensors.items[i];
        const Around around = names_around(lower);
        lower->names[i] = free_name(lower->arena, &around, tensor->name);
    }
    lower->binding_count = bindings;
}

void bind_index(Lowering *lower, const Index *index, const Term *name) {
    const Term *bound = bound_index(lower, index);
    if (!bound || !term_equal(bound, name)) add_binding(lower, (IndexName){index, name});
}

const Term *bound_index(const Lowering *lower, const Index *index) {
    for (int i = lower->binding_count - 1; i >= 0; i--)
        if (lower->bindings[i].index == index) return lower->bindings[i].name;
    return NULL;
}

/* emit_kernel: one kernel as a C function that gets pointers to the tensors it touches.
 *
 *     (* y[b,s,d] = x[b,s,d] * scale[d]      norm.moe:7 *)
 *     static void kernel_train_3(long i, const float *restrict x, ..., float *restrict y)
 */
#include "codegen/emit.h"
#include "schedule/nest.h"

#include <string.h>

/* ---- one statement in its loops ---- */

const Term *scalar_of(const Emitter *emitter, const Member *member, Local **local) {
    for (int i = 0; i < emitter->kernel->locals.count; i++) {
        Local *candidate = emitter->kernel->locals.items[i];
        if (candidate->tensor != member->statement->target->tensor ||
            candidate->kind != LOCAL_SCALAR)
            continue;
        *local = candidate;
        return emitter->locals[i];
    }
    return NULL;
}

static bool *known_local(Emitter *emitter, const Local *local) {
    for (int i = 0; i < emitter->kernel->locals.count; i++)
        if (emitter->kernel->locals.items[i] == local) return &emitter->known[i];
    return NULL;
}

bool is_touched_again(const Emitter *emitter, const Tensor *tensor) {
    const Local *local = local_in(emitter->kernel, tensor);
    const Place *place = &emitter->schedule->places[tensor->id];
    int touches = place->over || place->taken ? 2 : 0;
    for (int i = 0; i < emitter->kernel->members.count; i++) {
        const Statement *statement = ((Member *)emitter->kernel->members.items[i])->statement;
        List list = {0};
        writes_of(emitter->arena, statement, &list);
        if (!local || local->kind != LOCAL_SCALAR) reads_of(emitter->arena, statement, &list);
        for (int j = 0; j < list.count; j++) touches += ((Expr *)list.items[j])->tensor == tensor;
        touches += statement->accumulate && statement->target->tensor == tensor;
    }
    return touches > 1;
}

FormNode *emit_write(Emitter *emitter, const Statement *statement, bool adds, const Term *value) {
    const Expr *target = statement->target;
    const Term *inside = NULL, *element = lane_term(emitter, target, adds, true);
    bool lane = element != NULL;
    if (!lane) element = element_term(emitter, target, &inside);
    emitter->written[target->tensor->id] = true;
    if (inside) lower_if(emitter, inside, ON_SAME_LINE);
    FormNode *store = lower_join(emitter, element, adds ? REDUCE_SUM : REDUCE_NONE, value);
    store->stores = true;
    store->again = emitter->program->target->launches && is_touched_again(emitter, target->tensor);
    store->rounds = target->tensor->type == TYPE_BF16 && !lane;
    if (inside) lower_end(emitter);
    return store;
}

static void write_member(Emitter *emitter, const Member *member, bool adds, const Term *value) {
    FormNode *store = emit_write(emitter, member->statement, adds, value);
    store->scatters = member->statement->reduction == REDUCE_NONE && member->kept < member->depth &&
                      !member->column;
}

/* What stands in memory, even when a variable holds the value as well. */
static const Term *memory_term(Emitter *emitter, const Expr *target) {
    const Term *inside, *lane = lane_term(emitter, target, true, false);
    return lane ? lane : element_term(emitter, target, &inside);
}

static void store_scalar(Emitter *emitter, Member *member, const Local *local, const Term *name,
                         const Term *value) {
    Statement *statement = member->statement;
    bool *known = known_local(emitter, local);
    if (*known) {
        lower_join(emitter, name, statement->accumulate ? REDUCE_SUM : REDUCE_NONE, value);
    } else if (statement->accumulate) {
        const Term *before = memory_term(emitter, statement->target);
        value = term(emitter->arena, "$0 + $1", before, value);
        lower_let(emitter, type_name(local->tensor), name, value);
    } else {
        lower_let(emitter, type_name(local->tensor), name, value);
    }
    *known = false; /* while it is written to its memory */
    if (local->stored) write_member(emitter, member, false, name);
    *known = true;
}

void emit_store(Emitter *emitter, Member *member, const Term *value) {
    Local *local;
    const Term *name = scalar_of(emitter, member, &local);
    if (name)
        store_scalar(emitter, member, local, name, value);
    else
        write_member(emitter, member, member->statement->accumulate, value);
}

const Term *value_of(Emitter *emitter, const Statement *statement) {
    if (statement->target->tensor->type == TYPE_INT)
        return term(emitter->arena, "(int32_t)$0", integer_term(emitter, statement->value));
    return real_term(emitter, statement->value);
}

void keep_before(Emitter *emitter, Member *largest) {
    largest->before = term_variable_of(emitter->arena, largest->sum, "_before");
    lower_let(emitter, "const float", largest->before, largest->sum);
}

/* The value of a sum that looks at the largest so far, which is in a variable already. */
static const Term *online_value(Emitter *emitter, const Member *member) {
    Local *local = NULL;
    scalar_of(emitter, member->online_max, &local);
    bool *known = known_local(emitter, local);
    *known = true;
    const Term *value = value_of(emitter, member->statement);
    *known = false;
    return value;
}

/* Adds to what a reduction is kept in. */
static void emit_reduction(Emitter *emitter, const Member *member, const Term *sum,
                           const Term *value) {
    Arena *arena = emitter->arena;
    if (member->online_max)
        lower_set(emitter, sum,
                  term(arena, "$0 * moec_fade($1, $2) + $3", sum, member->online_max->before,
                       member->online_max->sum, value));
    else
        lower_join(emitter, sum, member->statement->reduction, value);
}

void emit_member(Emitter *emitter, Member *member) {
    Statement *statement = member->statement;
    if (member->given) {
        emit_store(emitter, member, member->given);
        return;
    }
    if (member->is_online_max) keep_before(emitter, member);
    const Term *value =
        member->online_max ? online_value(emitter, member) : value_of(emitter, statement);
    if (statement->reduction == REDUCE_NONE || member->kept == member->depth) {
        emit_store(emitter, member, value);
        return;
    }
    const Term *sum = member->part ? member->part : member->sum;
    if (member->column) {
        const Nest *inner = member->path[member->depth - 1];
        const Term *place = inner->variable;
        sum = inner->block ? term(emitter->arena, "$0[$1 - $2]", sum, place, inner->block->variable)
                           : term(emitter->arena, "$0[$1]", sum, place);
    }
    emit_reduction(emitter, member, sum, value);
}

/* ---- the function ---- */

void add_equations(Emitter *emitter, const Kernel *kernel, const Nest *nest) {
    List lines = {0};
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        if (nest && nest != kernel->root && !is_inside(member, nest)) continue;
        const char *text = print_statement(emitter->arena, member->statement);
        const char *place = line_of(emitter->arena, member->statement->span);
        list_push(emitter->arena, &lines,
                  arena_format(emitter->arena, "%.*s%s%s", (int)strcspn(text, "\n"), text,
                               *place ? "   -- " : "", place));
    }
    for (int i = 0; i < lines.count; i++)
        emit_line(emitter, "%s %s%s", i ? "  " : "/*", (const char *)lines.items[i],
                  i == lines.count - 1 ? " */" : "");
}

const char *kernel_name(Emitter *emitter, const Kernel *kernel, const Nest *nest) {
    const Tensor *made = NULL;
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        if (!nest || nest == kernel->root || is_inside(member, nest))
            made = member->statement->target->tensor;
    }
    return arena_format(emitter->arena, "kernel_%s_%d_%s", emitter->prefix, emitter->kernels++,
                        made ? emitter->names[made->id] : "");
}

bool lies_alone(const Emitter *emitter, const Tensor *tensor) {
    const Place *places = emitter->schedule->places;
    if (places[tensor->id].over && emitter->used[places[tensor->id].over->id]) return false;
    for (int i = 0; places[tensor->id].taken && i < emitter->program->tensors.count; i++)
        if (places[i].over == tensor && emitter->used[i]) return false;
    return true;
}

/* Adds a parameter and the argument that is handed over for it. */
static void add_parameter(const Emitter *emitter, Text *parameters, Text *arguments,
                          const char *parameter, const char *argument) {
    text_add(parameters, "%s%s", parameters->length ? ", " : "", parameter);
    text_add(arguments, "%s%s%s", arguments->length ? ", " : "",
             emitter->target->parameters.address, argument);
}

void add_parameters(Emitter *emitter, Text *parameters, Text *arguments) {
    Arena *arena = emitter->arena;
    const ParameterStyle *style = &emitter->target->parameters;
    if (emitter->uses_seed)
        add_parameter(emitter, parameters, arguments, style->seed, style->seed_argument);
    for (int i = 0; i < emitter->repeats_used.count; i++) {
        const char *name = bound_index(emitter, emitter->repeats_used.items[i])->text;
        add_parameter(emitter, parameters, arguments, arena_format(arena, "long %s", name), name);
    }
    for (int i = 0; i < emitter->program->tensors.count; i++) {
        if (!emitter->used[i]) continue;
        const Tensor *tensor = emitter->program->tensors.items[i];
        const char *text = arena_format(
            arena, "%s%s%s *%s%s", style->memory, emitter->written[i] ? "" : "const ",
            type_name(tensor), lies_alone(emitter, tensor) ? style->alone : "", emitter->names[i]);
        add_parameter(emitter, parameters, arguments, text, emitter->names[i]);
        emitter->declared[i] = true;
    }
}

void begin_kernel(Emitter *emitter, Kernel *kernel) {
    size_t tensors = (size_t)emitter->program->tensors.count + 1,
           locals = (size_t)kernel->locals.count + 1;
    emitter->kernel = kernel;
    emitter->used = arena_alloc(emitter->arena, tensors * sizeof *emitter->used);
    emitter->written = arena_alloc(emitter->arena, tensors * sizeof *emitter->written);
    emitter->known = arena_alloc(emitter->arena, locals * sizeof *emitter->known);
    emitter->locals = arena_alloc(emitter->arena, locals * sizeof *emitter->locals);
    emitter->uses_seed = false;
    emitter->repeats_used = (List){0};
    for (int i = 0; i < kernel->locals.count; i++) {
        const Local *local = kernel->locals.items[i];
        const char *name = emitter->names[local->tensor->id];
        const char *wanted = local->stored ? arena_format(emitter->arena, "%s_now", name) : name;
        /* A tensor without memory leaves its name to the variable. */
        if (!local->stored) emitter->names[local->tensor->id] = NULL;
        emitter->locals[i] = named(emitter, bind_name(emitter, NULL, wanted));
        emitter->names[local->tensor->id] = name;
    }
}

void open_kernel(Emitter *emitter, Kernel *kernel, KernelText *text) {
    *text = (KernelText){.bindings = emitter->binding_count,
                         .indent = emitter->indent,
                         .run = emitter->out,
                         .parameters = {.arena = emitter->arena},
                         .arguments = {.arena = emitter->arena}};
    begin_kernel(emitter, kernel);
    emitter->block = &text->body;
}

void close_kernel(Emitter *emitter, KernelText *text, const Nest *nest, const char *name,
                  const char *begin) {
    const char *parameters = text->parameters.length ? text->parameters.text : "void";
    emitter->out = &emitter->functions;
    emitter->indent = 0;
    add_equations(emitter, emitter->kernel, nest);
    emit_line(emitter, "%s %s(%s)", emitter->target->parameters.function, name, parameters);
    text_add(&emitter->functions, "{\n%s", begin);
    finish_form(emitter, name, &text->body, &emitter->functions, 1);
    text_add(&emitter->functions, "}\n\n");

    emitter->kernel = NULL;
    emitter->used = emitter->declared;
    emitter->out = text->run;
    emitter->indent = text->indent;
    emitter->binding_count = text->bindings;
}

void emit_kernel(Emitter *emitter, Kernel *kernel) {
    KernelText text;
    open_kernel(emitter, kernel, &text);
    emit_nests(emitter, kernel->root);
    add_parameters(emitter, &text.parameters, &text.arguments);
    const char *name = kernel_name(emitter, kernel, NULL);
    close_kernel(emitter, &text, NULL, name, "");
    emit_line(emitter, "%s(%s);", name, text.arguments.length ? text.arguments.text : "");
}

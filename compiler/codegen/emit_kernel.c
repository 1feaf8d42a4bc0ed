/* emit_kernel: one kernel as a C function with pointers to its tensors.
 *
 *     (* y[b,s,d] = x[b,s,d] * scale[d]      norm.moe:7 *)
 *     static void kernel_train_3(long i, const float *restrict x, ..., float *restrict y)
 */
#include "codegen/emit.h"

#include <string.h>

void add_equations(Emitter *emitter, const Kernel *kernel, const Nest *nest) {
    List lines = {0};
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        if (nest && nest != kernel->root && !is_inside(member, nest)) continue;
        const char *text = print_statement(emitter->lower.arena, member->statement);
        const char *place = line_of(emitter->lower.arena, member->statement->span);
        list_push(emitter->lower.arena, &lines,
                  arena_format(emitter->lower.arena, "%.*s%s%s", (int)strcspn(text, "\n"), text,
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
    return arena_format(emitter->lower.arena, "kernel_%s_%d_%s", emitter->prefix,
                        emitter->kernels++, made ? emitter->lower.names[made->id] : "");
}

/* True if no other tensor of the kernel overlaps the memory. */
static bool lies_alone(const Emitter *emitter, const Tensor *tensor) {
    const Allocation *places = emitter->lower.schedule->places;
    if (places[tensor->id].over && emitter->lower.used[places[tensor->id].over->id]) return false;
    for (int i = 0; places[tensor->id].taken && i < emitter->lower.program->tensors.count; i++)
        if (places[i].over == tensor && emitter->lower.used[i]) return false;
    return true;
}

/* Adds a parameter and its argument. */
static void add_parameter(const Emitter *emitter, Text *parameters, Text *arguments,
                          const char *parameter, const char *argument) {
    text_add(parameters, "%s%s", parameters->length ? ", " : "", parameter);
    text_add(arguments, "%s%s%s", arguments->length ? ", " : "",
             emitter->target->parameters.address, argument);
}

void add_parameters(Emitter *emitter, Text *parameters, Text *arguments) {
    Arena *arena = emitter->lower.arena;
    const ParameterStyle *style = &emitter->target->parameters;
    if (emitter->lower.uses_seed)
        add_parameter(emitter, parameters, arguments, style->seed, style->seed_argument);
    for (int i = 0; i < emitter->lower.repeats_used.count; i++) {
        const char *name = bound_index(&emitter->lower, emitter->lower.repeats_used.items[i])->text;
        add_parameter(emitter, parameters, arguments, arena_format(arena, "long %s", name), name);
    }
    for (int i = 0; i < emitter->lower.program->tensors.count; i++) {
        if (!emitter->lower.used[i]) continue;
        const Tensor *tensor = emitter->lower.program->tensors.items[i];
        const char *text =
            arena_format(arena, "%s%s%s *%s%s", style->memory,
                         emitter->lower.written[i] ? "" : "const ", type_name(tensor),
                         lies_alone(emitter, tensor) ? style->alone : "", emitter->lower.names[i]);
        add_parameter(emitter, parameters, arguments, text, emitter->lower.names[i]);
        emitter->declared[i] = true;
    }
}

void open_kernel(Emitter *emitter, Kernel *kernel, KernelText *text) {
    *text = (KernelText){.bindings = emitter->lower.binding_count,
                         .indent = emitter->indent,
                         .run = emitter->out,
                         .parameters = {.arena = emitter->lower.arena},
                         .arguments = {.arena = emitter->lower.arena}};
    begin_kernel(&emitter->lower, kernel);
    emitter->lower.block = &text->body;
}

void close_kernel(Emitter *emitter, KernelText *text, const Nest *nest, const char *name,
                  const char *begin) {
    const char *parameters = text->parameters.length ? text->parameters.text : "void";
    Arena *arena = emitter->lower.arena;
    KernelPlace *place = arena_alloc(arena, sizeof *place);
    place->first = emitter->functions->length;
    place->head =
        arena_format(arena, "%s %s(%s)", emitter->target->parameters.function, name, parameters);
    emitter->out = emitter->functions;
    emitter->indent = 0;
    add_equations(emitter, emitter->lower.kernel, nest);
    if (text->bounds) {
        emit_line(emitter, "%s %s", emitter->target->parameters.function, text->bounds);
        emit_line(emitter, "%s(%s)", name, parameters);
    } else {
        emit_line(emitter, "%s", place->head);
    }
    text_add(emitter->functions, "{\n%s", begin);
    finish_form(emitter, name, &text->body, emitter->functions, 1);
    text_add(emitter->functions, "}\n\n");
    place->end = emitter->functions->length;
    list_push(arena, emitter->kernel_texts, place);

    emitter->lower.kernel = NULL;
    emitter->lower.used = emitter->declared;
    emitter->out = text->run;
    emitter->indent = text->indent;
    emitter->lower.binding_count = text->bindings;
}

void emit_kernel(Emitter *emitter, Kernel *kernel) {
    KernelText text;
    open_kernel(emitter, kernel, &text);
    lower_nests(&emitter->lower, kernel->root);
    add_parameters(emitter, &text.parameters, &text.arguments);
    const char *name = kernel_name(emitter, kernel, NULL);
    close_kernel(emitter, &text, NULL, name, "");
    emit_line(emitter, "%s(%s);", name, text.arguments.length ? text.arguments.text : "");
}

void emit_scan(Emitter *emitter, const Statement *scan) {
    KernelText text;
    Kernel *kernel = scan_kernel(&emitter->lower, scan);
    open_kernel(emitter, kernel, &text);
    lower_scan(&emitter->lower, scan);
    add_parameters(emitter, &text.parameters, &text.arguments);
    const char *name = kernel_name(emitter, kernel, NULL);
    close_kernel(emitter, &text, NULL, name, "");
    emit_line(emitter, "%s(%s);", name, text.arguments.text);
}

/* check_report: faults and undecided terms of a module. */
#include "module/module_check.h"

#include <stdarg.h>
#include <string.h>

const char *fault_name(FaultKind kind) {
    static const char *const names[] = {
        [FAULT_SCOPE] = "scope",       [FAULT_BOUNDS] = "bounds",     [FAULT_WRITER] = "writer",
        [FAULT_BARRIER] = "barrier",   [FAULT_LIFETIME] = "lifetime", [FAULT_FLOW] = "data flow",
        [FAULT_EXCHANGE] = "exchange", [FAULT_LAUNCH] = "launch"};
    return names[kind];
}

bool on_device(const ModuleCheck *check) {
    return check->kernel && check->kernel->target->launches;
}

/* The equation that a fault belongs to: the last one of the kernel or step. */
static const Statement *fault_statement(const ModuleCheck *check) {
    const List *statements = check->kernel && check->kernel->statements.count
                                 ? &check->kernel->statements
                             : check->step ? &check->step->statements
                                           : NULL;
    return statements && statements->count ? statements->items[statements->count - 1] : NULL;
}

void fault_found(ModuleCheck *check, FaultKind kind, const char *format, ...) {
    if (check->fault->what) return;
    va_list arguments;
    va_start(arguments, format);
    *check->fault = (Fault){kind,          arena_vformat(check->module->arena, format, arguments),
                            check->kernel, check->entry,
                            check->step,   fault_statement(check)};
    va_end(arguments);
}

void term_unproven(ModuleCheck *check, FaultKind kind, const Term *term) {
    check->unproven_count++;
    if (!check->unproven) return;
    text_add(check->unproven, "%s: %s: %s\n", check->kernel ? check->kernel->form.name : "host",
             fault_name(kind), term_text(check->unproven->arena, term));
}

void *with_room(Arena *arena, void *items, int count, int *capacity, size_t size) {
    if (count < *capacity) return items;
    *capacity = *capacity ? 2 * *capacity : 64;
    void *larger = arena_alloc(arena, (size_t)*capacity * size);
    if (count) memcpy(larger, items, (size_t)count * size);
    return larger;
}

const char *fault_text(Arena *arena, const Fault *fault) {
    const Statement *statement = fault->statement;
    Text text = {.arena = arena};
    text_add(&text, "%s: %s", fault_name(fault->kind), fault->what);
    if (fault->kernel)
        text_add(&text, " in %s", fault->kernel->form.name);
    else if (fault->entry)
        text_add(&text, " in the steps of %s", fault->entry->name);
    if (statement) text_add(&text, "\n%s", print_statement(arena, statement));
    if (statement && statement->span.source)
        text_add(&text, "%s:%d\n", statement->span.source->path, span_line(statement->span));
    if (fault->kernel) dump_form(&text, (KernelForm *)(uintptr_t)&fault->kernel->form);
    return text.text;
}

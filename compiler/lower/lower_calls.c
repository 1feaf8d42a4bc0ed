/* lower_calls: calls of hand-written kernels as steps of the host program. */
#include "lower/lower_entry.h"

/* Input or output number `at` of a call; an integer by its value. */
static void set_call(EntryLowering *lowering, HostStep *step, const Statement *statement, int at) {
    const int inputs = statement->inputs.count;
    if (at >= inputs) {
        set_access(lowering, step, at, statement->outputs.items[at - inputs], ACCESS_WRITE);
        return;
    }
    const Expr *input = statement->inputs.items[at];
    if (input->tensor->type == TYPE_INT && input->tensor->rank == 0)
        set_value(lowering, step, at, input);
    else
        set_access(lowering, step, at, input, ACCESS_READ);
}

HostStep *add_call(EntryLowering *lowering, const Statement *statement, HostStepKind kind,
                   bool backwards) {
    const int count = statement->inputs.count + statement->outputs.count;
    HostStep *step = add_step(lowering, kind);
    add_operands(lowering, step, count);
    for (int i = 0; i < count; i++)
        set_call(lowering, step, statement, backwards ? count - 1 - i : i);
    return step;
}

/* ---- values ---- */

static HostValue *add_value(Arena *arena, List *values, HostValue value) {
    return list_copy(arena, values, &value, sizeof value);
}

HostValue *add_name(Arena *arena, List *values, const char *field, const char *name) {
    return add_value(arena, values,
                     (HostValue){.field = field, .term = term_constant(arena, 0, name)});
}

HostValue *add_number(Arena *arena, List *values, const char *field, long number) {
    return add_value(arena, values, (HostValue){.field = field, .term = term_whole(arena, number)});
}

HostValue *add_real(Arena *arena, List *values, const char *field, double number) {
    return add_value(arena, values,
                     (HostValue){.field = field, .term = term_number(arena, T_F32, number)});
}

void add_numbers(Arena *arena, List *values, const char *field, const long *numbers, int count) {
    HostValue *array = add_array(arena, values, field, NULL);
    for (int i = 0; i < count; i++) add_number(arena, &array->values, NULL, numbers[i]);
}

HostValue *add_array(Arena *arena, List *values, const char *field, const char *type) {
    return add_value(arena, values, (HostValue){.field = field, .type = type});
}

HostValue *add_operand(Arena *arena, List *values, const char *field, const HostStep *step,
                       int number) {
    const Operand *operand = number < 0 ? NULL : step->operands.items[number];
    if (!operand) return add_name(arena, values, field, "NULL");
    return add_value(arena, values, (HostValue){.field = field, .term = operand->address});
}

/* Options are constants of the text, above the function that uses them. */
List *add_options(EntryLowering *lowering, HostStep *step, const char *type) {
    Arena *arena = lowering->lower.arena;
    HostRecord *record = arena_alloc(arena, sizeof *record);
    record->type = arena_format(arena, "static const %s", type);
    record->name = arena_format(arena, "moec_options_%s_%d", lowering->entry->name,
                                lowering->entry->kernels++);
    add_section(arena, &lowering->module->functions, (Section){.record = record});
    add_name(arena, &step->call.values, NULL, record->name)->address = true;
    return &record->values;
}

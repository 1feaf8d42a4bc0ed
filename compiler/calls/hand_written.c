/* hand_written: the kernel of a layer that `extern` names. Its function receives the number of
 * rows, the sizes of the named axes in the order in which the operands have them, the inputs and
 * the outputs, and last its workspace:
 *
 *     extern c "norm.c:norm"           int norm(long rows, long d, const float *x, float *y)
 *     extern cuda "norm.cu:rms_norm"   __global__ void rms_norm(long rows, long d, ...)
 */
#include "calls/call_table.h"
#include "lower/lower_entry.h"
#include "interpret/interpreter.h"
#include "ir/well_formed.h"
#include "transform/autodiff/gradient.h"

static void check_extern_call(Verify *verify, const Statement *statement) {
    if (!verify_counts(verify,
                       statement->external && statement->inputs.count && statement->outputs.count))
        return;
    for (int i = 0; i < statement->external->inputs.count; i++)
        verify_operand(verify, call_input(statement, i));
    for (int i = 0; i < statement->outputs.count; i++)
        verify_operand(verify, call_output(statement, i));
}

static void print_extern(Text *text, const Statement *statement) {
    const ExternFunction *function = statement->external->function;
    text_add(text, "; %s %s:%s", function->target, function->file->path, function->name);
}

static double extern_flops(const Program *program, const Statement *statement) {
    (void)program;
    return statement->external->flops * (statement->external->backward ? 2 : 1);
}

static void interpret_extern(Interpreter *interpreter, const Statement *statement) {
    interpreter->message =
        arena_format(interpreter->arena, "%s is not interpreted: its equations are",
                     statement->external->function->name);
}

/* ---- gradient ---- */

/* The results by the equations receive the adjoints of the results: the gradient is derived from
 * the equations, which precede the call. */
static void pass_to_equations(Backward *backward, const Statement *call) {
    const int first = call->inputs.count - call->external->equations;
    for (int i = 0; i < call->external->outputs.count; i++) {
        Expr *output = reverse_in_step(backward, call->outputs.items[i]),
             *equation = reverse_in_step(backward, call->inputs.items[first + i]);
        if (!adjoint_needed(backward, output) || !adjoint_needed(backward, equation)) continue;
        Expr *adjoint = adjoint_read(backward, output);
        if (!adjoint) continue;
        Index *loops[MAX_RANK];
        int count = 0;
        for (int j = 0; j < output->count; j++)
            if (output->args[j]->kind == EXPR_INDEX && !output->args[j]->index->of_repeat)
                loops[count++] = output->args[j]->index;
        List factors = {0};
        list_push(backward->program->arena, &factors, adjoint);
        adjoint_add(backward, equation, loops, count, &factors, call->span);
    }
}

/* Zeros: the adjoint of a result without contributions. */
static Expr *zero_like(Backward *backward, const Expr *operand) {
    Index *loops[MAX_RANK];
    int count;
    Expr *zero = reverse_like(backward, operand, "zero", loops, &count);
    statement_assign(backward->program, backward->block, zero, expr_number(backward->program, 0),
                     operand->span);
    return zero;
}

/* The adjoint of a result as an array. */
static Expr *adjoint_array(Backward *backward, const Expr *output) {
    Expr *adjoint =
        adjoint_needed(backward, output) ? adjoint_read(backward, (Expr *)(uintptr_t)output) : NULL;
    return adjoint ? adjoint : zero_like(backward, output);
}

static void extern_gradient(Backward *backward, const Statement *statement) {
    const ExternCall *own = statement->external->gradient;
    if (!own) {
        pass_to_equations(backward, statement);
        return;
    }
    Program *program = backward->program;
    bool needed = false;
    for (int i = 0; i < own->outputs.count; i++)
        needed |= adjoint_needed(backward, statement->outputs.items[i]);
    if (!needed) return;
    const int count = own->inputs.count;
    List inputs = {0}, adjoints = {0};
    for (int i = 0; i < count; i++)
        list_push(program->arena, &inputs, reverse_in_step(backward, statement->inputs.items[i]));
    for (int i = 0; i < own->outputs.count; i++)
        list_push(program->arena, &adjoints,
                  adjoint_array(backward, reverse_in_step(backward, statement->outputs.items[i])));
    Statement *call = statement_call(program, backward->block, CALL_EXTERN, statement->span);
    call->external = own;
    for (int i = 0; i < count; i++) list_push(program->arena, &call->inputs, inputs.items[i]);
    list_append(program->arena, &call->inputs, &adjoints);
    for (int i = 0; i < count; i++) {
        Expr *operand = inputs.items[i];
        if (operand->tensor->type == TYPE_INT) continue;
        Index *loops[MAX_RANK];
        int loop_count;
        List factors = {0};
        Expr *part = reverse_like(backward, operand, "d", loops, &loop_count);
        list_push(program->arena, &call->outputs, part);
        list_push(program->arena, &factors, part);
        if (adjoint_needed(backward, operand))
            adjoint_add(backward, operand, loops, loop_count, &factors, statement->span);
    }
    if (own->workspace) {
        Index *loops[MAX_RANK];
        int count_of_loops;
        list_push(program->arena, &call->outputs,
                  reverse_like(backward, own->workspace, "d", loops, &count_of_loops));
    }
}

/* ---- lowering ---- */

static void launch_extern(EntryLowering *lowering, const Statement *statement) {
    const ExternCall *call = statement->external;
    Arena *arena = lowering->lower.arena;
    const long rows = extern_rows(statement);
    List arguments = {0};
    add_param(arena, &arguments, (Param){.kind = PARAM_NUMBER, .number = rows});
    for (int i = 0; i < call->size_count; i++)
        add_param(arena, &arguments,
                  (Param){.kind = PARAM_NUMBER, .number = extern_size(statement, i)});
    for (int i = 0; i < statement->inputs.count; i++)
        add_operand_param(lowering, &arguments, call_input(statement, i), false);
    for (int i = 0; i < statement->outputs.count; i++)
        add_operand_param(lowering, &arguments, call_output(statement, i), true);
    LaunchStep *step = add_launch(
        lowering, device_kernel(lowering, call->function->name),
        launch_of(rows * extern_product(statement, &call->blocks), (int)call->threads), &arguments);
    step->shared = call->shared;
}

/* Each function once, with the file that has it. */
static void add_extern_function(EntryLowering *lowering, const ExternCall *call) {
    Module *module = lowering->module;
    for (int i = 0; i < module->externs.count; i++)
        if (((const ExternCall *)module->externs.items[i])->function == call->function) return;
    list_push(module->arena, &module->externs, (void *)(uintptr_t)call);
    if (!module->apart) return;
    device_kernel(lowering, call->function->name);
    add_section(module->arena, &module->device, (Section){.external = call});
    end_piece(module, call->function->name);
}

static void lower_extern(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    const ExternCall *call = statement->external;
    Arena *arena = lowering->lower.arena;
    add_equation(lowering, statement);
    add_extern_function(lowering, call);
    if (lowering->target->apart) {
        launch_extern(lowering, statement);
        return;
    }
    HostStep *step = add_call(lowering, statement, STEP_CALL, false);
    List *values = &step->call.values;
    step->call.function = call->function->name;
    add_number(arena, values, NULL, extern_rows(statement));
    for (int i = 0; i < call->size_count; i++)
        add_number(arena, values, NULL, extern_size(statement, i));
    for (int i = 0; i < statement->inputs.count + statement->outputs.count; i++)
        add_operand(arena, values, NULL, step, i);
}

/* ---- the row ---- */

const CallRow call_extern = {
    .name = "extern",
    .kind = "extern",
    .title = "extern",
    .has_body = false,
    .selects = false,
    .fuses_store = false,
    .recomputed = true,
    .exchanges = false,
    .form = NULL,
    .backward = 2,
    .function = {0},
    .check = check_extern_call,
    .print = print_extern,
    .flops = extern_flops,
    .along = NULL, /* in a decoding step: see elaborate/extern_layer.c */
    .sees = NULL,
    .ahead = NULL,
    .remedy = NULL,
    .sums = NULL,
    .interpret = interpret_extern,
    .gradient = extern_gradient,
    .decode = NULL,
    .store_caches = NULL,
    .adds_up = NULL,
    .rounds = NULL,
    .fuses_operands = NULL,
    .lower = lower_extern,
};

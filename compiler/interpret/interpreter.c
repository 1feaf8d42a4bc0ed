/* interpreter: the reference interpreter. Runs every statement in double precision, in program
 * order, element by element.
 *
 * It is slow compared with compiled code, and simple: statements are not reordered or fused, and
 * every tensor has its own memory. Temporaries and outputs are zero at the start of a run;
 * gradients, states and caches keep their values. */
#include "interpret/interpreter.h"
#include "base/must.h"

#include "ir/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- preparing ---- */

static void order_step_loops(PreparedStatement *step, const Statement *statement) {
    bool reduces = statement->reduction != REDUCE_NONE;
    for (int outer = 1; outer >= 0; outer--) {
        for (int i = 0; i < statement->loop_count; i++) {
            bool is_outer = !reduces || expr_uses_index(statement->target, statement->loops[i]);
            if (is_outer == outer) step->loops[step->loop_count++] = statement->loops[i];
        }
        if (outer) step->outer_count = step->loop_count;
    }
}

static void prepare_loop(Interpreter *interpreter, PreparedStatement *step,
                         const Statement *statement) {
    order_step_loops(step, statement);
    step->first_slot = interpreter->slot_count;
    MUST(interpreter->slot_count + step->loop_count <= MAX_SLOTS);
    for (int i = 0; i < step->loop_count; i++)
        interpreter->slots[interpreter->slot_count++] = step->loops[i];
    interpreter_prepare_address(interpreter, &step->target, statement->target);
    interpreter->deciding = interpreter_decides(interpreter, statement);
    step->value = step->target.ints ? interpreter_prepare_whole(interpreter, statement->value)
                                    : interpreter_prepare(interpreter, statement->value);
    interpreter->deciding = false;
    interpreter->slot_count = step->first_slot;
}

static PreparedStatement *prepare_block(Interpreter *interpreter, const Block *block) {
    PreparedStatement *first = NULL, **link = &first;
    LIST_EACH(const Statement, statement, &block->statements) {
        PreparedStatement *step = arena_alloc(interpreter->arena, sizeof *step);
        step->statement = statement;
        *link = step;
        link = &step->next;
        if (statement->kind == STATEMENT_LOOP) prepare_loop(interpreter, step, statement);
        if (statement->kind != STATEMENT_REPEAT && !statement_is_scan(statement)) continue;
        step->first_slot = interpreter->slot_count;
        MUST(interpreter->slot_count < MAX_SLOTS);
        interpreter->slots[interpreter->slot_count++] = statement->index;
        step->body = prepare_block(interpreter, &statement->body);
        interpreter->slot_count--;
    }
    return first;
}

/* ---- loops ---- */

/* Advances loops first .. last-1 by one; false when they are back at the start. */
static bool advance_loops(Interpreter *interpreter, const PreparedStatement *step, int first,
                          int last) {
    for (int i = last - 1; i >= first; i--) {
        long *at = &interpreter->at[step->first_slot + i];
        if (++*at < step->sizes[i]) return true;
        *at = 0;
    }
    return false;
}

/* Notes the fault of the value that element `offset` gets. j: its number in the strip. */
static void note_value(Interpreter *interpreter, PreparedStatement *step, long offset, int j,
                       double computed, double kept) {
    if (!interpreter->faults) return;
    if (isfinite(kept)) {
        interpreter_note_finite(interpreter, step->statement->target->tensor, offset);
        return;
    }
    const int running = interpreter->running;
    if (running >= 0) interpreter->at[running] += j;
    interpreter->running = -1;
    interpreter_note_fault(interpreter, step, offset, computed);
    interpreter->running = running;
    if (running >= 0) interpreter->at[running] -= j;
}

static void store_real(Interpreter *interpreter, PreparedStatement *step, long offset, int j,
                       double value) {
    double *at = &step->target.real[offset];
    bool adds = step->statement->accumulate;
    double next = adds ? *at + value : value;
    if (adds && interpreter->noise != 0) interpreter_disturb(interpreter, &next, 1);
    if (step->target.rounds) next = interpreter_round(next);
    note_value(interpreter, step, offset, j, value, next);
    *at = next;
}

static void store_values(Interpreter *interpreter, PreparedStatement *step, const double *values,
                         int count) {
    long offsets[STRIP];
    ElementAddress *target = &step->target;
    bool adds = step->statement->accumulate;
    interpreter_offsets(interpreter, target, count, offsets);
    for (int j = 0; j < count; j++) {
        if (offsets[j] < 0) continue;
        if (target->ints) {
            target->ints[offsets[j]] = (adds ? target->ints[offsets[j]] : 0) + (long)values[j];
            continue;
        }
        store_real(interpreter, step, offsets[j], j, values[j]);
    }
}

static int strip_length(long size, long start) {
    return size - start < STRIP ? (int)(size - start) : STRIP;
}

static void run_pointwise(Interpreter *interpreter, PreparedStatement *step) {
    int last = step->loop_count - 1;
    long size = last < 0 ? 1 : step->sizes[last];
    double noise = interpreter->noise;
    if (step->statement->in_double) interpreter->noise = 0;
    do {
        interpreter->running = last < 0 ? -1 : step->first_slot + last;
        for (long start = 0; start < size; start += STRIP) {
            if (last >= 0) interpreter->at[interpreter->running] = start;
            int count = strip_length(size, start);
            store_values(interpreter, step, interpreter_strip(interpreter, step->value, count),
                         count);
        }
    } while (advance_loops(interpreter, step, 0, last));
    interpreter->noise = noise;
}

static double reduce_values(Interpreter *interpreter, Reduction reduction, double result,
                            const double *values, int count) {
    for (int j = 0; j < count; j++) {
        if (reduction == REDUCE_SUM) {
            result += values[j];
            if (interpreter->noise != 0) interpreter_disturb_sum(interpreter, &result);
        }
        if (reduction == REDUCE_MAX && !(values[j] <= result)) result = values[j];
        if (reduction == REDUCE_MIN && !(values[j] >= result)) result = values[j];
        if (isnan(result)) return result;
    }
    return result;
}

/* The reduction of the value over the inner loops, with fixed outer loops. */
static double run_inner(Interpreter *interpreter, PreparedStatement *step) {
    Reduction reduction = step->statement->reduction;
    double result = reduction == REDUCE_SUM ? 0 : reduction == REDUCE_MAX ? -INFINITY : INFINITY;
    int last = step->loop_count - 1;
    bool none = last < step->outer_count;
    long size = none ? 1 : step->sizes[last];
    for (int i = step->outer_count; i < step->loop_count; i++)
        if (step->sizes[i] < 1) return result;
    interpreter->running = none ? -1 : step->first_slot + last;
    do {
        for (long start = 0; start < size; start += STRIP) {
            if (!none) interpreter->at[interpreter->running] = start;
            int count = strip_length(size, start);
            result = reduce_values(interpreter, reduction, result,
                                   interpreter_strip(interpreter, step->value, count), count);
        }
    } while (advance_loops(interpreter, step, step->outer_count, last));
    interpreter->running = -1;
    return result;
}

static long loop_length(const Interpreter *interpreter, const Statement *statement,
                        const Index *index) {
    const Expr *bound = statement->bound;
    if (!bound || index->axis->kind != AXIS_ROWS) return index->axis->size;
    return interpreter->ints[bound->tensor->id][(long)bound->args[0]->number];
}

static void run_loop(Interpreter *interpreter, PreparedStatement *step) {
    for (int i = 0; i < step->loop_count; i++) {
        interpreter->at[step->first_slot + i] = 0;
        step->sizes[i] = loop_length(interpreter, step->statement, step->loops[i]);
        if (step->sizes[i] < 1 && i < step->outer_count) return;
    }
    if (step->statement->reduction == REDUCE_NONE) {
        run_pointwise(interpreter, step);
        return;
    }
    do {
        double result = run_inner(interpreter, step);
        if (step->statement->reduction == REDUCE_SUM && interpreter->sum_noise < interpreter->noise)
            interpreter_disturb(interpreter, &result, 1);
        store_values(interpreter, step, &result, 1);
    } while (advance_loops(interpreter, step, 0, step->outer_count));
}

/* ---- programs ---- */

static void run_steps(Interpreter *interpreter, PreparedStatement *step);

static void run_repeat(Interpreter *interpreter, PreparedStatement *step) {
    const Statement *statement = step->statement;
    long iterations = statement->index->axis->size;
    interpreter->slots[interpreter->slot_count++] = statement->index;
    for (long iteration = 0; iteration < iterations && !interpreter->message; iteration++) {
        interpreter->at[step->first_slot] =
            statement->reverse ? iterations - 1 - iteration : iteration;
        run_steps(interpreter, step->body);
    }
    interpreter->slot_count--;
}

static void interpret_call(Interpreter *interpreter, const Statement *statement) {
    statement->row->interpret(interpreter, statement);
    if (interpreter->noise != 0) interpreter_disturb_results(interpreter, statement);
    for (int i = 0; i < statement->outputs.count; i++) {
        const Tensor *tensor = ((Expr *)statement->outputs.items[i])->tensor;
        double *values = interpreter->real[tensor->id];
        if (tensor->type == TYPE_BF16)
            interpreter_round_all(values, values, (size_t)tensor_elements(tensor));
    }
    if (interpreter->faults) interpreter_note_call(interpreter, statement);
}

void interpreter_step(Interpreter *interpreter, PreparedStatement *step) {
    if (step->statement->once && !interpreter->last_micro_batch) return;
    if (step->statement->kind == STATEMENT_LOOP) run_loop(interpreter, step);
    if (step->body)
        run_repeat(interpreter, step);
    else if (step->statement->kind == STATEMENT_CALL)
        interpret_call(interpreter, step->statement);
}

static void run_steps(Interpreter *interpreter, PreparedStatement *step) {
    for (; step && !interpreter->message; step = step->next) {
        if (interpreter->faults && interpreter_fault_known(interpreter)) return;
        interpreter_step(interpreter, step);
    }
}

/* The coordinates of element `number` as text, "3,17". */
static const char *element_text(Interpreter *interpreter, const Tensor *tensor, long number) {
    Text text = text_new(interpreter->arena);
    long stride = tensor_elements(tensor);
    for (int i = 0; i < tensor->rank; i++) {
        stride /= tensor->axes[i]->size;
        text_add(&text, i ? ",%ld" : "%ld", number / stride % tensor->axes[i]->size);
    }
    return text.text;
}

static void check_given_inputs(Interpreter *interpreter) {
    const List *tensors = &interpreter->program->tensors;
    for (int i = 0; i < tensors->count && !interpreter->message; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_INPUT || tensor->type != TYPE_INT || tensor->vocabulary < 1)
            continue;
        long elements = tensor_elements(tensor);
        for (long j = 0; j < elements && !interpreter->message; j++) {
            long value = interpreter->ints[i][j];
            if (value < 0 || value >= tensor->vocabulary)
                interpreter->message = arena_format(
                    interpreter->arena, "%s[%s] is %ld: values are 0 to %ld", tensor->name,
                    element_text(interpreter, tensor, j), value, tensor->vocabulary - 1);
        }
    }
}

/* Copies the parameters, or the prepared tensors, to those with their paths. */
static void copy_parameters(const Interpreter *to, const Interpreter *from, bool prepared) {
    for (int i = 0; i < to->program->tensors.count; i++) {
        const Tensor *tensor = to->program->tensors.items[i];
        if (tensor->role != ROLE_PARAMETER || tensor->prepared != prepared) continue;
        const Tensor *same = parameter_called(from->program, tensor->path);
        MUST(same);
        memcpy(to->real[i], from->real[same->id],
               (size_t)tensor_elements(tensor) * sizeof *to->real[i]);
    }
}

/* Runs the program of GRAPH_PREPARE with the same rounding. */
static void prepare_parameters(Interpreter *interpreter) {
    Interpreter *prepares = interpreter->prepares;
    if (!prepares) return;
    prepares->noise = interpreter->noise;
    prepares->sum_noise = interpreter->sum_noise;
    prepares->noise_seed = interpreter->noise_seed;
    prepares->fresh = interpreter->fresh;
    prepares->single = interpreter->single;
    copy_parameters(prepares, interpreter, false);
    interpreter->message = interpreter_run(prepares, interpreter->seed, false);
    copy_parameters(interpreter, prepares, true);
}

static void round_parameters(Interpreter *interpreter) {
    const List *tensors = &interpreter->program->tensors;
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_ROUNDED) continue;
        if (tensor->matrices)
            interpreter_round_matrices(interpreter->real[i], interpreter->real[tensor->of->id],
                                       tensor);
        else
            (tensor->type == TYPE_INT8 ? interpreter_round_groups : interpreter_round_all)(
                interpreter->real[i], interpreter->real[tensor->of->id],
                (size_t)tensor_elements(tensor->of)); /* see pad.c */
    }
}

static void clear_temporaries(Interpreter *interpreter) {
    const List *tensors = &interpreter->program->tensors;
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_TEMP && tensor->role != ROLE_OUTPUT) continue;
        size_t elements = (size_t)tensor_elements(tensor);
        if (interpreter->real[i])
            memset(interpreter->real[i], 0, elements * sizeof *interpreter->real[i]);
        if (interpreter->ints[i])
            memset(interpreter->ints[i], 0, elements * sizeof *interpreter->ints[i]);
    }
}

Interpreter *interpreter_new(Program *program) {
    Arena *arena = arena_new();
    Interpreter *interpreter = arena_alloc(arena, sizeof *interpreter);
    interpreter->arena = arena;
    interpreter->program = program;
    interpreter->running = -1;
    size_t count = (size_t)program->tensors.count;
    interpreter->real = arena_alloc(arena, count * sizeof *interpreter->real);
    interpreter->ints = arena_alloc(arena, count * sizeof *interpreter->ints);
    for (size_t i = 0; i < count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        size_t elements = (size_t)tensor_elements(tensor);
        if (tensor->type != TYPE_INT)
            interpreter->real[i] = arena_alloc(arena, elements * sizeof **interpreter->real);
        else
            interpreter->ints[i] = arena_alloc(arena, elements * sizeof **interpreter->ints);
    }
    interpreter_find_decisions(interpreter);
    interpreter->steps = prepare_block(interpreter, &program->body);
    if (program->prepare) interpreter->prepares = interpreter_new(program->prepare);
    return interpreter;
}

double *interpreter_real(Interpreter *interpreter, const Tensor *tensor) {
    MUST(tensor->id < interpreter->program->tensors.count);
    return interpreter->real[tensor->id];
}

long *interpreter_int(Interpreter *interpreter, const Tensor *tensor) {
    MUST(tensor->id < interpreter->program->tensors.count);
    return interpreter->ints[tensor->id];
}

bool interpreter_begin(Interpreter *interpreter, uint64_t seed, bool last_micro_batch) {
    Choices *choices = &interpreter->choices;
    interpreter->seed = seed;
    interpreter->last_micro_batch = last_micro_batch;
    interpreter->message = NULL;
    check_given_inputs(interpreter);
    if (interpreter->message) return false;
    clear_temporaries(interpreter);
    prepare_parameters(interpreter);
    round_parameters(interpreter);
    choices->chosen_count = choices->margin_count = choices->start_count = 0;
    choices->tied = false;
    interpreter->decisions.count = 0;
    return true;
}

const char *interpreter_run(Interpreter *interpreter, uint64_t seed, bool last_micro_batch) {
    if (interpreter_begin(interpreter, seed, last_micro_batch))
        run_steps(interpreter, interpreter->steps);
    return interpreter->message;
}

void interpreter_free(Interpreter *interpreter) {
    if (!interpreter) return;
    interpreter_free(interpreter->prepares);
    free(interpreter->choices.starts);
    free(interpreter->choices.chosen);
    free(interpreter->choices.margins);
    free(interpreter->decisions.items);
    arena_free(interpreter->arena);
}

void interpreter_follow(Interpreter *interpreter, const Interpreter *other) {
    interpreter->followed = &other->choices;
}

bool interpreter_is_tied(const Interpreter *interpreter) {
    return interpreter->choices.tied;
}

const double *interpreter_margins(const Interpreter *interpreter, size_t *count) {
    *count = interpreter->choices.margin_count;
    return interpreter->choices.margins;
}

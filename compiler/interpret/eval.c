/* eval: what a program means. Every statement is run in double precision, in the order of the text,
 * every element by itself.
 *
 * Slow beside compiled code, and obvious: no statement is rearranged, nothing is fused, every
 * tensor has memory of its own. Temporaries and outputs are zero at the start of a run; gradients,
 * states and caches keep what they hold.
 */
#include "interpret/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- preparing ---- */

static void order_loops(Step *step, const Statement *statement) {
    bool reduces = statement->reduction != REDUCE_NONE;
    for (int outer = 1; outer >= 0; outer--) {
        for (int i = 0; i < statement->loop_count; i++) {
            bool is_outer = !reduces || expr_uses_index(statement->target, statement->loops[i]);
            if (is_outer == outer) step->loops[step->loop_count++] = statement->loops[i];
        }
        if (outer) step->outer_count = step->loop_count;
    }
}

static void prepare_loop(Eval *eval, Step *step, const Statement *statement) {
    order_loops(step, statement);
    step->first_slot = eval->slot_count;
    for (int i = 0; i < step->loop_count; i++) eval->slots[eval->slot_count++] = step->loops[i];
    eval_prepare_address(eval, &step->target, statement->target);
    step->value = eval_prepare(eval, statement->value);
    eval->slot_count = step->first_slot;
}

static Step *prepare_block(Eval *eval, const Block *block) {
    Step *first = NULL, **link = &first;
    for (int i = 0; i < block->statements.count; i++) {
        const Statement *statement = block->statements.items[i];
        Step *step = arena_alloc(eval->arena, sizeof *step);
        step->statement = statement;
        *link = step;
        link = &step->next;
        if (statement->kind == STATEMENT_LOOP) prepare_loop(eval, step, statement);
        if (statement->kind != STATEMENT_REPEAT && !statement_is_scan(statement)) continue;
        step->first_slot = eval->slot_count;
        eval->slots[eval->slot_count++] = statement->index;
        step->body = prepare_block(eval, &statement->body);
        eval->slot_count--;
    }
    return first;
}

/* ---- loops ---- */

/* Moves loops first .. last-1 on by one; false when they are back at their beginning. */
static bool advance(Eval *eval, const Step *step, int first, int last) {
    for (int i = last - 1; i >= first; i--) {
        long *at = &eval->at[step->first_slot + i];
        if (++*at < step->loops[i]->axis->size) return true;
        *at = 0;
    }
    return false;
}

static void store(Eval *eval, Step *step, const double *values, int count) {
    long offsets[STRIP];
    Address *target = &step->target;
    bool adds = step->statement->accumulate;
    eval_offsets(eval, target, count, offsets);
    for (int j = 0; j < count; j++) {
        if (offsets[j] < 0) continue;
        if (target->ints) {
            target->ints[offsets[j]] = (adds ? target->ints[offsets[j]] : 0) + (long)values[j];
            continue;
        }
        double *at = &target->real[offsets[j]];
        *at = adds ? *at + values[j] : values[j];
        if (adds && eval->noise != 0) eval_disturb(eval, at, 1);
        if (target->rounds) *at = eval_round(*at);
    }
}

static int strip_length(long size, long start) {
    return size - start < STRIP ? (int)(size - start) : STRIP;
}

static void run_pointwise(Eval *eval, Step *step) {
    int last = step->loop_count - 1;
    long size = last < 0 ? 1 : step->loops[last]->axis->size;
    do {
        eval->running = last < 0 ? -1 : step->first_slot + last;
        for (long start = 0; start < size; start += STRIP) {
            if (last >= 0) eval->at[eval->running] = start;
            int count = strip_length(size, start);
            store(eval, step, eval_strip(eval, step->value, count), count);
        }
    } while (advance(eval, step, 0, last));
}

static double reduce(Eval *eval, Reduction reduction, double result, const double *values,
                     int count) {
    for (int j = 0; j < count; j++) {
        if (reduction == REDUCE_SUM) {
            result += values[j];
            if (eval->noise != 0) eval_disturb(eval, &result, 1);
        }
        if (reduction == REDUCE_MAX && !(values[j] <= result)) result = values[j];
        if (reduction == REDUCE_MIN && !(values[j] >= result)) result = values[j];
        if (isnan(result)) return result;
    }
    return result;
}

/* The reduction of the value over the inner loops, the outer ones standing still. */
static double run_inner(Eval *eval, Step *step) {
    Reduction reduction = step->statement->reduction;
    double result = reduction == REDUCE_SUM ? 0 : reduction == REDUCE_MAX ? -INFINITY : INFINITY;
    int last = step->loop_count - 1;
    bool none = last < step->outer_count;
    long size = none ? 1 : step->loops[last]->axis->size;
    eval->running = none ? -1 : step->first_slot + last;
    do {
        for (long start = 0; start < size; start += STRIP) {
            if (!none) eval->at[eval->running] = start;
            int count = strip_length(size, start);
            result = reduce(eval, reduction, result, eval_strip(eval, step->value, count), count);
        }
    } while (advance(eval, step, step->outer_count, last));
    eval->running = -1;
    return result;
}

static void run_loop(Eval *eval, Step *step) {
    for (int i = 0; i < step->loop_count; i++) {
        eval->at[step->first_slot + i] = 0;
        if (step->loops[i]->axis->size < 1) return;
    }
    if (step->statement->reduction == REDUCE_NONE) {
        run_pointwise(eval, step);
        return;
    }
    do {
        double result = run_inner(eval, step);
        store(eval, step, &result, 1);
    } while (advance(eval, step, 0, step->outer_count));
}

/* ---- programs ---- */

static void run_steps(Eval *eval, Step *step);

static void run_repeat(Eval *eval, Step *step) {
    const Statement *statement = step->statement;
    long turns = statement->index->axis->size;
    eval->slots[eval->slot_count++] = statement->index;
    for (long turn = 0; turn < turns && !eval->message; turn++) {
        eval->at[step->first_slot] = statement->reverse ? turns - 1 - turn : turn;
        run_steps(eval, step->body);
    }
    eval->slot_count--;
}

static void run_call(Eval *eval, const Statement *statement) {
    eval_call(eval, statement);
    for (int i = 0; i < statement->outputs.count; i++) {
        const Tensor *tensor = ((Expr *)statement->outputs.items[i])->tensor;
        double *values = eval->real[tensor->id];
        if (tensor->type == TYPE_BF16)
            eval_round_all(values, values, (size_t)tensor_elements(tensor));
    }
}

static void run_steps(Eval *eval, Step *step) {
    for (; step && !eval->message; step = step->next) {
        if (step->statement->once && !eval->last_micro_batch) continue;
        if (step->statement->kind == STATEMENT_LOOP) run_loop(eval, step);
        if (step->body)
            run_repeat(eval, step);
        else if (step->statement->kind == STATEMENT_CALL)
            run_call(eval, step->statement);
    }
}

/* The place of element `number` as text, "3,17". */
static const char *place_text(Eval *eval, const Tensor *tensor, long number) {
    Text text = {.arena = eval->arena};
    long stride = tensor_elements(tensor);
    for (int i = 0; i < tensor->rank; i++) {
        stride /= tensor->axes[i]->size;
        text_add(&text, i ? ",%ld" : "%ld", number / stride % tensor->axes[i]->size);
    }
    return text.text ? text.text : "";
}

static void check_inputs(Eval *eval) {
    const List *tensors = &eval->program->tensors;
    for (int i = 0; i < tensors->count && !eval->message; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_INPUT || tensor->type != TYPE_INT || tensor->vocabulary < 1)
            continue;
        long elements = tensor_elements(tensor);
        for (long j = 0; j < elements && !eval->message; j++) {
            long value = eval->ints[i][j];
            if (value < 0 || value >= tensor->vocabulary)
                eval->message =
                    arena_format(eval->arena, "%s[%s] is %ld: values are 0 to %ld", tensor->name,
                                 place_text(eval, tensor, j), value, tensor->vocabulary - 1);
        }
    }
}

static void round_parameters(Eval *eval) {
    const List *tensors = &eval->program->tensors;
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role == ROLE_ROUNDED)
            eval_round_all(eval->real[i], eval->real[tensor->of->id],
                           (size_t)tensor_elements(tensor));
    }
}

static void clear_temporaries(Eval *eval) {
    const List *tensors = &eval->program->tensors;
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_TEMP && tensor->role != ROLE_OUTPUT) continue;
        size_t elements = (size_t)tensor_elements(tensor);
        if (eval->real[i]) memset(eval->real[i], 0, elements * sizeof *eval->real[i]);
        if (eval->ints[i]) memset(eval->ints[i], 0, elements * sizeof *eval->ints[i]);
    }
}

Eval *eval_new(Program *program) {
    Arena *arena = arena_new();
    Eval *eval = arena_alloc(arena, sizeof *eval);
    eval->arena = arena;
    eval->program = program;
    eval->running = -1;
    size_t count = (size_t)program->tensors.count;
    eval->real = arena_alloc(arena, count * sizeof *eval->real);
    eval->ints = arena_alloc(arena, count * sizeof *eval->ints);
    for (size_t i = 0; i < count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        size_t elements = (size_t)tensor_elements(tensor);
        if (tensor->type != TYPE_INT)
            eval->real[i] = arena_alloc(arena, elements * sizeof **eval->real);
        else
            eval->ints[i] = arena_alloc(arena, elements * sizeof **eval->ints);
    }
    eval->steps = prepare_block(eval, &program->body);
    return eval;
}

double *eval_real(Eval *eval, const Tensor *tensor) {
    return eval->real[tensor->id];
}

long *eval_int(Eval *eval, const Tensor *tensor) {
    return eval->ints[tensor->id];
}

const char *eval_run(Eval *eval, uint64_t seed, bool last_micro_batch) {
    eval->seed = seed;
    eval->last_micro_batch = last_micro_batch;
    eval->message = NULL;
    check_inputs(eval);
    if (eval->message) return eval->message;
    clear_temporaries(eval);
    round_parameters(eval);
    eval->choices.chosen_count = eval->choices.margin_count = 0;
    run_steps(eval, eval->steps);
    return eval->message;
}

void eval_free(Eval *eval) {
    if (!eval) return;
    free(eval->choices.chosen);
    free(eval->choices.margins);
    arena_free(eval->arena);
}

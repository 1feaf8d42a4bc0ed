/* random_program: programs in index notation by number: pointwise statements, sums, maxima,
 * scatters; reads that are shifted, wrapped and gathered. Include after cmocka.h; every function is
 * static. */
#ifndef RANDOM_PROGRAM_H
#define RANDOM_PROGRAM_H

#include "calls/call_table.h"
#include "passes.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* One text has PROGRAMS programs. */
enum { PROGRAMS = 12, STATEMENTS = 14, AXES = 6 };

static double random_number(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / 16777216.0;
}

/* Variable names of emitters and templates, which a program may use for anything. */
static const char *const words[] = {
    "row",  "own",       "from",   "end",  "part",   "hit",     "total",   "before", "n",    "of",
    "lane", "iteration", "column", "sum",  "chunk",  "grouped", "group",   "a",      "b",    "c",
    "i",    "j",         "run",    "host", "weight", "seed",    "threads", "x",      "more", "step",
    "new",  "self",      "arena",  "size", "index",  "launch",  "weights", "kernel", "tile", "exp"};

typedef struct Builder {
    Program *program;
    Axis *axes[AXES];
    List tensors; /* tensors that may be read */
    List ints;
    uint64_t seed, names, affine; /* affine: separate random source of subscripts; 0 = none */
} Builder;

static const Span nowhere;

static long dice(Builder *builder, long sides) {
    return (long)(random_number(&builder->seed) * (double)sides);
}

/* `count` different axes in random order. */
static int some_axes(Builder *builder, int count, Axis **axes) {
    bool taken[AXES] = {false};
    for (int i = 0; i < count; i++) {
        long at = dice(builder, AXES);
        while (taken[at]) at = (at + 1) % AXES;
        taken[at] = true;
        axes[i] = builder->axes[at];
    }
    return count;
}

/* Names have a separate random source: the program of a number does not depend on its names. */
static const char *random_word(Builder *builder) {
    return words[(long)(random_number(&builder->names) * (double)(sizeof words / sizeof *words))];
}

static Tensor *random_tensor(Builder *builder, Role role, Type type, int rank) {
    Axis *axes[MAX_RANK];
    some_axes(builder, rank, axes);
    return tensor_new(builder->program, random_word(builder), role, type, rank, axes, nowhere);
}

static Tensor *any(Builder *builder, const List *list) {
    return list->items[dice(builder, list->count)];
}

/* An index of an axis: ((index * a + b) * c + d) % size, with numbers of any size, which wrap. */
static Expr *hashed_sub(Builder *builder, Expr *plain, const Axis *axis) {
    static const double numbers[] = {3,          1000003,       2147483648.0,     16777619,
                                     2166136261, 1099511627776, 9007199254740991, -2654435761.0};
    Program *program = builder->program;
    Expr *value = plain;
    for (int i = 0; i < 2; i++) {
        Expr *factor = expr_number(program, numbers[dice(builder, 8)]);
        Expr *more = expr_number(program, numbers[dice(builder, 8)]);
        value = expr_apply(program, OP_MUL, value, factor, NULL);
        value = expr_apply(program, dice(builder, 2) ? OP_ADD : OP_SUB, value, more, NULL);
    }
    OpCode last[] = {OP_MOD, OP_MOD, OP_MIN, OP_SUB}, op = last[dice(builder, 4)];
    return expr_apply(program, op, value, expr_number(program, (double)axis->size), NULL);
}

static long affine_dice(Builder *builder, long sides) {
    return (long)(random_number(&builder->affine) * (double)sides);
}

static Expr *plus(Program *program, Expr *a, long number) {
    return expr_apply(program, OP_ADD, a, expr_number(program, (double)number), NULL);
}

static Expr *times(Program *program, Expr *a, long number) {
    return expr_apply(program, OP_MUL, a, expr_number(program, (double)number), NULL);
}

/* An affine subscript by any loop variables: slices inside the axis or beyond it, reversals,
 * strides of two, and split axes. */
static Expr *affine_sub(Builder *builder, Index **indices, const Axis *axis) {
    Program *program = builder->program;
    Index *present[AXES], *index;
    int count = 0;
    for (int i = 0; i < AXES; i++)
        if (indices[i]) present[count++] = indices[i];
    if (!count) return NULL;
    index = present[affine_dice(builder, count)];
    Expr *plain = expr_index(program, index);
    const long left = axis->size - index->axis->size, start = affine_dice(builder, 3);
    switch (affine_dice(builder, 7)) {
    case 0:
        return plus(program, plain, start);
    case 1: /* (start + 1) + index: a slice of a slice */
        return expr_apply(program, OP_ADD, expr_number(program, (double)(start + 1)), plain, NULL);
    case 2:
        return expr_apply(program, OP_SUB, expr_number(program, (double)(axis->size - 1 - start)),
                          plain, NULL);
    case 3:
        return plus(program, times(program, plain, 2), start);
    case 4: {
        Index *inner = present[affine_dice(builder, count)];
        return expr_apply(program, OP_ADD, times(program, plain, inner->axis->size),
                          expr_index(program, inner), NULL);
    }
    default:
        return plus(program, plain, left > 0 ? affine_dice(builder, left + 1) : 0);
    }
}

static Expr *random_plain_sub(Builder *builder, Index **indices, Axis *axis);

/* A subscript of an axis: affine, or as below. */
static Expr *random_sub(Builder *builder, Index **indices, Axis *axis) {
    Expr *other = random_plain_sub(builder, indices, axis);
    if (!builder->affine || affine_dice(builder, 4)) return other;
    Expr *affine = affine_sub(builder, indices, axis);
    return affine ? sub_over(builder->program, affine, axis) : other;
}

/* The index itself; a shifted, wrapped, hashed or gathered index; or a number. */
static Expr *random_plain_sub(Builder *builder, Index **indices, Axis *axis) {
    Program *program = builder->program;
    Index *index = NULL;
    for (int i = 0; i < AXES; i++)
        if (indices[i] && indices[i]->axis == axis) index = indices[i];
    if (!index) return expr_number(program, (double)dice(builder, axis->size));
    Expr *plain = expr_index(program, index), *moved;
    moved = expr_apply(program, OP_SUB, plain, expr_number(program, (double)(1 + dice(builder, 2))),
                       NULL);
    switch (dice(builder, 12)) {
    case 3:
        return hashed_sub(builder, plain, axis);
    case 0:
        return moved;
    case 1:
        return expr_apply(program, OP_MOD,
                          expr_apply(program, OP_ADD, plain, expr_number(program, 1), NULL),
                          expr_number(program, (double)axis->size), NULL);
    case 2: {
        const Tensor *table = any(builder, &builder->ints);
        Expr *subs[1] = {plain};
        for (int i = 0; i < builder->ints.count; i++) {
            Tensor *one = builder->ints.items[i];
            if (one->axes[0] == axis) return expr_read(program, one, subs);
        }
        (void)table;
        return plain;
    }
    default:
        return plain;
    }
}

static Expr *random_read(Builder *builder, Index **indices) {
    Tensor *tensor = any(builder, &builder->tensors);
    Expr *subs[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) subs[i] = random_sub(builder, indices, tensor->axes[i]);
    return expr_read(builder->program, tensor, subs);
}

/* One of the operations, with the frequency of its table. */
static OpCode random_op(Builder *builder) {
    int weights = 0, op = 0;
    for (int i = 0; i < OP_COUNT; i++) weights += op_table[i].weight;
    int left = (int)dice(builder, weights);
    while (left >= op_table[op].weight) left -= op_table[op++].weight;
    return (OpCode)op;
}

static Expr *random_value(Builder *builder, Index **indices, int depth) {
    if (depth == 0 || dice(builder, 4) == 0) return random_read(builder, indices);
    OpCode op = random_op(builder);
    Expr *args[3] = {NULL};
    for (int i = 0; i < op_table[op].arity; i++)
        args[i] = random_value(builder, indices, depth - 1);
    return expr_apply(builder->program, op, args[0], args[1], args[2]);
}

/* Usually a product of two reads, for the recognition of contractions. */
static Expr *random_sum(Builder *builder, Index **indices) {
    if (dice(builder, 3) == 0) return random_value(builder, indices, 2);
    Expr *a = random_read(builder, indices);
    return expr_apply(builder->program, OP_MUL, a, random_read(builder, indices), NULL);
}

static void random_statement(Builder *builder, Block *block, bool output) {
    Program *program = builder->program;
    Index *indices[AXES] = {NULL}, *reduced[AXES];
    Tensor *target =
        random_tensor(builder, output ? ROLE_OUTPUT : ROLE_TEMP, TYPE_REAL, (int)dice(builder, 4));
    Expr *subs[MAX_RANK];
    int reduced_count = 0;
    for (int i = 0; i < target->rank; i++) {
        indices[i] = index_new(program, target->axes[i]->name, target->axes[i]);
        subs[i] = expr_index(program, indices[i]);
    }
    bool reduces = dice(builder, 2) == 0;
    for (int i = 0; reduces && i < AXES; i++) {
        bool used = false;
        for (int j = 0; j < target->rank; j++) used |= target->axes[j] == builder->axes[i];
        if (used || dice(builder, 3)) continue;
        Index *index = index_new(program, builder->axes[i]->name, builder->axes[i]);
        indices[target->rank + reduced_count] = reduced[reduced_count] = index;
        reduced_count++;
    }
    Expr *value = reduced_count ? random_sum(builder, indices) : random_value(builder, indices, 3);
    Reduction reduction = !reduced_count ? REDUCE_NONE : dice(builder, 4) ? REDUCE_SUM : REDUCE_MAX;
    /* The index of the maximum must not depend on rounding. */
    if (reduction == REDUCE_MAX && program->graph == GRAPH_TRAIN)
        value = random_read(builder, indices);
    /* Scaled: sums of sums stay small. */
    if (reduction == REDUCE_SUM && dice(builder, 3) == 0)
        value = expr_apply(program, OP_TANH, value, NULL, NULL);
    statement_loop(program, block, expr_read(program, target, subs), false, reduction, reduced,
                   reduced_count, value, nowhere);
    if (reduction != REDUCE_MAX && dice(builder, 4) == 0)
        statement_loop(program, block, expr_read(program, target, subs), true, reduction, reduced,
                       reduced_count,
                       reduced_count ? random_sum(builder, indices)
                                     : random_value(builder, indices, 2),
                       nowhere);
    if (output) list_push(program->arena, &program->outputs, target);
    list_push(program->arena, &builder->tensors, target);
}

/* zero[...] = 0; zero[..., table[i], ...] += value: two indices may be equal. */
static void random_scatter(Builder *builder, Block *block) {
    Program *program = builder->program;
    Tensor *target = random_tensor(builder, ROLE_OUTPUT, TYPE_REAL, 1 + (int)dice(builder, 3));
    Tensor *table = any(builder, &builder->ints);
    Index *indices[AXES] = {NULL}, *from = index_new(program, "from", table->axes[0]);
    Expr *zero[MAX_RANK], *subs[MAX_RANK], *index_read = expr_index(program, from);
    int at = (int)dice(builder, target->rank);
    for (int i = 0; i < target->rank; i++) {
        Index *index = index_new(program, target->axes[i]->name, target->axes[i]);
        zero[i] = subs[i] = expr_index(program, index);
        if (i != at) indices[i] = index;
    }
    subs[at] = expr_read(program, table, &index_read);
    indices[at] = from;
    statement_loop(program, block, expr_read(program, target, zero), false, REDUCE_NONE, NULL, 0,
                   expr_number(program, 0), nowhere);
    Expr *value = random_value(builder, indices, 2);
    statement_loop(program, block, expr_read(program, target, subs), true, REDUCE_NONE, &from, 1,
                   value, nowhere);
    list_push(program->arena, &program->outputs, target);
}

/* loss = sum over the outputs of their mean squares. */
static void add_loss(Builder *builder) {
    Program *program = builder->program;
    Block *body = &program->body;
    Tensor *loss = tensor_new(program, "loss", ROLE_OUTPUT, TYPE_REAL, 0, NULL, nowhere);
    Expr *sum = expr_number(program, 0);
    for (int i = 0; i < program->outputs.count; i++) {
        Tensor *output = program->outputs.items[i];
        Tensor *part = tensor_new(program, "part", ROLE_TEMP, TYPE_REAL, 0, NULL, nowhere);
        Index *indices[MAX_RANK];
        for (int j = 0; j < output->rank; j++)
            indices[j] = index_new(program, output->axes[j]->name, output->axes[j]);
        Expr *read = expr_read_indices(program, output, indices);
        Expr *value = expr_apply(program, OP_MUL, read, read, NULL),
             *share = expr_number(program, 1.0 / (double)tensor_elements(output));
        statement_loop(program, body, expr_read(program, part, NULL), false,
                       output->rank ? REDUCE_SUM : REDUCE_NONE, indices, output->rank,
                       expr_apply(program, OP_MUL, value, share, NULL), nowhere);
        sum = expr_apply(program, OP_ADD, sum, expr_read(program, part, NULL), NULL);
    }
    statement_loop(program, body, expr_read(program, loss, NULL), false, REDUCE_NONE, NULL, 0, sum,
                   nowhere);
    list_push(program->arena, &program->outputs, loss);
    program->loss = loss;
}

static void add_given(Builder *builder, int number) {
    Arena *arena = builder->program->arena;
    for (int i = 0; i < 4; i++) {
        Tensor *tensor = random_tensor(builder, i < 2 ? ROLE_PARAMETER : ROLE_INPUT, TYPE_REAL,
                                       1 + (int)dice(builder, 3));
        tensor->input = MOEC_INPUT_REAL;
        if (i < 2) tensor->path = arena_format(arena, "x%d_of_%d", i, number);
        list_push(arena, &builder->tensors, tensor);
    }
    for (int i = 0; i < 2; i++) {
        Tensor *table = random_tensor(builder, ROLE_INPUT, TYPE_INT, 1);
        table->vocabulary = table->axes[0]->size;
        list_push(arena, &builder->ints, table);
    }
}

/* An output of one operation on three parameters, or on its index. */
static void add_operation(Program *program, OpCode op, Axis *axis, Tensor *const given[3]) {
    Index *index = index_new(program, "i", axis);
    Expr *args[3] = {expr_number(program, op), expr_index(program, index), NULL};
    for (int i = 0; i < op_table[op].arity && !op_is_random(op); i++)
        args[i] = expr_read_indices(program, given[i], &index);
    Tensor *value =
        tensor_new(program, op_table[op].name, ROLE_OUTPUT, TYPE_REAL, 1, &axis, nowhere);
    statement_loop(program, &program->body, expr_read_indices(program, value, &index), false,
                   REDUCE_NONE, NULL, 0, expr_apply(program, op, args[0], args[1], args[2]),
                   nowhere);
    list_push(program->arena, &program->outputs, value);
}

/* Every operation of the table once. */
static void add_operations(Builder *builder) {
    Program *program = builder->program;
    Axis *axis = axis_new(program, "axis", 37, AXIS_PLAIN, nowhere);
    Tensor *given[3];
    for (int i = 0; i < 3; i++) {
        given[i] = tensor_new(program, "given", ROLE_PARAMETER, TYPE_REAL, 1, &axis, nowhere);
        given[i]->path = arena_format(program->arena, "given %d", i);
        given[i]->init.a = 1.2 + i;
        given[i]->init.b = 0.4;
        given[i]->init.kind = MOEC_INIT_NORMAL;
    }
    for (int op = 0; op < OP_COUNT; op++) add_operation(program, (OpCode)op, axis, given);
}

/* Every second program has the gradient of its outputs. Number 0 has all operations. */
static Program *random_program(Arena *arena, int number, bool affine) {
    static const long sizes[] = {1, 2, 3, 5, 7, 16, 33, 70, 130};
    Builder builder = {.seed = (uint64_t)number * 77 + 5,
                       .names = (uint64_t)number,
                       .affine = affine ? (uint64_t)number * 1000003 + 11 : 0};
    Reports *reports = arena_alloc(arena, sizeof *reports);
    reports->arena = arena;
    builder.program =
        program_new(arena, reports, "random", number % 2 ? GRAPH_TRAIN : GRAPH_FORWARD, call_table);
    if (number == 0) {
        add_operations(&builder);
        return builder.program;
    }
    for (int i = 0; i < AXES; i++)
        builder.axes[i] = axis_new(builder.program, random_word(&builder), sizes[dice(&builder, 9)],
                                   AXIS_PLAIN, nowhere);
    add_given(&builder, number);
    for (int i = 0; i < STATEMENTS; i++)
        random_statement(&builder, &builder.program->body,
                         i >= STATEMENTS - 4 || dice(&builder, 5) == 0);
    random_scatter(&builder, &builder.program->body);
    if (builder.program->graph == GRAPH_TRAIN) add_loss(&builder);
    return builder.program;
}

/* The programs from number `first` on, ready to be emitted. */
static void random_programs(Arena *arena, int first, bool affine, Program **programs) {
    for (int i = 0; i < PROGRAMS; i++) {
        programs[i] = random_program(arena, first + i, affine);
        if (programs[i]->graph == GRAPH_TRAIN) gradient(programs[i], false);
        simplify(programs[i]);
        char *wrong = well_formed(arena, programs[i]);
        if (wrong) fail_msg("program %d: %s", first + i, wrong);
    }
}

static int number_from(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

/* ---- effect of rounding ---- */

/* Noise of four rounding errors on every value, new in each sample. A value that it moves by a
 * thousandth is at a discontinuity, and the result is undecided. A few samples of noise do not
 * reach its maximum effect. */
enum { NOISES = 4 };
static const double noise = 4 * 0x1p-24, undecided_share = 1e-3, beyond_samples = 2;

typedef struct Verdicts {
    long explained, undecided; /* tensors above their limits */
} Verdicts;

static double distance(const double *one, const double *other, long count) {
    double squares = 0;
    for (long i = 0; i < count; i++) squares += (one[i] - other[i]) * (one[i] - other[i]);
    return sqrt(squares);
}

static double length(const double *values, long count) {
    double squares = 0;
    for (long i = 0; i < count; i++) squares += values[i] * values[i];
    return sqrt(squares);
}

/* Effect of noise on a tensor of a program that `exact` has run; infinite or NaN at a
 * discontinuity. */
static double carried_by_noise(Program *program, Interpreter *exact, const Tensor *tensor,
                               uint64_t seed) {
    double most = 0;
    for (uint64_t number = 1; number <= NOISES; number++) {
        Interpreter *noisy = interpreter_new(program);
        for (int i = 0; i < program->tensors.count; i++) {
            const Tensor *given = program->tensors.items[i];
            size_t count = (size_t)tensor_elements(given);
            if (given->role != ROLE_PARAMETER && given->role != ROLE_INPUT) continue;
            if (given->type == TYPE_INT)
                memcpy(interpreter_int(noisy, given), interpreter_int(exact, given),
                       count * sizeof(long));
            else
                memcpy(interpreter_real(noisy, given), interpreter_real(exact, given),
                       count * sizeof(double));
        }
        interpreter_noise(noisy, noise, number);
        interpreter_run(noisy, seed, true);
        double moved = distance(interpreter_real(exact, tensor), interpreter_real(noisy, tensor),
                                tensor_elements(tensor));
        if (!(moved <= most)) most = moved;
        interpreter_free(noisy);
    }
    return most;
}

/* True if noise explains that a tensor of a random program exceeds its limit by `beyond`; `scale`
 * is the magnitude of the tensor. */
static bool noise_explains(Program *program, Interpreter *exact, const Tensor *tensor,
                           uint64_t seed, double beyond, double scale, Verdicts *verdicts) {
    if (strcmp(program->name, "random") != 0) return false;
    double moved = carried_by_noise(program, exact, tensor, seed);
    bool undecided = !(moved <= undecided_share * scale);
    bool explained = !undecided && beyond <= beyond_samples * moved;
    verdicts->undecided += undecided;
    verdicts->explained += explained;
    return undecided || explained;
}

static void print_verdicts(const Verdicts *verdicts) {
    print_message("above a limit within noise: %ld tensors; undecided: %ld\n",
                  verdicts->explained, verdicts->undecided);
}

#endif

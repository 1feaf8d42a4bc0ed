/* maker: short functions to build programs by hand. Include after cmocka.h; every function is
 * static. */
#ifndef MAKER_H
#define MAKER_H

#include "../../compiler/calls/call_table.h"
#include "../../compiler/passes.h"

typedef struct Maker {
    Program *program;
    Block *block;
} Maker;

static const Span nowhere;

static inline Axis *make_axis(Maker *maker, const char *name, long size) {
    return axis_new(maker->program, name, size, AXIS_PLAIN, nowhere);
}

static inline Index *make_index(Maker *maker, Axis *axis) {
    return index_new(maker->program, axis->name, axis);
}

#define MAKE(maker, name, role, ...)                                                               \
    tensor_new((maker)->program, name, role, TYPE_REAL,                                            \
               (int)(sizeof((Axis *[]){__VA_ARGS__}) / sizeof(Axis *)), (Axis *[]){__VA_ARGS__},   \
               nowhere)
#define AT(maker, tensor, ...) expr_read((maker)->program, tensor, (Expr *[]){__VA_ARGS__})

static inline Tensor *make_scalar(Maker *maker, const char *name, Role role) {
    return tensor_new(maker->program, name, role, TYPE_REAL, 0, NULL, nowhere);
}

static inline Expr *at_index(Maker *maker, Index *index) {
    return expr_index(maker->program, index);
}

static inline Expr *number(Maker *maker, double value) {
    return expr_number(maker->program, value);
}

static inline Expr *apply(Maker *maker, OpCode op, Expr *a, Expr *b) {
    return expr_apply(maker->program, op, a, b, NULL);
}

static inline Expr *times(Maker *maker, Expr *a, Expr *b) {
    return apply(maker, OP_MUL, a, b);
}

static inline Expr *plus(Maker *maker, Expr *a, Expr *b) {
    return apply(maker, OP_ADD, a, b);
}

/* target = value, without a sum. */
static inline void set(Maker *maker, Expr *target, Expr *value) {
    statement_loop(maker->program, maker->block, target, false, REDUCE_NONE, NULL, 0, value,
                   nowhere);
}

static inline void reduce(Maker *maker, Expr *target, Reduction reduction, Index *first,
                          Index *second, Expr *value) {
    Index *reduced[] = {first, second};
    statement_loop(maker->program, maker->block, target, false, reduction, reduced, second ? 2 : 1,
                   value, nowhere);
}

static inline Maker maker_new(Arena *arena) {
    Reports *reports = arena_alloc(arena, sizeof *reports);
    reports->arena = arena;
    Program *program = program_new(arena, reports, "test", GRAPH_TRAIN, call_table);
    return (Maker){program, &program->body};
}

#endif

/* emit: what the parts of the C emitter share. */
#ifndef EMIT_H
#define EMIT_H

#include "kernel.h"
#include "nest.h"

/* A name given to an index or a hoisted value while the text that may use it is written. */
typedef struct Binding {
    const Index *index; /* NULL: a hoisted expression, known by its text */
    const char *text;
    const char *name;
} Binding;

typedef struct Emitter {
    Arena *arena;
    Program *program;
    Schedule *schedule;
    const char *prefix; /* of the functions of this program: "train" */
    const char **names; /* by tensor->id: what C calls it */
    bool *declared;     /* by tensor->id: the function that runs the program needs a pointer */
    int kernels;        /* how many have been written */
    List *products;     /* Product *, of all programs */
    double flops, product_flops, turns;

    Text functions; /* the kernels */
    Text *out;      /* what lines are added to */
    int indent;

    /* bindings in scope, innermost last */
    Binding *bindings;
    int binding_count, binding_capacity;

    /* the kernel that is being written */
    Kernel *kernel;
    bool *used, *written; /* by tensor->id: touched in memory */
    bool *known;          /* by place in kernel->locals: the variable exists */
    const char **locals;  /* names of the variables */
    bool uses_seed;
    List turns_used; /* Index * of repeats around */
} Emitter;

/* ---- emit_names.c ---- */

/* Gives every tensor of the program a name that is free in C. */
void name_tensors(Emitter *emitter);
/* `wanted`, changed where C or something in scope has the name already; stays taken until the
 * bindings are dropped. */
const char *bind_name(Emitter *emitter, const Index *index, const char *text, const char *wanted);
/* Another index with a name that is bound already. */
void bind_alias(Emitter *emitter, const Index *index, const char *name);
const char *bound_index(const Emitter *emitter, const Index *index);
const char *bound_text(const Emitter *emitter, const char *text);
/* One line (or several, where it is long) at the current indent. */
void emit_line(Emitter *emitter, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Without the parentheses around all of it. */
const char *bare(Arena *arena, const char *text);
/* A C string literal, quoted. */
const char *quoted(Arena *arena, const char *text);
/* `file.moe:12` of a span, or an empty text. */
const char *line_of(Arena *arena, Span span);
/* The axes of a tensor: "[batch, s, d]". */
const char *axes_of(Arena *arena, const Tensor *tensor);

/* ---- emit_expr.c ---- */

/* The value of an expression as a float, or as an integer. */
const char *real_text(Emitter *emitter, const Expr *expr);
const char *integer_text(Emitter *emitter, const Expr *expr);
/* The element that `access` names, in memory or in a local; `inside` receives the condition under
 * which it exists, or NULL. */
const char *element_text(Emitter *emitter, const Expr *access, const char **inside);
/* `name + offset` of the element of a read where all loops are 0. */
const char *pointer_text(Emitter *emitter, const Expr *access);
const char *number_text(Arena *arena, double number);
bool is_computed(const Expr *sub);

/* ---- emit_kernel.c, emit_loops.c ---- */

/* Writes the function of a kernel into emitter->functions and the call of it at the current line.
 */
void emit_kernel(Emitter *emitter, Kernel *kernel);
/* Makes the kernel the one that is being written. */
void begin_kernel(Emitter *emitter, Kernel *kernel);
void emit_nests(Emitter *emitter, Nest *root);
void emit_member(Emitter *emitter, Member *member);
/* Stores `value` into the target of the member's statement. */
void emit_store(Emitter *emitter, Member *member, const char *value);
/* The local scalar that the sum of a reduction can be kept in, else NULL. */
const char *scalar_of(const Emitter *emitter, const Member *member, Local **local);
/* ---- emit_calls.c, emit_units.c ---- */

void emit_call(Emitter *emitter, const Statement *statement);
void emit_contraction(Emitter *emitter, const ScheduleUnit *unit);
void emit_units(Emitter *emitter, const List *units);

/* ---- emit_program.c, emit_update.c, emit_table.c ---- */

/* What the table says of one program after it was emitted. */
typedef struct Emitted {
    Program *program;
    Schedule *schedule;
    const char *prefix;
    int first_product, product_count;
    double flops, product_flops;
} Emitted;

/* The layout of the weights and states blocks: each parameter of any program once, by path. */
typedef struct Layout {
    List tensors;    /* Tensor * */
    size_t *offsets; /* by place in tensors */
    size_t bytes;
} Layout;

size_t layout_offset(const Layout *layout, const Tensor *tensor);
Layout layout_of(Arena *arena, Program *const *programs, int count, Role role);

Emitter *emitter_new(Arena *arena, Program *program, const char *prefix, List *products);
Emitted *emit_program(Arena *arena, Text *text, Program *program, const char *prefix,
                      const Layout *weights, const Layout *states, List *products);
void emit_update(Arena *arena, Text *text, Program *program);
void emit_table(Arena *arena, Text *text, const char *model, const List *emitted, bool update,
                const Layout *weights, const Layout *states, const List *products);

#endif

/* A routed program has the results of the dense program: masks of several kinds, with gradients,
 * inside and outside of repeats. */
#include "calls/call_table.h"
#include "passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const Span nowhere;

typedef struct Options {
    bool repeated;     /* three steps over a carried stream, weights stacked */
    bool nested;       /* a second selection in the rows of the first */
    bool by_data;      /* the selection is along the sequence */
    bool grouped;      /* selections within groups: one more key */
    bool renormalised; /* weights divided by the sum of the selected */
    bool counted;      /* a dense use of the inner mask in the loss */
    bool recompute;
} Options;

/* A program under construction; single letters name axes and indices. */
typedef struct Build {
    Program *program;
    Axis *axes[128];
    Index *indices[128];
    Block *block;
} Build;

static void axis(Build *build, char letter, long size, AxisKind kind) {
    const char *name = arena_format(build->program->arena, "%c", letter);
    build->axes[(int)letter] = axis_new(build->program, name, size, kind, nowhere);
    build->indices[(int)letter] = index_new(build->program, name, build->axes[(int)letter]);
}

static Tensor *tensor(Build *build, const char *name, const char *letters, Role role) {
    Axis *axes[MAX_RANK];
    int rank = (int)strlen(letters);
    for (int i = 0; i < rank; i++) axes[i] = build->axes[(int)letters[i]];
    Tensor *made = tensor_new(build->program, name, role, TYPE_REAL, rank, axes, nowhere);
    if (role == ROLE_PARAMETER) made->path = made->name;
    if (role == ROLE_INPUT) made->input = MOEC_INPUT_REAL;
    return made;
}

static Expr *at(Build *build, Tensor *read, const char *letters) {
    Index *indices[MAX_RANK];
    for (int i = 0; letters[i]; i++) indices[i] = build->indices[(int)letters[i]];
    return expr_read_indices(build->program, read, indices);
}

static Expr *op(Build *build, OpCode code, Expr *a, Expr *b) {
    return expr_apply(build->program, code, a, b, NULL);
}

static Expr *times(Build *build, Expr *a, Expr *b) {
    return op(build, OP_MUL, a, b);
}

/* target = sum over the letters of `reduced` of value. */
static void set(Build *build, Expr *target, const char *reduced, Expr *value) {
    Index *indices[MAX_RANK];
    int count = (int)strlen(reduced);
    for (int i = 0; i < count; i++) indices[i] = build->indices[(int)reduced[i]];
    statement_loop(build->program, build->block, target, false, count ? REDUCE_SUM : REDUCE_NONE,
                   indices, count, value, nowhere);
}

static Expr *define(Build *build, const char *name, const char *letters, const char *reduced,
                    Expr *value) {
    Expr *target = at(build, tensor(build, name, letters, ROLE_TEMP), letters);
    set(build, target, reduced, value);
    return target;
}

static Expr *weight(Build *build, const char *name, const char *letters, const Options *options) {
    const char *full =
        options->repeated ? arena_format(build->program->arena, "l%s", letters) : letters;
    return at(build, tensor(build, name, full, ROLE_PARAMETER), full);
}

static Expr *choose(Build *build, const char *name, const char *letters, Expr *scores,
                    int dimension, long k) {
    Expr *mask = at(build, tensor(build, name, letters, ROLE_TEMP), letters);
    Statement *top = statement_call(build->program, build->block, CALL_TOP, nowhere);
    list_push(build->program->arena, &top->inputs, scores);
    list_push(build->program->arena, &top->outputs, mask);
    top->top.k = k;
    top->top.dimension = dimension;
    return mask;
}

static const char *cat(Build *build, const char *prefix, const char *letters) {
    return arena_format(build->program->arena, "%s%s", prefix, letters);
}

/* The part of the hidden layer from a second selection; A is the letters of the first mask. */
static Expr *inner_choice(Build *build, const char *A, const char *keys, Expr *x,
                          const Options *options, Expr **count) {
    Expr *router = weight(build, "inner_router", cat(build, keys, "dm"), options);
    Expr *logits = define(build, "logits", cat(build, A, "m"), "d", times(build, x, router));
    Expr *e = define(build, "pe", cat(build, A, "m"), "", op(build, OP_EXP, logits, NULL));
    Expr *total = define(build, "pt", A, "m", e);
    Expr *pi = define(build, "pi", cat(build, A, "m"), "", op(build, OP_DIV, e, total));
    Expr *picked = choose(build, "picked", cat(build, A, "m"), pi, (int)strlen(A), 2);
    Expr *down = weight(build, "A", cat(build, keys, "mdr"), options),
         *up = weight(build, "B", cat(build, keys, "mrf"), options);
    Expr *low = define(build, "low", cat(build, A, "mr"), "d", times(build, x, down));
    Expr *high = define(build, "high", cat(build, A, "mf"), "r", times(build, low, up));
    if (options->counted) {
        Expr *part = times(build, picked, pi);
        set(build, *count = at(build, tensor(build, "count", "m", ROLE_TEMP), "m"), A, part);
    }
    return define(build, "added", cat(build, A, "f"), "m",
                  times(build, picked, times(build, pi, high)));
}

/* One block: y[b,s,d] from x[b,s,d], the sum over selected n (and g) of weighted two-layer
 * networks. */
static Expr *block_of(Build *build, Expr *x, const Options *options, Expr **count) {
    const char *keys = options->grouped ? "gn" : "n", *A = options->grouped ? "bsgn" : "bsn";
    Expr *router = weight(build, "router", cat(build, "d", keys), options);
    Expr *scores = define(build, "scores", A, "d", times(build, x, router));
    Expr *p = define(build, "p", A, "", op(build, OP_SIGMOID, scores, NULL));
    Expr *chosen = options->by_data ? choose(build, "chosen", A, p, 1, 3)
                                    : choose(build, "chosen", A, p, (int)strlen(A) - 1, 2);
    Expr *up = weight(build, "up", cat(build, keys, "df"), options),
         *down = weight(build, "down", cat(build, keys, "fd"), options);
    Expr *bias = weight(build, "bias", cat(build, keys, "f"), options),
         *scale = weight(build, "scale", "f", options);
    Expr *h = define(build, "h", cat(build, A, "f"), "d", times(build, x, up));
    if (options->nested) {
        Expr *added = inner_choice(build, A, keys, x, options, count);
        h = define(build, "hh", cat(build, A, "f"), "", op(build, OP_ADD, h, added));
    }
    Expr *act = define(build, "act", cat(build, A, "f"), "",
                       times(build, scale, op(build, OP_TANH, op(build, OP_ADD, h, bias), NULL)));
    /* d and o have one axis, so that the output can be carried to the next step */
    Expr *e = define(build, "e", cat(build, A, "o"), "f",
                     times(build, act,
                           at(build, down->tensor,
                              options->repeated ? cat(build, cat(build, "l", keys), "fo")
                                                : cat(build, keys, "fo"))));
    Expr *w = times(build, chosen, p);
    if (options->renormalised) {
        Expr *total = define(build, "total", "bs", keys, times(build, chosen, p));
        w = times(build, chosen,
                  define(build, "w", A, "",
                         op(build, OP_DIV, p,
                            op(build, OP_ADD, total, expr_number(build->program, 1e-3)))));
    }
    return define(build, "y", "bso", keys, times(build, w, e));
}

static Program *build_program(Arena *arena, const Options *options) {
    Build build = {.program = program_new(arena, NULL, "test", GRAPH_TRAIN, call_table)};
    Program *program = build.program;
    build.block = &program->body;
    axis(&build, 'l', 3, AXIS_REPEAT);
    axis(&build, 'L', 4, AXIS_REPEAT);
    axis(&build, 'b', 2, AXIS_BATCH);
    axis(&build, 's', 5, AXIS_SEQUENCE);
    axis(&build, 'd', 3, AXIS_PLAIN);
    axis(&build, 'f', 4, AXIS_PLAIN);
    axis(&build, 'g', 2, AXIS_PLAIN);
    axis(&build, 'n', 4, AXIS_PLAIN);
    axis(&build, 'm', 3, AXIS_PLAIN);
    axis(&build, 'r', 2, AXIS_PLAIN);
    build.axes['o'] = build.axes['d'];
    build.indices['o'] = index_new(program, "o", build.axes['d']);
    Expr *x = at(&build, tensor(&build, "x", "bsd", ROLE_INPUT), "bsd"), *count = NULL, *y;
    if (options->repeated) {
        Tensor *stream = tensor(&build, "stream", "Lbsd", ROLE_TEMP);
        Expr *subs[4] = {expr_number(program, 0), x->args[0], x->args[1], x->args[2]};
        set(&build, expr_read(program, stream, subs), "", x);
        Statement *repeat =
            statement_repeat(program, &program->body, build.indices['l'], false, nowhere);
        build.block = &repeat->body;
        subs[0] = expr_index(program, build.indices['l']);
        y = block_of(&build, expr_read(program, stream, subs), options, &count);
        subs[3] = expr_index(program, build.indices['o']);
        Expr *before = expr_read(program, stream, subs);
        subs[0] = op(&build, OP_ADD, subs[0], expr_number(program, 1));
        set(&build, expr_read(program, stream, subs), "", op(&build, OP_ADD, before, y));
        build.block = &program->body;
        subs[0] = expr_number(program, 3);
        y = expr_read(program, stream, subs);
    } else
        y = block_of(&build, x, options, &count);
    Expr *loss = define(&build, "first", "", "bso", times(&build, y, y));
    if (count && !options->repeated)
        loss = op(&build, OP_ADD, loss,
                  define(&build, "second", "", "m", times(&build, count, count)));
    program->loss = tensor(&build, "loss", "", ROLE_OUTPUT);
    set(&build, expr_read(program, program->loss, NULL), "", loss);
    list_push(arena, &program->outputs, program->loss);
    gradient(program, options->recompute);
    return program;
}

/* Values from the name and the index: equal in both programs. */
static void fill(Interpreter *eval, const Tensor *tensor) {
    unsigned seed = 17;
    for (const char *c = tensor->name; *c; c++) seed = seed * 31 + (unsigned char)*c;
    for (long i = 0; i < tensor_elements(tensor); i++) {
        seed = seed * 1664525u + 1013904223u;
        interpreter_real(eval, tensor)[i] = (double)(seed >> 8) / (1 << 24) * 1.6 - 0.8;
    }
}

static Interpreter *run(Program *program) {
    Interpreter *eval = interpreter_new(program);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_INPUT) fill(eval, tensor);
    }
    const char *message = interpreter_run(eval, 1, true);
    if (message) fail_msg("%s", message);
    return eval;
}

static Tensor *find(const Program *program, const char *name) {
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (strcmp(tensor->name, name) == 0) return tensor;
    }
    return NULL;
}

static void compare(Program *dense, Interpreter *expected, Program *routed, Interpreter *found) {
    int gradients = 0;
    for (int i = 0; i < dense->tensors.count; i++) {
        const Tensor *tensor = dense->tensors.items[i];
        if (tensor->role != ROLE_OUTPUT && tensor->role != ROLE_GRADIENT) continue;
        const double *a = interpreter_real(expected, tensor),
                     *b = interpreter_real(found, find(routed, tensor->name));
        double error = 0, norm = 0;
        for (long j = 0; j < tensor_elements(tensor); j++) {
            error += (a[j] - b[j]) * (a[j] - b[j]);
            norm += a[j] * a[j];
        }
        if (!(sqrt(error) <= 1e-12 * sqrt(norm)) || norm == 0)
            fail_msg("%s: error %g of norm %g", tensor->name, sqrt(error), sqrt(norm));
        gradients += tensor->role == ROLE_GRADIENT;
    }
    assert_true(gradients > 4);
}

/* The same model dense and routed. */
static void check(const Options *options, int relations) {
    Arena *arena = arena_new();
    Program *dense = build_program(arena, options), *routed = build_program(arena, options);
    route(routed);
    char *message = well_formed(arena, routed);
    if (message) fail_msg("%s", message);
    assert_int_equal(routed->relations.count, relations);
    Interpreter *expected = run(dense), *found = run(routed);
    compare(dense, expected, routed, found);
    interpreter_free(expected);
    interpreter_free(found);
    arena_free(arena);
}

static void plain_choice(void **state) {
    (void)state;
    check(&(Options){.repeated = false}, 1);
    check(&(Options){.renormalised = true}, 1);
    check(&(Options){.by_data = true}, 1);
    check(&(Options){.grouped = true}, 1);
}

static void nested_choice(void **state) {
    (void)state;
    check(&(Options){.nested = true}, 2);
    check(&(Options){.nested = true, .renormalised = true, .grouped = true}, 2);
    check(&(Options){.nested = true, .by_data = true}, 2);
    check(&(Options){.nested = true, .counted = true}, 2);
}

static void repeated_choice(void **state) {
    (void)state;
    check(&(Options){.repeated = true, .renormalised = true}, 2);
    check(&(Options){.repeated = true, .grouped = true}, 2);
    check(&(Options){.repeated = true, .nested = true}, 4);
    check(&(Options){.repeated = true, .nested = true, .grouped = true}, 4);
    check(&(Options){.repeated = true, .by_data = true}, 2);
}

static void recomputed_choice(void **state) {
    (void)state;
    check(&(Options){.repeated = true, .recompute = true}, 2);
    check(&(Options){.repeated = true, .nested = true, .recompute = true}, 4);
}

/* Dense tensors of the dispatched program are used: none has both the axes of the mask and a hidden
 * layer. */
static void packs_everything(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Program *program = build_program(arena, &(Options){.repeated = true, .nested = true});
    route(program);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        bool token = false, choice = false, more = false;
        for (int j = 0; j < tensor->rank; j++) {
            token |= tensor->axes[j]->kind == AXIS_SEQUENCE;
            choice |= strcmp(tensor->axes[j]->name, "n") == 0;
            more |= strchr("dfmr", tensor->axes[j]->name[0]) != NULL;
        }
        if (token && choice && more) fail_msg("%s stayed dense", tensor->name);
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_choice),     cmocka_unit_test(nested_choice),
        cmocka_unit_test(repeated_choice),  cmocka_unit_test(recomputed_choice),
        cmocka_unit_test(packs_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gradient: every gradient of handwritten programs against central differences in double precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "maker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- losses ---- */

/* loss = sum over all elements of tensor[i] * (a different number per element) + a square. */
static void make_loss(Maker *maker, Tensor *tensor) {
    Index *indices[MAX_RANK];
    Expr *phase = number(maker, 0.25);
    for (int i = 0; i < tensor->rank; i++) {
        indices[i] = make_index(maker, tensor->axes[i]);
        phase = plus(maker, times(maker, phase, number(maker, 1.7)), at_index(maker, indices[i]));
    }
    Expr *read = expr_read_indices(maker->program, tensor, indices);
    Expr *value = times(
        maker, read,
        plus(maker, apply(maker, OP_SIN, phase, NULL), times(maker, number(maker, 0.3), read)));
    Tensor *loss = make_scalar(maker, "loss", ROLE_OUTPUT);
    maker->program->loss = loss;
    list_push(maker->program->arena, &maker->program->outputs, loss);
    statement_loop(maker->program, maker->block, expr_read(maker->program, loss, NULL), false,
                   REDUCE_SUM, indices, tensor->rank, value, nowhere);
}

/* ---- comparison ---- */

static double pseudo_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0 * 2 - 1;
}

static void fill(Program *program, Interpreter *eval) {
    uint64_t state = 7;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        long elements = tensor_elements(tensor);
        if (tensor->type == TYPE_INT) {
            if (tensor->role != ROLE_INPUT) continue;
            for (long k = 0; k < elements; k++)
                interpreter_int(eval, tensor)[k] = (k * 5 + 1) % tensor->vocabulary;
        } else if (strcmp(tensor->name, "loss_scale") == 0) {
            interpreter_real(eval, tensor)[0] = 1;
        } else if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_INPUT ||
                   tensor->role == ROLE_STATE) {
            for (long k = 0; k < elements; k++)
                interpreter_real(eval, tensor)[k] = pseudo_random(&state) + tensor->init.a;
        }
    }
}

static double run_loss(Program *program, Interpreter *eval) {
    const char *problem = interpreter_run(eval, 3, true);
    if (problem) fail_msg("%s", problem);
    return interpreter_real(eval, program->loss)[0];
}

static void check_parameter(Program *program, Interpreter *eval, const Tensor *gradient) {
    long elements = tensor_elements(gradient);
    double *derived = malloc((size_t)elements * sizeof *derived);
    memset(interpreter_real(eval, gradient), 0, (size_t)elements * sizeof *derived);
    run_loss(program, eval);
    memcpy(derived, interpreter_real(eval, gradient), (size_t)elements * sizeof *derived);
    double difference = 0, norm = 0;
    for (long k = 0; k < elements; k++) {
        double *weight = interpreter_real(eval, gradient->of) + k, before = *weight, step = 1e-5;
        *weight = before + step;
        double above = run_loss(program, eval);
        *weight = before - step;
        double below = run_loss(program, eval);
        *weight = before;
        double measured = (above - below) / (2 * step);
        difference += (measured - derived[k]) * (measured - derived[k]);
        norm += measured * measured;
    }
    free(derived);
    if (!(sqrt(difference) <= 1e-7 * (1 + sqrt(norm)))) /* also for NaN */
        fail_msg("gradient of %s is off by %g of %g:\n%s", gradient->of->name, sqrt(difference),
                 sqrt(norm), print_program(program->arena, program));
}

static void expect_valid(Program *program) {
    char *problem = well_formed(program->arena, program);
    if (problem) fail_msg("%s\n%s", problem, print_program(program->arena, program));
}

/* Differentiates, simplifies on request, and compares every parameter. Returns the number of gradients. */
static int check(Program *program, bool recompute, bool simpler) {
    expect_valid(program);
    gradient(program, recompute);
    expect_valid(program);
    if (simpler) {
        simplify(program);
        expect_valid(program);
    }
    if (getenv("SHOW")) printf("%s\n", print_program(program->arena, program));
    Interpreter *eval = interpreter_new(program);
    fill(program, eval);
    int count = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_GRADIENT) continue;
        check_parameter(program, eval, tensor);
        count++;
    }
    interpreter_free(eval);
    return count;
}

typedef void Make(Maker *maker);

static void check_all(Make *make, int gradients) {
    for (int variant = 0; variant < 4; variant++) {
        Arena *arena = arena_new();
        Maker maker = maker_new(arena);
        make(&maker);
        assert_int_equal(check(maker.program, variant & 1, variant & 2), gradients);
        arena_free(arena);
    }
}

/* ---- operations ---- */

/* y[a] = op(p[a], q[a], r[a]), away from the discontinuities of the operation. */
static void check_operation(OpCode op) {
    static const char *const names[] = {"p", "q", "r"};
    Arena *arena = arena_new();
    Maker maker = maker_new(arena);
    Axis *axis = make_axis(&maker, "a", 5);
    Index *index = make_index(&maker, axis);
    Expr *args[3] = {NULL};
    for (int i = 0; i < op_table[op].arity; i++) {
        Tensor *tensor = MAKE(&maker, names[i], ROLE_PARAMETER, axis);
        tensor->init.a = 2 + 3 * i;
        args[i] = AT(&maker, tensor, at_index(&maker, index));
    }
    Tensor *y = MAKE(&maker, "y", ROLE_TEMP, axis);
    set(&maker, AT(&maker, y, at_index(&maker, index)),
        expr_apply(maker.program, op, args[0], args[1], args[2]));
    make_loss(&maker, y);
    assert_int_equal(check(maker.program, false, false), op_table[op].arity);
    arena_free(arena);
}

static void test_operations(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        if (!op_is_random((OpCode)op) && op != OP_STOP) check_operation((OpCode)op);
}

/* ---- statements ---- */

/* A small network: gather, normalization, two contractions, softmax cross-entropy. */
static void make_network(Maker *maker) {
    Axis *b = make_axis(maker, "b", 2), *s = make_axis(maker, "s", 3),
         *v = make_axis(maker, "v", 5);
    Axis *d = make_axis(maker, "d", 4), *f = make_axis(maker, "f", 6);
    Expr *ib = at_index(maker, make_index(maker, b)), *is = at_index(maker, make_index(maker, s));
    Expr *iv = at_index(maker, make_index(maker, v)), *id = at_index(maker, make_index(maker, d));
    Expr *i_f = at_index(maker, make_index(maker, f));
    Tensor *tokens =
        tensor_new(maker->program, "tokens", ROLE_INPUT, TYPE_INT, 2, (Axis *[]){b, s}, nowhere);
    tokens->vocabulary = 5;
    Tensor *table = MAKE(maker, "table", ROLE_PARAMETER, v, d),
           *w = MAKE(maker, "w", ROLE_PARAMETER, d, f);
    Tensor *u = MAKE(maker, "u", ROLE_PARAMETER, d, f), *o = MAKE(maker, "o", ROLE_PARAMETER, f, d);
    Tensor *x = MAKE(maker, "x", ROLE_TEMP, b, s, d), *r = MAKE(maker, "r", ROLE_TEMP, b, s);
    Tensor *g = MAKE(maker, "g", ROLE_TEMP, b, s, f), *h = MAKE(maker, "h", ROLE_TEMP, b, s, f);
    Tensor *up = MAKE(maker, "up", ROLE_TEMP, b, s, f), *y = MAKE(maker, "y", ROLE_TEMP, b, s, d);
    Tensor *logit = MAKE(maker, "logit", ROLE_TEMP, b, s, v),
           *z = MAKE(maker, "z", ROLE_TEMP, b, s);
    Tensor *best = MAKE(maker, "best", ROLE_TEMP, b, s),
           *cost = MAKE(maker, "cost", ROLE_TEMP, b, s);
    Expr *token = AT(maker, tokens, ib, is), *xr = AT(maker, x, ib, is, id),
         *rr = AT(maker, r, ib, is);
    set(maker, xr, AT(maker, table, token, id));
    reduce(maker, rr, REDUCE_SUM, id->index, NULL, times(maker, xr, xr));
    Expr *normed =
        times(maker, xr, apply(maker, OP_RSQRT, plus(maker, rr, number(maker, 1e-3)), NULL));
    reduce(maker, AT(maker, g, ib, is, i_f), REDUCE_SUM, id->index, NULL,
           times(maker, normed, AT(maker, w, id, i_f)));
    reduce(maker, AT(maker, up, ib, is, i_f), REDUCE_SUM, id->index, NULL,
           times(maker, normed, AT(maker, u, id, i_f)));
    Expr *gr = AT(maker, g, ib, is, i_f);
    set(maker, AT(maker, h, ib, is, i_f),
        times(maker, times(maker, gr, apply(maker, OP_SIGMOID, gr, NULL)),
              AT(maker, up, ib, is, i_f)));
    reduce(maker, AT(maker, y, ib, is, id), REDUCE_SUM, i_f->index, NULL,
           times(maker, AT(maker, h, ib, is, i_f), AT(maker, o, i_f, id)));
    Expr *sum = plus(maker, AT(maker, y, ib, is, id), xr);
    reduce(maker, AT(maker, logit, ib, is, iv), REDUCE_SUM, id->index, NULL,
           times(maker, sum, AT(maker, table, iv, id)));
    reduce(maker, AT(maker, best, ib, is), REDUCE_MAX, iv->index, NULL,
           AT(maker, logit, ib, is, iv));
    Expr *top = apply(maker, OP_STOP, AT(maker, best, ib, is), NULL);
    Expr *shifted = apply(maker, OP_SUB, AT(maker, logit, ib, is, iv), top);
    reduce(maker, AT(maker, z, ib, is), REDUCE_SUM, iv->index, NULL,
           apply(maker, OP_EXP, shifted, NULL));
    Expr *log = plus(maker, top, apply(maker, OP_LOG, AT(maker, z, ib, is), NULL));
    set(maker, AT(maker, cost, ib, is), apply(maker, OP_SUB, log, AT(maker, logit, ib, is, token)));
    make_loss(maker, cost);
}

static void test_network(void **state) {
    (void)state;
    check_all(make_network, 4);
}

/* Computed subscripts: rotation of a whole axis and of a part, shift, a diagonal, a gather along one axis, a constant index. */
static void make_subscripts(Maker *maker) {
    Axis *s = make_axis(maker, "s", 6), *d = make_axis(maker, "d", 6);
    Index *is = make_index(maker, s), *id = make_index(maker, d);
    Expr *es = at_index(maker, is), *ed = at_index(maker, id);
    Tensor *p = MAKE(maker, "p", ROLE_PARAMETER, s, d), *q = MAKE(maker, "q", ROLE_PARAMETER, s);
    Tensor *x = MAKE(maker, "x", ROLE_TEMP, s, d), *y = MAKE(maker, "y", ROLE_TEMP, s, d);
    Tensor *r = MAKE(maker, "r", ROLE_TEMP, s), *z = MAKE(maker, "z", ROLE_TEMP, s, d);
    set(maker, AT(maker, x, es, ed), apply(maker, OP_SIN, AT(maker, p, es, ed), NULL));
    Expr *wrapped =
        AT(maker, x, es, apply(maker, OP_MOD, plus(maker, ed, number(maker, 2)), number(maker, 6)));
    Expr *part =
        AT(maker, x, es, apply(maker, OP_MOD, plus(maker, ed, number(maker, 3)), number(maker, 4)));
    Expr *low = apply(maker, OP_LT, ed, number(maker, 4));
    Expr *rotated =
        expr_apply(maker->program, OP_WHERE, low, times(maker, part, wrapped), AT(maker, x, es, ed));
    Expr *before = AT(maker, x, apply(maker, OP_SUB, es, number(maker, 2)), ed);
    Expr *after = AT(maker, q, plus(maker, es, number(maker, 1)));
    Expr *folded =
        AT(maker, x, es, apply(maker, OP_FLOOR, apply(maker, OP_DIV, ed, number(maker, 2)), NULL));
    Expr *fixed = AT(maker, x, number(maker, 1), ed);
    Expr *all =
        plus(maker, plus(maker, rotated, times(maker, before, after)), times(maker, folded, fixed));
    set(maker, AT(maker, y, es, ed), all);
    set(maker, AT(maker, r, es), times(maker, AT(maker, y, es, es), AT(maker, q, es)));
    /* a sum of only shifted values: values out of bounds are 0 */
    reduce(maker, AT(maker, z, number(maker, 0), ed), REDUCE_SUM, is, NULL, before);
    Tensor *total = MAKE(maker, "total", ROLE_TEMP, s, d);
    set(maker, AT(maker, total, es, ed),
        plus(maker, plus(maker, AT(maker, y, es, ed), AT(maker, r, es)),
             AT(maker, z, number(maker, 0), ed)));
    make_loss(maker, total);
}

/* 1 / t[i] is infinite outside of the axis of i, where x[i + 4] is not read. */
static void make_divided_slice(Maker *maker) {
    Axis *d = make_axis(maker, "d", 9), *n = make_axis(maker, "n", 3);
    Expr *en = at_index(maker, make_index(maker, n));
    Tensor *x = MAKE(maker, "x", ROLE_PARAMETER, d), *t = MAKE(maker, "t", ROLE_PARAMETER, n);
    Tensor *y = MAKE(maker, "y", ROLE_TEMP, n);
    Expr *divisor = plus(maker, times(maker, AT(maker, t, en), AT(maker, t, en)), number(maker, 0));
    set(maker, AT(maker, y, en),
        times(maker, AT(maker, x, plus(maker, en, number(maker, 4))),
              apply(maker, OP_DIV, AT(maker, t, en), divisor)));
    make_loss(maker, y);
}

/* x[(i + 2) % 9] over 4 iterations, without a factor that depends on i; x[3 * i + i]: a diagonal. */
static void make_remainder(Maker *maker) {
    Axis *d = make_axis(maker, "d", 9), *n = make_axis(maker, "n", 4), *h = make_axis(maker, "h", 3);
    Expr *en = at_index(maker, make_index(maker, n)), *eh = at_index(maker, make_index(maker, h));
    Tensor *x = MAKE(maker, "x", ROLE_PARAMETER, d), *w = MAKE(maker, "w", ROLE_PARAMETER, d);
    Tensor *y = MAKE(maker, "y", ROLE_TEMP, h);
    Tensor *turned = make_scalar(maker, "turned", ROLE_TEMP);
    Expr *subscript = apply(maker, OP_MOD, plus(maker, en, number(maker, 2)), number(maker, 9));
    reduce(maker, expr_read(maker->program, turned, NULL), REDUCE_SUM, en->index, NULL,
           AT(maker, x, subscript));
    Expr *diagonal = plus(maker, times(maker, eh, number(maker, 3)), eh);
    set(maker, AT(maker, y, eh),
        times(maker, AT(maker, w, diagonal), expr_read(maker->program, turned, NULL)));
    make_loss(maker, y);
}

static void test_subscripts(void **state) {
    (void)state;
    check_all(make_subscripts, 2);
    check_all(make_divided_slice, 2);
    check_all(make_remainder, 2);
}

/* Maximum and minimum, a mean over all axes, a contraction with other factors, a mask from the index of the maximum. */
static void make_reductions(Maker *maker) {
    Axis *s = make_axis(maker, "s", 4), *n = make_axis(maker, "n", 5),
         *d = make_axis(maker, "d", 3);
    Expr *es = at_index(maker, make_index(maker, s)), *en = at_index(maker, make_index(maker, n));
    Expr *ed = at_index(maker, make_index(maker, d));
    Tensor *p = MAKE(maker, "p", ROLE_PARAMETER, s, n), *w = MAKE(maker, "w", ROLE_PARAMETER, n, d);
    Tensor *mask = MAKE(maker, "mask", ROLE_TEMP, s, n),
           *largest = MAKE(maker, "largest", ROLE_TEMP, s);
    Tensor *least = MAKE(maker, "least", ROLE_TEMP, n), *y = MAKE(maker, "y", ROLE_TEMP, s, d);
    Tensor *all = make_scalar(maker, "all", ROLE_TEMP),
           *total = MAKE(maker, "total", ROLE_TEMP, s, d);
    Statement *top = statement_call(maker->program, maker->block, CALL_TOP, nowhere);
    top->top.k = 2;
    top->top.dimension = 1;
    list_push(maker->program->arena, &top->inputs, AT(maker, p, es, en));
    list_push(maker->program->arena, &top->outputs, AT(maker, mask, es, en));
    reduce(maker, AT(maker, largest, es), REDUCE_MAX, en->index, NULL,
           apply(maker, OP_SIN, AT(maker, p, es, en), NULL));
    reduce(maker, AT(maker, least, en), REDUCE_MIN, es->index, NULL, AT(maker, p, es, en));
    Expr *masked =
        times(maker, AT(maker, mask, es, en), apply(maker, OP_TANH, AT(maker, p, es, en), NULL));
    Expr *bent = apply(maker, OP_DIV, AT(maker, w, en, ed), number(maker, 3));
    reduce(maker, AT(maker, y, es, ed), REDUCE_SUM, en->index, NULL,
           times(maker, times(maker, masked, AT(maker, least, en)),
                 times(maker, bent, AT(maker, largest, es))));
    reduce(maker, expr_read(maker->program, all, NULL), REDUCE_SUM, es->index, en->index,
           number(maker, 0.1));
    statement_loop(maker->program, maker->block, expr_read(maker->program, all, NULL), true,
                   REDUCE_SUM, (Index *[]){es->index, ed->index}, 2, AT(maker, y, es, ed), nowhere);
    set(maker, AT(maker, total, es, ed),
        times(maker, AT(maker, y, es, ed), expr_read(maker->program, all, NULL)));
    make_loss(maker, total);
}

static void test_reductions(void **state) {
    (void)state;
    check_all(make_reductions, 2);
}

/* On a tie, the first element in index order receives the whole gradient. */
static void check_ties(Reduction reduction, bool both) {
    Arena *arena = arena_new();
    Maker maker = maker_new(arena);
    Axis *s = make_axis(&maker, "s", 2), *n = make_axis(&maker, "n", 3);
    Expr *es = at_index(&maker, make_index(&maker, s)),
         *en = at_index(&maker, make_index(&maker, n));
    Tensor *p = MAKE(&maker, "p", ROLE_PARAMETER, s, n),
           *loss = make_scalar(&maker, "loss", ROLE_OUTPUT);
    Tensor *y = MAKE(&maker, "y", ROLE_TEMP, s), *one = make_scalar(&maker, "one", ROLE_TEMP);
    if (both)
        reduce(&maker, expr_read(maker.program, one, NULL), reduction, es->index, en->index,
               AT(&maker, p, es, en));
    else
        reduce(&maker, AT(&maker, y, es), reduction, en->index, NULL, AT(&maker, p, es, en));
    Expr *read = both ? expr_read(maker.program, one, NULL) : AT(&maker, y, es);
    statement_loop(maker.program, maker.block, expr_read(maker.program, loss, NULL), false,
                   both ? REDUCE_NONE : REDUCE_SUM, &es->index, !both, read, nowhere);
    maker.program->loss = loss;
    list_push(arena, &maker.program->outputs, loss);
    gradient(maker.program, false);
    expect_valid(maker.program);
    Interpreter *eval = interpreter_new(maker.program);
    fill(maker.program, eval);
    for (int i = 0; i < 6; i++) interpreter_real(eval, p)[i] = i < 3 ? 0.5 : i == 3 ? 0.25 : 0.5;
    if (reduction == REDUCE_MIN)
        for (int i = 0; i < 6; i++) interpreter_real(eval, p)[i] *= -1;
    run_loss(maker.program, eval);
    for (int i = 0; i < maker.program->tensors.count; i++) {
        const Tensor *tensor = maker.program->tensors.items[i];
        if (tensor->role != ROLE_GRADIENT) continue;
        for (int k = 0; k < 6; k++) {
            double wanted = k == 0 || (k == 4 && !both);
            if (interpreter_real(eval, tensor)[k] != wanted)
                fail_msg("gradient %d is %g", k, interpreter_real(eval, tensor)[k]);
        }
    }
    interpreter_free(eval);
    arena_free(arena);
}

static void test_ties(void **state) {
    (void)state;
    for (int both = 0; both < 2; both++) {
        check_ties(REDUCE_MAX, both);
        check_ties(REDUCE_MIN, both);
    }
}

/* ---- attention ---- */

/* Results of an attention that the loss reads. */
enum { OUTPUT = 1, NORMALISER = 2 };

static Tensor *make_attend(Maker *maker, Block *block, Axis **axes, Expr *const *operands,
                           AttendOptions options, int reads) {
    Axis *b = axes[0], *s = axes[1], *h = axes[3], *c = axes[7];
    Tensor *o = MAKE(maker, "o", ROLE_TEMP, b, s, h, c),
           *lse = MAKE(maker, "lse", ROLE_TEMP, b, s, h);
    Statement *call = statement_call(maker->program, block, CALL_ATTEND, nowhere);
    call->attention = options;
    for (int i = 0; i < 3 + options.sink; i++)
        list_push(maker->program->arena, &call->inputs, operands[i]);
    Expr *eb = operands[0]->args[0], *es = operands[0]->args[1], *eh = operands[0]->args[2];
    Expr *read = AT(maker, o, eb, es, eh, at_index(maker, make_index(maker, c))),
         *normaliser = AT(maker, lse, eb, es, eh);
    list_push(maker->program->arena, &call->outputs, read);
    list_push(maker->program->arena, &call->outputs, normaliser);
    if (reads == OUTPUT) return o;
    if (reads == NORMALISER) return lse;
    Tensor *both = MAKE(maker, "both", ROLE_TEMP, b, s, h, c);
    set(maker, expr_read(maker->program, both, read->args), plus(maker, read, normaliser));
    return both;
}

static void make_attention(Maker *maker, int reads) {
    Axis *b = make_axis(maker, "b", 2), *s = make_axis(maker, "s", 5),
         *t = make_axis(maker, "t", 5);
    Axis *h = make_axis(maker, "h", 4), *hk = make_axis(maker, "hk", 2),
         *hv = make_axis(maker, "hv", 3);
    Axis *e = make_axis(maker, "e", 3), *c = make_axis(maker, "c", 2);
    Expr *eb = at_index(maker, make_index(maker, b)), *es = at_index(maker, make_index(maker, s));
    Expr *et = at_index(maker, make_index(maker, t)), *eh = at_index(maker, make_index(maker, h));
    Expr *ehk = at_index(maker, make_index(maker, hk)),
         *ehv = at_index(maker, make_index(maker, hv));
    Expr *ee = at_index(maker, make_index(maker, e)), *ec = at_index(maker, make_index(maker, c));
    Tensor *q = MAKE(maker, "q", ROLE_PARAMETER, b, s, h, e),
           *k = MAKE(maker, "k", ROLE_PARAMETER, b, t, hk, e);
    Tensor *v = MAKE(maker, "v", ROLE_PARAMETER, b, t, hv, c),
           *sink = MAKE(maker, "sink", ROLE_PARAMETER, h);
    Tensor *bent = MAKE(maker, "bent", ROLE_TEMP, b, t, hk, e);
    set(maker, AT(maker, bent, eb, et, ehk, ee),
        apply(maker, OP_TANH, AT(maker, k, eb, et, ehk, ee), NULL));
    Expr *operands[] = {AT(maker, q, eb, es, eh, ee), AT(maker, bent, eb, et, ehk, ee),
                        AT(maker, v, eb, et, ehv, ec), AT(maker, sink, eh)};
    AttendOptions options = {
        .mask = MASK_WINDOW, .window = 3, .scale = 0.8, .cap = 2, .sink = true};
    make_loss(maker, make_attend(maker, maker->block, (Axis *[]){b, s, t, h, hk, hv, e, c},
                                 operands, options, reads));
}

static void make_attention_output(Maker *maker) {
    make_attention(maker, OUTPUT);
}

static void make_attention_normaliser(Maker *maker) {
    make_attention(maker, NORMALISER);
}

static void make_attention_both(Maker *maker) {
    make_attention(maker, OUTPUT | NORMALISER);
}

static void test_attention(void **state) {
    (void)state;
    check_all(make_attention_output, 4);
    check_all(make_attention_both, 4);
    check_all(make_attention_normaliser, 4);
}

/* ---- repeats ---- */

/* A residual stream through three steps, with weights per step, shared weights, an input scale and an accumulated term. */
static void make_depth(Maker *maker) {
    Program *program = maker->program;
    Axis *s = make_axis(maker, "s", 3), *d = make_axis(maker, "d", 4),
         *f = make_axis(maker, "f", 5);
    Axis *depth = axis_new(program, "i", 3, AXIS_REPEAT, nowhere),
         *carry = axis_new(program, "i1", 4, AXIS_REPEAT, nowhere);
    Expr *es = at_index(maker, make_index(maker, s)), *ed = at_index(maker, make_index(maker, d));
    Expr *ef = at_index(maker, make_index(maker, f));
    Tensor *start = MAKE(maker, "start", ROLE_PARAMETER, s, d),
           *w = MAKE(maker, "w", ROLE_PARAMETER, depth, d, f);
    Tensor *o = MAKE(maker, "o", ROLE_PARAMETER, depth, f, d),
           *common = MAKE(maker, "common", ROLE_PARAMETER, d);
    Tensor *x = MAKE(maker, "x", ROLE_TEMP, carry, s, d),
           *scale = MAKE(maker, "scale", ROLE_TEMP, d);
    Tensor *term = make_scalar(maker, "term", ROLE_TEMP),
           *largest = MAKE(maker, "largest", ROLE_TEMP, depth, s);
    set(maker, AT(maker, scale, ed), apply(maker, OP_EXP, AT(maker, common, ed), NULL));
    set(maker, AT(maker, x, number(maker, 0), es, ed),
        times(maker, AT(maker, start, es, ed), AT(maker, scale, ed)));
    set(maker, expr_read(program, term, NULL), number(maker, 0));
    Index *step = index_new(program, "i", depth);
    Statement *repeat = statement_repeat(program, maker->block, step, false, nowhere);
    Block *outside = maker->block;
    maker->block = &repeat->body;
    Expr *ei = at_index(maker, step), *next = plus(maker, ei, number(maker, 1));
    Tensor *r = MAKE(maker, "r", ROLE_TEMP, s), *n = MAKE(maker, "n", ROLE_TEMP, s, d);
    Tensor *h = MAKE(maker, "h", ROLE_TEMP, s, f), *a = MAKE(maker, "a", ROLE_TEMP, s, f),
           *y = MAKE(maker, "y", ROLE_TEMP, s, d);
    Expr *xr = AT(maker, x, ei, es, ed), *hr = AT(maker, h, es, ef);
    reduce(maker, AT(maker, r, es), REDUCE_SUM, ed->index, NULL, times(maker, xr, xr));
    Expr *root = apply(maker, OP_RSQRT, plus(maker, AT(maker, r, es), number(maker, 0.1)), NULL);
    set(maker, AT(maker, n, es, ed), times(maker, times(maker, xr, root), AT(maker, scale, ed)));
    reduce(maker, hr, REDUCE_SUM, ed->index, NULL,
           times(maker, AT(maker, n, es, ed), AT(maker, w, ei, ed, ef)));
    set(maker, AT(maker, a, es, ef), times(maker, hr, apply(maker, OP_SIGMOID, hr, NULL)));
    reduce(maker, AT(maker, y, es, ed), REDUCE_SUM, ef->index, NULL,
           times(maker, AT(maker, a, es, ef), AT(maker, o, ei, ef, ed)));
    set(maker, AT(maker, x, next, es, ed),
        plus(maker, xr, times(maker, AT(maker, y, es, ed), AT(maker, common, ed))));
    reduce(maker, AT(maker, largest, ei, es), REDUCE_MAX, ed->index, NULL,
           AT(maker, x, next, es, ed));
    statement_loop(program, maker->block, expr_read(program, term, NULL), true, REDUCE_SUM,
                   (Index *[]){es->index, ef->index}, 2, times(maker, hr, hr), nowhere);
    maker->block = outside;
    Tensor *total = MAKE(maker, "total", ROLE_TEMP, s, d),
           *peak = MAKE(maker, "peak", ROLE_TEMP, s);
    reduce(maker, AT(maker, peak, es), REDUCE_SUM, make_index(maker, depth), NULL,
           number(maker, 0));
    Statement *last = maker->block->statements.items[maker->block->statements.count - 1];
    last->value = AT(maker, largest, at_index(maker, last->loops[1]), es);
    Expr *end = AT(maker, x, number(maker, 3), es, ed);
    set(maker, AT(maker, total, es, ed),
        times(maker, plus(maker, end, AT(maker, peak, es)),
              plus(maker, expr_read(program, term, NULL), number(maker, 1))));
    make_loss(maker, total);
}

static void test_depth(void **state) {
    (void)state;
    check_all(make_depth, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_network),
        cmocka_unit_test(test_subscripts), cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_ties),       cmocka_unit_test(test_attention),
        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

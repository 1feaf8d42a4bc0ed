/* Results of statements and calls, each against a few lines of plain C or against central
 * differences. */
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

/* ---- construction ---- */

static Program *begin(void) {
    return program_new(arena_new(), NULL, "small", GRAPH_FORWARD, call_table);
}

static Axis *axis(Program *program, const char *name, long size) {
    return axis_new(program, name, size, AXIS_PLAIN, nowhere);
}

/* A tensor with values from the test; the list of axes ends with NULL. */
static Tensor *given(Program *program, const char *name, Type type, Axis *const *axes) {
    int rank = 0;
    while (axes[rank]) rank++;
    Tensor *tensor = tensor_new(program, name, ROLE_INPUT, type, rank, axes, nowhere);
    tensor->input = type == TYPE_INT ? MOEC_INPUT_TOKEN : MOEC_INPUT_REAL;
    return tensor;
}

static Tensor *made(Program *program, const char *name, Type type, Axis *const *axes) {
    Tensor *tensor = given(program, name, type, axes);
    tensor->role = ROLE_TEMP;
    return tensor;
}

static Expr *at(Program *program, Tensor *tensor, Index *const *indices) {
    return expr_read_indices(program, tensor, indices);
}

static Statement *loop(Program *program, Block *block, Expr *target, Expr *value) {
    return statement_loop(program, block, target, false, REDUCE_NONE, NULL, 0, value, nowhere);
}

static Expr *apply(Program *program, OpCode op, Expr *a, Expr *b) {
    return expr_apply(program, op, a, b, NULL);
}

static Interpreter *ready(Program *program) {
    char *message = well_formed(program->arena, program);
    if (message) fail_msg("%s", message);
    return interpreter_new(program);
}

static void run(Interpreter *eval) {
    const char *message = interpreter_run(eval, 7, true);
    if (message) fail_msg("%s", message);
}

static void end(Program *program, Interpreter *eval) {
    interpreter_free(eval);
    arena_free(program->arena);
}

/* Distinct values between -1 and 1. */
static void fill(Interpreter *eval, const Tensor *tensor, double phase) {
    double *values = interpreter_real(eval, tensor);
    for (long i = 0; i < tensor_elements(tensor); i++)
        values[i] = sin(phase + 1.7 * (double)i + 0.3 * (double)(i * i % 7));
}

static void near(double found, double wanted, double tolerance) {
    if (!(fabs(found - wanted) <= tolerance * (1 + fabs(wanted))))
        fail_msg("%.12g instead of %.12g", found, wanted);
}

/* ---- loops ---- */

static void test_contraction_and_largest(void **state) {
    (void)state;
    Program *program = begin();
    Axis *s = axis(program, "s", 3), *d = axis(program, "d", 70), *f = axis(program, "f", 5);
    Index *is = index_new(program, "s", s), *id = index_new(program, "d", d),
          *jf = index_new(program, "f", f);
    Tensor *x = given(program, "x", TYPE_REAL, (Axis *[]){s, d, NULL});
    Tensor *w = given(program, "w", TYPE_REAL, (Axis *[]){d, f, NULL});
    Tensor *y = made(program, "y", TYPE_REAL, (Axis *[]){f, s, NULL});
    Tensor *z = made(program, "z", TYPE_REAL, (Axis *[]){s, NULL});
    Expr *product = apply(program, OP_MUL, at(program, x, (Index *[]){is, id}),
                          at(program, w, (Index *[]){id, jf}));
    statement_loop(program, &program->body, at(program, y, (Index *[]){jf, is}), false, REDUCE_SUM,
                   &id, 1, product, nowhere);
    statement_loop(program, &program->body, at(program, z, &is), false, REDUCE_MAX,
                   (Index *[]){id, jf}, 2, product, nowhere);
    Interpreter *eval = ready(program);
    fill(eval, x, 0.1);
    fill(eval, w, 0.2);
    run(eval);
    const double *a = interpreter_real(eval, x), *b = interpreter_real(eval, w);
    for (long i = 0; i < 3; i++) {
        double largest = -INFINITY;
        for (long j = 0; j < 5; j++) {
            double sum = 0;
            for (long k = 0; k < 70; k++) {
                sum += a[i * 70 + k] * b[k * 5 + j];
                largest = fmax(largest, a[i * 70 + k] * b[k * 5 + j]);
            }
            near(interpreter_real(eval, y)[j * 3 + i], sum, 1e-12);
        }
        assert_true(interpreter_real(eval, z)[i] == largest);
    }
    end(program, eval);
}

static void test_gather_shift_and_scatter(void **state) {
    (void)state;
    Program *program = begin();
    Axis *s = axis(program, "s", 4), *v = axis(program, "v", 3);
    Index *is = index_new(program, "s", s), *iv = index_new(program, "v", v);
    Tensor *tokens = given(program, "tokens", TYPE_INT, (Axis *[]){s, NULL});
    Tensor *table = given(program, "table", TYPE_REAL, (Axis *[]){v, NULL});
    Tensor *found = made(program, "found", TYPE_REAL, (Axis *[]){s, NULL});
    Tensor *shifted = made(program, "shifted", TYPE_REAL, (Axis *[]){s, NULL});
    Tensor *counts = made(program, "counts", TYPE_REAL, (Axis *[]){v, NULL});
    tokens->vocabulary = 3;
    Expr *token = at(program, tokens, &is);
    loop(program, &program->body, at(program, found, &is), expr_read(program, table, &token));
    Expr *before = apply(program, OP_SUB, expr_index(program, is), expr_number(program, 1));
    loop(program, &program->body, at(program, shifted, &is), expr_read(program, found, &before));
    loop(program, &program->body, at(program, counts, &iv), expr_number(program, 0));
    Statement *scatter =
        statement_loop(program, &program->body, expr_read(program, counts, &token), true,
                       REDUCE_NONE, &is, 1, at(program, shifted, &is), nowhere);
    assert_true(statement_is_scatter(scatter));
    Interpreter *eval = ready(program);
    memcpy(interpreter_int(eval, tokens), (long[]){2, 0, 2, 1}, 4 * sizeof(long));
    memcpy(interpreter_real(eval, table), (double[]){10, 20, 30}, 3 * sizeof(double));
    run(eval);
    assert_memory_equal(interpreter_real(eval, found), ((double[]){30, 10, 30, 20}),
                        4 * sizeof(double));
    assert_memory_equal(interpreter_real(eval, shifted), ((double[]){0, 30, 10, 30}),
                        4 * sizeof(double));
    assert_memory_equal(interpreter_real(eval, counts), ((double[]){30, 30, 10}),
                        3 * sizeof(double));
    interpreter_int(eval, tokens)[3] = 3;
    assert_string_equal(interpreter_run(eval, 7, true), "tokens[3] is 3: values are 0 to 2");
    end(program, eval);
}

/* Integers, comparisons and remainders are exact even where a double is not: t * 2^53 + t has no
 * double for most t. */
static void test_whole_numbers_are_exact(void **state) {
    (void)state;
    Program *program = begin();
    Axis *s = axis(program, "s", 4);
    Index *is = index_new(program, "s", s);
    Tensor *tokens = given(program, "tokens", TYPE_INT, (Axis *[]){s, NULL});
    Tensor *score = given(program, "score", TYPE_REAL, (Axis *[]){s, NULL});
    Tensor *rest = made(program, "rest", TYPE_INT, (Axis *[]){s, NULL});
    Tensor *differs = made(program, "differs", TYPE_REAL, (Axis *[]){s, NULL});
    Tensor *coded = made(program, "coded", TYPE_REAL, (Axis *[]){s, NULL});
    Expr *token = at(program, tokens, &is), *half = expr_number(program, 0x1p52);
    Expr *large =
        apply(program, OP_MUL, apply(program, OP_MUL, token, half), expr_number(program, 2));
    Expr *sum = apply(program, OP_ADD, large, token);
    loop(program, &program->body, at(program, rest, &is), apply(program, OP_SUB, sum, large));
    loop(program, &program->body, at(program, differs, &is), apply(program, OP_NE, sum, large));
    Expr *whole = expr_apply(program, OP_FLOOR, at(program, score, &is), NULL, NULL);
    Expr *product = apply(program, OP_MUL, whole, expr_number(program, 0x1p52 + 1));
    loop(program, &program->body, at(program, coded, &is),
         apply(program, OP_MOD, product, expr_number(program, 1024)));
    Interpreter *eval = ready(program);
    memcpy(interpreter_int(eval, tokens), (long[]){1, 3, 5, 7}, 4 * sizeof(long));
    memcpy(interpreter_real(eval, score), (double[]){1.5, 3.5, 5.5, 7.5}, 4 * sizeof(double));
    run(eval);
    assert_memory_equal(interpreter_int(eval, rest), ((long[]){1, 3, 5, 7}), 4 * sizeof(long));
    assert_memory_equal(interpreter_real(eval, differs), ((double[]){1, 1, 1, 1}),
                        4 * sizeof(double));
    assert_memory_equal(interpreter_real(eval, coded), ((double[]){1, 3, 5, 7}),
                        4 * sizeof(double));
    end(program, eval);
}

/* A carried tensor, an accumulated gradient, and an update in the last micro-batch. */
static void test_repeat_and_once(void **state) {
    (void)state;
    Program *program = begin();
    Axis *layer = axis_new(program, "layer", 3, AXIS_REPEAT, nowhere);
    Axis *slot = axis_new(program, "slot", 4, AXIS_REPEAT, nowhere);
    Tensor *carried = made(program, "carried", TYPE_REAL, (Axis *[]){slot, NULL});
    Tensor *kept = tensor_new(program, "kept", ROLE_STATE, TYPE_REAL, 0, NULL, nowhere);
    Expr *zero = expr_number(program, 0);
    loop(program, &program->body, expr_read(program, carried, &zero), expr_number(program, 1));
    Index *step = index_new(program, "i", layer);
    Statement *repeat = statement_repeat(program, &program->body, step, false, nowhere);
    Expr *i = expr_index(program, step), *next = apply(program, OP_ADD, i, expr_number(program, 1));
    loop(program, &repeat->body, expr_read(program, carried, &next),
         apply(program, OP_ADD,
               apply(program, OP_MUL, expr_read(program, carried, &i), expr_number(program, 10)),
               i));
    Expr *last = expr_number(program, 3);
    Statement *update =
        statement_loop(program, &program->body, expr_read(program, kept, NULL), true, REDUCE_NONE,
                       NULL, 0, expr_read(program, carried, &last), nowhere);
    update->once = true;
    Interpreter *eval = ready(program);
    assert_null(interpreter_run(eval, 0, false));
    assert_true(*interpreter_real(eval, kept) == 0);
    run(eval);
    run(eval);
    assert_memory_equal(interpreter_real(eval, carried), ((double[]){1, 10, 101, 1012}),
                        4 * sizeof(double));
    assert_true(*interpreter_real(eval, kept) == 2024);
    end(program, eval);
}

static void test_random_numbers(void **state) {
    (void)state;
    Program *program = begin();
    Axis *n = axis(program, "n", 20000);
    Index *in = index_new(program, "n", n);
    Tensor *flat = made(program, "flat", TYPE_REAL, (Axis *[]){n, NULL});
    Tensor *bell = made(program, "bell", TYPE_REAL, (Axis *[]){n, NULL});
    Expr *position = expr_index(program, in);
    loop(program, &program->body, at(program, flat, &in),
         apply(program, OP_UNIFORM, expr_number(program, 1), position));
    loop(program, &program->body, at(program, bell, &in),
         apply(program, OP_NORMAL, expr_number(program, 2), position));
    Interpreter *eval = ready(program);
    run(eval);
    double sum = 0, mean = 0, square = 0, first = *interpreter_real(eval, flat);
    for (long i = 0; i < 20000; i++) {
        double u = interpreter_real(eval, flat)[i], z = interpreter_real(eval, bell)[i];
        assert_true(u >= 0 && u < 1);
        sum += u / 20000;
        mean += z / 20000;
        square += z * z / 20000;
    }
    near(sum, 0.5, 0.01);
    near(mean, 0, 0.02);
    near(square, 1, 0.02);
    run(eval);
    assert_true(*interpreter_real(eval, flat) == first);
    assert_null(interpreter_run(eval, 8, true));
    assert_true(*interpreter_real(eval, flat) != first);
    end(program, eval);
}

/* ---- attention ---- */

typedef struct Attend {
    Program *program;
    Interpreter *eval;
    Tensor *q, *k, *v, *sink, *o, *lse, *adjoint, *dq, *dk, *dv, *dsink, *position, *document;
} Attend;

enum {
    BATCH = 2,
    PLACES = 5,
    HEADS = 6,
    KEY_HEADS = 2,
    VALUE_HEADS = 4,
    KEY_WIDTH = 3,
    VALUE_WIDTH = 4
};

static void add_operands(Program *program, List *list, Tensor *const *tensors,
                         Index *const *const *indices) {
    for (int i = 0; tensors[i]; i++)
        list_push(program->arena, list, at(program, tensors[i], indices[i]));
}

/* Distinct operands. */
static void start_attend(Attend *attend) {
    attend->eval = ready(attend->program);
    fill(attend->eval, attend->q, 0.1);
    fill(attend->eval, attend->k, 0.2);
    fill(attend->eval, attend->v, 0.3);
    fill(attend->eval, attend->sink, 0.4);
    fill(attend->eval, attend->adjoint, 0.5);
    for (long i = 0; i < BATCH * PLACES; i++) /* 1 1 2 2 2 or, unsorted, 3 1 3 1 3 */
        interpreter_real(attend->eval, attend->document)[i] = i < PLACES ? 1 + (i > 1)
                                                              : i % 2    ? 3
                                                                         : 1;
}

/* Uneven heads and widths; attention over `queries` positions. The adjoint is not for decoding. */
static Attend attend_new(const AttendOptions *options, long queries) {
    Attend attend = {.program = begin()};
    Program *program = attend.program;
    Axis *b = axis(program, "b", BATCH), *s = axis(program, "s", queries),
         *t = axis(program, "t", PLACES);
    if (options->position) program->context = PLACES;
    Axis *h = axis(program, "h", HEADS), *hk = axis(program, "hk", KEY_HEADS),
         *hv = axis(program, "hv", VALUE_HEADS);
    Axis *e = axis(program, "e", KEY_WIDTH), *c = axis(program, "c", VALUE_WIDTH);
    Index *ib = index_new(program, "b", b), *is = index_new(program, "s", s),
          *it = index_new(program, "t", t);
    Index *ih = index_new(program, "h", h), *ik = index_new(program, "hk", hk),
          *iv = index_new(program, "hv", hv);
    Index *ie = index_new(program, "e", e), *ic = index_new(program, "c", c);
    Index *qi[] = {ib, is, ih, ie}, *ki[] = {ib, it, ik, ie}, *vi[] = {ib, it, iv, ic},
          *oi[] = {ib, is, ih, ic};
    Axis *qa[] = {b, s, h, e, NULL}, *ka[] = {b, t, hk, e, NULL}, *va[] = {b, t, hv, c, NULL};
    Axis *oa[] = {b, s, h, c, NULL}, *la[] = {b, s, h, NULL}, *ha[] = {h, NULL};
    attend.q = given(program, "q", TYPE_REAL, qa);
    attend.k = given(program, "k", TYPE_REAL, ka);
    attend.v = given(program, "v", TYPE_REAL, va);
    attend.sink = given(program, "sink", TYPE_REAL, ha);
    attend.adjoint = given(program, "adjoint", TYPE_REAL, oa);
    Axis *da[] = {b, t, NULL};
    Index *di[] = {ib, it};
    attend.document = given(program, "document", TYPE_REAL, da);
    attend.position = given(program, "position", TYPE_INT, (Axis *[]){NULL});
    attend.o = made(program, "o", TYPE_REAL, oa);
    attend.lse = made(program, "lse", TYPE_REAL, la);
    attend.dq = made(program, "dq", TYPE_REAL, qa);
    attend.dk = made(program, "dk", TYPE_REAL, ka);
    attend.dv = made(program, "dv", TYPE_REAL, va);
    attend.dsink = made(program, "dsink", TYPE_REAL, ha);
    Statement *call = statement_call(program, &program->body, CALL_ATTEND, nowhere);
    call->attention = *options;
    add_operands(program, &call->inputs, (Tensor *[]){attend.q, attend.k, attend.v, NULL},
                 (Index *const *[]){qi, ki, vi});
    if (options->sink) list_push(program->arena, &call->inputs, at(program, attend.sink, &ih));
    if (options->documents)
        list_push(program->arena, &call->inputs, at(program, attend.document, di));
    if (options->position)
        list_push(program->arena, &call->inputs, at(program, attend.position, NULL));
    add_operands(program, &call->outputs, (Tensor *[]){attend.o, attend.lse, NULL},
                 (Index *const *[]){oi, oi});
    if (!options->position) {
        Statement *back = statement_call(program, &program->body, CALL_ATTEND_GRAD, nowhere);
        back->attention = *options;
        for (int i = 0; i < call->inputs.count; i++)
            list_push(program->arena, &back->inputs, call->inputs.items[i]);
        add_operands(program, &back->inputs,
                     (Tensor *[]){attend.o, attend.lse, attend.adjoint, NULL},
                     (Index *const *[]){oi, oi, oi});
        add_operands(program, &back->outputs, (Tensor *[]){attend.dq, attend.dk, attend.dv, NULL},
                     (Index *const *[]){qi, ki, vi});
        if (options->sink)
            list_push(program->arena, &back->outputs, at(program, attend.dsink, &ih));
    }
    start_attend(&attend);
    return attend;
}

/* sum of adjoint * o: its derivatives are the adjoints. */
static double total(const Attend *attend) {
    run(attend->eval);
    const double *o = interpreter_real(attend->eval, attend->o),
                 *adjoint = interpreter_real(attend->eval, attend->adjoint);
    double sum = 0;
    for (long i = 0; i < tensor_elements(attend->o); i++) sum += o[i] * adjoint[i];
    return sum;
}

static void expect_derivative(const Attend *attend, const Tensor *tensor, const Tensor *adjoint) {
    double *values = interpreter_real(attend->eval, tensor), step = 1e-5;
    for (long i = 0; i < tensor_elements(tensor); i++) {
        double value = values[i];
        values[i] = value + step;
        double above = total(attend);
        values[i] = value - step;
        double below = total(attend);
        values[i] = value;
        total(attend);
        near(interpreter_real(attend->eval, adjoint)[i], (above - below) / (2 * step), 1e-7);
    }
}

static const AttendOptions variants[] = {
    {.mask = MASK_CAUSAL, .scale = 0.6},
    {.mask = MASK_NONE, .scale = 0.6},
    {.mask = MASK_WINDOW, .window = 2, .scale = 1.5},
    {.mask = MASK_CAUSAL, .scale = 2, .cap = 1.3},
    {.mask = MASK_CAUSAL, .scale = 0.6, .sink = true},
    {.mask = MASK_WINDOW, .window = 3, .scale = 1.1, .cap = 0.7, .sink = true},
    {.mask = MASK_CAUSAL, .scale = 0.6, .documents = true},
    {.mask = MASK_NONE, .scale = 0.6, .cap = 1.3, .sink = true, .documents = true},
    {.mask = MASK_WINDOW, .window = 3, .scale = 0.6, .sink = true, .documents = true},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void test_attend_against_its_formula(void **state) {
    (void)state;
    Attend attend = attend_new(&variants[0], PLACES);
    run(attend.eval);
    const double *q = interpreter_real(attend.eval, attend.q),
                 *k = interpreter_real(attend.eval, attend.k);
    const double *v = interpreter_real(attend.eval, attend.v);
    for (long row = 0; row < BATCH * PLACES * HEADS; row++) {
        long b = row / PLACES / HEADS, s = row / HEADS % PLACES, h = row % HEADS;
        double weight[PLACES], sum = 0;
        for (long t = 0; t <= s; t++) {
            double score = 0;
            for (long e = 0; e < KEY_WIDTH; e++)
                score += q[row * KEY_WIDTH + e] *
                         k[((b * PLACES + t) * KEY_HEADS + h / 3) * KEY_WIDTH + e];
            sum += weight[t] = exp(0.6 * score);
        }
        near(interpreter_real(attend.eval, attend.lse)[row], log(sum), 1e-12);
        for (long c = 0; c < VALUE_WIDTH; c++) {
            double wanted = 0;
            for (long t = 0; t <= s; t++)
                wanted += weight[t] / sum *
                          v[((b * PLACES + t) * VALUE_HEADS + h * 4 / 6) * VALUE_WIDTH + c];
            near(interpreter_real(attend.eval, attend.o)[row * VALUE_WIDTH + c], wanted, 1e-12);
        }
    }
    end(attend.program, attend.eval);
}

/* Attention within documents equals attention over each document separately. */
static void test_documents_against_their_formula(void **state) {
    (void)state;
    AttendOptions options = {.mask = MASK_CAUSAL, .scale = 0.6, .documents = true};
    Attend attend = attend_new(&options, PLACES);
    run(attend.eval);
    const double *q = interpreter_real(attend.eval, attend.q),
                 *k = interpreter_real(attend.eval, attend.k);
    const double *document = interpreter_real(attend.eval, attend.document);
    for (long row = 0; row < BATCH * PLACES * HEADS; row++) {
        long b = row / PLACES / HEADS, s = row / HEADS % PLACES, h = row % HEADS;
        double sum = 0;
        for (long t = 0; t <= s; t++) {
            double score = 0;
            for (long e = 0; e < KEY_WIDTH; e++)
                score += q[row * KEY_WIDTH + e] *
                         k[((b * PLACES + t) * KEY_HEADS + h / 3) * KEY_WIDTH + e];
            if (document[b * PLACES + t] == document[b * PLACES + s]) sum += exp(0.6 * score);
        }
        near(interpreter_real(attend.eval, attend.lse)[row], log(sum), 1e-12);
    }
    end(attend.program, attend.eval);
}

static void test_attend_grad_against_differences(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        Attend attend = attend_new(&variants[i], PLACES);
        expect_derivative(&attend, attend.q, attend.dq);
        expect_derivative(&attend, attend.k, attend.dk);
        expect_derivative(&attend, attend.v, attend.dv);
        if (variants[i].sink) expect_derivative(&attend, attend.sink, attend.dsink);
        end(attend.program, attend.eval);
    }
}

/* One query at a time, at its position, computes the rows of the whole result. */
static void test_decoding_agrees(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        if (variants[i].mask == MASK_NONE) continue;
        AttendOptions options = variants[i];
        Attend whole = attend_new(&options, PLACES);
        options.position = true;
        Attend one = attend_new(&options, 1);
        run(whole.eval);
        for (long s = 0; s < PLACES; s++) {
            *interpreter_int(one.eval, one.position) = s;
            for (long b = 0; b < BATCH; b++)
                memcpy(interpreter_real(one.eval, one.q) + b * HEADS * KEY_WIDTH,
                       interpreter_real(whole.eval, whole.q) + (b * PLACES + s) * HEADS * KEY_WIDTH,
                       HEADS * KEY_WIDTH * sizeof(double));
            run(one.eval);
            for (long b = 0; b < BATCH; b++)
                for (long j = 0; j < HEADS * VALUE_WIDTH; j++)
                    near(interpreter_real(one.eval, one.o)[b * HEADS * VALUE_WIDTH + j],
                         interpreter_real(whole.eval,
                                          whole.o)[(b * PLACES + s) * HEADS * VALUE_WIDTH + j],
                         1e-14);
        }
        end(whole.program, whole.eval);
        end(one.program, one.eval);
    }
}

/* Only the best key: its value times its weight, not renormalized. */
static void test_best_values(void **state) {
    (void)state;
    AttendOptions options = {.mask = MASK_CAUSAL, .scale = 1, .position = true, .best = 1};
    Attend attend = attend_new(&options, 1);
    *interpreter_int(attend.eval, attend.position) = 1;
    double *q = interpreter_real(attend.eval, attend.q),
           *k = interpreter_real(attend.eval, attend.k);
    memset(q, 0, (size_t)tensor_elements(attend.q) * sizeof *q);
    memset(k, 0, (size_t)tensor_elements(attend.k) * sizeof *k);
    run(attend.eval);
    near(interpreter_real(attend.eval, attend.o)[0],
         0.5 * interpreter_real(attend.eval, attend.v)[0], 1e-14);
    q[0] = 1;
    k[KEY_HEADS * KEY_WIDTH] = log(3);
    run(attend.eval);
    near(interpreter_real(attend.eval, attend.o)[0],
         0.75 * interpreter_real(attend.eval, attend.v)[VALUE_HEADS * VALUE_WIDTH], 1e-14);
    end(attend.program, attend.eval);
}

/* ---- selections ---- */

static void test_top_breaks_ties_by_index(void **state) {
    (void)state;
    Program *program = begin();
    Axis *s = axis(program, "s", 2), *n = axis(program, "n", 4), *g = axis(program, "g", 2);
    Index *index[] = {index_new(program, "s", s), index_new(program, "n", n),
                      index_new(program, "g", g)};
    Tensor *p = given(program, "p", TYPE_REAL, (Axis *[]){s, n, g, NULL});
    Tensor *mask = made(program, "mask", TYPE_REAL, (Axis *[]){s, n, g, NULL});
    Statement *call = statement_call(program, &program->body, CALL_TOP, nowhere);
    call->top.k = 2;
    call->top.dimension = 1;
    list_push(program->arena, &call->inputs, at(program, p, index));
    list_push(program->arena, &call->outputs, at(program, mask, index));
    Interpreter *eval = ready(program);
    memcpy(interpreter_real(eval, p),
           (double[]){1, 5, 3, 5, 3, 5, 3, 5, NAN, 1, -2, 4, -1, 2, -9, 3}, 16 * sizeof(double));
    run(eval);
    assert_memory_equal(interpreter_real(eval, mask),
                        ((double[]){0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1}),
                        16 * sizeof(double));
    end(program, eval);
}

/* One evaluation uses the selections of another and reports the distance of its own scores from
 * them. */
static void test_choices_are_followed(void **state) {
    (void)state;
    Program *program = begin();
    Axis *n = axis(program, "n", 4);
    Index *index[] = {index_new(program, "n", n)};
    Tensor *p = given(program, "p", TYPE_REAL, (Axis *[]){n, NULL});
    Tensor *mask = made(program, "mask", TYPE_REAL, (Axis *[]){n, NULL});
    Statement *call = statement_call(program, &program->body, CALL_TOP, nowhere);
    call->top.k = 2;
    list_push(program->arena, &call->inputs, at(program, p, index));
    list_push(program->arena, &call->outputs, at(program, mask, index));
    Interpreter *first = ready(program), *second = ready(program);
    memcpy(interpreter_real(first, p), (double[]){1, 5, 3, 2}, 4 * sizeof(double));
    memcpy(interpreter_real(second, p), (double[]){1, 5, 3, 7}, 4 * sizeof(double));
    run(first);
    interpreter_follow(second, first);
    run(second);
    assert_memory_equal(interpreter_real(second, mask), ((double[]){0, 1, 1, 0}),
                        4 * sizeof(double));
    size_t count;
    assert_true(interpreter_margins(first, &count)[0] == 1 && count == 1);
    assert_true(interpreter_margins(second, &count)[0] == -4 && count == 1);
    interpreter_free(second);
    end(program, first);
}

/* y[i,j] = sum[k] x[i,k] * w[k,j]: rounded to bf16 in two different ways. */
static void test_products_round(void **state) {
    (void)state;
    enum { N = 8 };
    Program *program = begin();
    Axis *i = axis(program, "i", N), *j = axis(program, "j", N), *k = axis(program, "k", N);
    Index *index[] = {index_new(program, "i", i), index_new(program, "k", k),
                      index_new(program, "j", j)};
    Tensor *x = given(program, "x", TYPE_REAL, (Axis *[]){i, k, NULL});
    Tensor *w = given(program, "w", TYPE_REAL, (Axis *[]){k, j, NULL});
    Tensor *y = made(program, "y", TYPE_REAL, (Axis *[]){i, j, NULL});
    Expr *product = apply(program, OP_MUL, at(program, x, index), at(program, w, index + 1));
    statement_loop(program, &program->body, at(program, y, (Index *[]){index[0], index[2]}), false,
                   REDUCE_SUM, index + 1, 1, product, nowhere);
    find_products(program);
    double results[3][N * N];
    for (int way = 0; way < 3; way++) {
        Interpreter *eval = ready(program);
        for (int e = 0; e < N * N; e++) {
            interpreter_real(eval, x)[e] = 1 + e / 256.0; /* e / 128 is exact in bf16 */
            interpreter_real(eval, w)[e] = e / N == e % N;
        }
        if (way) interpreter_rounded(eval, way);
        run(eval);
        memcpy(results[way], interpreter_real(eval, y), sizeof results[way]);
        interpreter_free(eval);
    }
    int same = 0;
    for (int e = 0; e < N * N; e++) {
        double nearest = e % 2 == 0 ? e / 2 : (e / 2 + 1) / 2 * 2; /* a tie rounds to even */
        assert_true(results[0][e] == 1 + e / 256.0);
        assert_true(results[1][e] == 1 + nearest / 128);
        assert_true(fabs(results[2][e] / results[0][e] - 1) <= 0x1p-8 + 0x1p-16);
        same += results[2][e] == results[1][e];
    }
    assert_true(same < N * N);
    arena_free(program->arena);
}

static void expect_ints(Interpreter *eval, const Tensor *tensor, const long *wanted) {
    for (long i = 0; i < tensor_elements(tensor); i++)
        if (interpreter_int(eval, tensor)[i] != wanted[i])
            fail_msg("%s[%ld] is %ld instead of %ld", tensor->name, i,
                     interpreter_int(eval, tensor)[i], wanted[i]);
}

/* mask[s,n] dispatched by n; rows of an enclosing dispatch add `kind` of s before the group. */
static void pack_case(bool grouped) {
    Program *program = begin();
    Axis *s = axis(program, "s", 3), *n = axis(program, "n", 3),
         *rows = axis_new(program, "rows", 4, AXIS_ROWS, nowhere);
    Axis *groups = axis(program, "groups", grouped ? 7 : 4), *others = axis(program, "others", 4);
    Index *is = index_new(program, "s", s), *in = index_new(program, "n", n),
          *ir = index_new(program, "r", rows);
    Index *ig = index_new(program, "g", groups), *io = index_new(program, "o", others);
    Tensor *mask = given(program, "mask", TYPE_REAL, (Axis *[]){s, n, NULL});
    Tensor *kind = given(program, "kind", TYPE_INT, (Axis *[]){s, NULL});
    kind->vocabulary = 2;
    Axis *row_axes[] = {rows, NULL};
    Tensor *cs = made(program, "cs", TYPE_INT, row_axes),
           *cn = made(program, "cn", TYPE_INT, row_axes);
    Tensor *group = made(program, "group", TYPE_INT, (Axis *[]){groups, NULL});
    Tensor *row_of = made(program, "row_of", TYPE_INT, (Axis *[]){s, n, NULL});
    Tensor *other = made(program, "other", TYPE_INT, row_axes);
    Tensor *start = made(program, "start", TYPE_INT, (Axis *[]){others, NULL});
    Tensor *list = made(program, "list", TYPE_INT, row_axes);
    Statement *call = statement_call(program, &program->body, CALL_PACK, nowhere);
    call->pack.key[1] = true;
    Index *both[] = {is, in};
    list_push(program->arena, &call->inputs, at(program, mask, both));
    if (grouped) list_push(program->arena, &call->inputs, at(program, kind, &is));
    add_operands(program, &call->outputs,
                 (Tensor *[]){cs, cn, group, row_of, other, start, list, NULL},
                 (Index *const *[]){&ir, &ir, &ig, both, &ir, &io, &ir});
    Interpreter *eval = ready(program);
    memcpy(interpreter_real(eval, mask), (double[]){1, 0, 1, 1, 0, 0, 0, 0, 1}, 9 * sizeof(double));
    memcpy(interpreter_int(eval, kind), (long[]){1, 0, 1}, 3 * sizeof(long));
    run(eval);
    if (grouped) {
        expect_ints(eval, cs, (long[]){1, 0, 0, 2});
        expect_ints(eval, cn, (long[]){0, 0, 2, 2});
        expect_ints(eval, group, (long[]){0, 1, 1, 1, 2, 2, 4});
        expect_ints(eval, row_of, (long[]){1, -1, 2, 0, -1, -1, -1, -1, 3});
        expect_ints(eval, other, (long[]){1, 0, 0, 2});
        expect_ints(eval, list, (long[]){1, 2, 0, 3});
    } else {
        expect_ints(eval, cs, (long[]){0, 1, 0, 2});
        expect_ints(eval, cn, (long[]){0, 0, 2, 2});
        expect_ints(eval, group, (long[]){0, 2, 2, 4});
        expect_ints(eval, row_of, (long[]){0, -1, 2, 1, -1, -1, -1, -1, 3});
        expect_ints(eval, other, (long[]){0, 1, 0, 2});
        expect_ints(eval, list, (long[]){0, 2, 1, 3});
    }
    expect_ints(eval, start, (long[]){0, 2, 3, 4});
    interpreter_real(eval, mask)[0] = 0;
    assert_string_equal(interpreter_run(eval, 7, true),
                        "a mask has 3 nonzero entries, expected 4");
    end(program, eval);
}

static void test_pack(void **state) {
    (void)state;
    pack_case(false);
    pack_case(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contraction_and_largest),
        cmocka_unit_test(test_gather_shift_and_scatter),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_repeat_and_once),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_attend_against_its_formula),
        cmocka_unit_test(test_documents_against_their_formula),
        cmocka_unit_test(test_attend_grad_against_differences),
        cmocka_unit_test(test_decoding_agrees),
        cmocka_unit_test(test_best_values),
        cmocka_unit_test(test_top_breaks_ties_by_index),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_choices_are_followed),
        cmocka_unit_test(test_products_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

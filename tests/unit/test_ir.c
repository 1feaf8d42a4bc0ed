/* Constructors, the printed form and the errors of verify. */
#include "calls/call_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes.h"
#include "prelude.h"

static const Span nowhere;

typedef struct Small {
    Arena *arena;
    Program *program;
    Axis *layer, *s, *d, *f;
    Index *is, *id, *jf;
    Tensor *x, *w, *y;
} Small;

/* y[s,f] = ... over x[s,d] and w[d,f]. */
static Small small_new(void) {
    Small small = {.arena = arena_new()};
    Program *program = small.program = program_new(small.arena, NULL, "small", GRAPH_FORWARD,
                                                   call_table);
    small.s = axis_new(program, "s", 3, AXIS_SEQUENCE, nowhere);
    small.d = axis_new(program, "d", 4, AXIS_PLAIN, nowhere);
    small.f = axis_new(program, "f", 5, AXIS_PLAIN, nowhere);
    small.is = index_new(program, "s", small.s);
    small.id = index_new(program, "d", small.d);
    small.jf = index_new(program, "f", small.f);
    small.x =
        tensor_new(program, "x", ROLE_INPUT, TYPE_REAL, 2, (Axis *[]){small.s, small.d}, nowhere);
    small.x->input = MOEC_INPUT_REAL;
    small.w = tensor_new(program, "w", ROLE_PARAMETER, TYPE_REAL, 2, (Axis *[]){small.d, small.f},
                         nowhere);
    small.w->init = (Init){MOEC_INIT_NORMAL, 0, 0.02};
    small.w->path = "block.w";
    small.y =
        tensor_new(program, "y", ROLE_OUTPUT, TYPE_REAL, 2, (Axis *[]){small.s, small.f}, nowhere);
    return small;
}

static Expr *read2(const Small *small, Tensor *tensor, Index *a, Index *b) {
    return expr_read_indices(small->program, tensor, (Index *[]){a, b});
}

static Expr *number(const Small *small, double value) {
    return expr_number(small->program, value);
}

static Expr *apply(const Small *small, OpCode op, Expr *a, Expr *b) {
    return expr_apply(small->program, op, a, b, NULL);
}

static Statement *product(const Small *small) {
    Expr *value = apply(small, OP_MUL, read2(small, small->x, small->is, small->id),
                        read2(small, small->w, small->id, small->jf));
    return statement_loop(small->program, &small->program->body,
                          read2(small, small->y, small->is, small->jf), false, REDUCE_SUM,
                          &small->id, 1, value, nowhere);
}

static void test_constructors_fold(void **state) {
    (void)state;
    Small small = small_new();
    Expr *x = read2(&small, small.x, small.is, small.id);
    assert_true(expr_is_number(apply(&small, OP_ADD, number(&small, 2), number(&small, 3)), 5));
    assert_ptr_equal(apply(&small, OP_ADD, x, number(&small, 0)), x);
    assert_ptr_equal(apply(&small, OP_SUB, x, number(&small, 0)), x);
    assert_ptr_equal(apply(&small, OP_MUL, number(&small, 1), x), x);
    assert_ptr_equal(apply(&small, OP_DIV, x, number(&small, 1)), x);
    assert_ptr_equal(apply(&small, OP_POW, x, number(&small, 1)), x);
    assert_true(expr_is_number(apply(&small, OP_MUL, x, number(&small, 0)), 0));
    Expr *negative = apply(&small, OP_SUB, number(&small, 0), x);
    assert_int_equal(negative->op, OP_NEG);
    assert_ptr_equal(apply(&small, OP_NEG, negative, NULL), x);
    assert_string_equal(print_expr(small.arena, apply(&small, OP_ADD, x, negative)),
                        "x[s,d] - x[s,d]");
    assert_ptr_equal(expr_apply(small.program, OP_WHERE, number(&small, 0), negative, x), x);
    Expr *random = apply(&small, OP_UNIFORM, number(&small, 1), number(&small, 2));
    assert_int_equal(random->kind, EXPR_APPLY);
    Expr *infinite = apply(&small, OP_DIV, number(&small, 1), number(&small, 0));
    assert_int_equal(infinite->kind, EXPR_APPLY);
    arena_free(small.arena);
}

static void test_substitution_folds_again(void **state) {
    (void)state;
    Small small = small_new();
    Expr *s = expr_index(small.program, small.is);
    Expr *shifted =
        apply(&small, OP_MOD, apply(&small, OP_ADD, s, number(&small, 2)), number(&small, 3));
    Expr *x =
        expr_read(small.program, small.x, (Expr *[]){shifted, expr_index(small.program, small.id)});
    assert_string_equal(print_expr(small.arena, x), "x[(s + 2) % 3,d]");
    Expr *at = expr_substitute(small.program, x, &small.is, (Expr *[]){number(&small, 2)}, 1);
    assert_string_equal(print_expr(small.arena, at), "x[1,d]");
    assert_ptr_equal(expr_substitute(small.program, x, &small.jf, (Expr *[]){s}, 1), x);
    assert_true(expr_uses_index(x, small.is));
    assert_false(expr_uses_index(at, small.is));
    assert_true(expr_reads(x, small.x));
    assert_false(expr_equal(x, at));
    assert_true(expr_equal(
        at, expr_substitute(small.program, x, &small.is, (Expr *[]){number(&small, 2)}, 1)));
    arena_free(small.arena);
}

static void test_names_are_unique(void **state) {
    (void)state;
    Small small = small_new();
    assert_string_equal(
        tensor_new(small.program, "x", ROLE_TEMP, TYPE_REAL, 0, NULL, nowhere)->name, "x_2");
    assert_string_equal(
        tensor_new(small.program, "x_2", ROLE_TEMP, TYPE_REAL, 0, NULL, nowhere)->name, "x_2_2");
    assert_string_equal(
        tensor_new(small.program, "x", ROLE_TEMP, TYPE_REAL, 0, NULL, nowhere)->name, "x_3");
    assert_string_equal(
        tensor_new(small.program, "a.b", ROLE_TEMP, TYPE_REAL, 0, NULL, nowhere)->name, "a_b");
    arena_free(small.arena);
}

static void test_printed_expressions_keep_their_meaning(void **state) {
    (void)state;
    Small small = small_new();
    Expr *a = expr_index(small.program, small.is), *b = expr_index(small.program, small.id);
    Expr *difference = apply(&small, OP_SUB, a, b);
    Arena *arena = small.arena;
    assert_string_equal(print_expr(arena, apply(&small, OP_SUB, a, difference)), "s - (s - d)");
    assert_string_equal(print_expr(arena, apply(&small, OP_SUB, difference, a)), "s - d - s");
    assert_string_equal(print_expr(arena, apply(&small, OP_DIV, a, apply(&small, OP_MUL, a, b))),
                        "s / (s * d)");
    assert_string_equal(print_expr(arena, apply(&small, OP_NEG, difference, NULL)), "-(s - d)");
    assert_string_equal(print_expr(arena, apply(&small, OP_POW, apply(&small, OP_NEG, a, NULL), b)),
                        "(-s) ^ d");
    assert_string_equal(print_expr(arena, apply(&small, OP_POW, number(&small, -2), b)),
                        "(-2) ^ d");
    assert_string_equal(print_expr(arena, apply(&small, OP_POW, apply(&small, OP_POW, a, b), a)),
                        "(s ^ d) ^ s");
    assert_string_equal(print_expr(arena, apply(&small, OP_MAX, a, apply(&small, OP_LE, a, b))),
                        "max(s, s <= d)");
    arena_free(small.arena);
}

static void test_program_prints(void **state) {
    (void)state;
    Small small = small_new();
    Program *program = small.program;
    product(&small);
    small.layer = axis_new(program, "layer", 2, AXIS_REPEAT, nowhere);
    Index *step = index_new(program, "i", small.layer);
    Statement *repeat = statement_repeat(program, &program->body, step, true, nowhere);
    statement_loop(program, &repeat->body, read2(&small, small.y, small.is, small.jf), true,
                   REDUCE_NONE, NULL, 0, expr_index(program, step), nowhere);
    Tensor *mask =
        tensor_new(program, "mask", ROLE_TEMP, TYPE_REAL, 2, (Axis *[]){small.s, small.f}, nowhere);
    Statement *top = statement_call(program, &program->body, CALL_TOP, nowhere);
    top->top.k = 2;
    top->top.dimension = 1;
    list_push(small.arena, &top->inputs, read2(&small, small.y, small.is, small.jf));
    list_push(small.arena, &top->outputs, read2(&small, mask, small.is, small.jf));
    list_push(small.arena, &program->outputs, small.y);
    assert_null(well_formed(small.arena, program));
    assert_string_equal(print_program(small.arena, program),
                        "program small (forward)\n"
                        "  axis s = 3 (sequence)\n"
                        "  axis d = 4\n"
                        "  axis f = 5\n"
                        "  axis layer = 2 (repeat)\n"
                        "  input x[s=3,d=4] float\n"
                        "  parameter w[d=4,f=5] ~ normal(0, 0.02) \"block.w\"\n"
                        "  output y[s=3,f=5]\n"
                        "  temp mask[s=3,f=5]\n"
                        "\n"
                        "  y[s,f] = sum[d] x[s,d] * w[d,f]\n"
                        "  repeat i < 2 downwards {\n"
                        "    y[s,f] += i\n"
                        "  }\n"
                        "  mask[s,f] = top_k(y[s,f]; k = 2, dimension = 1)\n");
    arena_free(small.arena);
}

static void test_repeats_are_no_loops(void **state) {
    (void)state;
    Small small = small_new();
    Program *program = small.program;
    Axis *layer = axis_new(program, "layer", 2, AXIS_REPEAT, nowhere);
    Axis *slots = axis_new(program, "slot", 3, AXIS_REPEAT, nowhere);
    Tensor *carried = tensor_new(program, "carried", ROLE_TEMP, TYPE_REAL, 2,
                                 (Axis *[]){slots, small.s}, nowhere);
    Expr *s = expr_index(program, small.is);
    statement_loop(program, &program->body,
                   expr_read(program, carried, (Expr *[]){number(&small, 0), s}), false,
                   REDUCE_NONE, NULL, 0, number(&small, 1), nowhere);
    Index *index = index_new(program, "i", layer);
    Statement *repeat = statement_repeat(program, &program->body, index, false, nowhere);
    Expr *i = expr_index(program, index), *next = apply(&small, OP_ADD, i, number(&small, 1));
    Statement *step = statement_loop(
        program, &repeat->body, expr_read(program, carried, (Expr *[]){next, s}), false,
        REDUCE_NONE, NULL, 0, expr_read(program, carried, (Expr *[]){i, s}), nowhere);
    assert_int_equal(step->loop_count, 1);
    assert_false(statement_is_scatter(step));
    assert_null(well_formed(small.arena, program));
    assert_string_equal(print_statement(small.arena, step), "carried[i + 1,s] = carried[i,s]");
    arena_free(small.arena);
}

/* Every mistake below is one change of the sound product. */
static void expect_complaint(Small *small, const char *part) {
    char *message = well_formed(small->arena, small->program);
    assert_non_null(message);
    if (!strstr(message, part)) fail_msg("'%s' is not in: %s", part, message);
    arena_free(small->arena);
}

static void test_verify_complains(void **state) {
    (void)state;
    Small small = small_new();
    product(&small);
    assert_null(well_formed(small.arena, small.program));
    arena_free(small.arena);

    small = small_new();
    product(&small)->reduction = REDUCE_NONE;
    expect_complaint(&small, "index d is neither on the left nor reduced");

    small = small_new();
    product(&small)->loop_count = 2;
    expect_complaint(&small, "index d is not bound");

    small = small_new();
    product(&small)->accumulate = true;
    expect_complaint(&small, "y is added to before it is set");

    small = small_new();
    product(&small)->target = read2(&small, small.y, small.is, small.is);
    expect_complaint(&small, "index s runs over s (3), dimension 1 of y is f (5)");

    small = small_new();
    product(&small)->target = read2(&small, small.w, small.id, small.jf);
    expect_complaint(&small, "w is an input and cannot be computed");

    small = small_new();
    product(&small)->value = read2(&small, small.y, small.is, small.jf);
    expect_complaint(&small, "y is read before it is set");

    small = small_new();
    product(&small);
    small.y->type = TYPE_INT;
    expect_complaint(&small, "y holds integers");

    small = small_new();
    product(&small);
    small.w->name = "x";
    expect_complaint(&small, "two tensors have the name x");

    small = small_new();
    list_push(small.arena, &small.program->outputs, small.y);
    expect_complaint(&small, "output y is never set");
}

static void test_verify_complains_about_calls(void **state) {
    (void)state;
    Small small = small_new();
    Statement *top = statement_call(small.program, &small.program->body, CALL_TOP, nowhere);
    expect_complaint(&small, "a call with 0 inputs and 0 outputs");

    small = small_new();
    top = statement_call(small.program, &small.program->body, CALL_TOP, nowhere);
    top->top.k = 9;
    list_push(small.arena, &top->inputs, read2(&small, small.x, small.is, small.id));
    list_push(small.arena, &top->outputs, read2(&small, small.y, small.is, small.id));
    expect_complaint(&small, "index d runs over d (4), dimension 1 of y is f (5)");

    small = small_new();
    top = statement_call(small.program, &small.program->body, CALL_TOP, nowhere);
    top->top.k = 9;
    small.y->axes[1] = small.d;
    list_push(small.arena, &top->inputs, read2(&small, small.x, small.is, small.id));
    list_push(small.arena, &top->outputs, read2(&small, small.y, small.is, small.id));
    expect_complaint(&small, "top marks 9 of 3");
}

/* Integer functions of generated C equal the definition at every edge. */
static void test_whole_numbers_wrap(void **state) {
    (void)state;
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    7,
                                    -7,
                                    10007,
                                    1L << 31,
                                    -(1L << 31),
                                    1L << 53,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX - 1,
                                    INT64_MIN + 1};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (int i = 0; i < EDGES * EDGES; i++) {
        int64_t a = edges[i / EDGES], b = edges[i % EDGES];
        assert_int_equal(whole_value(OP_ADD, a, b, 0), moec_whole_sum(a, b));
        assert_int_equal(whole_value(OP_SUB, a, b, 0), moec_whole_difference(a, b));
        assert_int_equal(whole_value(OP_MUL, a, b, 0), moec_whole_product(a, b));
        assert_int_equal(whole_value(OP_ABS, a, 0, 0), moec_whole_size(a));
        assert_int_equal(whole_quotient(a, b), moec_whole_quotient(a, b));
        int64_t rest = whole_value(OP_MOD, a, b, 0);
        assert_int_equal(rest, moec_whole_remainder(a, b));
        if (b > 0) assert_true(rest >= 0 && rest < b);
        if (b < 0) assert_true(rest <= 0 && rest > b);
        if (b == 0) assert_int_equal(rest, a);
    }
    assert_int_equal(moec_whole(1e30f), INT64_MIN);
    assert_int_equal(moec_whole(NAN), whole_of((double)NAN));
    assert_int_equal(whole_of(-3), moec_whole(-3));
}

/* A pass may neither make loops of a product nor exchange its operands. */
static void test_products_stay_products(void **state) {
    (void)state;
    Small small = small_new();
    Statement *statement = product(&small);
    Expr *value = statement->value;
    assert_null(changed_product(small.program));
    find_products(small.program);
    assert_non_null(statement->product);
    assert_null(changed_product(small.program));
    statement->value = apply(&small, OP_ADD, value->args[0], value->args[1]);
    assert_ptr_equal(changed_product(small.program), statement);
    statement->value = apply(&small, OP_MUL, value->args[1], value->args[0]);
    assert_ptr_equal(changed_product(small.program), statement);
    find_product(small.program, statement);
    assert_null(changed_product(small.program));
    arena_free(small.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers_wrap),
        cmocka_unit_test(test_constructors_fold),
        cmocka_unit_test(test_substitution_folds_again),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_printed_expressions_keep_their_meaning),
        cmocka_unit_test(test_program_prints),
        cmocka_unit_test(test_repeats_are_no_loops),
        cmocka_unit_test(test_verify_complains),
        cmocka_unit_test(test_verify_complains_about_calls),
        cmocka_unit_test(test_products_stay_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

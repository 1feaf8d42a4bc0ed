/* simplify: each step on a small program, compared by the text of the result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "maker.h"

#include <string.h>

/* The statements of a program as text, without its declarations. */
static const char *statements_text(Program *program) {
    const char *text = strstr(print_program(program->arena, program), "\n\n");
    return text + 2;
}

static void expect(Maker *maker, const char *text) {
    char *before = well_formed(maker->program->arena, maker->program);
    if (before) fail_msg("%s", before);
    simplify(maker->program);
    char *after = well_formed(maker->program->arena, maker->program);
    if (after) fail_msg("%s", after);
    assert_string_equal(statements_text(maker->program), text);
}

/* x[a] and y[a]; y is visible from outside. */
typedef struct Pair {
    Arena *arena;
    Maker maker;
    Axis *a;
    Expr *i, *x, *y;
} Pair;

static Pair pair_new(void) {
    Pair pair = {.arena = arena_new()};
    pair.maker = maker_new(pair.arena);
    Maker *maker = &pair.maker;
    pair.a = make_axis(maker, "a", 4);
    pair.i = at_index(maker, make_index(maker, pair.a));
    pair.x = AT(maker, MAKE(maker, "x", ROLE_PARAMETER, pair.a), pair.i);
    pair.y = AT(maker, MAKE(maker, "y", ROLE_OUTPUT, pair.a), pair.i);
    list_push(pair.arena, &maker->program->outputs, pair.y->tensor);
    return pair;
}

static Expr *temp(Pair *pair, const char *name) {
    return AT(&pair->maker, MAKE(&pair->maker, name, ROLE_TEMP, pair->a), pair->i);
}

static void test_copies(void **state) {
    (void)state;
    Pair pair = pair_new();
    Expr *first = temp(&pair, "first"), *second = temp(&pair, "second"), *one = temp(&pair, "one");
    set(&pair.maker, first, pair.x);
    set(&pair.maker, second, first);
    set(&pair.maker, one, number(&pair.maker, 1));
    set(&pair.maker, pair.y, plus(&pair.maker, apply(&pair.maker, OP_EXP, second, NULL), one));
    expect(&pair.maker, "  y[a] = exp(x[a]) + 1\n");
    arena_free(pair.arena);
}

/* A copy stays if its source changes before the copy is read. */
static void test_changed_copy(void **state) {
    (void)state;
    Pair pair = pair_new();
    Expr *sum = temp(&pair, "sum"), *before = temp(&pair, "before");
    set(&pair.maker, sum, apply(&pair.maker, OP_EXP, pair.x, NULL));
    set(&pair.maker, before, sum);
    statement_loop(pair.maker.program, pair.maker.block, sum, true, REDUCE_NONE, NULL, 0, pair.x,
                   nowhere);
    set(&pair.maker, pair.y, times(&pair.maker, sum, before));
    expect(&pair.maker, "  sum[a] = exp(x[a])\n"
                        "  before[a] = sum[a]\n"
                        "  sum[a] += x[a]\n"
                        "  y[a] = sum[a] * before[a]\n");
    arena_free(pair.arena);
}

/* A read out of bounds is 0, unlike the number that fills the tensor. */
static void test_number_outside(void **state) {
    (void)state;
    Pair pair = pair_new();
    Expr *one = temp(&pair, "one");
    set(&pair.maker, one, number(&pair.maker, 1));
    Expr *before =
        AT(&pair.maker, one->tensor, apply(&pair.maker, OP_SUB, pair.i, number(&pair.maker, 1)));
    set(&pair.maker, pair.y, times(&pair.maker, before, pair.x));
    expect(&pair.maker, "  one[a] = 1\n"
                        "  y[a] = one[a - 1] * x[a]\n");
    arena_free(pair.arena);
}

static void test_common(void **state) {
    (void)state;
    Pair pair = pair_new();
    Index *other = make_index(&pair.maker, pair.a);
    Expr *j = at_index(&pair.maker, other), *first = temp(&pair, "first"),
         *second = temp(&pair, "second");
    set(&pair.maker, first, apply(&pair.maker, OP_TANH, pair.x, NULL));
    set(&pair.maker, AT(&pair.maker, second->tensor, j),
        apply(&pair.maker, OP_TANH, AT(&pair.maker, pair.x->tensor, j), NULL));
    set(&pair.maker, temp(&pair, "unused"), first);
    set(&pair.maker, pair.y, plus(&pair.maker, first, second));
    expect(&pair.maker, "  first[a] = tanh(x[a])\n"
                        "  y[a] = first[a] + first[a]\n");
    arena_free(pair.arena);
}

/* Equal terms become a multiple; the maximum of equal values is one of them. */
static void test_equal_terms(void **state) {
    (void)state;
    Pair pair = pair_new();
    Maker *maker = &pair.maker;
    Index *b = make_index(maker, make_axis(maker, "b", 3)), *c = make_index(maker, make_axis(maker, "c", 5));
    Expr *w = AT(maker, MAKE(maker, "w", ROLE_PARAMETER, b->axis), at_index(maker, b));
    Expr *sum = temp(&pair, "sum"), *most = temp(&pair, "most");
    reduce(maker, sum, REDUCE_SUM, b, c, plus(maker, pair.x, w));
    reduce(maker, most, REDUCE_MAX, b, c, apply(maker, OP_EXP, pair.x, NULL));
    set(maker, pair.y, times(maker, sum, most));
    expect(maker, "  sum[a] = sum[b] 5 * (x[a] + w[b])\n"
                  "  most[a] = exp(x[a])\n"
                  "  y[a] = sum[a] * most[a]\n");
    arena_free(pair.arena);
}

static void test_contraction(void **state) {
    (void)state;
    Pair pair = pair_new();
    Maker *maker = &pair.maker;
    Axis *b = make_axis(maker, "b", 9), *c = make_axis(maker, "c", 2);
    Expr *j = at_index(maker, make_index(maker, b)), *k = at_index(maker, make_index(maker, c));
    Expr *p = AT(maker, MAKE(maker, "p", ROLE_PARAMETER, pair.a, b), pair.i, j);
    Expr *q = AT(maker, MAKE(maker, "q", ROLE_PARAMETER, b, c), j, k);
    Expr *z = AT(maker, MAKE(maker, "z", ROLE_OUTPUT, pair.a, c), pair.i, k);
    maker->program->outputs.items[0] = z->tensor;
    pair.y->tensor->role = ROLE_TEMP;
    Expr *value = times(maker, times(maker, apply(maker, OP_EXP, p, NULL), q),
                        apply(maker, OP_DIV, pair.x, number(maker, 2)));
    reduce(maker, z, REDUCE_SUM, j->index, NULL, value);
    expect(maker, "  z_part[a,b] = exp(p[a,b])\n"
                  "  z_sum[a,c] = sum[b] z_part[a,b] * q[b,c]\n"
                  "  z[a,c] = x[a] * z_sum[a,c] * 0.5\n");
    arena_free(pair.arena);
}

static void test_repeat(void **state) {
    (void)state;
    Pair pair = pair_new();
    Maker *maker = &pair.maker;
    Axis *depth = axis_new(maker->program, "i", 3, AXIS_REPEAT, nowhere);
    Axis *carry = axis_new(maker->program, "i1", 4, AXIS_REPEAT, nowhere);
    Tensor *h = MAKE(maker, "h", ROLE_TEMP, carry, pair.a),
           *w = MAKE(maker, "w", ROLE_PARAMETER, depth);
    Index *step = index_new(maker->program, "i", depth);
    Expr *i = at_index(maker, step), *table = temp(&pair, "table"), *copy = temp(&pair, "copy");
    set(maker, AT(maker, h, number(maker, 0), pair.i), pair.x);
    Block *outside = maker->block;
    maker->block = &statement_repeat(maker->program, outside, step, false, nowhere)->body;
    set(maker, table, apply(maker, OP_SIN, pair.i, NULL));
    set(maker, copy, AT(maker, h, i, pair.i));
    set(maker, temp(&pair, "dead"), times(maker, copy, table));
    set(maker, AT(maker, h, plus(maker, i, number(maker, 1)), pair.i),
        times(maker, times(maker, copy, table), AT(maker, w, i)));
    maker->block = outside;
    set(maker, pair.y, AT(maker, h, number(maker, 3), pair.i));
    expect(maker, "  h[0,a] = x[a]\n"
                  "  table[a] = sin(a)\n"
                  "  repeat i < 3 {\n"
                  "    h[i + 1,a] = h[i,a] * table[a] * w[i]\n"
                  "  }\n"
                  "  y[a] = h[3,a]\n");
    arena_free(pair.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),         cmocka_unit_test(test_changed_copy),
        cmocka_unit_test(test_number_outside), cmocka_unit_test(test_common),
        cmocka_unit_test(test_contraction),    cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_equal_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

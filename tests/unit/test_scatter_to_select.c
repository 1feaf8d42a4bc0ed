/* An addition at one index per row moves into the equation of the row, unless a statement in
 * between depends on it. */
#include "calls/call_table.h"
#include "passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "maker.h"

typedef enum Between { NOTHING, READS_ROWS, CHANGES_VALUE, TWICE } Between;

/* d[b,v] = x[b] * v;  d[b,at[b]] += e[b];  out[b,v] = d[b,v] * v */
static Program *rows(Arena *arena, Between between) {
    Maker maker = {.program = program_new(arena, NULL, "rows", GRAPH_TRAIN, call_table)};
    maker.block = &maker.program->body;
    Axis *b = make_axis(&maker, "b", 3), *v = make_axis(&maker, "v", 5);
    Tensor *x = MAKE(&maker, "x", ROLE_INPUT, b);
    Tensor *at = tensor_new(maker.program, "at", ROLE_INPUT, TYPE_INT, 1, &b, nowhere);
    Tensor *e = MAKE(&maker, "e", ROLE_TEMP, b), *d = MAKE(&maker, "d", ROLE_TEMP, b, v);
    Tensor *out = MAKE(&maker, "out", ROLE_OUTPUT, b, v),
           *sum = MAKE(&maker, "sum", ROLE_OUTPUT, b);
    x->input = MOEC_INPUT_REAL;
    at->input = MOEC_INPUT_CLASS;
    list_push(arena, &maker.program->outputs, out);
    list_push(arena, &maker.program->outputs, sum);
#define INDICES Index *ib = make_index(&maker, b), *iv = make_index(&maker, v)
    {
        INDICES;
        (void)iv;
        set(&maker, AT(&maker, e, at_index(&maker, ib)),
            plus(&maker, AT(&maker, x, at_index(&maker, ib)), number(&maker, 2)));
    }
    {
        INDICES;
        set(&maker, AT(&maker, d, at_index(&maker, ib), at_index(&maker, iv)),
            times(&maker, AT(&maker, x, at_index(&maker, ib)), at_index(&maker, iv)));
    }
    {
        INDICES;
        Expr *value = between == READS_ROWS
                          ? AT(&maker, d, at_index(&maker, ib), at_index(&maker, iv))
                          : at_index(&maker, iv);
        reduce(&maker, AT(&maker, sum, at_index(&maker, ib)), REDUCE_SUM, iv, NULL, value);
    }
    for (int i = 0; i < (between == CHANGES_VALUE); i++) {
        INDICES;
        (void)iv;
        set(&maker, AT(&maker, e, at_index(&maker, ib)), AT(&maker, x, at_index(&maker, ib)));
    }
    for (int i = 0; i < (between == TWICE ? 2 : 1); i++) {
        INDICES;
        (void)iv;
        Expr *column = AT(&maker, at, at_index(&maker, ib));
        statement_loop(maker.program, maker.block, AT(&maker, d, at_index(&maker, ib), column), true,
                       REDUCE_NONE, &ib, 1, AT(&maker, e, at_index(&maker, ib)), nowhere);
    }
    INDICES;
    set(&maker, AT(&maker, out, at_index(&maker, ib), at_index(&maker, iv)),
        times(&maker, AT(&maker, d, at_index(&maker, ib), at_index(&maker, iv)),
              at_index(&maker, iv)));
    return maker.program;
}

static int scatters(const Program *program) {
    int count = 0;
    for (int i = 0; i < program->body.statements.count; i++)
        count += statement_is_scatter(program->body.statements.items[i]);
    return count;
}

static Tensor *named(const Program *program, const char *name) {
    for (int i = 0; i < program->tensors.count; i++)
        if (!strcmp(((Tensor *)program->tensors.items[i])->name, name))
            return program->tensors.items[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void run(Program *program, double values[18]) {
    Interpreter *eval = interpreter_new(program);
    for (int i = 0; i < 3; i++) {
        interpreter_real(eval, named(program, "x"))[i] = 1.5 - i;
        interpreter_int(eval, named(program, "at"))[i] =
            2 * i + (i == 2); /* the last one is not an index */
    }
    assert_null(interpreter_run(eval, 1, true));
    for (int i = 0; i < 15; i++) values[i] = interpreter_real(eval, named(program, "out"))[i];
    for (int i = 0; i < 3; i++) values[15 + i] = interpreter_real(eval, named(program, "sum"))[i];
    interpreter_free(eval);
}

static void check(Between between, int left) {
    Arena *arena = arena_new();
    Program *before = rows(arena, between), *after = rows(arena, between);
    double expected[18], actual[18];
    scatter_to_select(after);
    char *wrong = well_formed(arena, after);
    if (wrong) fail_msg("%s", wrong);
    assert_int_equal(scatters(after), left);
    run(before, expected);
    run(after, actual);
    for (int i = 0; i < 18; i++)
        if (!(fabs(expected[i] - actual[i]) <= 1e-12))
            fail_msg("element %d is %g, not %g", i, actual[i], expected[i]);
    arena_free(arena);
}

static void test_absorbed(void **state) {
    (void)state;
    check(NOTHING, 0);
    check(TWICE, 0);
}

static void test_left_alone(void **state) {
    (void)state;
    check(READS_ROWS, 1);
    check(CHANGES_VALUE, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_absorbed),
                                       cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The Hessians of products: the sums of x x^T over the rows of each instance, in the order of the
 * parameter's dimensions. */
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

enum { ROWS = 5, HEADS = 2, WIDTH = 3, EXPERTS = 2, COLUMNS = 4, TERMS = HEADS * WIDTH };

static double input_value(int row, int head, int element) {
    return 0.5 * row - head + 0.25 * element * element;
}

static int expert_of(int row) {
    return row % 3 == 0;
}

/* plain[r,f] = sum[h,e] x[r,h,e] * w[h,e,f]   twice; then the same with v[at[r],e,h,f] */
static Program *products(Arena *arena) {
    Maker maker = {.program = program_new(arena, NULL, "products", GRAPH_FORWARD, call_table)};
    maker.block = &maker.program->body;
    Axis *r = make_axis(&maker, "r", ROWS), *h = make_axis(&maker, "h", HEADS),
         *e = make_axis(&maker, "e", WIDTH), *n = make_axis(&maker, "n", EXPERTS),
         *f = make_axis(&maker, "f", COLUMNS);
    Tensor *data = MAKE(&maker, "data", ROLE_INPUT, r, h, e);
    Tensor *at = tensor_new(maker.program, "at", ROLE_INPUT, TYPE_INT, 1, &r, nowhere);
    Tensor *x = MAKE(&maker, "x", ROLE_TEMP, r, h, e);
    Tensor *w = MAKE(&maker, "w", ROLE_PARAMETER, h, e, f),
           *v = MAKE(&maker, "v", ROLE_PARAMETER, n, e, h, f);
    data->input = MOEC_INPUT_REAL;
    at->input = MOEC_INPUT_CLASS;
    w->path = "w";
    v->path = "v";
    v->lead = 1;
    for (int i = 0; i < 3; i++) {
        const char *const names[] = {"plain", "again", "routed"};
        Tensor *out = MAKE(&maker, names[i], ROLE_OUTPUT, r, f);
        Index *ir = make_index(&maker, r), *ih = make_index(&maker, h), *ie = make_index(&maker, e),
              *jf = make_index(&maker, f);
        Expr *row = at_index(&maker, ir), *head = at_index(&maker, ih),
             *element = at_index(&maker, ie), *column = at_index(&maker, jf);
        list_push(arena, &maker.program->outputs, out);
        if (i == 0)
            set(&maker, AT(&maker, x, row, head, element), AT(&maker, data, row, head, element));
        Expr *matrix = i < 2 ? AT(&maker, w, head, element, column)
                             : AT(&maker, v, AT(&maker, at, row), element, head, column);
        reduce(&maker, AT(&maker, out, row, column), REDUCE_SUM, ih, ie,
               times(&maker, AT(&maker, x, row, head, element), matrix));
    }
    return maker.program;
}

static Tensor *output_of(const Program *program, const char *path, int rank) {
    Tensor *found = NULL;
    for (int i = 0; i < program->outputs.count; i++) {
        Tensor *tensor = program->outputs.items[i];
        if (tensor->path && !strcmp(tensor->path, path)) found = tensor;
    }
    assert_non_null(found);
    assert_int_equal(found->rank, rank);
    return found;
}

static void test_sums(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Program *program = products(arena);
    hessians(program);
    char *wrong = well_formed(arena, program);
    if (wrong) fail_msg("%s", wrong);
    Interpreter *run = interpreter_new(program);
    const Tensor *inputs[2] = {NULL, NULL};
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_INPUT) inputs[tensor->type == TYPE_INT] = tensor;
    }
    for (int row = 0; row < ROWS; row++) {
        interpreter_int(run, inputs[1])[row] = expert_of(row);
        for (int i = 0; i < TERMS; i++)
            interpreter_real(run, inputs[0])[row * TERMS + i] =
                input_value(row, i / WIDTH, i % WIDTH);
    }
    assert_null(interpreter_run(run, 1, true));
    const double *of_w = interpreter_real(run, output_of(program, "w", 4)),
                 *of_v = interpreter_real(run, output_of(program, "v", 5));
    for (int i = 0; i < TERMS; i++)
        for (int j = 0; j < TERMS; j++) {
            double both = 0, expert[EXPERTS] = {0};
            for (int row = 0; row < ROWS; row++) {
                both += 2 * input_value(row, i / WIDTH, i % WIDTH) *
                        input_value(row, j / WIDTH, j % WIDTH);
                /* the terms of v are [e, h] */
                expert[expert_of(row)] +=
                    input_value(row, i % HEADS, i / HEADS) * input_value(row, j % HEADS, j / HEADS);
            }
            assert_true(fabs(of_w[i * TERMS + j] - both) < 1e-12);
            for (int n = 0; n < EXPERTS; n++)
                assert_true(fabs(of_v[(n * TERMS + i) * TERMS + j] - expert[n]) < 1e-12);
        }
    interpreter_free(run);
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

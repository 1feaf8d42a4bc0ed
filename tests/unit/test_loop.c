/* Terms of the lowered form: parentheses, equality, uses; lines of a block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "print/print.h"

static const Term *a, *b, *c;

static int set_up(void **state) {
    Arena *arena = arena_new();
    a = term_name(arena, T_I64, "a");
    b = term_name(arena, T_I64, "b");
    c = term_name(arena, T_I64, "c");
    *state = arena;
    return 0;
}

static int tear_down(void **state) {
    arena_free(*state);
    return 0;
}

/* outer of (inner of a and b) and c is printed as `expected`; swapped: of c and (...). */
static void check(Arena *arena, TermOp outer, TermOp inner, bool swapped, const char *expected) {
    const Term *inside = term(arena, inner, a, b, c);
    const Term *whole =
        swapped ? term(arena, outer, c, inside, a) : term(arena, outer, inside, c, a);
    assert_string_equal(term_text(arena, whole), expected);
}

static void test_parentheses(void **state) {
    check(*state, TERM_MUL, TERM_ADD, false, "(a + b) * c");
    check(*state, TERM_MUL, TERM_ADD, true, "c * (a + b)");
    check(*state, TERM_ADD, TERM_MUL, true, "c + a * b");
    check(*state, TERM_ADD, TERM_ADD, false, "a + b + c");
    check(*state, TERM_ADD, TERM_ADD, true, "c + (a + b)");
    check(*state, TERM_SUB, TERM_SUB, true, "c - (a - b)");
    check(*state, TERM_DIV, TERM_MUL, false, "a * b / c");
    check(*state, TERM_MOD, TERM_DIV, false, "a / b % c");
    check(*state, TERM_LT, TERM_LT, false, "(a < b) < c");
    check(*state, TERM_ADD, TERM_SELECT, true, "c + (a ? b : c)");
    check(*state, TERM_SELECT, TERM_LT, false, "a < b ? c : a");
    check(*state, TERM_BIT_AND, TERM_ADD, false, "(a + b) & c");
    check(*state, TERM_OR, TERM_AND, true, "c || (a && b)");
    check(*state, TERM_FADE, TERM_ADD, true, "moec_fade(c, a + b)");
    check(*state, TERM_ELEMENT, TERM_ADD, true, "c[a + b]");
    check(*state, TERM_REMAINDER, TERM_ADD, false, "((a + b) % c + c) % c");
    check(*state, TERM_STORE, TERM_ADD, true, "moec_store(&c, a + b)");
    check(*state, term_op(OP_POW, T_F64), TERM_ADD, false, "moec_math(pow)(a + b, c)");
    check(*state, term_op(OP_MIN, T_F64), TERM_MUL, true, "c <= a * b ? c : a * b");
    check(*state, term_op(OP_LT, T_F64), TERM_ADD, false, "(double)(a + b < c)");
    check(*state, TERM_MUL, term_op(OP_SIGMOID, T_F64), true, "c * (1 / (1 + moec_math(exp)(-a)))");
    check(*state, term_op(OP_MOD, T_F64), TERM_ADD, false,
          "(a + b) - moec_math(floor)((a + b) / c) * c");
}

/* Every row of the table with the arguments a, b, c ... is printed with as many of them. */
static void test_table(void **state) {
    for (int op = TERM_ELEMENT; op < TERM_REAL; op++) {
        const Term *made = term(*state, (TermOp)op, a, b, c, a, b, c, a);
        const char *text = term_text(*state, made);
        assert_null(strchr(text, '$'));
        for (int i = 0; i < made->count; i++) assert_non_null(strchr(text, "abcabca"[i]));
    }
}

static void test_types(void **state) {
    Arena *arena = *state;
    const Term *x = term_name(arena, T_F32, "x"), *lane = term_name(arena, T_INT, "lane");
    assert_int_equal(term(arena, TERM_ADD, lane, a)->type, T_I64);
    assert_int_equal(term(arena, TERM_LT, lane, a)->type, T_BOOL);
    assert_int_equal(term(arena, TERM_SELECT, a, x, term_number(arena, T_F32, 0))->type, T_F32);
    assert_int_equal(term_element(arena, x, a)->type, T_F32);
    assert_int_equal(term(arena, term_op(OP_EXP, T_F32), x)->type, T_F32);
    assert_int_equal(term(arena, term_op(OP_EXP, T_F64), x)->type, T_F64);
    assert_int_equal(term_cast(arena, T_U32, a)->type, T_U32);
}

static void test_numbers(void **state) {
    Arena *arena = *state;
    const Term *negative = term_whole(arena, -2), *sum = term(arena, TERM_ADD, a, b);
    assert_string_equal(term_text(arena, term(arena, TERM_NEG, negative)), "-(-2)");
    assert_string_equal(term_text(arena, term(arena, TERM_SUB, a, negative)), "a - -2");
    assert_string_equal(term_text(arena, term_cast(arena, T_I64, sum)), "(long)(a + b)");
    assert_string_equal(term_text(arena, term(arena, TERM_MUL, term_cast(arena, T_F32, a), b)),
                        "(float)a * b");
    static const struct {
        TermType type;
        double number;
        const char *text;
    } numbers[] = {{T_F32, 1, "1.0f"},
                   {T_F32, 0.1, "0.1f"},
                   {T_F32, 1e39, "INFINITY"},
                   {T_F32, -1e39, "-INFINITY"},
                   {T_F64, 1e39, "9.9999999999999994e+38"},
                   {T_F64, 2, "2.0"},
                   {T_U32, 7, "7u"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_string_equal(
            term_text(arena, term_number(arena, numbers[i].type, numbers[i].number)),
            numbers[i].text);
    assert_string_equal(term_text(arena, term_constant(arena, 8, "SIZE")), "SIZE");
    assert_true(term_equal(term_constant(arena, 8, "SIZE"), term_whole(arena, 8)));
    assert_false(term_equal(term_number(arena, T_F32, 8), term_whole(arena, 8)));
}

static void test_questions(void **state) {
    Arena *arena = *state;
    const Term *sum = term(arena, TERM_ADD, a, b), *same = term(arena, TERM_ADD, a, b);
    const Term *other = term(arena, TERM_ADD, b, a);
    const Term *square = term(arena, TERM_MUL, sum, sum);
    assert_true(term_equal(sum, same));
    assert_false(term_equal(sum, other));
    assert_int_equal(term_count(square, same), 2);
    assert_int_equal(term_count(square, other), 0);
    assert_true(term_uses(square, b));
    assert_false(term_uses(square, term_name(arena, T_I64, "a")));
    assert_string_equal(term_text(arena, term_offset(arena, sum, term_whole(arena, 4), c)),
                        "(a + b) * 4 + c");
    assert_string_equal(
        term_text(arena, term_offset(arena, term_whole(arena, 0), term_whole(arena, 4), c)), "c");
}

static void test_block(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    Text text = {.arena = arena};
    FormNode *loop = form_add_loop(arena, &block, T_I64, "i", 8);
    FormNode *condition = form_add(arena, &loop->body, FORM_IF);
    condition->values[0] = term(arena, TERM_LT, loop->name, term_whole(arena, 3));
    condition->layout = ON_SAME_LINE;
    FormNode *store = form_add(arena, &condition->body, FORM_SET);
    store->values[0] = term_element(arena, a, loop->name);
    store->values[1] = c;
    store->reduces = REDUCE_SUM;
    assert_true(form_uses(&block, c));
    assert_false(form_uses(&block, b));
    print_block(&text, &block, 1);
    assert_string_equal(text.text, "    for (long i = 0; i < 8; i++) {\n"
                                   "        if (i < 3) a[i] += c;\n"
                                   "    }\n");
}

static FormNode *let(Arena *arena, FormBlock *block, const Term *name, const Term *value) {
    FormNode *node = form_add(arena, block, FORM_LET);
    node->name = name;
    node->values[0] = value;
    node->optional = true;
    return node;
}

static void run(Arena *arena, void (*pass)(Arena *, KernelForm *, const Target *), FormBlock *block,
                const Target *target) {
    KernelForm form = {.block = *block};
    pass(arena, &form, target);
    *block = form.block;
}

/* A variable that only an unused variable reads is unused, too. */
static void test_unused(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    Text text = {.arena = arena};
    const Term *d = term_name(arena, T_I64, "d"), *e = term_name(arena, T_I64, "e");
    let(arena, &block, a, term_whole(arena, 1));
    let(arena, &block, b, a);
    let(arena, &block, c, term_whole(arena, 2));
    let(arena, &block, d, c)->optional = false;
    let(arena, &block, e, b);
    run(arena, unused, &block, &target_processor);
    assert_ptr_equal(block.last->name, d);
    print_block(&text, &block, 0);
    assert_string_equal(text.text, "long c = 2;\nlong d = c;\n");
}

static FormNode *loop(Arena *arena, FormBlock *block, const char *name, long iterations) {
    FormNode *node = form_add_loop(arena, block, T_I64, name, iterations);
    node->iterations = iterations;
    return node;
}

static FormNode *set(Arena *arena, FormBlock *block, const Term *target, const Term *value) {
    FormNode *node = form_add(arena, block, FORM_SET);
    node->values[0] = target;
    node->values[1] = value;
    return node;
}

/* Only innermost loops, and none whose iterations may store to the same address. */
static void test_vectors(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    FormNode *outer = loop(arena, &block, "i", 8), *sums = loop(arena, &outer->body, "j", 8);
    FormNode *scatter = loop(arena, &outer->body, "k", 8), *once = loop(arena, &block, "l", 1);
    set(arena, &sums->body, a, b)->reduces = REDUCE_MAX;
    set(arena, &scatter->body, term_element(arena, a, b), c)->scatters = true;
    run(arena, vectors, &block, &target_device);
    assert_int_equal(sums->run, 0);
    run(arena, vectors, &block, &target_processor);
    assert_int_equal(sums->run, RUN_VECTOR);
    assert_int_equal(outer->run, 0);
    assert_int_equal(scatter->run, 0);
    assert_int_equal(once->run, 0);
    Text text = {.arena = arena};
    print_block(&text, &sums->body, 0);
    assert_string_equal(text.text, "a = moec_max(a, b);\n");
    print_block(&text, &block, 0);
    assert_non_null(strstr(text.text, "MOEC_OMP(simd reduction(max:a))\n"));
}

/* One barrier instead of two, none around memory that no other thread reads. */
static void test_barriers(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    FormNode *group = form_add(arena, &block, FORM_GROUP);
    const Term *stored = term_element(arena, a, b);
    set(arena, &loop(arena, &group->body, "i", 8)->body, stored, c);
    FormNode *one = form_add(arena, &group->body, FORM_IF);
    one->values[0] = b;
    set(arena, &one->body, stored, c);
    FormBlock alone = block;
    run(arena, barriers, &alone, &target_device);
    assert_int_equal(alone.first->kind, FORM_FOR);
    assert_null(alone.last->next);

    block = (FormBlock){0};
    group = form_add(arena, &block, FORM_GROUP);
    FormNode *store = set(arena, &loop(arena, &group->body, "i", 8)->body, stored, c);
    one = form_add(arena, &group->body, FORM_IF);
    one->values[0] = b;
    store->seen = SEEN_LATER;
    one->seen = SEEN_AT_ONCE;
    run(arena, barriers, &block, &target_device);
    static const FormKind kinds[] = {FORM_BARRIER, FORM_FOR, FORM_BARRIER, FORM_IF, FORM_BARRIER};
    const FormNode *node = block.first;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++, node = node->next)
        assert_int_equal(node->kind, kinds[i]);
    assert_null(node);
}

static const Term *subscript(Arena *arena, const Term *value) {
    return term_invariant(arena, value, READ_ONCE);
}

static void expect_text(Arena *arena, const FormBlock *block, const char *expected) {
    Text text = {.arena = arena};
    name_variables(arena, &(KernelForm){.block = *block}, NULL);
    print_block(&text, block, 0);
    assert_string_equal(text.text, expected);
}

/* Outer loops are merged, above the work of a small kernel. */
static void test_parallel(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    FormNode *outer = loop(arena, &block, "i", 4), *inner = loop(arena, &outer->body, "j", 8);
    FormNode *last = loop(arena, &inner->body, "k", 2);
    outer->independent = inner->independent = last->independent = true;
    set(arena, &last->body, term_element(arena, a, last->name), b);
    KernelForm form = {.block = block, .work = target_processor.small_work - 1};
    parallel(arena, &form, &target_processor);
    assert_ptr_equal(form.block.first, outer);
    form.work++;
    parallel(arena, &form, &target_device);
    assert_int_equal(outer->run, 0);
    parallel(arena, &form, &target_processor);
    expect_text(arena, &form.block,
                "MOEC_OMP(parallel for schedule(static))\n"
                "for (long iteration = 0; iteration < 32; iteration++) {\n"
                "    const long i = iteration / 8;\n"
                "    const long j = iteration % 8;\n"
                "    for (long k = 0; k < 2; k++) {\n"
                "        a[k] = b;\n"
                "    }\n"
                "}\n");
}

/* One thread stores a value that all threads of a block hold; a row is in memory that its threads
 * share. */
static void test_owners(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    FormNode *blocks = loop(arena, &block, "i", 4);
    FormNode *row = let(arena, &blocks->body, term_name(arena, T_I64, "row"), NULL);
    FormNode *threads = loop(arena, &blocks->body, "j", 8);
    FormNode *own = let(arena, &threads->body, term_name(arena, T_I64, "own"), NULL);
    blocks->by = BY_BLOCKS;
    threads->by = BY_THREADS;
    threads->width = 4;
    row->head = own->head = true;
    row->optional = own->optional = false;
    row->size = own->size = 8;
    FormNode *each = set(arena, &threads->body, term_element(arena, a, threads->name), c);
    FormNode *all = set(arena, &blocks->body, term_element(arena, b, blocks->name), c);
    each->stores = all->stores = each->again = all->again = true;
    run(arena, owners, &block, &target_processor);
    assert_int_equal(all->kind, FORM_SET);
    run(arena, owners, &block, &target_device);
    run(arena, shared_rows, &block, &target_device);
    assert_int_equal(each->seen, SEEN_LATER);
    assert_int_equal(all->seen, SEEN_AT_ONCE);
    expect_text(arena, &block,
                "for (long i = moec_block(); i < 4; i += moec_blocks()) {\n"
                "    __shared__ __align__(16) long row[8];\n"
                "    for (long j = 4 * moec_thread(); j < 8; j += 4 * moec_threads()) {\n"
                "        long own[8];\n"
                "        a[j] = c;\n"
                "    }\n"
                "    if (moec_thread() == 0) b[i] = c;\n"
                "}\n");
}

/* Hoists invariant values out of loops, but not stores of the kernel. */
static void test_licm(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    FormNode *outer = loop(arena, &block, "i", 4), *inner = loop(arena, &outer->body, "j", 8);
    const Term *i = outer->name, *j = inner->name;
    const Term *read = subscript(arena, term_element(arena, b, i));
    const Term *stored = subscript(arena, term_element(arena, a, i));
    set(arena, &inner->body, term_element(arena, a, j), term_element(arena, c, read));
    set(arena, &inner->body, term_element(arena, a, j), term_element(arena, c, stored));
    run(arena, hoist, &block, &target_device);
    expect_text(arena, &block,
                "for (long i = 0; i < 4; i++) {\n"
                "    const long at = b[i];\n"
                "    for (long j = 0; j < 8; j++) {\n"
                "        a[j] = c[at];\n"
                "        a[j] = c[a[i]];\n"
                "    }\n"
                "}\n");
}

/* Expressions that occur twice and are long enough; before the condition of a store. */
static void test_cse(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    const Term *part = term_value(arena, term(arena, term_op(OP_EXP, T_F32), a), VALUE_LONG);
    const Term *brief = term_value(arena, term(arena, TERM_ADD, b, c), VALUE_SHORT);
    const Term *sum = term(arena, TERM_ADD, term(arena, TERM_MUL, part, part),
                           term(arena, TERM_MUL, brief, brief));
    FormNode *guard = form_add(arena, &block, FORM_IF);
    guard->values[0] = b;
    guard->layout = ON_SAME_LINE;
    set(arena, &guard->body, a, term_value(arena, sum, VALUE_SHORT));
    run(arena, name_common, &block, &target_device);
    expect_text(arena, &block,
                "const float part = moec_exp(a);\n"
                "if (b) a = part * part + (b + c) * (b + c);\n");
}

static void expect_fault(Arena *arena, const FormBlock *block, const char *expected) {
    const KernelForm form = {.block = *block};
    const char *fault = form_check(arena, &form);
    if (expected)
        assert_string_equal(fault ? fault : "no fault", expected);
    else
        assert_null(fault);
}

/* for i: let local = value; a[i] = stored, or local. after: a[i] is also set after the loop. */
static void expect_in_loop(Arena *arena, const Term *value, const Term *stored, bool after,
                           const char *expected) {
    FormBlock block = {0};
    FormNode *outer = loop(arena, &block, "i", 4);
    const Term *local = term_variable(arena, T_I64, "local");
    let(arena, &outer->body, local, value);
    set(arena, &outer->body, term_element(arena, a, outer->name), stored ? stored : local);
    if (after) set(arena, &block, term_element(arena, a, outer->name), b);
    expect_fault(arena, &block, expected);
}

/* Planted faults of scopes and types. */
static void test_check(void **state) {
    Arena *arena = *state;
    const Term *x = term_name(arena, T_F32, "x"), *lost = term_variable(arena, T_I64, "lost");
    const Term *sum = term(arena, TERM_ADD, b, c);
    expect_in_loop(arena, sum, NULL, false, NULL);
    expect_in_loop(arena, sum, NULL, true, "'i' is used outside of its scope");
    expect_in_loop(arena, sum, lost, false, "'lost' is not declared");
    expect_in_loop(arena, x, NULL, false, "'local' is declared with a value of another type");
    expect_in_loop(arena, sum, x, false, "'a[i]' is set to a value of another type");
    expect_in_loop(arena, term_replace(arena, sum, c, x), NULL, false, "'b + x' has a wrong type");
    expect_in_loop(arena, term_element(arena, b, x), NULL, false, "'b[x]' has a wrong type");
    expect_in_loop(arena, term(arena, term_op(OP_EXP, T_F32), b), NULL, false,
                   "'moec_exp(b)' has a wrong type");

    FormBlock block = {0};
    FormNode *first = let(arena, &block, lost, b), *outer = loop(arena, &block, "i", 4);
    expect_fault(arena, &block, NULL);
    first->values[0] = lost;
    expect_fault(arena, &block, "'lost' is used outside of its scope");
    first->values[0] = b;
    outer->values[1] = x;
    expect_fault(arena, &block, "'x' is no number of iterations");
    outer->values[1] = b;
    let(arena, &outer->body, lost, c);
    expect_fault(arena, &block, "'lost' is declared twice");
    block = (FormBlock){0};
    form_add(arena, &block, FORM_IF)->values[0] = x;
    expect_fault(arena, &block, "'x' is no condition");
}

/* From the outer to the inner scope; a name is free again after its block. A variable that is declared in two blocks has a name
 * that is free in both. */
static void test_names(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    const Term *first = term_variable(arena, T_I64, "x");
    const Term *second = term_variable(arena, T_I64, "x");
    const Term *third = term_variable_of(arena, first, "_from");
    FormNode *outer = loop(arena, &block, "", 2), *inner = loop(arena, &outer->body, "", 3);
    FormNode *last = loop(arena, &block, "", 4);
    outer->name = first;
    inner->name = second;
    last->name = third;
    expect_text(arena, &block,
                "for (long x = 0; x < 2; x++) {\n"
                "    for (long x_2 = 0; x_2 < 3; x_2++) {\n"
                "    }\n"
                "}\n"
                "for (long x_from = 0; x_from < 4; x_from++) {\n"
                "}\n");
    block = (FormBlock){0};
    loop(arena, &block, "", 2)->name = second;
    outer = loop(arena, &block, "", 3);
    outer->name = first;
    loop(arena, &outer->body, "", 2)->name = second;
    expect_text(arena, &block,
                "for (long x_2 = 0; x_2 < 2; x_2++) {\n"
                "}\n"
                "for (long x = 0; x < 3; x++) {\n"
                "    for (long x_2 = 0; x_2 < 2; x_2++) {\n"
                "    }\n"
                "}\n");
    const Around around = {.tensors = (const char *const[]){"x_from", NULL}, .tensor_count = 2};
    assert_string_equal(free_name(arena, &around, "x_from"), "x_from_2");
    assert_string_equal(free_name(arena, &around, "for"), "v_for");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parentheses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_questions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_check, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parallel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owners, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_licm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vectors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_barriers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unused, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Terms of the lowered form: parentheses, equality, uses; lines of a block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "loop/form.h"

static const Term *a, *b, *c;

static int set_up(void **state) {
    Arena *arena = arena_new();
    a = term_name(arena, "a");
    b = term_name(arena, "b");
    c = term_name(arena, "c");
    *state = arena;
    return 0;
}

static int tear_down(void **state) {
    arena_free(*state);
    return 0;
}

/* outer of (inner of a and b) and c is spelt `expected`; swapped: of c and (...). */
static void check(Arena *arena, const char *outer, const char *inner, bool swapped,
                  const char *expected) {
    const Term *inside = term(arena, inner, a, b);
    assert_string_equal(
        term_text(arena, swapped ? term(arena, outer, c, inside) : term(arena, outer, inside, c)),
        expected);
}

static void test_parentheses(void **state) {
    check(*state, "$0 * $1", "$0 + $1", false, "(a + b) * c");
    check(*state, "$0 * $1", "$0 + $1", true, "c * (a + b)");
    check(*state, "$0 + $1", "$0 * $1", true, "c + a * b");
    check(*state, "$0 + $1", "$0 + $1", false, "a + b + c");
    check(*state, "$0 + $1", "$0 + $1", true, "c + (a + b)");
    check(*state, "$0 - $1", "$0 - $1", true, "c - (a - b)");
    check(*state, "$0 / $1", "$0 * $1", false, "a * b / c");
    check(*state, "$0 % $1", "$0 / $1", false, "a / b % c");
    check(*state, "$0 < $1", "$0 < $1", false, "(a < b) < c");
    check(*state, "$0 + $1", "$0 ? $1 : 0", true, "c + (a ? b : 0)");
    check(*state, "$0 ? $1 : 0", "$0 < $1", false, "a < b ? c : 0");
    check(*state, "$0 & $1", "$0 + $1", false, "(a + b) & c");
    check(*state, "$0 || $1", "$0 && $1", true, "c || (a && b)");
    check(*state, "f($0, $1)", "$0 + $1", true, "f(c, a + b)");
    check(*state, "$0[$1]", "$0 + $1", true, "c[a + b]");
    check(*state, "($0 % $1 + $1) % $1", "$0 + $1", false, "((a + b) % c + c) % c");
    check(*state, "moec_store(&$0, $1)", "$0 + $1", true, "moec_store(&c, a + b)");
}

static void test_signs(void **state) {
    Arena *arena = *state;
    const Term *negative = term_whole(arena, -2), *sum = term(arena, "$0 + $1", a, b);
    assert_string_equal(term_text(arena, term(arena, "-$0", negative)), "-(-2)");
    assert_string_equal(term_text(arena, term(arena, "$0 - $1", a, negative)), "a - -2");
    assert_string_equal(term_text(arena, term(arena, "(long)$0", sum)), "(long)(a + b)");
    assert_string_equal(term_text(arena, term(arena, "$0 * $1", term(arena, "(float)$0", a), b)),
                        "(float)a * b");
}

static void test_questions(void **state) {
    Arena *arena = *state;
    const Term *sum = term(arena, "$0 + $1", a, b), *same = term(arena, "$0 + $1", a, b);
    const Term *other = term(arena, "$0 + $1", b, a);
    const Term *square = term(arena, "$0 * $0", sum);
    assert_true(term_equal(sum, same));
    assert_false(term_equal(sum, other));
    assert_int_equal(term_count(square, same), 2);
    assert_int_equal(term_count(square, other), 0);
    assert_true(term_uses(square, "b"));
    assert_false(term_uses(square, "ab"));
    assert_string_equal(term_text(arena, term_offset(arena, sum, 4, c)), "(a + b) * 4 + c");
    assert_string_equal(term_text(arena, term_offset(arena, term_whole(arena, 0), 4, c)), "c");
}

static void test_block(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    Text text = {.arena = arena};
    FormNode *loop = form_add(arena, &block, FORM_FOR);
    loop->type = "long";
    loop->name = "i";
    loop->values[0] = term_whole(arena, 0);
    loop->values[1] = term_whole(arena, 8);
    FormNode *condition = form_add(arena, &loop->body, FORM_IF);
    condition->values[0] = term(arena, "$0 < 3", term_name(arena, "i"));
    condition->layout = ON_SAME_LINE;
    FormNode *store = form_add(arena, &condition->body, FORM_SET);
    store->values[0] = term(arena, "$0[$1]", a, term_name(arena, "i"));
    store->values[1] = c;
    store->text = "+=";
    assert_true(form_uses(&block, "c"));
    assert_false(form_uses(&block, "b"));
    print_block(&text, &block, 1);
    assert_string_equal(text.text, "    for (long i = 0; i < 8; i++) {\n"
                                   "        if (i < 3) a[i] += c;\n"
                                   "    }\n");
}

static FormNode *let(Arena *arena, FormBlock *block, const char *name, const Term *value) {
    FormNode *node = form_add(arena, block, FORM_LET);
    node->type = "long";
    node->name = name;
    node->values[0] = value;
    node->optional = true;
    return node;
}

/* What only another unused place reads is not used either. */
static void test_unused(void **state) {
    Arena *arena = *state;
    FormBlock block = {0};
    Text text = {.arena = arena};
    let(arena, &block, "a", term_whole(arena, 1));
    let(arena, &block, "b", a);
    let(arena, &block, "c", term_whole(arena, 2));
    let(arena, &block, "d", c)->optional = false;
    let(arena, &block, "e", b);
    unused(&block);
    assert_string_equal(block.last->name, "d");
    print_block(&text, &block, 0);
    assert_string_equal(text.text, "long c = 2;\nlong d = c;\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parentheses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_signs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_questions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unused, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

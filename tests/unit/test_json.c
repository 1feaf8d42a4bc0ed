/* JSON values of any bytes, and text cut for messages: never NULL, never part of a character. */
#include "abi/json_make.h"
#include "abi/utf8_cut.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(json_t *value, const char *expected) {
    char *text = json_write(value, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(value);
}

static void test_values(void **state) {
    (void)state;
    json_t *shared = json_integer(3);
    expect(json_make("{s:s, s:i, s:I, s:b, s:f, s:n}", "a", "x", "b", 1, "c", (json_int_t)1 << 40,
                     "d", 1, "e", 0.5, "f"),
           "{\"a\":\"x\",\"b\":1,\"c\":1099511627776,\"d\":true,\"e\":0.5,\"f\":null}");
    expect(json_make("[{s:[i, i]}, o, O, [], {}]", "a", 1, 2, json_true(), shared),
           "[{\"a\":[1,2]},true,3,[],{}]");
    expect(json_make("o", json_integer(7)), "7");
    json_decref(shared);
}

/* For each of these json_pack returns NULL. */
static void test_hostile(void **state) {
    (void)state;
    expect(json_make("{s:s}", "a", "x\xC3"), "{\"a\":\"x\xEF\xBF\xBD\"}");
    expect(json_make("{s:f, s:f}", "a", (double)NAN, "b", (double)INFINITY),
           "{\"a\":null,\"b\":null}");
    expect(json_make("{s:s, s:o, s:O, s:s?}", "a", NULL, "b", NULL, "c", NULL, "d", NULL),
           "{\"a\":null,\"b\":null,\"c\":null,\"d\":null}");
    expect(json_text("\xED\xA0\x80\xC0\xAFz"),
           "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"");
    expect(json_text_bytes("a\0b", 3), "\"a\\u0000b\"");
    expect(json_text(NULL), "null");
    for (int byte = 1; byte < 256; byte++) {
        const char text[] = {'<', (char)byte, '>', 0};
        json_t *value = json_text(text);
        assert_true(json_string_length(value) == (byte < 128 ? 3 : 5));
        json_decref(value);
    }
}

static void test_cut(void **state) {
    (void)state;
    const char empty[8] = "";
    assert_int_equal(utf8_cut(empty, 4), 0);
    assert_int_equal(utf8_cut("abcd", 4), 4);
    assert_int_equal(utf8_cut("abcde", 4), 4);
    assert_int_equal(utf8_cut("abc\xC3\xA9", 4), 3);
    assert_int_equal(utf8_cut("ab\xC3\xA9x", 4), 4);
    assert_int_equal(utf8_cut("a\xF0\x9F\x98\x80", 4), 1);
    assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80", 4), 0);
    assert_int_equal(utf8_cut_bytes("ab\xC3\xA9", 4, 3), 2);
    assert_int_equal(utf8_cut_bytes("ab\xC3\xA9", 4, 9), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Chat templates: the output of Jinja (tests/serve/templates.json), and rejected templates. */
#include "tools/server/request.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A template as in tokenizer_config.json. */
static Template *open_text(const char *text) {
    char path[] = "/tmp/moec_template_XXXXXX.json";
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    json_t *config = json_pack("{s:s, s:s, s:{s:s}}", "chat_template", text, "bos_token", "<s>",
                               "eos_token", "content", "</s>");
    assert_int_equal(json_dumpfd(config, file, 0), 0);
    close(file);
    Template *template = template_open(path, NULL, 0);
    json_decref(config);
    unlink(path);
    return template;
}

/* The expected output; after a '!' the error. */
static void expect(const char *name, const Template *template, const json_t *messages,
                   const char *expected) {
    Text out = {0};
    Problem problem = {0};
    bool ok = template_chat(template, messages, NULL, &out, &problem);
    text_append(&out, "", 1);
    const char *found = ok ? out.bytes : problem.text;
    if (ok != (*expected != '!') || strcmp(found, expected + !ok) != 0)
        fail_msg("%s: '%s', not '%s'", name, found, expected);
    free(problem.text);
    text_free(&out);
}

static void test_jinja(void **state) {
    (void)state;
    json_error_t error;
    json_t *all = json_load_file("tests/serve/templates.json", 0, &error), *one;
    size_t i;
    assert_non_null(all);
    json_array_foreach(json_object_get(all, "expected"), i, one) {
        const char *name, *which, *expected;
        assert_int_equal(json_unpack(one, "[s, s, s]", &name, &which, &expected), 0);
        json_t *text = json_object_get(json_object_get(all, "templates"), name);
        Template *template = open_text(json_string_value(text));
        assert_non_null(template);
        expect(name, template, json_object_get(json_object_get(all, "messages"), which), expected);
        template_free(template);
    }
    assert_true(i > 15);
    json_decref(all);
}

static char *repeated(const char *text, int times) {
    Text all = {0};
    for (int i = 0; i < times; i++) text_append(&all, text, strlen(text));
    text_append(&all, "", 1);
    return all.bytes;
}

/* Templates that never end or exceed the memory limit: text and lists that double, nested loops, nested expressions, values
 * that contain themselves. */
static void test_hostile(void **state) {
    (void)state;
    static const struct {
        const char *begin, *again;
        int times;
        const char *end;
    } bombs[] = {
        {"{% set x = 'aaaaaaaa' %}", "{% set x = x + x %}", 60, "{{ x }}"},
        {"{% set x = 'aaaaaaaa' %}", "{% set x = [x, x] %}", 60, "{{ x | tojson }}"},
        {"{% set x = 'a a a a a a a a'.split(' ') %}", "{% for i in x %}", 30, ""},
        {"{% set n = namespace(a=1) %}", "{% set n.a = [n, n] %}", 60, "{{ n }}"},
        {"{% set n = namespace(a=1) %}{% set m = n %}", "{% set m = [m, m] %}", 20,
         "{% set n.a = m %}{{ m }}{{ n == n }}"},
        {"{{ ", "(", 100000, ""},
        {"{{ ", "not ", 100000, ""},
        {"{{ ", "[", 100000, ""},
        {"{{ ", "1 if 1 else ", 100000, "1 }}"},
        {"{{ ", "1 // 0 if (", 100000, "1 }}"},
        {"{% set x = 'aaaaaaaa' %}", "{% set x = x * 1000 %}", 9, "{{ x }}"},
        {"{% set x = ['a'] %}", "{% set x = x * 1000 %}", 9, "{{ x }}"},
        {"{% set x = 'a' * 100000 %}", "{% set x = x.replace('', x) %}", 3, "{{ x }}"},
        {"{% set x = 'é' * 20000 %}", "{{ x.strip(x) }}", 9, ""},
        {"{{ 'a'", " * 9223372036854775807", 3, " }}"},
    };
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        Text text = {0};
        char *again = repeated(bombs[i].again, bombs[i].times);
        const char *ends = strstr(bombs[i].again, "for") ? "{% endfor %}" : "";
        char *closed = repeated(ends, bombs[i].times);
        text_append(&text, bombs[i].begin, strlen(bombs[i].begin));
        text_append(&text, again, strlen(again));
        text_append(&text, bombs[i].end, strlen(bombs[i].end));
        text_append(&text, closed, strlen(closed) + 1);
        if (open_text(text.bytes)) fail_msg("taken: %zu", i);
        text_free(&text);
        free(again);
        free(closed);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"{% macro f() %}{% endmacro %}",
                                        "{{ messages | groupby('role') }}",
                                        "{% for m in messages %}",
                                        "{% if messages %}",
                                        "{{ 'no end }}",
                                        "{{ messages[0 }}",
                                        "{% endif %}",
                                        "{{ f(1) }}",
                                        "{{ 1 +",
                                        "{% set x %}y{% endset %}",
                                        "{# no end",
                                        "{{ }}",
                                        "{% for a, b in x.items() %}{% endfor %}",
                                        "{{ 'x' is weird }}",
                                        "{% if false %}{{ 1 | nofilter }}{% endif %}",
                                        "{{ ((((",
                                        "{{ 9223372036854775808 }}",
                                        "{{ 1e999 }}",
                                        "{{ 1x }}",
                                        "{{ 2 ** 3 }}",
                                        "{{ '\\ud800' }}",
                                        "{{ '\\xg0' }}",
                                        "{{ '\\N{DASH}' }}",
                                        "{{ 'a'[1:2:3:4] }}",
                                        "{{ 'a'.strip('a', 'b') }}",
                                        "{{ 'a' | upper(1) }}",
                                        "{{ {'a': 1} | tojson(indent=4) }}",
                                        "{{ messages is string is defined }}",
                                        "{%",
                                        "{{-"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (open_text(wrong[i])) fail_msg("taken: %s", wrong[i]);
    Template *template = open_text("{{ messages[0].content }}");
    json_t *none = json_array(), *bad = json_pack("[{s:s}]", "role", "user");
    json_t *parts = json_pack("[{s:s, s:[{s:s, s:s}, {s:s, s:s}]}]", "role", "user", "content",
                              "type", "text", "text", "a", "type", "text", "text", "b");
    const char *what =
        "!'messages' must be a list of objects with string fields 'role' and 'content'";
    expect("none", template, none, what);
    expect("bad", template, bad, what);
    expect("parts", template, parts, "ab");
    json_decref(none);
    json_decref(bad);
    json_decref(parts);
    template_free(template);
}

/* Values out of range: an error where Python continues above 64 bits. */
static void test_values(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"{{ 9223372036854775807 + 1 }}", "a number exceeds 64 bits"},
        {"{{ -9223372036854775807 - 2 }}", "a number exceeds 64 bits"},
        {"{{ 9223372036854775807 * 2 }}", "a number exceeds 64 bits"},
        {"{{ -(-9223372036854775807 - 1) }}", "a number exceeds 64 bits"},
        {"{{ (-9223372036854775807 - 1) // -1 }}", "a number exceeds 64 bits"},
        {"{{ 1e308 * 10 }}", "a number is too large"},
        {"{{ 1 // 0 }}", "division by zero"},
        {"{{ 1 % 0 }}", "division by zero"},
        {"{{ 1.5 / 0 }}", "division by zero"},
        {"{{ 'a' + 1 }}", "'+' requires two strings, two numbers or two lists"},
        {"{{ 'a' - 'b' }}", "'-' requires two numbers"},
        {"{{ 'a' < 1 }}", "'<' compares two numbers or two strings"},
        {"{{ 1 in 'a' }}", "'in' requires a list, an object, or two strings"},
        {"{{ -'a' }}", "'-' requires a number"},
        {"{{ 1 | length }}", "a number has no length"},
        {"{{ 'a'[::0] }}", "the step of a slice is 0"},
        {"{{ 'a'['b':] }}", "the bounds of a slice must be integers"},
        {"{{ missing.role }}", "attribute '.role' of an undefined value"},
        {"{{ missing[0] }}", "item of an undefined value"},
        {"{{ 'a'.split(missing) }}", "an argument of 'split' is not defined"},
        {"{% for c in 1 %}{% endfor %}", "a number is not a list"},
    };
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "x");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char expected[200];
        Template *template = open_text(wrong[i][0]);
        snprintf(expected, sizeof expected,
                 "!error in the chat template of this server, line 1: %s", wrong[i][1]);
        if (!template) fail_msg("not opened: %s", wrong[i][0]);
        expect(wrong[i][0], template, messages, expected);
        template_free(template);
    }
    json_decref(messages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jinja),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* JSON schemas as grammars: texts that follow them, and the tokens that can continue a text. */
#include "tools/server/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Grammar *grammar_of(const char *schema, Problem *problem) {
    json_error_t error;
    json_t *object = json_loads(schema, JSON_DECODE_ANY, &error);
    assert_non_null(object);
    Grammar *grammar = schema_grammar(object, "response_format", problem);
    json_decref(object);
    return grammar;
}

/* 2: a whole value and nothing can follow; 1: a whole value; 0: the beginning of one; -1: none. */
static int follow(const char *schema, const char *text) {
    Problem problem = {0};
    Grammar *grammar = grammar_of(schema, &problem);
    assert_non_null(grammar);
    TokenBytes *bytes = token_bytes_new(NULL, 256);
    Matching *matching = matching_new(grammar, bytes);
    bool good = matching != NULL;
    for (; *text && good; text++) {
        const bool *allowed = matching_allowed(matching);
        const bool can = allowed && allowed[(unsigned char)*text];
        good = matching_add(matching, (unsigned char)*text);
        assert_int_equal(can, good);
    }
    int result = good ? matching_complete(matching) + matching_over(matching) : -1;
    matching_free(matching);
    token_bytes_free(bytes);
    grammar_free(grammar);
    return result;
}

static void values(void **state) {
    (void)state;
    static const struct {
        const char *schema, *text;
        int result;
    } rows[] = {
        {"{\"type\":\"integer\"}", "-120", 1},
        {"{\"type\":\"integer\"}", "012", -1},
        {"{\"type\":\"integer\"}", "1.", -1},
        {"{\"type\":\"integer\"}", "1234567890123456", -1},
        {"{\"type\":\"number\"}", "-0.25e-9", 1},
        {"{\"type\":\"number\"}", "1.", 0},
        {"{\"type\":\"number\"}", "1e400", -1},
        {"{\"type\":\"boolean\"}", "true", 2},
        {"{\"type\":[\"null\",\"string\"]}", "null", 2},
        {"{\"type\":[\"null\",\"string\"]}", "\"\"", 2},
        {"{\"type\":\"string\"}", "\"a\\n\\u00e9\\ud7ff\xC3\xA9\xF0\x9F\x98\x80\"", 2},
        {"{\"type\":\"string\"}", "\"\\ud800", -1},
        {"{\"type\":\"string\"}", "\"\xC0", -1},
        {"{\"type\":\"string\"}", "\"\xED\xA0", -1},
        {"{\"type\":\"string\"}", "\"\n", -1},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"a\"", -1},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"a\xC3\xA9\"", 2},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd", -1},
        {"{\"minLength\":2}", "\"abcdefg\"", 2},
        {"{\"minLength\":2}", "1", -1},
        {"{\"enum\":[1,\"a\",{\"b\":[2]}]}", "{\"b\":[2]}", 2},
        {"{\"const\":\"x\"}", "\"y", -1},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[]", 2},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[ 1, 2,\n  3 ]", 2},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[1,]", -1},
        {"{\"items\":{\"type\":\"integer\"},\"minItems\":2}", "[1]", -1},
        {"{\"items\":{\"type\":\"integer\"},\"minItems\":2}", "[1,2,3]", 2},
        {"{\"items\":{\"type\":\"integer\"},\"maxItems\":2}", "[]", 2},
        {"{\"items\":{\"type\":\"integer\"},\"maxItems\":2}", "[1,2]", 2},
        {"{\"items\":{\"type\":\"integer\"},\"maxItems\":2}", "[1,2,", -1},
        {"{\"minItems\":1,\"maxItems\":1}", "[[]]", 2},
        {"{\"maxItems\":0}", "[]", 2},
        {"{\"type\":\"object\"}", "{}", 2},
        {"{\"type\":\"object\"}", "{\"a\": [1, {\"b\": null}], \"c\": \"d\"}", 2},
        {"{\"additionalProperties\":{\"type\":\"null\"}}", "{\"a\":null}", 2},
        {"{\"additionalProperties\":{\"type\":\"null\"}}", "{\"a\":1", -1},
        {"{\"properties\":{}}", "{\"", -1},
        {"{\"properties\":{},\"additionalProperties\":true}", "{\"a\":1}", 2},
        {"{\"additionalProperties\":false}", "{}", 2},
        {"{\"additionalProperties\":false}", "{\"", -1},
        {"{\"properties\":{\"a\":true,\"b\":{\"type\":\"null\"}}}", "{}", 2},
        {"{\"properties\":{\"a\":true,\"b\":{\"type\":\"null\"}}}", "{\"b\":null}", 2},
        {"{\"properties\":{\"a\":true,\"b\":{\"type\":\"null\"}}}", "{\"a\":[],\"b\":null}", 2},
        {"{\"properties\":{\"a\":true,\"b\":{\"type\":\"null\"}}}", "{\"b\":null,\"a\"", -1},
        {"{\"properties\":{\"a\":true,\"b\":true},\"required\":[\"b\"]}", "{\"a\":1}", -1},
        {"{\"properties\":{\"a\":true,\"b\":true},\"required\":[\"b\"]}", "{\"b\":1}", 2},
        {"{\"properties\":{\"\\\"\xC3\xA9\":true}}", "{\"\\\"\xC3\xA9\":1}", 2},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\"},{\"const\":\"1\"}]}", "1.5", 1},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\"},{\"const\":\"1\"}]}", "\"1\"",
         2},
        {"{\"properties\":{\"next\":{\"$ref\":\"#\"}}}", "{\"next\":{\"next\":{}}}", 2},
        {"{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"null\"}}}", "null", 2},
        {"{\"title\":\"t\",\"description\":\"d\",\"default\":1}", "[true,1.5e3]", 2},
        {"true", "\"any\"", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int result = follow(rows[i].schema, rows[i].text);
        if (result != rows[i].result)
            fail_msg("%s: %s: %d instead of %d", rows[i].schema, rows[i].text, result,
                     rows[i].result);
    }
}

static void refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{\"type\":\"integer\",\"minimum\":4}", "'minimum'"},
        {"{\"properties\":{\"a\":{\"pattern\":\"x\"}}}", "'pattern'"},
        {"{\"allOf\":[]}", "'allOf'"},
        {"{\"type\":\"int\"}", "'int'"},
        {"{\"type\":[]}", "'type'"},
        {"{\"required\":[\"a\"],\"properties\":{}}", "'required'"},
        {"{\"minLength\":-1}", "'minLength'"},
        {"{\"minItems\":3,\"maxItems\":2}", "'maxItems'"},
        {"{\"$ref\":\"#/$defs/a\"}", "'#/$defs/a'"},
        {"{\"$ref\":\"#\",\"type\":\"object\"}", "'$ref'"},
        {"{\"anyOf\":[true],\"properties\":{\"a\":true}}", "'anyOf'"},
        {"{\"anyOf\":[]}", "'anyOf'"},
        {"{\"items\":[true]}", "must be an object or true"},
        {"{\"items\":{\"maxLength\":10000},\"maxItems\":10000}", ""},
        {"{\"items\":{\"items\":{\"maxItems\":9000},\"maxItems\":9000},\"maxItems\":9000}", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Problem problem = {0};
        Grammar *grammar = grammar_of(rows[i][0], &problem);
        if (!*rows[i][1]) {
            grammar_free(grammar); /* large ones end early */
        } else {
            if (grammar || !strstr(problem.text, rows[i][1]))
                fail_msg("%s: %s", rows[i][0], grammar ? "accepted" : problem.text);
            assert_int_equal(problem.status, 400);
        }
        free(problem.text);
    }
}

/* Schemas without a text, and one with too many readings. */
static void endless(void **state) {
    (void)state;
    static const char *const schemas[] = {"{\"$ref\":\"#\"}",
                                          "{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}",
                                          "{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}"};
    TokenBytes *bytes = token_bytes_new(NULL, 256);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        Problem problem = {0};
        Grammar *grammar = grammar_of(schemas[i], &problem);
        assert_non_null(grammar);
        assert_null(matching_new(grammar, bytes));
        grammar_free(grammar);
    }
    token_bytes_free(bytes);
}

/* Every token of a byte-level vocabulary: allowed exactly if its bytes can follow. */
static void tokens(void **state) {
    (void)state;
    static const char *const names[] = {
        "{",     "}",      "\\\"", ":",  ",",   "Ġ",  "a",        "b",     "1",          "2",
        "t",     "r",      "u",    "e",  "tr",  "ue", "true",     "false", "{\\\"",      "{\\\"a",
        "\\\":", "\\\":Ġ", "Ġ1",   "12", "12}", "1,", "1,Ġ\\\"b", "Ã",     "©",          "Ã©",
        "\\\"Ã", "©\\\"",  "}}",   "[",  "]",   "Ċ",  "ĊĠĠ",      "\\\"}", "\\\"a\\\":", "<s>"};
    enum { COUNT = sizeof names / sizeof *names };
    Text json = {0};
    char item[64];
    const char *head = "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{",
               *tail =
                   "}},\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":39,"
                   "\"content\":\"<s>\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
                   "\"rstrip\":false,\"normalized\":false}]}";
    text_append(&json, head, strlen(head));
    for (int i = 0; i < COUNT; i++) {
        int length = snprintf(item, sizeof item, "%s\"%s\":%d", i ? "," : "", names[i], i);
        text_append(&json, item, (size_t)length);
    }
    text_append(&json, tail, strlen(tail));
    Tokenizer *tokenizer = tokenizer_read("test", json.bytes, json.length);
    assert_non_null(tokenizer);
    Problem problem = {0};
    Grammar *grammar = grammar_of("{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
                                  "[\"string\",\"boolean\"]}},\"required\":[\"a\"]}",
                                  &problem);
    TokenBytes *bytes = token_bytes_new(tokenizer, COUNT + 2);
    long seen = 0;
    for (unsigned seed = 0; seed < 60; seed++) {
        int32_t said[40];
        int count = 0;
        unsigned random = seed * 2654435761u + 1;
        Matching *matching = matching_new(grammar, bytes);
        while (count < 40 && !matching_over(matching)) {
            const bool *allowed = matching_allowed(matching);
            assert_non_null(allowed);
            for (int32_t token = 0; token < COUNT + 2; token++) {
                Matching *other = matching_new(grammar, bytes);
                for (int i = 0; i < count; i++) assert_true(matching_add(other, said[i]));
                bool can = matching_add(other, token);
                assert_int_equal(allowed[token],
                                 can || (token == 39 && matching_complete(matching)));
                matching_free(other);
            }
            int32_t token = 0;
            do {
                random = random * 1664525u + 1013904223u;
                token = (int32_t)(random >> 8) % COUNT;
            } while (!allowed[token] || token == 39);
            assert_true(matching_add(matching, token));
            said[count++] = token;
            seen++;
        }
        matching_free(matching);
    }
    assert_true(seen > 500);
    token_bytes_free(bytes);
    grammar_free(grammar);
    tokenizer_close(tokenizer);
    text_free(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(refused),
                                       cmocka_unit_test(endless), cmocka_unit_test(tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

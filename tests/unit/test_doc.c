/* Documentation by moec_doc: each builtin function has an example with the stated elements, and
 * the example of each declaration of the standard library is valid. */
#include "moec.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ELEMENTS = 8 };

static const char *text_of(const json_t *facts, const char *key) {
    return json_string_value(json_object_get(facts, key));
}

static MoecCompiler *opened(const char *text) {
    const MoecDocument document = {"example.moe", text, strlen(text)};
    MoecCompiler *compiler = moec_open_document(&document, 1, NULL, NULL);
    if (moec_failed(compiler)) fail_msg("%s\n%s", text, moec_reports(compiler));
    return compiler;
}

static void compare(const char *example, const char *result, const double *values) {
    char *end;
    int count = 0;
    for (const char *at = result; *at; at = end, count++) {
        double expected = strtod(at, &end);
        assert_ptr_not_equal(at, end);
        if (fabs(values[count] - expected) > 1e-9)
            fail_msg("%s: element %d is %.10f, not %.10f", example, count, values[count], expected);
    }
}

static size_t elements(const char *result) {
    size_t count = *result ? 1 : 0;
    for (const char *at = result; *at; at++) count += *at == ' ';
    return count;
}

static void run_example(const char *example, const char *result) {
    char text[1024];
    snprintf(text, sizeof text,
             "use train\nlayer example {\n  option train: layer = train\n  sequence s = 3\n"
             "  axis i = 4\n  axis j = 3\n  axis h = 1\n  %s\n  output y\n}\nmodel m = example\n",
             example);
    MoecCompiler *compiler = opened(text);
    MoecProgram *program = moec_define(compiler, MOEC_FORWARD, 1, 0, 0);
    if (!program) fail_msg("%s\n%s", example, moec_reports(compiler));
    MoecInterpreter *interpreter = moec_interpreter_new(compiler, program);
    const char *message = moec_interpreter_run(interpreter, 1, true);
    if (message) fail_msg("%s: %s", example, message);
    double values[MAX_ELEMENTS];
    size_t count = elements(result);
    if (count && !moec_interpreter_get(interpreter, "output:y", values, count))
        fail_msg("%s: y has not %zu elements", example, count);
    compare(example, result, values);
    moec_interpreter_free(interpreter);
    moec_close(compiler);
}

static void examples(void **state) {
    (void)state;
    MoecCompiler *compiler = moec_open_declarations(NULL, NULL);
    json_t *functions = json_loads(moec_doc(compiler, "functions", MOEC_DOC_JSON), 0, NULL);
    size_t i;
    json_t *facts;
    assert_true(json_array_size(functions) > 30);
    json_array_foreach(functions, i, facts) {
        if (!*text_of(facts, "description") || !*text_of(facts, "example"))
            fail_msg("compiler/editor/functions.def lacks function '%s'", text_of(facts, "name"));
        run_example(text_of(facts, "example"), text_of(facts, "result"));
    }
    json_decref(functions);
    moec_close(compiler);
}

/* ---- declarations ---- */

/* Adds the inputs of a signature, "name(t, x[s,d]) -> y", with their axes. */
static void add_inputs(FILE *out, const char *signature) {
    if (!strncmp(signature, "inverse_fourth_root(", 20)) { /* of a square matrix */
        fprintf(out, "  axis n = 8\n  input a[n,n]: float\n");
        return;
    }
    char axes[256] = " s ";
    fprintf(out, "  sequence s = 4\n");
    for (const char *at = strchr(signature, '(') + 1; *at != ')';) {
        at += strspn(at, ", ");
        int name = (int)strcspn(at, ",[) "), subs = (int)strcspn(at, ",[)");
        const char *list = at[subs] == '[' ? at + subs + 1 : "s,d]", *sub = list;
        while (*sub != ']') {
            sub += strspn(sub, ", .");
            int length = (int)strcspn(sub, ",]");
            char word[32];
            snprintf(word, sizeof word, " %.*s ", length, sub);
            if (!strstr(axes, word)) fprintf(out, "  axis%s= 64\n", strcat(axes, word) ? word : "");
            sub += length;
        }
        bool any = !strncmp(list, "...", 3);
        fprintf(out, "  input %.*s[%s%.*s]: float\n", name, at, any ? "s," : "",
                (int)(sub - list) - (any ? 4 : 0), list + (any ? 4 : 0));
        at += at[subs] == '[' ? sub + 1 - at : subs;
    }
    const char *const others[] = {" d ", " h ", " e "};
    for (int i = 0; i < 3; i++)
        if (!strstr(axes, others[i])) fprintf(out, "  axis%s= 64\n", others[i]);
}

static void check_declaration(const json_t *facts) {
    const char *kind = text_of(facts, "kind"), *example = text_of(facts, "example");
    const char *signature = text_of(facts, "signature"), *file = text_of(facts, "file");
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "use decoder\nuse adafactor\nuse muon\nuse shampoo\n");
    fprintf(out, "use %.*s\n", (int)strcspn(strchr(file, '/') + 1, "."), strchr(file, '/') + 1);
    if (strchr(signature, '(')) {
        fprintf(out, "layer example {\n  option train: layer = train\n");
        add_inputs(out, signature);
        fprintf(out, "  %s\n  output %.*s\n}\nmodel m = example\n", example,
                (int)strcspn(example, " "), example);
    } else if (!strncmp(example, "model ", 6)) {
        bool transfers = !strcmp(kind, "parametrization");
        fprintf(out, "%s%s\n", transfers ? "model small = decoder { dim = 64 }\n" : "", example);
    } else {
        fprintf(out, "model m = decoder { %s }\n", example);
    }
    fclose(out);
    moec_close(opened(text));
    free(text);
}

static void declarations(void **state) {
    (void)state;
    static const char *const groups[] = {"layers", "optimizers", "schedules", "parametrizations"};
    MoecCompiler *compiler = moec_open_declarations(NULL, NULL);
    for (int g = 0; g < 4; g++) {
        json_t *list = json_loads(moec_doc(compiler, groups[g], MOEC_DOC_JSON), 0, NULL);
        size_t i;
        json_t *facts;
        assert_true(json_array_size(list) > 0);
        json_array_foreach(list, i, facts) {
            if (!*text_of(facts, "description"))
                fail_msg("'%s' has no description above it", text_of(facts, "name"));
            check_declaration(facts);
        }
        json_decref(list);
    }
    moec_close(compiler);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(examples), cmocka_unit_test(declarations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

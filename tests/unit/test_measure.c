/* The evaluation program against the forward program, in double precision: the same loss, and the same values per token as
 * computed from its logits. Runs in the root of the project. */
#include "schedule/kernel.h"
#include "moec.h"
#include "passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 3, CONTEXT = 6, WORDS = 19, ROWS = BATCH * CONTEXT };

static const char *const sets[] = {"vocab_size=19",      "dim=16",          "layers=2",     "train.batch_size=3",
                                   "train.context_length=6", "train.logits_chunk_size=2"};

static const Tensor *find(const Program *program, const char *name) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (strcmp(tensor->name, name) == 0) return tensor;
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

/* The same numbers under the same names in every program. */
static void fill(const Program *program, Interpreter *eval) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        uint64_t seed = 0;
        for (const char *at = tensor->name; *at; at++) seed = seed * 31 + (uint64_t)*at;
        if (tensor->role != ROLE_PARAMETER && tensor->role != ROLE_INPUT) continue;
        for (long j = 0; j < tensor_elements(tensor); j++) {
            double number =
                (double)((seed + (uint64_t)j + 1) * 2654435761u % 1000003) / 1000003.0;
            if (tensor->type == TYPE_INT)
                interpreter_int(eval, tensor)[j] = (long)(number * WORDS);
            else
                interpreter_real(eval, tensor)[j] = number - 0.5;
        }
    }
}

static Interpreter *run(MoecCompiler *compiler, MoecGraph graph, Program **program) {
    *program = moec_compile(compiler, graph, 0, 0, 0);
    if (!*program) fail_msg("%s", moec_reports(compiler));
    moec_lower(compiler, *program, &target_processor);
    Interpreter *eval = interpreter_new(*program);
    fill(*program, eval);
    const char *message = interpreter_run(eval, 3, true);
    if (message) fail_msg("%s", message);
    return eval;
}

static double nats_of(const double *logits, long next) {
    double sum = 0;
    for (long i = 0; i < WORDS; i++) sum += exp(logits[i]);
    return log(sum) - logits[next];
}

static void check(const char *model, long words_at_once) {
    MoecCompiler *compiler = moec_open("models/tiny.moe", model, sets, 6, NULL);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    Program *whole, *measure;
    Interpreter *forward = run(compiler, MOEC_FORWARD, &whole), *other = run(compiler, MOEC_MEASURE, &measure);
    const double *logits = interpreter_real(forward, find(whole, "logits")),
                 *nats = interpreter_real(other, find(measure, "nats"));
    const long *next = interpreter_int(forward, find(whole, "targets"));
    double mean = 0;
    for (long i = 0; i < ROWS; i++) {
        double expected = nats_of(logits + i * WORDS, next[i]);
        assert_true(fabs(nats[i] - expected) < 1e-12 * fabs(expected));
        mean += nats[i] / ROWS;
    }
    static const char *const numbers[] = {"loss", "balance_2"};
    for (int i = 0; i < (strstr(model, "moe") ? 2 : 1); i++) {
        double one = interpreter_real(forward, find(whole, numbers[i]))[0],
               same = interpreter_real(other, find(measure, numbers[i]))[0];
        assert_true(fabs(one - same) < 1e-12 * fabs(one));
    }
    assert_true(fabs(mean - interpreter_real(other, find(measure, "loss"))[0]) < 1e-12 * mean);
    assert_int_equal(tensor_elements(find(measure, "logits")), words_at_once * WORDS);
    for (int i = 0; i < measure->outputs.count; i++)
        assert_true(tensor_elements(measure->outputs.items[i]) <= ROWS);
    interpreter_free(forward);
    interpreter_free(other);
    moec_close(compiler);
}

static void models_are_measured(void **state) {
    (void)state;
    check("tiny", 2);
    check("tiny_moe", 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_are_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

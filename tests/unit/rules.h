/* rules: programs of tests/rules.moe in the reference interpreter, with values by rule. MOEC_RULES
 * names another file: planted.sh has a copy with faults in the standard library. */
#ifndef RULES_H
#define RULES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../compiler/moec.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Rules {
    MoecCompiler *compiler;
    MoecProgram *program;
    MoecInterpreter *eval;
} Rules;

static inline MoecCompiler *rules_model(const char *model) {
    const char *file = getenv("MOEC_RULES");
    MoecCompiler *compiler = moec_open(file ? file : "tests/rules.moe", model, NULL, 0, NULL);
    if (moec_failed(compiler)) fail_msg("%s\n%s", model, moec_reports(compiler));
    return compiler;
}

static inline Rules rules_open(const char *model, MoecGraph graph) {
    Rules rules = {.compiler = rules_model(model)};
    rules.program = moec_define(rules.compiler, graph, 0, 0, 0);
    if (rules.program) rules.eval = moec_interpreter_new(rules.compiler, rules.program);
    if (!rules.eval) fail_msg("%s\n%s", model, moec_reports(rules.compiler));
    return rules;
}

static inline void rules_close(Rules *rules) {
    moec_interpreter_free(rules->eval);
    moec_close(rules->compiler);
}

static inline void rules_set(const Rules *rules, const char *name, const double *values,
                             size_t count) {
    if (!moec_interpreter_set(rules->eval, name, values, count)) fail_msg("no tensor '%s'", name);
}

static inline void rules_number(const Rules *rules, const char *name, double value) {
    rules_set(rules, name, &value, 1);
}

static inline void rules_get(const Rules *rules, const char *name, double *values, size_t count) {
    if (!moec_interpreter_get(rules->eval, name, values, count)) fail_msg("no tensor '%s'", name);
}

static inline void rules_run(const Rules *rules) {
    const char *message = moec_interpreter_run(rules->eval, 1, true);
    if (message) fail_msg("%s", message);
}

/* Numbers in -1 .. 1 that depend only on the seed and the index. */
static inline void fill(double *values, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = (seed * 1000003 + i + 1) * 0x9E3779B97F4A7C15u;
        bits = (bits ^ (bits >> 31)) * 0xBF58476D1CE4E5B9u;
        values[i] = (double)(bits >> 32) * 0x1p-31 - 1;
    }
}

static inline void near(const char *what, double actual, double expected) {
    if (!(fabs(actual - expected) <= 1e-9 + 1e-7 * fabs(expected)))
        fail_msg("%s is %.12g, not %.12g", what, actual, expected);
}

#endif

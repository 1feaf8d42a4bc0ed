/* Faults in the exchanges of a mesh, planted one after the other: a process whose terms are missing, terms or a row counted twice,
 * a wrong factor, rows that are lost or swapped, values of another process. The comparison of the local programs with the
 * global one finds each of them, and none in an intact program. */
#include "driver/driver.h"
#include "calls/call_table.h"
#include "interpret/interpreter.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char spec[] =
    "use decoder\n"
    "model plain = decoder {\n"
    "  vocab_size = 32, dim = 8, layers = 2\n"
    "  attention = { heads = { q = 2 }, head_dim = 4 }\n"
    "  ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 5 }, aux_loss_coef = 0.1, bias_update_rate = 0.01 }\n"
    "  train = { batch_size = 4, context_length = 6 }\n"
    "}\n"
    "model grouped = plain { ffn = { experts = 8, uniform_groups = 4, top_k = 4, bias_update_rate = 0 } }\n"
    "model nested = plain { ffn = { bias_update_rate = 0, expert = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 3 } } } }\n";

typedef enum Fault { NONE, MISSING, TWICE, LARGER, TINY, OTHER, LOST, DOUBLED, SWAPPED, FAULTS } Fault;

static const char *const names[] = {
    [MISSING] = "the terms of the last process are missing",
    [TWICE] = "the terms of the first process count twice",
    [LARGER] = "a mean instead of a sum",
    [TINY] = "a factor of 1 + 1e-9",
    [OTHER] = "a result of the last process is that of the first",
    [LOST] = "a row is lost",
    [DOUBLED] = "a row is received twice instead of the next one",
    [SWAPPED] = "two rows are swapped",
};

static Fault planted;
static const Statement *at; /* where */

static View operand(Interpreter *const *ranks, int rank, bool output) {
    return interpreter_view(ranks[rank], output ? call_output(at, 0) : call_input(at, 0));
}

static long elements_of(const View *view) {
    long elements = 1;
    for (int i = 0; i < view->rank; i++) elements *= view->size[i];
    return elements;
}

/* Collectives have dense operands, except for the rows of a repeat, which are the first dimension. */
static double *element(const View *view, long number) {
    long offset = 0;
    for (int i = view->rank - 1; i >= 0; number /= view->size[i--]) offset += number % view->size[i] * view->stride[i];
    return view->real + offset;
}

/* Adds the terms of a process to the results of its group once more, or removes them. */
static void count_terms(Interpreter *const *ranks, int size, int process, double times) {
    const View from = operand(ranks, process, false);
    double *terms = malloc((size_t)elements_of(&from) * sizeof *terms);
    for (long i = 0; i < elements_of(&from); i++) terms[i] = *element(&from, i);
    for (int rank = 0; rank < size; rank++) {
        const View to = operand(ranks, rank, true);
        for (long i = 0; i < elements_of(&to); i++) *element(&to, i) += times * terms[i];
    }
    free(terms);
}

static void scale_results(Interpreter *const *ranks, int size, double factor) {
    for (int rank = 0; rank < size; rank++) {
        const View to = operand(ranks, rank, true);
        for (long i = 0; i < elements_of(&to); i++) *element(&to, i) *= factor;
    }
}

static void copy_first(Interpreter *const *ranks, int size) {
    const View first = operand(ranks, 0, true), last = operand(ranks, size - 1, true);
    for (long i = 0; i < elements_of(&last); i++) *element(&last, i) = *element(&first, i);
}

/* The first row of the first process, and the second. */
static void harm_rows(Interpreter *const *ranks) {
    const View to = operand(ranks, 0, true);
    const long width = elements_of(&to) / to.size[0];
    for (long i = 0; i < width; i++) {
        double *first = element(&to, i), *second = element(&to, width + i), was = *first;
        if (planted == LOST) *first = 0;
        if (planted == SWAPPED) *first = *second;
        if (planted != LOST) *second = was;
    }
}

static void interpret_faulty(Interpreter *interpreter, const Statement *statement) {
    call_collective.interpret(interpreter, statement);
    const int size = (int)interpreter->program->mesh[statement->collective.over];
    Interpreter *const *ranks = interpreter->ranks;
    if (planted == MISSING || planted == TWICE) count_terms(ranks, size, planted == TWICE ? 0 : size - 1, planted == TWICE ? 1 : -1);
    if (planted == LARGER) scale_results(ranks, size, 1 / (double)size);
    if (planted == TINY) scale_results(ranks, size, 1 + 1e-9);
    if (planted == OTHER) copy_first(ranks, size);
    if (planted >= LOST) harm_rows(ranks);
}

/* Whether a fault changes results. Of the counts of experts, models use only ratios, of masks only whether
 * they are 0. */
static bool applies(Fault fault, const Statement *statement) {
    const CollectiveKind kind = statement->collective.kind;
    const char *tensor = call_input(statement, 0)->tensor->name;
    if ((fault == LARGER || fault == TINY) && (strstr(tensor, "count") || strstr(tensor, "chosen"))) return false;
    const bool rows = kind == COLLECTIVE_DISPATCH || kind == COLLECTIVE_COMBINE;
    if (kind == COLLECTIVE_SUM) return fault < OTHER;
    return rows && (fault == TINY || fault >= OTHER);
}

static void list_collective(Statement *statement, void *list) {
    List *all = list;
    if (statement->row && statement->row->exchanges) all->items[all->count++] = statement;
}

static char path[] = "/tmp/moec-faults.XXXXXX.moe";

/* Plants every fault in every exchange of a model; returns how many. */
static int plant_faults(const char *model, const char *sizes, MoecGraph graph) {
    static CallRow faulty;
    void *found[64];
    List all = {.items = found};
    MoecCompiler *compiler = moec_open(path, model, NULL, 0, NULL);
    assert_true(moec_set_mesh(compiler, sizes, 0));
    Program *whole = moec_compile(compiler, graph, 0, 0, 0), *local = moec_compile_local(compiler, graph, 0, 0);
    if (!whole || !local) fail_msg("%s", moec_reports(compiler));
    assert_true(mesh_compare(whole, local, 3)->agrees);
    block_walk(&local->body, list_collective, &all);
    assert_true(all.count > 0 && all.count <= 64);
    faulty = call_collective;
    faulty.interpret = interpret_faulty;
    int count = 0, missed = 0;
    for (int i = 0; i < all.count; i++)
        for (planted = MISSING; planted < FAULTS; planted++) {
            Statement *statement = all.items[i];
            if (!applies(planted, statement)) continue;
            at = statement;
            statement->row = &faulty;
            const MoecMeshReport *report = mesh_compare(whole, local, 3);
            statement->row = &call_collective;
            count++;
            if (!report->agrees) continue;
            missed++;
            printf("%s, %s of %s: not found: %s\n", model, collective_name(statement->collective.kind),
                   call_input(statement, 0)->tensor->name, names[planted]);
        }
    if (missed) fail_msg("%d of %d faults in %s are not found", missed, count, model);
    assert_true(mesh_compare(whole, local, 3)->agrees);
    moec_close(compiler);
    return count;
}

static void finds_faults(void **state) {
    (void)state;
    const int file = mkstemps(path, 4);
    assert_true(file >= 0 && write(file, spec, sizeof spec - 1) == sizeof spec - 1);
    close(file);
    int count = plant_faults("plain", "data=4", MOEC_FORWARD) + plant_faults("plain", "data=4,expert=2", MOEC_FORWARD);
    count += plant_faults("plain", "data=4", MOEC_TRAIN) + plant_faults("plain", "data=4,expert=4", MOEC_TRAIN);
    count += plant_faults("grouped", "data=2,expert=2", MOEC_TRAIN) + plant_faults("nested", "data=4,expert=2", MOEC_TRAIN);
    printf("%d faults found\n", count);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

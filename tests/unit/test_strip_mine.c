/* A strip-mined program has the results of the original program, and needs less memory. */
#include "schedule/kernel.h"
#include "moec.h"
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

typedef struct Case {
    const char *file, *model;
    long chunk, parts; /* expected number of repeats over chunks */
    const char *sets[8];
} Case;

#define SMALL "dim=24", "layers=2", "vocab_size=59", "train.context_length=12"

static const Case cases[] = {
    {"models/tiny.moe", "tiny", 12, 4, {SMALL, "train.batch_size=4"}},
    {"models/tiny.moe", "tiny", 24, 2, {SMALL, "train.batch_size=4", "tie_embeddings=true"}},
    {"models/tiny.moe", "tiny", 4, 12, {SMALL, "train.batch_size=4", "softcap=5"}},
    {"models/tiny.moe", "tiny", 5, 3, {SMALL, "train.batch_size=1"}},
    {"models/tiny.moe", "tiny", 1, 12, {SMALL, "train.batch_size=1"}},
    {"models/tiny.moe", "tiny_moe", 6, 6, {SMALL, "train.batch_size=3", "tie_embeddings=true"}},
    {"models/tiny.moe", "tiny_lore", 12, 3, {SMALL, "train.batch_size=3", "train.activation_checkpointing=layer"}},
    {"models/gpt2.moe",
     "gpt2_small",
     12,
     2,
     {SMALL, "train.batch_size=2", "attention.heads.q=2", "attention.head_dim=8"}},
};

static Program *compile(const Case *one, long rows, MoecCompiler **compiler) {
    const char *sets[9];
    char text[64];
    int count = 0;
    while (count < 8 && one->sets[count]) sets[count] = one->sets[count], count++;
    snprintf(text, sizeof text, "train.logits_chunk_size=%ld", rows);
    sets[count++] = text;
    *compiler = moec_open(one->file, one->model, sets, count, NULL);
    if (moec_failed(*compiler)) fail_msg("%s", moec_reports(*compiler));
    Program *program = moec_compile(*compiler, MOEC_TRAIN, 0, 0, 0);
    if (!program) fail_msg("%s", moec_reports(*compiler));
    moec_lower(*compiler, program, &target_processor);
    return program;
}

static double next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / 16777216.0;
}

static void fill(const Program *program, Interpreter *eval) {
    uint64_t seed = 5;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        bool given = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_INPUT;
        for (long j = 0; given && j < tensor_elements(tensor); j++) {
            if (tensor->type == TYPE_INT)
                interpreter_int(eval, tensor)[j] = (long)(next(&seed) * (double)tensor->vocabulary);
            else
                interpreter_real(eval, tensor)[j] = next(&seed) - (tensor->rank ? 0.5 : 0);
        }
    }
}

static void run(const Program *program, Interpreter *eval) {
    fill(program, eval);
    const char *message = interpreter_run(eval, 3, true);
    if (message) fail_msg("%s", message);
}

/* Every output and gradient; a strip-mined program has the tensors of the original, then new ones. */
static void compare(const Program *whole, Program *parts, const char *what) {
    Interpreter *one = interpreter_new((Program *)(uintptr_t)whole),
                *other = interpreter_new(parts);
    run(whole, one);
    run(parts, other);
    assert_true(whole->tensors.count <= parts->tensors.count);
    int compared = 0;
    for (int i = 0; i < whole->tensors.count; i++) {
        const Tensor *tensor = whole->tensors.items[i];
        if (tensor->role != ROLE_OUTPUT && tensor->role != ROLE_GRADIENT) continue;
        const double *a = interpreter_real(one, tensor),
                     *b = interpreter_real(other, parts->tensors.items[i]);
        double largest = 0;
        for (long j = 0; j < tensor_elements(tensor); j++) largest = fmax(largest, fabs(a[j]));
        for (long j = 0; j < tensor_elements(tensor); j++)
            if (!(fabs(a[j] - b[j]) <= 1e-11 * largest))
                fail_msg("%s: %s[%ld] is %g, in the original %g", what, tensor->name, j, b[j], a[j]);
        compared++;
    }
    assert_true(compared > 0);
    interpreter_free(one);
    interpreter_free(other);
}

static size_t bytes_of(Program *program) {
    Schedule *schedule = fuse(program);
    plan(schedule);
    return schedule->arena_bytes;
}

/* The repeat over chunks, or NULL. */
static const Statement *parts_in(const Block *block) {
    for (int i = 0; i < block->statements.count; i++) {
        const Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_REPEAT && !strcmp(statement->index->name, "chunk"))
            return statement;
    }
    return NULL;
}

static const Statement *parts_of(const Program *program) {
    return parts_in(&program->body);
}

static void test_models(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        MoecCompiler *compilers[2];
        Program *whole = compile(&cases[i], 1000000, &compilers[0]);
        Program *parts = compile(&cases[i], cases[i].chunk, &compilers[1]);
        assert_null(parts_of(whole));
        const Statement *repeat = parts_of(parts);
        assert_non_null(repeat);
        assert_int_equal(repeat->index->axis->size, cases[i].parts);
        compare(whole, parts, cases[i].model);
        assert_true(bytes_of(parts) <= bytes_of(whole));
        for (int j = 0; j < 2; j++) moec_close(compilers[j]);
    }
}

/* Number of statements that are repeats over chunks or contain them. */
static int parts_inside(const Program *program) {
    int count = 0;
    for (int i = 0; i < program->body.statements.count; i++) {
        const Statement *statement = program->body.statements.items[i];
        if (statement->kind == STATEMENT_REPEAT)
            count += !strcmp(statement->index->name, "chunk") || parts_in(&statement->body);
    }
    return count;
}

#define RECURRENT "dim=16", "layers=2", "vocab_size=59", "train.context_length=12", "train.scan_chunk_size=4"

#define FLAT "dim=16", "layers=1", "vocab_size=4", "train.context_length=12", "train.scan_chunk_size=4", "train.batch_size=2"

/* Memory of a chunked recurrence per head, in the forward and in the backward pass. */
static const Case recurrent[] = {
    {"models/hybrid.moe", "gated_delta_small", 1, 3, {RECURRENT, "train.batch_size=2"}},
    {"models/hybrid.moe", "retnet_small", 1, 3, {RECURRENT, "train.batch_size=2"}},
    {"models/hybrid.moe", "gla_small", 2, 3, {RECURRENT, "train.batch_size=3"}},
    {"models/hybrid.moe", "rwkv7_small", 1, 3, {RECURRENT, "train.batch_size=1"}},
    {"models/hybrid.moe", "mamba2_small", 1, 3, {RECURRENT, "train.batch_size=2"}},
    {"models/hybrid.moe", "gated_delta_small", 1, 6, {FLAT}},
    {"models/hybrid.moe", "mamba2_small", 1, 8, {FLAT}},
};

static void test_recurrent(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++) {
        MoecCompiler *compilers[2];
        Program *whole = compile(&recurrent[i], 1000000, &compilers[0]);
        Program *parts = compile(&recurrent[i], recurrent[i].chunk, &compilers[1]);
        assert_int_equal(parts_inside(whole), 0);
        assert_int_equal(parts_inside(parts), recurrent[i].parts);
        compare(whole, parts, recurrent[i].model);
        assert_true(bytes_of(parts) < bytes_of(whole));
        for (int j = 0; j < 2; j++) moec_close(compilers[j]);
    }
}

/* Only one chunk of logits exists: their adjoint reuses their memory. */
static void test_one_copy(void **state) {
    (void)state;
    MoecCompiler *compiler;
    const Case wide = {"models/tiny.moe", "tiny", 0, 0, {"dim=24", "vocab_size=70001", "train.batch_size=8"}};
    Program *program = compile(&wide, 0, &compiler);
    Schedule *schedule = fuse(program);
    plan(schedule);
    int adjoints = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (strcmp(tensor->name, "d_logits") != 0) continue;
        adjoints++;
        assert_int_equal(tensor_elements(tensor), 1024 * 70001);
        assert_ptr_equal(schedule->allocations[i].over, tensor->of);
        assert_int_equal(schedule->allocations[i].offset, schedule->allocations[tensor->of->id].offset);
    }
    assert_int_equal(adjoints, 1);
    moec_close(compiler);
}

/* ---- handwritten programs ---- */

typedef struct Hand {
    Maker maker;
    Axis *b, *v;
    Index *at_b, *at_v;
    Tensor *x, *y, *z, *out;
} Hand;

/* y[b,v] = x[b] + v, large; the test appends further statements. */
static Hand hand_new(Arena *arena) {
    Hand hand = {.maker.program = program_new(arena, NULL, "hand", GRAPH_TRAIN, call_table)};
    Maker *maker = &hand.maker;
    maker->block = &maker->program->body;
    hand.b = make_axis(maker, "b", 6);
    hand.v = make_axis(maker, "v", 40);
    hand.at_b = make_index(maker, hand.b);
    hand.at_v = make_index(maker, hand.v);
    hand.x = MAKE(maker, "x", ROLE_INPUT, hand.b);
    hand.x->input = MOEC_INPUT_REAL;
    hand.y = MAKE(maker, "y", ROLE_TEMP, hand.b, hand.v);
    hand.z = MAKE(maker, "z", ROLE_TEMP, hand.b, hand.v);
    set(maker, AT(maker, hand.y, at_index(maker, hand.at_b), at_index(maker, hand.at_v)),
        plus(maker, AT(maker, hand.x, at_index(maker, hand.at_b)), at_index(maker, hand.at_v)));
    return hand;
}

static Expr *at_both(Hand *hand, Tensor *tensor) {
    return AT(&hand->maker, tensor, at_index(&hand->maker, hand->at_b),
              at_index(&hand->maker, hand->at_v));
}

static void output(Hand *hand, Expr *value) {
    hand->out = MAKE(&hand->maker, "out", ROLE_OUTPUT, hand->b);
    list_push(hand->maker.program->arena, &hand->maker.program->outputs, hand->out);
    reduce(&hand->maker, AT(&hand->maker, hand->out, at_index(&hand->maker, hand->at_b)),
           REDUCE_SUM, hand->at_v, NULL, value);
}

/* A sum over all rows that later rows read: no chunk can start before the last chunk has ended. */
static Program *with_total(Arena *arena, bool wanted) {
    Hand hand = hand_new(arena);
    Maker *maker = &hand.maker;
    Tensor *total = make_scalar(maker, "total", wanted ? ROLE_TEMP : ROLE_OUTPUT);
    Expr *read = expr_read(maker->program, total, NULL);
    if (!wanted) list_push(arena, &maker->program->outputs, total);
    reduce(maker, read, REDUCE_SUM, hand.at_b, hand.at_v, at_both(&hand, hand.y));
    output(&hand, wanted ? times(maker, at_both(&hand, hand.y), read) : at_both(&hand, hand.y));
    return maker->program;
}

static Program *with_largest(Arena *arena) {
    Hand hand = hand_new(arena);
    Maker *maker = &hand.maker;
    Tensor *most = make_scalar(maker, "most", ROLE_OUTPUT);
    list_push(arena, &maker->program->outputs, most);
    reduce(maker, expr_read(maker->program, most, NULL), REDUCE_MAX, hand.at_b, hand.at_v,
           at_both(&hand, hand.y));
    output(&hand, at_both(&hand, hand.y));
    return maker->program;
}

/* Rows that read neighboring rows. */
static Program *with_shift(Arena *arena) {
    Hand hand = hand_new(arena);
    Maker *maker = &hand.maker;
    Expr *before = apply(maker, OP_SUB, at_index(maker, hand.at_b), number(maker, 1));
    output(&hand, AT(maker, hand.y, before, at_index(maker, hand.at_v)));
    return maker->program;
}

/* A read of other rows does not prevent strip-mining of the rest: x itself is an input. */
static Program *with_given_shift(Arena *arena) {
    Hand hand = hand_new(arena);
    Maker *maker = &hand.maker;
    Expr *before = apply(maker, OP_SUB, at_index(maker, hand.at_b), number(maker, 1));
    set(maker, at_both(&hand, hand.z),
        times(maker, at_both(&hand, hand.y), AT(maker, hand.x, before)));
    output(&hand, at_both(&hand, hand.z));
    return maker->program;
}

static void check_hand(Program *whole, Program *parts, long rows, bool cut, const char *what) {
    strip_mine(parts, rows);
    char *wrong = well_formed(parts->arena, parts);
    if (wrong) fail_msg("%s: %s", what, wrong);
    assert_int_equal(parts_of(parts) != NULL, cut);
    compare(whole, parts, what);
}

static void test_by_hand(void **state) {
    (void)state;
    Arena *arena = arena_new();
    for (long rows = 1; rows <= 3; rows++) {
        check_hand(with_total(arena, false), with_total(arena, false), rows, true,
                   "a sum of all rows");
        check_hand(with_total(arena, true), with_total(arena, true), rows, false,
                   "a sum that rows read");
        check_hand(with_shift(arena), with_shift(arena), rows, false, "other rows");
        check_hand(with_given_shift(arena), with_given_shift(arena), rows, true,
                   "other rows of an input");
        check_hand(with_largest(arena), with_largest(arena), rows, false,
                   "the largest of all rows");
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models), cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_one_copy), cmocka_unit_test(test_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Flat steps (runtime/abi/steps.h) of models: their numbers increase, every operand is inside its buffer in every iteration, and
 * they launch in the order of the printed host program. Runs in the root of the project. */
#include "driver/driver.h"
#include "module/lowered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RUNNING = 64 };

typedef struct Walk {
    const MoecSteps *steps;
    long indices[MOEC_STEP_DEPTH];
    int visited[MOEC_STEP_WHEN + 1]; /* by kind */
    int offsets; /* operands whose offset depends on a repeat */
    const MoecExchange *running[MAX_RUNNING];
    int running_count;
} Walk;

/* ---- operands ---- */

static const MoecStepOperand *operand_of(const Walk *walk, const MoecStep *step, int number) {
    assert_true(number < step->operand_count);
    return &walk->steps->operands[step->first_operand + number];
}

/* `more` elements after the first one. */
static void check_operand(Walk *walk, const MoecStepOperand *operand, long more) {
    if (operand->buffer < 0) return;
    assert_true(operand->buffer < walk->steps->buffer_count);
    assert_true(operand->first_term + operand->term_count <= walk->steps->term_count);
    const MoecStepBuffer *buffer = &walk->steps->buffers[operand->buffer];
    const long offset = moec_step_offset(walk->steps, operand, walk->indices);
    assert_true(offset >= 0);
    if (buffer->bytes) assert_true((size_t)(offset + more + 1) * buffer->element <= buffer->bytes);
    walk->offsets += operand->term_count > 1;
}

/* Elements from the first to the last one of a matrix with its batch; of int8, groups. */
static long extent(long rows, long row, long columns, long column, const long batch[2], const long strides[2], MoecType type) {
    const long elements =
        (rows - 1) * row + (columns - 1) * column + (batch[0] - 1) * strides[0] + (batch[1] - 1) * strides[1];
    return type == MOEC_INT8 ? elements / MOEC_GROUP : elements;
}

static void check_product(Walk *walk, const MoecStep *step, int row) {
    assert_true(row >= 0 && row < walk->steps->product_count);
    const MoecProduct *p = &walk->steps->products[row];
    check_operand(walk, operand_of(walk, step, 0), extent(p->m, p->a_m, p->k, p->a_k, p->batch, p->a_batch, p->a_type));
    check_operand(walk, operand_of(walk, step, 1), extent(p->k, p->b_k, p->n, p->b_n, p->batch, p->b_batch, p->b_type));
    check_operand(walk, operand_of(walk, step, 2), extent(p->m, p->c_m, p->n, 1, p->batch, p->c_batch, p->c_type));
}

/* ---- steps ---- */

static void check_values(const Walk *walk, const MoecStep *step) {
    for (int i = step->first_value; i < step->first_value + step->value_count; i++) {
        const MoecStepValue *value = &walk->steps->values[i];
        if (value->kind == MOEC_VALUE_OPERAND)
            assert_true(value->number >= step->first_operand && value->number < step->first_operand + step->operand_count);
        if (value->kind == MOEC_VALUE_RECORD) assert_true(i + value->number < step->first_value + step->value_count);
    }
}

static void check_step(Walk *walk, const MoecStep *step) {
    for (int i = 0; i < step->operand_count; i++) check_operand(walk, operand_of(walk, step, i), 0);
    check_values(walk, step);
    switch (step->kind) {
    case MOEC_STEP_LAUNCH:
        assert_non_null(step->launch.kernel);
        break;
    case MOEC_STEP_PRODUCT:
        check_product(walk, step, step->product.row + step->product.begins);
        if (step->product.first) check_product(walk, step, step->product.more);
        break;
    case MOEC_STEP_CLEAR:
        check_operand(walk, operand_of(walk, step, 0),
                      (long)(step->bytes / walk->steps->buffers[operand_of(walk, step, 0)->buffer].element) - 1);
        break;
    case MOEC_STEP_EXCHANGE:
        assert_true(walk->running_count < MAX_RUNNING);
        assert_non_null(step->exchange->name);
        walk->running[walk->running_count++] = step->exchange;
        break;
    case MOEC_STEP_EXCHANGE_END:
        assert_true(walk->running_count > 0 && walk->running[0] == step->exchange);
        memmove(walk->running, walk->running + 1, sizeof *walk->running * (size_t)--walk->running_count);
        break;
    default:
        break;
    }
}

/* Numbers increase, and a body is inside of that of its parent. */
static void walk_steps(Walk *walk, int first, int last, int depth) {
    for (int number = first; number <= last; number = walk->steps->steps[number].last + 1) {
        const MoecStep *step = &walk->steps->steps[number];
        const bool repeats = step->kind == MOEC_STEP_REPEAT, has_body = repeats || step->kind == MOEC_STEP_WHEN;
        assert_true(step->last >= number && step->last <= last);
        assert_true(has_body || step->last == number);
        walk->visited[step->kind]++;
        check_step(walk, step);
        if (repeats) assert_int_equal(step->repeat.depth, depth);
        for (long i = 0; has_body && i < (repeats ? step->repeat.count : 1); i++) {
            if (repeats) walk->indices[depth] = i;
            walk_steps(walk, number + 1, step->last, depth + repeats);
        }
    }
}

/* ---- the printed program ---- */

static const char *name_of(const MoecStep *step) {
    return step->kind == MOEC_STEP_LAUNCH         ? step->launch.kernel
           : step->kind == MOEC_STEP_EXCHANGE     ? "moec_exchange_begin("
           : step->kind == MOEC_STEP_EXCHANGE_END ? "moec_exchange_end("
                                                  : NULL;
}

/* In the function of an entry every launch and call follows the one before. */
static void check_order(const MoecSteps *steps, const char *text, const char *name) {
    char head[64];
    snprintf(head, sizeof head, "static void run_%s(", name);
    const char *at = strstr(text, head);
    assert_non_null(at);
    for (int i = 0; i < steps->step_count; i++) {
        const char *wanted = name_of(&steps->steps[i]);
        if (!wanted) continue;
        at = strstr(at, wanted);
        assert_non_null(at);
        at += strlen(wanted);
    }
}

static void check_blocks(const Module *module, const Entry *entry, const MoecSteps *steps) {
    const size_t ends[] = {[MOEC_WEIGHTS] = module->weights.bytes,
                           [MOEC_GRADIENTS] = module->weights.bytes - module->weights.frozen_bytes,
                           [MOEC_STATES] = module->states.bytes,
                           [MOEC_CACHE] = entry->caches.bytes,
                           [MOEC_ARENA] = entry->arena_bytes};
    for (int i = 0; i < steps->buffer_count; i++) {
        const MoecStepBuffer *buffer = &steps->buffers[i];
        const bool used = i >= entry->program->tensors.count || entry->buffers[i].used;
        if (used && buffer->block <= MOEC_ARENA && ends[buffer->block])
            assert_true(buffer->offset + buffer->bytes <= ends[buffer->block]);
    }
}

enum {
    LAUNCH = 1 << MOEC_STEP_LAUNCH,
    PRODUCT = 1 << MOEC_STEP_PRODUCT,
    CLEAR = 1 << MOEC_STEP_CLEAR,
    EXCHANGE = 1 << MOEC_STEP_EXCHANGE, /* the program of a process of a mesh */
    REPEAT = 1 << MOEC_STEP_REPEAT,
    WHEN = 1 << MOEC_STEP_WHEN,
    DENSE = LAUNCH | PRODUCT | REPEAT
};

/* kinds: those of which the steps have some. */
static void check(const char *file, const char *model, MoecGraph graph, const char *precision, unsigned kinds) {
    char set[64];
    snprintf(set, sizeof set, "train.precision=%s", precision);
    MoecCompiler *compiler = moec_open(file, model, (const char *const[]){set}, 1, NULL);
    if (kinds & EXCHANGE) {
        assert_true(moec_set_mesh(compiler, "data=2,expert=2", 0));
        moec_divide(compiler, 1);
    }
    MoecProgram *program = moec_compile(compiler, graph, 0, 0, graph == MOEC_DECODE);
    if (!program) fail_msg("%s", moec_reports(compiler));
    const Module *module = lowered_module(compiler, &program, 1, &target_device, "names");
    const unsigned long long before = arena_hash(compiler->arena);
    Arena *arena = arena_new();
    const Entry *entry = module->entries.items[0];
    Walk walk = {.steps = entry_steps(arena, module, entry)};
    MoecKernels kernels;
    const char *text = print_cuda(arena, module, &kernels);
    assert_true(arena_hash(compiler->arena) == before);
    walk_steps(&walk, 0, walk.steps->step_count - 1, 0);
    for (int kind = 0; kind <= MOEC_STEP_WHEN; kind++)
        if (kinds & 1U << kind) assert_true(walk.visited[kind] > 0);
    assert_true(walk.offsets > 0);
    assert_int_equal(walk.running_count, 0);
    check_order(walk.steps, text, entry->name);
    check_blocks(module, entry, walk.steps);
    arena_free(arena);
    moec_close(compiler);
}

static const char tiny[] = "models/tiny.moe", hybrid[] = "models/hybrid.moe";

static void test_device(void **state) {
    (void)state;
    check(tiny, "tiny", MOEC_TRAIN, "bf16", DENSE | WHEN);
    check(tiny, "tiny", MOEC_TRAIN, "mxfp8", DENSE | WHEN);
    check("tests/mesh_models.moe", "shared", MOEC_TRAIN, "f32", DENSE | WHEN | EXCHANGE);
    check("tests/mesh_models.moe", "uniform", MOEC_MEASURE, "f32", DENSE | EXCHANGE);
    check(tiny, "tiny", MOEC_DECODE, "bf16", LAUNCH | REPEAT);
    check(tiny, "tiny_moe", MOEC_TRAIN, "bf16", DENSE | WHEN);
    check(tiny, "tiny_moe", MOEC_DECODE, "bf16", LAUNCH | REPEAT);
    check(hybrid, "gated_delta_small", MOEC_TRAIN, "f32", DENSE | CLEAR | WHEN);
    check(hybrid, "gated_delta_small", MOEC_DECODE, "f32", LAUNCH | REPEAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

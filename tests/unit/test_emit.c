/* The compiled C text of a program against its interpretation: every output, gradient, state and cache, tensor by tensor. Also
 * the memory plan against the lifetimes of the tensors. Runs in the root of the project. */
#include "abi/abi.h"
#include "schedule/kernel.h"
#include "driver/driver.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loaded_text.h"
#include "random_program.h"

enum { SEED = 7, POSITION = 3 };

/* ---- memory of a compiled program ---- */

typedef struct Loaded {
    void *library;
    const MoecTable *table;
    const MoecGraphEntry *graph;
    float *weights, *gradients, *states, *cache;
    unsigned char *arena;
    void *inputs[64];
    float *outputs[64];
} Loaded;

static void *block(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(memory);
    memset(memory, 0, bytes + 64);
    return memory;
}

static size_t count_of(const MoecTensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
    return count;
}

/* -fno-trapping-math as in the runtime: without it GCC 12 omits stores of loops with two conditions with AVX-512. Uses the
 * kernels of the build if it has them. */
static void load(const char *text, Loaded *loaded) {
    const char *build = getenv("BUILD");
    char flags[1200] = "-O2 -march=native -fno-trapping-math -fopenmp", pattern[1024];
    glob_t kernels = {0};
    snprintf(pattern, sizeof pattern, "%s/kernels/kernels-*.o", build ? build : "build");
    if (glob(pattern, 0, NULL, &kernels) == 0)
        snprintf(flags + strlen(flags), sizeof flags - strlen(flags), " -DMOEC_KERNELS_APART %s",
                 kernels.gl_pathv[0]);
    globfree(&kernels);
    /* Its OpenMP threads outlive the call: the library stays loaded. */
    loaded->library = load_text(text, flags, RTLD_NODELETE);
    loaded->table = dlsym(loaded->library, "moec_table");
    assert_non_null(loaded->table);
    assert_int_equal(loaded->table->abi, MOEC_ABI);
}

static void make_memory(Loaded *loaded) {
    const MoecTable *table = loaded->table;
    const MoecGraphEntry *graph = loaded->graph;
    loaded->weights = block(table->weight_bytes);
    loaded->gradients = block(table->weight_bytes);
    loaded->states = block(table->state_bytes);
    loaded->cache = block(graph->cache_bytes);
    loaded->arena = block(graph->arena_bytes);
    /* Programs must not depend on the initial content of the temporaries. */
    memset(loaded->arena, 0xff, graph->arena_bytes);
    assert_true(graph->input_count < 64 && graph->output_count < 64);
    for (int i = 0; i < graph->input_count; i++)
        loaded->inputs[i] = block(4 * count_of(&graph->inputs[i]));
    for (int i = 0; i < graph->output_count; i++)
        loaded->outputs[i] = block(4 * count_of(&graph->outputs[i]));
}

static void free_memory(Loaded *loaded) {
    const MoecGraphEntry *graph = loaded->graph;
    for (int i = 0; i < graph->input_count; i++) free(loaded->inputs[i]);
    for (int i = 0; i < graph->output_count; i++) free(loaded->outputs[i]);
    free(loaded->weights);
    free(loaded->gradients);
    free(loaded->states);
    free(loaded->cache);
    free(loaded->arena);
}

/* ---- one tensor in both programs ---- */

static const MoecTensor *find(const MoecTensor *tensors, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return NULL;
}

/* Address of a tensor in the compiled program; NULL for temporaries. */
static void *memory_of(const Loaded *loaded, const Tensor *tensor) {
    const char *name = tensor->path ? tensor->path : tensor->name;
    const MoecTable *table = loaded->table;
    const MoecGraphEntry *graph = loaded->graph;
    const MoecTensor *entry = NULL;
    switch (tensor->role) {
    case ROLE_PARAMETER:
        entry = find(table->parameters, table->parameter_count, tensor->path);
        return entry ? loaded->weights + entry->offset / 4 : NULL;
    case ROLE_GRADIENT:
        entry = find(table->parameters, table->parameter_count, tensor->of->path);
        return entry ? loaded->gradients + entry->offset / 4 : NULL;
    case ROLE_STATE:
        entry = find(table->states, table->state_count, tensor->path);
        return entry ? loaded->states + entry->offset / 4 : NULL;
    case ROLE_INPUT:
        entry = find(graph->inputs, graph->input_count, name);
        return entry ? loaded->inputs[entry - graph->inputs] : NULL;
    case ROLE_OUTPUT:
        entry = find(graph->outputs, graph->output_count, name);
        return entry ? loaded->outputs[entry - graph->outputs] : NULL;
    case ROLE_CACHE:
        entry = find(graph->caches, graph->cache_count, name);
        return entry ? loaded->cache + entry->offset / 4 : NULL;
    case ROLE_ROUNDED:
    case ROLE_TEMP:
        break;
    }
    return NULL;
}

static double start_value(const Tensor *tensor, uint64_t *seed) {
    double spread = tensor->init.kind == MOEC_INIT_CONSTANT ? 0.1
                    : tensor->init.b > 0                    ? 2 * tensor->init.b
                                                            : 0.5;
    if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE)
        return tensor->init.a + spread * (random_number(seed) - 0.5);
    if (tensor->role == ROLE_INPUT && tensor->rank == 0) return 1;
    return 2 * random_number(seed) - 1;
}

static void fill(const Program *program, Interpreter *eval, const Loaded *loaded) {
    uint64_t seed = SEED;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        bool given = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE ||
                     tensor->role == ROLE_INPUT || tensor->role == ROLE_CACHE;
        void *memory = given ? memory_of(loaded, tensor) : NULL;
        for (long j = 0; given && j < tensor_elements(tensor); j++) {
            if (tensor->type == TYPE_INT) {
                long most = tensor->vocabulary > 0 ? tensor->vocabulary : 8;
                long value =
                    tensor->rank == 0 ? POSITION : (long)(random_number(&seed) * (double)most);
                interpreter_int(eval, tensor)[j] = value;
                if (memory) ((int32_t *)memory)[j] = (int32_t)value;
            } else {
                float value = (float)start_value(tensor, &seed);
                interpreter_real(eval, tensor)[j] = value;
                if (memory) ((float *)memory)[j] = value;
            }
        }
    }
}

/* ---- comparison ---- */

static Verdicts verdicts;

static void compare(Program *program, Interpreter *eval, const Loaded *loaded, const char *what) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        const float *memory = memory_of(loaded, tensor);
        if (!memory || tensor->type == TYPE_INT || tensor->role == ROLE_INPUT ||
            tensor->role == ROLE_PARAMETER)
            continue;
        long count = tensor_elements(tensor);
        double *made = calloc((size_t)count + 1, sizeof *made);
        for (long j = 0; j < count; j++) made[j] = (double)memory[j];
        double norm = length(interpreter_real(eval, tensor), count),
               off = distance(interpreter_real(eval, tensor), made, count);
        double limit = tensor->role == ROLE_GRADIENT ? 1e-4 : 1e-5;
        double beyond = off - (limit * norm + 1e-9);
        free(made);
        if (!(beyond <= 0) && !noise_explains(program, eval, tensor, SEED, beyond, norm, &verdicts))
            fail_msg("%s: %s is off by %g of %g", what, tensor->name, off, norm);
    }
}

/* first: gradients are overwritten in memory with any content, not added to zeros. */
static void run_once(Program *program, Loaded *loaded, int first, const char *what) {
    make_memory(loaded);
    if (first) memset(loaded->gradients, 0xff, loaded->table->weight_bytes);
    Interpreter *eval = interpreter_new(program);
    fill(program, eval, loaded);
    const char *message = interpreter_run(eval, SEED, true);
    if (message) fail_msg("%s: %s", what, message);
    MoecRun run = {.weights = loaded->weights,
                   .gradients = loaded->gradients,
                   .states = loaded->states,
                   .cache = loaded->cache,
                   .arena = loaded->arena,
                   .inputs = (const void *const *)loaded->inputs,
                   .outputs = loaded->outputs,
                   .seed = SEED,
                   .first_micro_batch = first,
                   .last_micro_batch = 1};
    loaded->graph->run(&run);
    compare(program, eval, loaded, what);
    interpreter_free(eval);
    free_memory(loaded);
}

static void run_one(Program *program, Loaded *loaded, const char *what) {
    run_once(program, loaded, 0, what);
    if (program->graph == GRAPH_TRAIN)
        run_once(program, loaded, 1, arena_format(program->arena, "%s, made", what));
}

/* Several programs in one text. */
static void run_all(Program *const *programs, int count, const char *what) {
    Loaded loaded = {0};
    Arena *arena = programs[0]->arena;
    MoecCompiler compiler = {.arena = arena, .reports = {.arena = arena}};
    for (int i = 0; i < count; i++) {
        programs[i]->lowered = true;
        programs[i]->properties = 0; /* not all passes ran */
        find_products(programs[i]);
    }
    const char *text = moec_emit_c(&compiler, programs, count, false);
    /* Emission changes no program. */
    assert_string_equal(moec_emit_c(&compiler, programs, count, false), text);
    load(text, &loaded);
    assert_int_equal(loaded.table->graph_count, count);
    for (int i = 0; i < count; i++) {
        loaded.graph = &loaded.table->graphs[i];
        run_one(programs[i], &loaded, arena_format(arena, "%s %d", what, i));
    }
    dlclose(loaded.library);
    arena_free(compiler.scratch);
}

/* ---- models ---- */

typedef struct Case {
    const char *file, *model;
    MoecGraph graph;
    const char *sets[8];
} Case;

#define SMALL "dim=24", "layers=3", "vocab_size=19", "train.batch_size=2", "train.context_length=10"

static const Case cases[] = {
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny", MOEC_FORWARD, {SMALL}},
    {"models/tiny.moe", "tiny", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_TRAIN, {SMALL, "document_start_token=4"}},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL, "document_start_token=4"}},
    {"models/tiny.moe", "tiny_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_moe", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_sigmoid_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_expert_choice", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_two_gates", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL, "train.activation_checkpointing=layer"}},
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL, "train.logits_chunk_size=10", "tie_embeddings=true"}},
    {"models/tiny.moe", "tiny_moe", MOEC_TRAIN, {SMALL, "vocab_size=64", "train.logits_chunk_size=5"}},
    /* logits above 1 MiB, whose memory their adjoint reuses */
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL, "layers=1", "vocab_size=30011", "train.logits_chunk_size=10"}},
};

/* A tensor that reuses the memory of another starts where that one ends. */
static bool reuses_memory(const Schedule *schedule, const Allocation *a, const Allocation *b) {
    for (const Allocation *at = a; at->over; at = &schedule->allocations[at->over->id])
        if (&schedule->allocations[at->over->id] == b) return a->first >= b->last;
    return false;
}

static void check_plan(Program *program) {
    find_products(program);
    Schedule *schedule = fuse(program);
    plan(schedule);
    for (int i = 0; i < program->tensors.count; i++) {
        const Allocation *a = &schedule->allocations[i];
        assert_int_equal(a->offset % 64, 0);
        assert_true(a->offset + a->bytes <= schedule->arena_bytes);
        for (int j = 0; j < i; j++) {
            const Allocation *b = &schedule->allocations[j];
            bool together = a->bytes && b->bytes && a->first <= b->last && b->first <= a->last;
            if (together && !reuses_memory(schedule, a, b) && !reuses_memory(schedule, b, a))
                assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
}

static void test_models(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *one = &cases[i];
        int sets = 0;
        while (sets < 8 && one->sets[sets]) sets++;
        MoecCompiler *compiler = moec_open(one->file, one->model, one->sets, sets, NULL);
        if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
        Program *program =
            moec_compile(compiler, one->graph, 0, 0, one->graph == MOEC_DECODE ? 1 : 0);
        if (!program) fail_msg("%s", moec_reports(compiler));
        check_plan(program);
        run_all(&program, 1,
                arena_format(program->arena, "%s (graph %d)", one->model, (int)one->graph));
        moec_close(compiler);
    }
}

/* ---- random programs ---- */

enum { DEFAULT_PROGRAMS = 12 };

static void run_random(int first, bool affine) {
    Arena *arena = arena_new();
    Program *programs[PROGRAMS];
    random_programs(arena, first, affine, programs);
    for (int i = 0; i < PROGRAMS; i++) check_plan(programs[i]);
    run_all(programs, PROGRAMS, arena_format(arena, "random programs from %d on, number", first));
    arena_free(arena);
}

/* MOEC_PROGRAMS programs, starting with number MOEC_SEED. */
static void test_random_programs(void **state) {
    (void)state;
    int first = number_from("MOEC_SEED", 0),
        end = first + number_from("MOEC_PROGRAMS", DEFAULT_PROGRAMS);
    for (; first < end; first += PROGRAMS) run_random(first, true);
    print_verdicts(&verdicts);
}

/* A read that may be out of bounds, added to the value of a variable. */
static void test_programs_once_wrong(void **state) {
    (void)state;
    run_random(1816, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs),
                                       cmocka_unit_test(test_programs_once_wrong),
                                       cmocka_unit_test(test_models)};
    if (getenv("MOEC_PROGRAMS")) return _cmocka_run_group_tests("programs", tests, 1, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

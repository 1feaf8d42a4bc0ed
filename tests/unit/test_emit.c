/* What a program means and what its C text computes: every output, gradient, state and cache
 * compared, tensor by tensor; and the memory plan against the lifetimes it claims. Runs in the root
 * of the project. */
#include "abi.h"
#include "kernel.h"
#include "moec.h"
#include "passes.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEED = 7, POSITION = 3 };

/* ---- memory of a compiled program ---- */

typedef struct Loaded {
    void *library;
    const MoecTable *table;
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

/* The text as a shared object in a folder of its own, with warnings as errors. */
static void load(const char *text, Loaded *loaded) {
    char folder[] = "/tmp/moec-test-emit-XXXXXX", command[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "%s/program.c", folder);
    FILE *file = fopen(command, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    const char *compiler = getenv("CC") ? getenv("CC") : "cc";
    snprintf(command, sizeof command,
             "%s -std=c11 -O2 -march=native -fopenmp -Wall -Wextra -Wpedantic -Werror -shared "
             "-fPIC -Iruntime "
             "-Iruntime/kernels -o %s/program.so %s/program.c -lm && rm %s/program.c",
             compiler, folder, folder, folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/program.so", folder);
    /* Its OpenMP threads outlive the call: the library stays. */
    loaded->library = dlopen(command, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!loaded->library) fail_msg("%s", dlerror());
    unlink(command);
    rmdir(folder);
    loaded->table = dlsym(loaded->library, "moec_table");
    assert_non_null(loaded->table);
    assert_int_equal(loaded->table->abi, MOEC_ABI);
}

static void make_memory(Loaded *loaded) {
    const MoecTable *table = loaded->table;
    const MoecGraphEntry *graph = &table->graphs[0];
    loaded->weights = block(table->weight_bytes);
    loaded->gradients = block(table->weight_bytes);
    loaded->states = block(table->state_bytes);
    loaded->cache = block(graph->cache_bytes);
    loaded->arena = block(graph->arena_bytes);
    /* Nothing may count on what temporaries held before. */
    memset(loaded->arena, 0xff, graph->arena_bytes);
    assert_true(graph->input_count < 64 && graph->output_count < 64);
    for (int i = 0; i < graph->input_count; i++)
        loaded->inputs[i] = block(4 * count_of(&graph->inputs[i]));
    for (int i = 0; i < graph->output_count; i++)
        loaded->outputs[i] = block(4 * count_of(&graph->outputs[i]));
}

static void unload(Loaded *loaded) {
    const MoecGraphEntry *graph = &loaded->table->graphs[0];
    for (int i = 0; i < graph->input_count; i++) free(loaded->inputs[i]);
    for (int i = 0; i < graph->output_count; i++) free(loaded->outputs[i]);
    free(loaded->weights);
    free(loaded->gradients);
    free(loaded->states);
    free(loaded->cache);
    free(loaded->arena);
    dlclose(loaded->library);
}

/* ---- the same tensor on both sides ---- */

static const MoecTensor *find(const MoecTensor *tensors, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return NULL;
}

/* Where the compiled program keeps a tensor; NULL for temporaries. */
static void *memory_of(const Loaded *loaded, const Tensor *tensor) {
    const char *name = tensor->path ? tensor->path : tensor->name;
    const MoecTable *table = loaded->table;
    const MoecGraphEntry *graph = &table->graphs[0];
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
    case ROLE_TEMP:
        break;
    }
    return NULL;
}

static double random_number(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / 16777216.0;
}

static double start_value(const Tensor *tensor, uint64_t *seed) {
    double spread = tensor->init.kind == INIT_CONSTANT ? 0.1
                    : tensor->init.b > 0               ? 2 * tensor->init.b
                                                       : 0.5;
    if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE)
        return tensor->init.a + spread * (random_number(seed) - 0.5);
    if (tensor->role == ROLE_INPUT && tensor->rank == 0) return 1;
    return 2 * random_number(seed) - 1;
}

static void fill(const Program *program, Eval *eval, const Loaded *loaded) {
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
                eval_int(eval, tensor)[j] = value;
                if (memory) ((int32_t *)memory)[j] = (int32_t)value;
            } else {
                float value = (float)start_value(tensor, &seed);
                eval_real(eval, tensor)[j] = value;
                if (memory) ((float *)memory)[j] = value;
            }
        }
    }
}

/* ---- comparison ---- */

static void compare(const Program *program, Eval *eval, const Loaded *loaded, const char *what) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        const float *memory = memory_of(loaded, tensor);
        if (!memory || tensor->type == TYPE_INT || tensor->role == ROLE_INPUT ||
            tensor->role == ROLE_PARAMETER)
            continue;
        double difference = 0, norm = 0;
        for (long j = 0; j < tensor_elements(tensor); j++) {
            double wanted = eval_real(eval, tensor)[j];
            difference += (wanted - (double)memory[j]) * (wanted - (double)memory[j]);
            norm += wanted * wanted;
        }
        double limit = tensor->role == ROLE_GRADIENT ? 1e-4 : 1e-5;
        if (!(sqrt(difference) <= limit * sqrt(norm) + 1e-9))
            fail_msg("%s: %s is off by %g of %g", what, tensor->name, sqrt(difference), sqrt(norm));
    }
}

static void run_both(Program *program, const char *what) {
    Loaded loaded = {0};
    load(emit_c(program->arena, &program, 1, TARGET_HOSTED), &loaded);
    make_memory(&loaded);
    Eval *eval = eval_new(program);
    fill(program, eval, &loaded);
    const char *message = eval_run(eval, SEED, true);
    if (message) fail_msg("%s: %s", what, message);
    MoecRun run = {loaded.weights,
                   loaded.gradients,
                   loaded.states,
                   loaded.cache,
                   loaded.arena,
                   (const void *const *)loaded.inputs,
                   loaded.outputs,
                   SEED,
                   1,
                   NULL};
    loaded.table->graphs[0].run(&run);
    compare(program, eval, &loaded, what);
    eval_free(eval);
    unload(&loaded);
}

/* ---- models ---- */

typedef struct Case {
    const char *file, *model;
    MoecGraph graph;
    const char *sets[8];
} Case;

#define SMALL "dim=24", "layers=3", "vocab=19", "train.batch=2", "train.context=10"

static const Case cases[] = {
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny", MOEC_FORWARD, {SMALL}},
    {"models/tiny.moe", "tiny", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_moe", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL, "train.remat=layer"}},
};

static void check_plan(Program *program) {
    Schedule *schedule = fuse(program);
    plan(schedule);
    for (int i = 0; i < program->tensors.count; i++) {
        const Place *a = &schedule->places[i];
        assert_int_equal(a->offset % 64, 0);
        assert_true(a->offset + a->bytes <= schedule->arena_bytes);
        for (int j = 0; j < i; j++) {
            const Place *b = &schedule->places[j];
            bool together = a->bytes && b->bytes && a->first <= b->last && b->first <= a->last;
            if (together)
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
        run_both(program,
                 arena_format(program->arena, "%s (graph %d)", one->model, (int)one->graph));
        moec_close(compiler);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

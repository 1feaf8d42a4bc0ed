/* What a program means and what its C text computes: every output, gradient, state and cache
 * compared, tensor by tensor; and the memory plan against the lifetimes it claims. Runs in the root
 * of the project. */
#include "abi.h"
#include "kernel.h"
#include "moec.h"
#include "passes.h"

#include <dlfcn.h>
#include <float.h>
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

/* The text as a shared object in a folder of its own, with warnings as errors. -fno-trapping-math as
 * the runtime has it: without it GCC 12 loses stores of loops with two conditions where it has
 * AVX-512. */
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
             "%s -std=c11 -O2 -march=native -fno-trapping-math -fopenmp -Wall -Wextra -Wpedantic -Werror -shared "
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
    const MoecGraphEntry *graph = loaded->graph;
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

enum { NOISES = 4 };

/* What random equations do to four roundings of every value, others each time. What that moves by a
 * thousandth has an edge at which it stands: nothing can be said of it. */
static const double noise = 4 * 0x1p-24, undecided = 1e-3;

static double distance(const double *wanted, const double *other, const float *memory, long count) {
    double squares = 0;
    for (long j = 0; j < count; j++) {
        double step = wanted[j] - (memory ? (double)memory[j] : other[j]);
        squares += step * step;
    }
    return sqrt(squares);
}

/* How far noise carries a tensor. */
static double amplified(Program *program, const Loaded *loaded, Eval *exact, const Tensor *tensor) {
    double most = 0;
    for (uint64_t i = 1; i <= NOISES; i++) {
        Eval *noisy = eval_new(program);
        fill(program, noisy, loaded);
        eval_noise(noisy, noise, i);
        eval_run(noisy, SEED, true);
        double moved = distance(eval_real(exact, tensor), eval_real(noisy, tensor), NULL,
                                tensor_elements(tensor));
        if (moved > most) most = moved;
        eval_free(noisy);
    }
    return most;
}

/* Equations drawn at random may ask for numbers that no float holds, too large or too small. */
static bool outgrows_float(const Program *program, Eval *eval) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->type == TYPE_INT) continue;
        const double *values = eval_real(eval, tensor);
        for (long j = 0, count = tensor_elements(tensor); j < count; j++)
            if (fabs(values[j]) > (double)FLT_MAX || (values[j] != 0 && fabs(values[j]) < (double)FLT_MIN))
                return true;
    }
    return false;
}

static void compare(Program *program, Eval *eval, const Loaded *loaded, const char *what) {
    bool random = strcmp(program->name, "random") == 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        const float *memory = memory_of(loaded, tensor);
        if (!memory || tensor->type == TYPE_INT || tensor->role == ROLE_INPUT ||
            tensor->role == ROLE_PARAMETER)
            continue;
        const double *wanted = eval_real(eval, tensor);
        long count = tensor_elements(tensor);
        double off = distance(wanted, NULL, memory, count), norm = 0;
        for (long j = 0; j < count; j++) norm += wanted[j] * wanted[j];
        double limit = tensor->role == ROLE_GRADIENT ? 1e-4 : 1e-5;
        double allowed = limit * sqrt(norm) + 1e-9;
        if (off <= allowed) continue;
        if (random && outgrows_float(program, eval)) return;
        double moved = random ? amplified(program, loaded, eval, tensor) : 0;
        if (isfinite(off) && (off <= allowed + moved || moved > undecided * sqrt(norm))) continue;
        fail_msg("%s: %s is off by %g of %g; noise moves it by %g", what, tensor->name, off,
                 sqrt(norm), moved);
    }
}

static void run_one(Program *program, Loaded *loaded, const char *what) {
    make_memory(loaded);
    Eval *eval = eval_new(program);
    fill(program, eval, loaded);
    const char *message = eval_run(eval, SEED, true);
    if (message) fail_msg("%s: %s", what, message);
    MoecRun run = {.weights = loaded->weights,
                   .gradients = loaded->gradients,
                   .states = loaded->states,
                   .cache = loaded->cache,
                   .arena = loaded->arena,
                   .inputs = (const void *const *)loaded->inputs,
                   .outputs = loaded->outputs,
                   .seed = SEED,
                   .last_micro_batch = 1};
    loaded->graph->run(&run);
    compare(program, eval, loaded, what);
    eval_free(eval);
    free_memory(loaded);
}

/* Several programs in one text. */
static void run_all(Program *const *programs, int count, const char *what) {
    Loaded loaded = {0};
    Arena *arena = programs[0]->arena;
    load(emit_c(arena, programs, count, TARGET_HOSTED), &loaded);
    assert_int_equal(loaded.table->graph_count, count);
    for (int i = 0; i < count; i++) {
        loaded.graph = &loaded.table->graphs[i];
        run_one(programs[i], &loaded, arena_format(arena, "%s %d", what, i));
    }
    dlclose(loaded.library);
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
    {"models/tiny.moe", "tiny_uneven", MOEC_TRAIN, {SMALL, "separator=4"}},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL, "separator=4"}},
    {"models/tiny.moe", "tiny_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_moe", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_sigmoid_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_expert_choice", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_two_gates", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL, "train.remat=layer"}},
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL, "train.chunk=10", "tied=true"}},
    {"models/tiny.moe", "tiny_moe", MOEC_TRAIN, {SMALL, "vocab=64", "train.chunk=5"}},
    /* logits of more than a mebibyte, whose adjoint takes over their memory */
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL, "layers=1", "vocab=30011", "train.chunk=10"}},
};

/* What takes over the memory of another begins where that one ends. */
static bool takes_over(const Schedule *schedule, const Place *a, const Place *b) {
    for (const Place *at = a; at->over; at = &schedule->places[at->over->id])
        if (&schedule->places[at->over->id] == b) return a->first >= b->last;
    return false;
}

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
            if (together && !takes_over(schedule, a, b) && !takes_over(schedule, b, a))
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

/* PROGRAMS stand in one text. */
enum { PROGRAMS = 12, STATEMENTS = 14, AXES = 6, DEFAULT_PROGRAMS = 36 };

typedef struct Builder {
    Program *program;
    Axis *axes[AXES];
    List tensors; /* what may be read */
    List ints;
    uint64_t seed;
} Builder;

static const Span nowhere;

static long dice(Builder *builder, long sides) {
    return (long)(random_number(&builder->seed) * (double)sides);
}

/* `count` different axes in random order. */
static int some_axes(Builder *builder, int count, Axis **axes) {
    bool taken[AXES] = {false};
    for (int i = 0; i < count; i++) {
        long at = dice(builder, AXES);
        while (taken[at]) at = (at + 1) % AXES;
        taken[at] = true;
        axes[i] = builder->axes[at];
    }
    return count;
}

static Tensor *random_tensor(Builder *builder, const char *name, Role role, Type type, int rank) {
    Axis *axes[MAX_RANK];
    some_axes(builder, rank, axes);
    Tensor *tensor = tensor_new(builder->program, name, role, type, rank, axes, nowhere);
    return tensor;
}

static Tensor *any(Builder *builder, const List *list) {
    return list->items[dice(builder, list->count)];
}

/* A subscript of an axis: its index, a shifted, wrapped or gathered one, or a number. */
static Expr *random_sub(Builder *builder, Index **indices, Axis *axis) {
    Program *program = builder->program;
    Index *index = NULL;
    for (int i = 0; i < AXES; i++)
        if (indices[i] && indices[i]->axis == axis) index = indices[i];
    if (!index) return expr_number(program, (double)dice(builder, axis->size));
    Expr *plain = expr_index(program, index), *moved;
    moved = expr_apply(program, OP_SUB, plain, expr_number(program, (double)(1 + dice(builder, 2))),
                       NULL);
    switch (dice(builder, 12)) {
    case 0:
        return moved;
    case 1:
        return expr_apply(program, OP_MOD,
                          expr_apply(program, OP_ADD, plain, expr_number(program, 1), NULL),
                          expr_number(program, (double)axis->size), NULL);
    case 2: {
        const Tensor *table = any(builder, &builder->ints);
        Expr *subs[1] = {plain};
        for (int i = 0; i < builder->ints.count; i++) {
            Tensor *one = builder->ints.items[i];
            if (one->axes[0] == axis) return expr_read(program, one, subs);
        }
        (void)table;
        return plain;
    }
    default:
        return plain;
    }
}

static Expr *random_read(Builder *builder, Index **indices) {
    Tensor *tensor = any(builder, &builder->tensors);
    Expr *subs[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) subs[i] = random_sub(builder, indices, tensor->axes[i]);
    return expr_read(builder->program, tensor, subs);
}

static Expr *random_value(Builder *builder, Index **indices, int depth) {
    static const OpCode ops[] = {OP_ADD, OP_SUB,  OP_MUL,     OP_MUL, OP_MAX,
                                 OP_MIN, OP_TANH, OP_SIGMOID, OP_LT,  OP_ABS};
    if (depth == 0 || dice(builder, 4) == 0) return random_read(builder, indices);
    OpCode op = ops[dice(builder, 10)];
    Expr *a = random_value(builder, indices, depth - 1), *b = NULL;
    if (op_table[op].arity == 2) b = random_value(builder, indices, depth - 1);
    return expr_apply(builder->program, op, a, b, NULL);
}

/* A product of two reads as a rule, for the recognition of contractions. */
static Expr *random_sum(Builder *builder, Index **indices) {
    if (dice(builder, 3) == 0) return random_value(builder, indices, 2);
    Expr *a = random_read(builder, indices);
    return expr_apply(builder->program, OP_MUL, a, random_read(builder, indices), NULL);
}

static void random_statement(Builder *builder, Block *block, bool output) {
    Program *program = builder->program;
    Index *indices[AXES] = {NULL}, *reduced[AXES];
    Tensor *target = random_tensor(builder, "t", output ? ROLE_OUTPUT : ROLE_TEMP, TYPE_REAL,
                                   (int)dice(builder, 4));
    Expr *subs[MAX_RANK];
    int reduced_count = 0;
    for (int i = 0; i < target->rank; i++) {
        indices[i] = index_new(program, target->axes[i]->name, target->axes[i]);
        subs[i] = expr_index(program, indices[i]);
    }
    bool reduces = dice(builder, 2) == 0;
    for (int i = 0; reduces && i < AXES; i++) {
        bool used = false;
        for (int j = 0; j < target->rank; j++) used |= target->axes[j] == builder->axes[i];
        if (used || dice(builder, 3)) continue;
        Index *index = index_new(program, builder->axes[i]->name, builder->axes[i]);
        indices[target->rank + reduced_count] = reduced[reduced_count] = index;
        reduced_count++;
    }
    Expr *value = reduced_count ? random_sum(builder, indices) : random_value(builder, indices, 3);
    Reduction reduction = !reduced_count ? REDUCE_NONE : dice(builder, 4) ? REDUCE_SUM : REDUCE_MAX;
    /* Which entry is the largest must not hang on how its value is rounded. */
    if (reduction == REDUCE_MAX && program->graph == GRAPH_TRAIN)
        value = random_read(builder, indices);
    /* Scaled, so that sums of sums stay small. */
    if (reduction == REDUCE_SUM && dice(builder, 3) == 0)
        value = expr_apply(program, OP_TANH, value, NULL, NULL);
    statement_loop(program, block, expr_read(program, target, subs), false, reduction, reduced,
                   reduced_count, value, nowhere);
    if (reduction != REDUCE_MAX && dice(builder, 4) == 0)
        statement_loop(program, block, expr_read(program, target, subs), true, reduction, reduced,
                       reduced_count,
                       reduced_count ? random_sum(builder, indices)
                                     : random_value(builder, indices, 2),
                       nowhere);
    if (output) list_push(program->arena, &program->outputs, target);
    list_push(program->arena, &builder->tensors, target);
}

/* zero[...] = 0; zero[..., table[i], ...] += value: two places may be the same. */
static void random_scatter(Builder *builder, Block *block) {
    Program *program = builder->program;
    Tensor *target =
        random_tensor(builder, "scattered", ROLE_OUTPUT, TYPE_REAL, 1 + (int)dice(builder, 3));
    Tensor *table = any(builder, &builder->ints);
    Index *indices[AXES] = {NULL}, *from = index_new(program, "from", table->axes[0]);
    Expr *zero[MAX_RANK], *subs[MAX_RANK], *place = expr_index(program, from);
    int at = (int)dice(builder, target->rank);
    for (int i = 0; i < target->rank; i++) {
        Index *index = index_new(program, target->axes[i]->name, target->axes[i]);
        zero[i] = subs[i] = expr_index(program, index);
        if (i != at) indices[i] = index;
    }
    subs[at] = expr_read(program, table, &place);
    indices[at] = from;
    statement_loop(program, block, expr_read(program, target, zero), false, REDUCE_NONE, NULL, 0,
                   expr_number(program, 0), nowhere);
    Expr *value = random_value(builder, indices, 2);
    statement_loop(program, block, expr_read(program, target, subs), true, REDUCE_NONE, &from, 1,
                   value, nowhere);
    list_push(program->arena, &program->outputs, target);
}

/* loss = sum over the outputs of their mean squares. */
static void add_loss(Builder *builder) {
    Program *program = builder->program;
    Block *body = &program->body;
    Tensor *loss = tensor_new(program, "loss", ROLE_OUTPUT, TYPE_REAL, 0, NULL, nowhere);
    Expr *sum = expr_number(program, 0);
    for (int i = 0; i < program->outputs.count; i++) {
        Tensor *output = program->outputs.items[i];
        Tensor *part = tensor_new(program, "part", ROLE_TEMP, TYPE_REAL, 0, NULL, nowhere);
        Index *indices[MAX_RANK];
        for (int j = 0; j < output->rank; j++)
            indices[j] = index_new(program, output->axes[j]->name, output->axes[j]);
        Expr *read = expr_read_indices(program, output, indices);
        Expr *value = expr_apply(program, OP_MUL, read, read, NULL),
             *share = expr_number(program, 1.0 / (double)tensor_elements(output));
        statement_loop(program, body, expr_read(program, part, NULL), false,
                       output->rank ? REDUCE_SUM : REDUCE_NONE, indices, output->rank,
                       expr_apply(program, OP_MUL, value, share, NULL), nowhere);
        sum = expr_apply(program, OP_ADD, sum, expr_read(program, part, NULL), NULL);
    }
    statement_loop(program, body, expr_read(program, loss, NULL), false, REDUCE_NONE, NULL, 0, sum,
                   nowhere);
    list_push(program->arena, &program->outputs, loss);
    program->loss = loss;
}

static void add_given(Builder *builder, int number) {
    Arena *arena = builder->program->arena;
    for (int i = 0; i < 4; i++) {
        Tensor *tensor = random_tensor(builder, "x", i < 2 ? ROLE_PARAMETER : ROLE_INPUT, TYPE_REAL,
                                       1 + (int)dice(builder, 3));
        tensor->input = INPUT_REAL;
        if (i < 2) tensor->path = arena_format(arena, "x%d_of_%d", i, number);
        list_push(arena, &builder->tensors, tensor);
    }
    for (int i = 0; i < 2; i++) {
        Tensor *table = random_tensor(builder, "table", ROLE_INPUT, TYPE_INT, 1);
        table->vocabulary = table->axes[0]->size;
        list_push(arena, &builder->ints, table);
    }
}

/* Every other one with the gradient of its outputs. */
static Program *random_program(Arena *arena, int number) {
    static const char *const names[AXES] = {"a", "b", "c", "d", "e", "f"};
    static const long sizes[] = {1, 2, 3, 5, 7, 16, 33, 70, 130};
    Builder builder = {.seed = (uint64_t)number * 77 + 5};
    Reports *reports = arena_alloc(arena, sizeof *reports);
    reports->arena = arena;
    builder.program =
        program_new(arena, reports, "random", number % 2 ? GRAPH_TRAIN : GRAPH_FORWARD);
    for (int i = 0; i < AXES; i++)
        builder.axes[i] =
            axis_new(builder.program, names[i], sizes[dice(&builder, 9)], AXIS_PLAIN, nowhere);
    add_given(&builder, number);
    for (int i = 0; i < STATEMENTS; i++)
        random_statement(&builder, &builder.program->body,
                         i >= STATEMENTS - 4 || dice(&builder, 5) == 0);
    random_scatter(&builder, &builder.program->body);
    if (builder.program->graph == GRAPH_TRAIN) add_loss(&builder);
    return builder.program;
}

static int number_from(const char *name, int otherwise) {
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

static void run_random(int first) {
    Arena *arena = arena_new();
    Program *programs[PROGRAMS];
    for (int i = 0; i < PROGRAMS; i++) {
        programs[i] = random_program(arena, first + i);
        if (programs[i]->graph == GRAPH_TRAIN) gradient(programs[i], false);
        simplify(programs[i]);
        char *wrong = verify(arena, programs[i]);
        if (wrong) fail_msg("program %d: %s", first + i, wrong);
        check_plan(programs[i]);
    }
    run_all(programs, PROGRAMS, arena_format(arena, "random programs from %d on, number", first));
    arena_free(arena);
}

/* MOEC_PROGRAMS programs from number MOEC_SEED on. */
static void test_random_programs(void **state) {
    (void)state;
    int first = number_from("MOEC_SEED", 1), end = first + number_from("MOEC_PROGRAMS", DEFAULT_PROGRAMS);
    for (; first < end; first += PROGRAMS) run_random(first);
}

/* A read that may fall outside, added to what a variable holds. */
static void test_programs_once_wrong(void **state) {
    (void)state;
    run_random(1816);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs),
                                       cmocka_unit_test(test_programs_once_wrong),
                                       cmocka_unit_test(test_models)};
    if (getenv("MOEC_PROGRAMS")) return _cmocka_run_group_tests("programs", tests, 1, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

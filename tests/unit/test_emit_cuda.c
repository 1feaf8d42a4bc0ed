/* The CUDA text of a program on the simulated device against its interpretation: every output, gradient, state and cache,
 * tensor by tensor. Runs in the root of the project; BUILD is the folder of libmoec_sim.so. */
#include "schedule/kernel.h"
#include "moec.h"
#include "passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loaded_cuda.h"
#include "random_program.h"

static long position = 3; /* first position of a decode step; POSITION in the environment */

/* ---- one tensor in both programs ---- */

static const MoecTensor *find(const MoecTensor *tensors, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return NULL;
}

static char *at(void *memory, const MoecTensor *entry) {
    return entry ? (char *)memory + entry->offset : NULL;
}

static const MoecTensor *cache_entry(const Loaded *loaded, const Tensor *tensor) {
    return find(loaded->graph->caches, loaded->graph->cache_count,
                tensor->path ? tensor->path : tensor->name);
}

/* True if the compiled program stores the tensor as bf16. */
static bool is_half(const Loaded *loaded, const Tensor *tensor) {
    const MoecTensor *entry = tensor->role == ROLE_CACHE ? cache_entry(loaded, tensor) : NULL;
    return entry && entry->type == MOEC_BF16;
}

/* Address of a tensor in the compiled program; NULL for temporaries. */
static void *memory_of(const Loaded *loaded, const Tensor *tensor) {
    const char *name = tensor->path ? tensor->path : tensor->name;
    const MoecTable *table = loaded->table;
    const MoecGraphEntry *graph = loaded->graph;
    const MoecTensor *entry;
    switch (tensor->role) {
    case ROLE_PARAMETER:
        return at(loaded->weights, find(table->parameters, table->parameter_count, tensor->path));
    case ROLE_GRADIENT:
        return at(loaded->gradients,
                  find(table->parameters, table->parameter_count, tensor->of->path));
    case ROLE_STATE:
        return at(loaded->states, find(table->states, table->state_count, tensor->path));
    case ROLE_INPUT:
        entry = find(graph->inputs, graph->input_count, name);
        return entry ? loaded->inputs[entry - graph->inputs] : NULL;
    case ROLE_OUTPUT:
        entry = find(graph->outputs, graph->output_count, name);
        return entry ? loaded->outputs[entry - graph->outputs] : NULL;
    case ROLE_CACHE:
        return at(loaded->cache, cache_entry(loaded, tensor));
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

/* Conversion of f32 to bf16, its upper half, by truncation without rounding. */
static void halve(uint16_t *halves, const float *values, long count) {
    for (long j = 0; j < count; j++) {
        uint32_t bits;
        memcpy(&bits, &values[j], sizeof bits);
        halves[j] = (uint16_t)(bits >> 16);
    }
}

static void widen(float *values, const uint16_t *halves, long count) {
    for (long j = 0; j < count; j++) {
        uint32_t bits = (uint32_t)halves[j] << 16;
        memcpy(&values[j], &bits, sizeof bits);
    }
}

static void put(void *memory, const void *values, long count, bool half) {
    uint16_t *halves = calloc((size_t)count + 1, sizeof *halves);
    if (half) halve(halves, values, count);
    assert_int_equal(cuda.cuMemcpyHtoDAsync_v2(memory, half ? halves : values,
                                               (size_t)count * (half ? 2 : 4), NULL),
                     0);
    assert_int_equal(cuda.cuStreamSynchronize(NULL), 0);
    free(halves);
}

static void get(float *values, void *memory, long count, bool half) {
    uint16_t *halves = calloc((size_t)count + 1, sizeof *halves);
    assert_int_equal(cuda.cuMemcpyDtoHAsync_v2(half ? (void *)halves : values, memory,
                                               (size_t)count * (half ? 2 : 4), NULL),
                     0);
    assert_int_equal(cuda.cuStreamSynchronize(NULL), 0);
    if (half) widen(values, halves, count);
    free(halves);
}

/* Truncates values that are stored as bf16: both programs have the same numbers. */
static void fill_tensor(Interpreter *eval, const Tensor *tensor, const Loaded *loaded,
                        uint64_t *seed) {
    void *memory = memory_of(loaded, tensor);
    bool half = is_half(loaded, tensor);
    long count = tensor_elements(tensor);
    union {
        float real;
        int32_t integer;
    } *values = calloc((size_t)count + 1, sizeof *values);
    for (long j = 0; j < count; j++) {
        if (tensor->type == TYPE_INT) {
            long most = tensor->vocabulary > 0 ? tensor->vocabulary : 8;
            long value = tensor->rank == 0 ? position : (long)(random_number(seed) * (double)most);
            interpreter_int(eval, tensor)[j] = value;
            values[j].integer = (int32_t)value;
        } else {
            values[j].real = (float)start_value(tensor, seed);
            if (half) {
                uint16_t kept;
                halve(&kept, &values[j].real, 1);
                widen(&values[j].real, &kept, 1);
            }
            interpreter_real(eval, tensor)[j] = values[j].real;
        }
    }
    if (memory) put(memory, values, count, half);
    free(values);
}

static void fill(const Program *program, Interpreter *eval, const Loaded *loaded) {
    uint64_t seed = SEED;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE ||
            tensor->role == ROLE_INPUT || tensor->role == ROLE_CACHE)
            fill_tensor(eval, tensor, loaded, &seed);
    }
}

/* `given` are the results of the device for one tensor. */
/* The definition, then several equally valid ways to round the operands of products. */
enum { WAYS = 4 };

/* The definition, exact and rounded in several ways; only as many run as needed. */
typedef struct Evals {
    Interpreter *of[WAYS + 1];
    int ways; /* last one that has run */
} Evals;

static void evaluate(Evals *evals, int last, const char *what) {
    for (; evals->ways < last && evals->of[evals->ways + 1]; evals->ways++) {
        const int way = evals->ways + 1;
        if (way) interpreter_rounded(evals->of[way], way);
        if (way) interpreter_follow(evals->of[way], evals->of[0]);
        const char *message = interpreter_run(evals->of[way], SEED, true);
        if (message) fail_msg("%s: %s", what, message);
    }
}

static void find_attention(Statement *statement, void *data) {
    bool attends = statement->kind == STATEMENT_CALL &&
                   (statement->call == CALL_ATTEND || statement->call == CALL_ATTEND_GRAD);
    const AttendOptions *options = &statement->attention;
    if (attends && !(options->position && options->best)) *(bool *)data = true;
}

/* An attention kernel rounds weights that are never stored. All other roundings of the device are of stored values, which the
 * definition of the emitted program also rounds. The two differ if a number is so close to the middle of two bf16 values that
 * f32 cannot decide. */
static bool rounds_inside(Program *program) {
    bool attends = false;
    block_walk(&program->body, find_attention, &attends);
    return attends;
}

/* Limits as in `moec verify`: f32 within 1e-5; gradients within 1e-4, relative to the tensor or to a fraction of the largest;
 * bf16 within twice the effect of rounding plus one rounding error. */
static double limit_of(const Program *program, const Evals *evals, const Tensor *tensor,
                       double scale) {
    if (!program->rounded) return tensor->role == ROLE_GRADIENT ? 1e-4 : 1e-5;
    if (program->target->launches) return tensor->role == ROLE_GRADIENT ? 1e-3 : 1e-4;
    double reference = 0;
    for (int way = 1; way <= evals->ways; way++)
        reference = fmax(reference,
                         distance(interpreter_real(evals->of[way], tensor),
                                  interpreter_real(evals->of[0], tensor), tensor_elements(tensor)) /
                             scale);
    return fmax(0x1p-9, 2 * reference);
}

static double largest_gradient(const Program *program, Interpreter *eval) {
    double largest = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_GRADIENT)
            largest =
                fmax(largest, length(interpreter_real(eval, tensor), tensor_elements(tensor)));
    }
    return largest;
}

static Verdicts verdicts;

static void compare(Program *program, Evals *evals, const Loaded *loaded, const char *what) {
    Interpreter *exact = evals->of[0];
    double share = fmax(1e-9, 1e-3 * largest_gradient(program, exact));
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        void *memory = memory_of(loaded, tensor);
        if (!memory || tensor->type == TYPE_INT || tensor->role == ROLE_INPUT ||
            tensor->role == ROLE_PARAMETER)
            continue;
        long count = tensor_elements(tensor);
        float *values = calloc((size_t)count + 1, sizeof *values);
        double *given = calloc((size_t)count + 1, sizeof *given);
        get(values, memory, count, is_half(loaded, tensor));
        for (long j = 0; j < count; j++) given[j] = (double)values[j];
        double scale = fmax(length(interpreter_real(exact, tensor), count),
                            tensor->role == ROLE_GRADIENT ? share : 1e-12),
               off = distance(given, interpreter_real(exact, tensor), count) / scale,
               limit = limit_of(program, evals, tensor, scale);
        if (!(off <= limit) && program->rounded) {
            evaluate(evals, WAYS, what);
            limit = limit_of(program, evals, tensor, scale);
        }
        free(values);
        free(given);
        if (!(off <= limit) &&
            !noise_explains(program, exact, tensor, SEED, (off - limit) * scale, scale, &verdicts))
            fail_msg("%s: %s is off by %g of itself, more than %g", what, tensor->name, off, limit);
    }
}

/* program: the emitted program after the passes of the device, with its rounding statements. */
static void run_one(Program *program, Loaded *loaded, const char *what) {
    make_memory(loaded);
    const MoecGraphEntry *graph = loaded->graph;
    assert_true(graph->input_count < MOST && graph->output_count < MOST);
    for (int i = 0; i < graph->input_count; i++)
        loaded->inputs[i] = block(bytes_of(&graph->inputs[i]), 0);
    for (int i = 0; i < graph->output_count; i++)
        loaded->outputs[i] = block(bytes_of(&graph->outputs[i]), 0xff);
    Evals evals = {.ways = -1};
    const int ways = program->rounded && !program->target->launches ? WAYS : 0;
    for (int way = 0; way <= ways; way++) {
        evals.of[way] = interpreter_new(program);
        fill(program, evals.of[way], loaded);
    }
    evaluate(&evals, ways ? 1 : 0, what);
    MoecHost host = {.self = loaded,
                     .launch = launch,
                     .zero = zero,
                     .launch_variant = wanted_variant ? launch_variant : NULL};
    MoecRun run = {.weights = loaded->weights,
                   .rounded = loaded->rounded,
                   .gradients = loaded->gradients,
                   .states = loaded->states,
                   .cache = loaded->cache,
                   .arena = loaded->arena,
                   .inputs = (const void *const *)loaded->inputs,
                   .outputs = (float *const *)loaded->outputs,
                   .device_seed = loaded->seed,
                   .first_micro_batch = 1,
                   .last_micro_batch = 1,
                   .host = &host};
    if (loaded->program->round) steps_run(loaded->program->round, &run);
    steps_run(loaded->program->graphs[graph - loaded->table->graphs], &run);
    assert_int_equal(cuda.cuStreamSynchronize(NULL), 0);
    compare(program, &evals, loaded, what);
    for (int way = 0; way <= ways; way++) interpreter_free(evals.of[way]);
    free_memory(loaded);
}

/* ---- models ---- */

typedef struct Case {
    const char *file, *model;
    MoecGraph graph;
    const char *sets[8];
} Case;

#define SMALL "dim=24", "layers=2", "vocab_size=19", "train.batch_size=2", "train.context_length=10"

static const Case cases[] = {
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny", MOEC_FORWARD, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL}},
    {"models/tiny.moe", "tiny_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_sigmoid_moe", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_expert_choice", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_two_gates", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe",
     "tiny_moe",
     MOEC_DECODE,
     {SMALL, "ffn.top_k=1"}}, /* a single dispatched row */
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL}},
    {"models/tiny.moe", "tiny_lore", MOEC_TRAIN, {SMALL, "train.activation_checkpointing=layer"}},
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL, "train.precision=bf16"}},
    {"models/tiny.moe", "tiny", MOEC_TRAIN, {SMALL, "train.precision=bf16", "attention=swiglu"}},
    {"models/tiny.moe", "tiny_moe", MOEC_DECODE, {SMALL, "train.precision=bf16"}},
    /* Caches in bf16, with widths that are not multiples of 8. */
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL, "train.precision=bf16"}},
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_DECODE,
     {SMALL, "train.precision=bf16", "attention.head_dim=10", "attention.value_dim=20"}},
    {"models/tiny.moe",
     "tiny",
     MOEC_TRAIN,
     {SMALL, "train.logits_chunk_size=10", "tie_embeddings=true"}},
    {"models/tiny.moe",
     "tiny_moe",
     MOEC_TRAIN,
     {SMALL, "vocab_size=64", "train.logits_chunk_size=5"}},
    {"models/tiny.moe",
     "tiny",
     MOEC_TRAIN,
     {SMALL, "layers=1", "vocab_size=5003", "train.logits_chunk_size=10"}},
    {"models/tiny.moe", "tiny_moe", MOEC_FORWARD, {SMALL, "train.precision=bf16"}},
    /* Several blocks of queries and keys, a window, a sink, a cap. */
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_TRAIN,
     {"dim=24", "layers=1", "vocab_size=19", "train.batch_size=1", "train.context_length=80",
      "attention.mask=window", "attention.window=9", "train.precision=bf16"}},
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_TRAIN,
     {"dim=24", "layers=1", "vocab_size=19", "train.batch_size=1", "train.context_length=80",
      "attention.sink=true", "attention.softcap=5"}},
    /* Several documents. */
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_TRAIN,
     {"dim=24", "layers=1", "vocab_size=19", "train.batch_size=2", "train.context_length=80",
      "document_start_token=4"}},
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_TRAIN,
     {"dim=24", "layers=1", "vocab_size=19", "train.batch_size=2", "train.context_length=80",
      "document_start_token=4", "train.precision=bf16"}},
    {"models/tiny.moe", "tiny_uneven", MOEC_DECODE, {SMALL, "document_start_token=4"}},
    /* Rows with an online maximum; most threads read masked entries. */
    {"tests/rows.moe", "rows", MOEC_FORWARD, {"gap=1300"}},
    {"tests/rows.moe", "rows", MOEC_FORWARD, {"gap=0"}},
    {"tests/rows.moe", "columns", MOEC_FORWARD, {NULL}},
    {"tests/rows.moe", "uneven", MOEC_DECODE, {NULL}},
    {"tests/rows.moe", "uneven", MOEC_DECODE, {"train.precision=bf16"}},
    /* Large enough for kernels of several blocks. */
    {"models/tiny.moe",
     "tiny_sdpa_gate",
     MOEC_TRAIN,
     {"dim=64", "layers=1", "vocab_size=300", "train.context_length=70", "train.batch_size=2"}},
    {"models/tiny.moe",
     "tiny_moe",
     MOEC_TRAIN,
     {"dim=64", "layers=1", "vocab_size=100", "train.context_length=70", "train.batch_size=2"}},
    {"models/tiny.moe",
     "tiny_moe",
     MOEC_TRAIN,
     {"dim=64", "layers=1", "vocab_size=100", "train.context_length=70", "train.batch_size=2",
      "train.precision=bf16"}},
};

/* A part has its kernel, or one variant of it, and no other; the common part has none. */
static void check_pieces(const MoecKernels *kernels, const MoecTable *table) {
    static const char mark[] = "__global__";
    size_t begin = 0;
    for (int i = 0; i < kernels->count; begin = kernels->pieces[i++].end) {
        const MoecPiece *piece = &kernels->pieces[i];
        char *text = strndup(kernels->text + begin, piece->end - begin),
             *kernel = strstr(text, mark);
        if (piece->kernel == MOEC_EVERY_KERNEL) {
            assert_null(kernel);
        } else {
            assert_non_null(kernel);
            assert_non_null(strstr(kernel, table->kernels[piece->kernel]));
            assert_null(strstr(kernel + strlen(mark), mark));
        }
        free(text);
    }
    assert_int_equal(begin, strlen(kernels->text));
}

/* The last row of the passes is emitted. */
static void check_dump(MoecCompiler *compiler, MoecGraph graph, const char *kernels) {
    const char *dumped = moec_dump(compiler, graph, "emit", &target_device);
    assert_non_null(dumped);
    assert_true(strlen(dumped) > strlen(kernels));
    assert_string_equal(dumped + strlen(dumped) - strlen(kernels), kernels);
}

/* Ring-buffer caches that have wrapped around. */
static const Case rings[] = {
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_DECODE,
     {"dim=24", "layers=1", "vocab_size=19", "train.batch_size=2", "train.context_length=160",
      "document_start_token=4", "attention.window=9"}},
    {"models/tiny.moe",
     "tiny_uneven",
     MOEC_DECODE,
     {"dim=24", "layers=1", "vocab_size=19", "train.batch_size=2", "train.context_length=160",
      "attention.window=20", "train.precision=bf16"}},
};

static void run_case(const Case *one) {
    int sets = 0;
    while (sets < 8 && one->sets[sets]) sets++;
    MoecCompiler *compiler = moec_open(one->file, one->model, one->sets, sets, NULL);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    long tokens = one->graph == MOEC_DECODE ? 1 : 0;
    Program *program = moec_compile(compiler, one->graph, 0, 0, tokens),
            *meaning = moec_define(compiler, one->graph, 0, 0, tokens);
    if (!program || !meaning) fail_msg("%s", moec_reports(compiler));
    Loaded loaded = {0};
    load_program(moec_device_program(compiler, &program, 1), &loaded);
    check_pieces(&loaded.program->kernels, loaded.table);
    check_dump(compiler, one->graph, loaded.program->kernels.text);
    loaded.graph = &loaded.table->graphs[0];
    run_one(meaning, &loaded, one->model);
    if (program->rounded && !rounds_inside(program)) run_one(program, &loaded, one->model);
    unload_program(&loaded);
    moec_close(compiler);
}

static void test_models(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
}

static void test_rings(void **state) {
    (void)state;
    const long usual = position;
    position = 133;
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) run_case(&rings[i]);
    position = usual;
}

static void check_text(const char *model, const char *one, const char *other) {
    MoecCompiler *compiler = moec_open("tests/rows.moe", model, NULL, 0, NULL);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    Program *program = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    MoecDeviceProgram *device = moec_device_program(compiler, &program, 1);
    assert_non_null(strstr(device->kernels.text, one));
    assert_non_null(strstr(device->kernels.text, other));
    moec_device_program_free(device);
    moec_close(compiler);
}

/* A long row is read once for its maximum and its normalizer; its operands then need no memory. Few columns are cut into
 * slices. */
static void test_ways(void **state) {
    (void)state;
    check_text("rows", "moec_fade", "float masked = ");
    check_text("columns", "moec_slice_to", "MoecMax::join");
}

/* ---- random programs ---- */

enum { DEFAULT_PROGRAMS = 8 };

/* An exact program means the same as before the passes of the device. A rounded program with discontinuities is defined only by
 * its own interpretation. */
static void run_random(MoecCompiler *compiler, int first, bool rounded) {
    Arena *arena = arena_new();
    Program *programs[PROGRAMS], *meanings[PROGRAMS];
    random_programs(arena, first, true, programs);
    random_programs(arena, first, true, meanings);
    for (int i = 0; i < PROGRAMS; i++) {
        programs[i]->rounded = rounded;
        find_products(programs[i]);
    }
    Loaded loaded = {0};
    load_program(moec_device_program(compiler, programs, PROGRAMS), &loaded);
    check_pieces(&loaded.program->kernels, loaded.table);
    for (int i = 0; i < PROGRAMS; i++) {
        loaded.graph = &loaded.table->graphs[i];
        run_one(rounded ? programs[i] : meanings[i], &loaded,
                arena_format(arena, "random program %d%s", first + i, rounded ? ", rounded" : ""));
    }
    unload_program(&loaded);
    arena_free(arena);
}

/* MOEC_PROGRAMS programs, starting with number MOEC_SEED. */
static void test_random_programs(void **state) {
    (void)state;
    MoecCompiler *compiler = moec_open(cases[0].file, cases[0].model, NULL, 0, NULL);
    int first = number_from("MOEC_SEED", 0),
        end = first + number_from("MOEC_PROGRAMS", DEFAULT_PROGRAMS);
    for (; first < end; first += PROGRAMS) {
        run_random(compiler, first, false);
        run_random(compiler, first, true);
    }
    print_verdicts(&verdicts);
    moec_close(compiler);
}

/* With arguments: FILE MODEL GRAPH SET..., one case. */
/* FILE MODEL GRAPH [SET...] from the command line. */
static Case asked;

static void test_asked(void **state) {
    (void)state;
    run_case(&asked);
    if (wanted_variant && !in_variant) fail_msg("no kernel has a variant %s", wanted_variant);
    if (wanted_variant) printf("%d launches of %s\n", in_variant, wanted_variant);
}

static Case case_of(int count, char **names) {
    static const char *const graphs[] = {"forward", "train", "decode", NULL};
    Case one = {names[0], names[1], MOEC_FORWARD, {NULL}};
    while (graphs[one.graph] && strcmp(graphs[one.graph], names[2]) != 0) one.graph++;
    if (!graphs[one.graph]) {
        fprintf(stderr, "no graph '%s': forward, train or decode\n", names[2]);
        exit(2);
    }
    for (int i = 3; i < count && i < 11; i++) one.sets[i - 3] = names[i];
    return one;
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs),
                                       cmocka_unit_test(test_models), cmocka_unit_test(test_rings),
                                       cmocka_unit_test(test_ways)},
                            of_asked[] = {cmocka_unit_test(test_asked)};
    if (getenv("POSITION")) position = atol(getenv("POSITION"));
    wanted_variant = getenv("VARIANT");
    if (count > 3) {
        asked = case_of(count - 1, arguments + 1);
        return cmocka_run_group_tests(of_asked, open_driver, NULL);
    }
    if (getenv("MOEC_PROGRAMS"))
        return _cmocka_run_group_tests("programs", tests, 1, open_driver, NULL);
    return cmocka_run_group_tests(tests, open_driver, NULL);
}

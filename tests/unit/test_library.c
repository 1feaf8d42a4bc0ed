/* The library for other programs: gradients compared with differences, arrays of the caller, texts
 * of specs, messages, threads that share a model, forked processes, wrong arguments. */
#include "library/moec.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char spec[] =
    "use attention\n"
    "use mlp\n"
    "use train\n"
    "layer inside {\n"
    "  option train: layer = train { batch_size = 2, context_length = 5 }\n"
    "  option inner: layer = attention\n"
    "  axis d = 8\n"
    "  sequence s = train.context_length\n"
    "  input x[s, d]: float\n"
    "  input dy[s, d]: float\n"
    "  y[s, d] = x[s, d] + inner(x) + swiglu(x; hidden_dim = 6)\n"
    "  output y\n"
    "  loss = sum[batch, s, d] y[s, d] * dy[s, d]\n"
    "}\n"
    "model inside_one = inside { inner = { heads.q = 2, gate = { at = sdpa, act = sigmoid } } }\n";

static const MoecLoad inside = {.spec = spec,
                                .can = MOEC_CAN_RUN | MOEC_CAN_TRAIN,
                                .seed = 3,
                                .input_gradients = 1,
                                .cotangent = "dy"};

enum { COUNT = 2 * 5 * 8 };

static int find(MoecModel *model, MoecKind kind, const char *name, MoecArray *array) {
    for (int i = 0; i < moec_count(model, kind); i++) {
        assert_int_equal(moec_array(model, kind, i, array), 0);
        if (strcmp(array->name, name) == 0) return i;
    }
    fail_msg("no array '%s'", name);
    return -1;
}

static int size(const MoecArray *array) {
    int count = 1;
    for (int k = 0; k < array->rank; k++) count *= (int)array->shape[k];
    return count;
}

static float *copy_of(MoecModel *model, int gradient) {
    MoecArray array;
    moec_array(model, MOEC_GRADIENT, gradient, &array);
    size_t bytes = sizeof(float) * (size_t)size(&array);
    return memcpy(malloc(bytes), array.data, bytes);
}

/* sum of y * dy for an x, with y in memory of the test. */
static double value(MoecModel *model, float *x, const float *dy) {
    MoecArray array;
    float y[COUNT];
    double sum = 0;
    moec_bind(model, MOEC_RUN_INPUT, find(model, MOEC_RUN_INPUT, "x", &array), x);
    int index = find(model, MOEC_RUN_OUTPUT, "y", &array);
    assert_int_equal(moec_bind(model, MOEC_RUN_OUTPUT, index, y), 0);
    assert_int_equal(moec_run(model, 0), 0);
    moec_bind(model, MOEC_RUN_OUTPUT, index, NULL);
    for (int i = 0; i < COUNT; i++) sum += (double)y[i] * (double)dy[i];
    return sum;
}

/* The derivative along a direction, by differences. */
static double slope(MoecModel *model, float *x, const float *dy, float *at, const float *way,
                    int count) {
    const float small = 1e-2f;
    double sides[2];
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < count; i++) at[i] += (side ? -small : small) * way[i];
        sides[side] = value(model, x, dy);
        for (int i = 0; i < count; i++) at[i] -= (side ? -small : small) * way[i];
    }
    return (sides[0] - sides[1]) / (2 * (double)small);
}

static double along(const float *gradient, const float *way, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += (double)gradient[i] * (double)way[i];
    return sum;
}

static void fill(float *values, int count, unsigned seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static void test_gradients(void **state) {
    (void)state;
    MoecModel *model;
    MoecArray array;
    float x[COUNT], dy[COUNT], dx[COUNT], way[COUNT];
    if (moec_load(NULL, &inside, &model) != 0) fail_msg("%s", moec_message());
    fill(x, COUNT, 1);
    fill(dy, COUNT, 2);
    moec_bind(model, MOEC_TRAIN_INPUT, find(model, MOEC_TRAIN_INPUT, "x", &array), x);
    moec_bind(model, MOEC_TRAIN_INPUT, find(model, MOEC_TRAIN_INPUT, "dy", &array), dy);
    moec_bind(model, MOEC_TRAIN_OUTPUT, find(model, MOEC_TRAIN_OUTPUT, "gradient:x", &array), dx);
    assert_int_equal(array.rank, 3);
    assert_int_equal(moec_differentiate(model, 0), 0);

    fill(way, COUNT, 4);
    double found = slope(model, x, dy, x, way, COUNT), derived = along(dx, way, COUNT);
    assert_true(fabs(found - derived) < 2e-2 * (fabs(derived) + 1));
    for (int i = 0; i < moec_count(model, MOEC_WEIGHT); i++) {
        MoecArray gradient;
        moec_array(model, MOEC_WEIGHT, i, &array);
        moec_array(model, MOEC_GRADIENT, i, &gradient);
        int count = size(&array);
        float *direction = malloc(sizeof(float) * (size_t)count);
        fill(direction, count, (unsigned)i + 5);
        found = slope(model, x, dy, array.data, direction, count);
        derived = along(gradient.data, direction, count);
        if (!(fabs(found - derived) < 2e-2 * (fabs(derived) + 1)))
            fail_msg("%s: %g by differences, %g derived", array.name, found, derived);
        free(direction);
    }
    moec_free(model);
}

/* Two overlapping calls with different inputs, each on its own tape, have the results of separate calls. The initial content of
 * a tape does not matter. */
static void test_parts(void **state) {
    (void)state;
    MoecModel *model;
    MoecArray array;
    float x[2][COUNT], dy[COUNT], dx[COUNT], y[3][COUNT];
    float *gradients[2][32], whole[2][COUNT];
    void *tapes[2];
    if (moec_load(NULL, &inside, &model) != 0) fail_msg("%s", moec_message());
    int index_x = find(model, MOEC_TRAIN_INPUT, "x", &array);
    int index_y = find(model, MOEC_TRAIN_OUTPUT, "y", &array);
    int weights = moec_count(model, MOEC_WEIGHT);
    assert_true(weights > 0 && weights < 32);
    fill(dy, COUNT, 2);
    moec_bind(model, MOEC_TRAIN_INPUT, find(model, MOEC_TRAIN_INPUT, "dy", &array), dy);
    moec_bind(model, MOEC_TRAIN_OUTPUT, find(model, MOEC_TRAIN_OUTPUT, "gradient:x", &array), dx);
    for (int i = 0; i < 2; i++) {
        fill(x[i], COUNT, (unsigned)i + 1);
        moec_bind(model, MOEC_TRAIN_INPUT, index_x, x[i]);
        moec_bind(model, MOEC_TRAIN_OUTPUT, index_y, y[2]);
        assert_int_equal(moec_differentiate(model, 0), 0);
        memcpy(whole[i], dx, sizeof dx);
        for (int j = 0; j < weights; j++) gradients[i][j] = copy_of(model, j);
        double sum = value(model, x[i], dy), derived = along(y[2], dy, COUNT);
        assert_true(fabs(sum - derived) < 1e-4 * (fabs(sum) + 1));
    }
    for (int i = 0; i < 2; i++) {
        tapes[i] = aligned_alloc(64, moec_tape_bytes(model));
        memset(tapes[i], 0xff, moec_tape_bytes(model));
        moec_bind(model, MOEC_TRAIN_INPUT, index_x, x[i]);
        moec_bind(model, MOEC_TRAIN_OUTPUT, index_y, y[i]);
        assert_int_equal(moec_forward(model, 0, tapes[i]), 0);
    }
    assert_memory_equal(y[1], y[2], sizeof y[1]);
    for (int i = 0; i < 2; i++) {
        moec_bind(model, MOEC_TRAIN_INPUT, index_x, x[i]);
        moec_bind(model, MOEC_TRAIN_OUTPUT, index_y, y[i]);
        assert_int_equal(moec_backward(model, 0, tapes[i]), 0);
        assert_memory_equal(dx, whole[i], sizeof dx);
        for (int j = 0; j < weights; j++) {
            moec_array(model, MOEC_GRADIENT, j, &array);
            assert_memory_equal(array.data, gradients[i][j], sizeof(float) * (size_t)size(&array));
            free(gradients[i][j]);
        }
        free(tapes[i]);
    }
    moec_free(model);
}

/* A few experts receive most of the tokens: the loads of a micro-batch differ from those of the step. */
static const char balanced[] =
    "use decoder\n"
    "model balanced = decoder {\n"
    "  vocab_size = 32, dim = 16, layers = 2, attention.heads.q = 2\n"
    "  ffn = moe { experts = 8, top_k = 1, expert = swiglu { hidden_dim = 8 }, aux_loss_coef = 1 }\n"
    "  train = { batch_size = 8, context_length = 6, lr = 1e-2 }\n"
    "}\n";

enum { WINDOWS = 8, WINDOW = 7 };

/* The loss after some steps on the same sequences; the first step has the gradients of one micro-batch. */
static double trained(const char *const *sets, int count, double *norm) {
    const MoecLoad load = {
        .spec = balanced, .sets = sets, .set_count = count, .can = MOEC_CAN_TRAIN, .seed = 3};
    MoecModel *model;
    MoecArray array;
    int32_t windows[WINDOWS * WINDOW];
    double loss = NAN;
    if (moec_load(NULL, &load, &model) != 0) fail_msg("%s", moec_message());
    for (int i = 0; i < WINDOWS * WINDOW; i++) windows[i] = i * i % 31;
    assert_int_equal(moec_gradients(model, windows, NULL), 0);
    find(model, MOEC_GRADIENT, "block.0.ffn.router", &array);
    *norm = sqrt(along(array.data, array.data, (int)(array.shape[0] * array.shape[1])));
    for (int step = 0; step < 6; step++) assert_int_equal(moec_step(model, windows, &loss), 0);
    moec_free(model);
    return loss;
}

/* A mean over a step is known before the step, for every caller. */
static void test_step_mean(void **state) {
    (void)state;
    const char *const sets[] = {"ffn.aux_loss_scope=global_batch", "train.batch_size=2", "train.gradient_accumulation_steps=4"};
    double norm, same, other;
    double whole = trained(NULL, 0, &norm), alike = trained(sets, 1, &same);
    double parts = trained(sets, 3, &other), apart = trained(sets + 1, 2, &other);
    assert_true(fabs(norm - same) < 1e-5 * norm);
    assert_true(fabs(whole - alike) < 1e-5);
    assert_true(fabs(whole - parts) < 1e-5);
    assert_true(fabs(whole - apart) > 1e-4);
}

static void test_messages(void **state) {
    (void)state;
    MoecModel *model;
    MoecArray array;
    double loss;
    const int32_t tokens[64] = {0};
    const float *logits;
    assert_int_equal(moec_load("/nowhere/at/all.moe", NULL, &model), 1);
    assert_null(model);
    assert_non_null(strstr(moec_message(), "/nowhere/at/all.moe"));
    assert_int_equal(moec_load(NULL, &(MoecLoad){.spec = "model m = nothing {}"}, &model), 1);
    assert_non_null(strstr(moec_message(), "spec:1:11"));
    assert_int_equal(moec_load(NULL, NULL, &model), 1);

    char *late = strdup(spec), *inner = strstr(late, "+ inner(x)");
    memcpy(inner, "* dy[s, d]", 10);
    MoecLoad split = {.spec = late, .can = MOEC_CAN_TRAIN, .cotangent = "dy"};
    assert_int_equal(moec_load(NULL, &split, &model), 1);
    assert_non_null(strstr(moec_message(), "output 'y' depends on input 'dy'"));
    split = (MoecLoad){.spec = spec, .can = MOEC_CAN_TRAIN, .cotangent = "dz"};
    assert_int_equal(moec_load(NULL, &split, &model), 1);
    assert_non_null(strstr(moec_message(), "training has no input 'dz'"));
    free(late);

    const MoecLoad load = {.spec = spec, .can = MOEC_CAN_RUN};
    assert_int_equal(moec_load(NULL, &load, &model), 0);
    assert_string_equal(moec_message(), "");
    assert_int_equal(moec_loss(model, tokens, &loss), 1);
    assert_non_null(strstr(moec_message(), "'x' is not a token"));
    assert_int_equal(moec_logits(model, tokens, &logits), 1);
    assert_int_equal(moec_step(model, tokens, &loss), 1);
    assert_non_null(strstr(moec_message(), "MOEC_CAN_TRAIN"));
    assert_int_equal(moec_array(model, MOEC_WEIGHT, 999, &array), 1);
    assert_int_equal(moec_array(model, MOEC_TRAIN_INPUT, 0, &array), 1);
    assert_int_equal(moec_bind(model, MOEC_WEIGHT, 0, NULL), 1);
    assert_int_equal(moec_forward(model, 0, NULL), 1);
    assert_non_null(strstr(moec_message(), "without a cotangent"));
    moec_free(model);
    moec_free(NULL);
}

/* ---- threads and processes ---- */

static const char shared[] = "use decoder\n"
                             "model shared = decoder {\n"
                             "  vocab_size = 256, dim = 16, layers = 1, attention.heads.q = 2\n"
                             "  train = { batch_size = 2, context_length = 16, lr = 1e-2, gradient_accumulation_steps = 2 }\n"
                             "}\n";

enum { THREADS = 4, CALLS = 25, SAMPLE = 2 * 17, MOST = 2 * 16 * 256 };

static MoecModel *open_shared(int can) {
    MoecModel *model;
    if (moec_load(NULL, &(MoecLoad){.spec = shared, .can = can, .seed = 3}, &model) != 0)
        fail_msg("%s", moec_message());
    return model;
}

typedef struct Caller {
    MoecModel *model; /* NULL: the thread loads its own model */
    int wrong;
    double loss;
    char *text;
} Caller;

static void fill_tokens(int32_t *tokens, int count) {
    for (int i = 0; i < count; i++) tokens[i] = i * i % 251;
}

/* Losses and texts do not depend on the other threads; a message belongs to its own thread. */
static void *call_often(void *data) {
    Caller *caller = data;
    MoecModel *model = caller->model;
    int32_t tokens[SAMPLE];
    fill_tokens(tokens, SAMPLE);
    if (!model && moec_load(NULL,
                            &(MoecLoad){.spec = shared,
                                        .can = MOEC_CAN_RUN | MOEC_CAN_GENERATE | MOEC_CAN_TRAIN,
                                        .seed = 3},
                            &model) != 0) {
        caller->wrong = 1000;
        return NULL;
    }
    for (int i = 0; i < CALLS; i++) {
        const float *logits;
        double value = 0, other = 0;
        char *text = NULL;
        int32_t bad = 256;
        caller->wrong += moec_logits(model, tokens, &logits) != 0;
        caller->wrong += moec_loss(model, tokens, &value) != 0 || value != caller->loss;
        caller->wrong +=
            moec_gradients(model, tokens, &other) != 0 || fabs(other - caller->loss) > 1e-6;
        caller->wrong += moec_generate(model, "ab", &(MoecGeneration){.tokens = 6}, &text) != 0 ||
                         strcmp(text, caller->text) != 0;
        moec_release(text);
        caller->wrong += moec_decode(model, &bad, 1, &text, NULL) != 1 ||
                         !strstr(moec_message(), "token 0 is 256");
        caller->wrong += moec_decode(model, tokens, 3, &text, NULL) != 0 || *moec_message();
        moec_release(text);
    }
    if (!caller->model) moec_free(model);
    return NULL;
}

static Caller expected(MoecModel *model) {
    Caller caller = {.model = model};
    int32_t tokens[SAMPLE];
    fill_tokens(tokens, SAMPLE);
    assert_int_equal(moec_loss(model, tokens, &caller.loss), 0);
    assert_int_equal(moec_generate(model, "ab", &(MoecGeneration){.tokens = 6}, &caller.text), 0);
    return caller;
}

static void test_threads(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN | MOEC_CAN_TRAIN | MOEC_CAN_GENERATE);
    const Caller caller = expected(model);
    for (int own = 0; own < 2; own++) {
        Caller callers[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            callers[i] = caller;
            if (own) callers[i].model = NULL;
            assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(callers[i].wrong, 0);
        }
    }
    moec_release(caller.text);
    moec_free(model);
}

/* The exit code of a child that runs the function, or -1 if it hangs, which a signal ends. */
static int in_child(int (*run)(MoecModel *model, const Caller *caller), MoecModel *model,
                    const Caller *caller) {
    pid_t child = fork();
    if (child == 0) {
        alarm(200);
        _exit(run(model, caller));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int use_inherited(MoecModel *model, const Caller *caller) {
    int32_t tokens[2 * SAMPLE];
    double value, before;
    char *text;
    fill_tokens(tokens, 2 * SAMPLE);
    if (moec_loss(model, tokens, &value) != 0 || value != caller->loss) return 1;
    if (moec_generate(model, "ab", &(MoecGeneration){.tokens = 6}, &text) != 0) return 2;
    if (strcmp(text, caller->text) != 0) return 3;
    if (moec_step(model, tokens, &before) != 0 || moec_step(model, tokens, &value) != 0) return 4;
    if (!(value < before)) return 5;
    MoecModel *other;
    if (moec_load(NULL, &(MoecLoad){.spec = shared, .seed = 3}, &other) != 0) return 6;
    if (moec_loss(other, tokens, &value) != 0 || value != caller->loss) return 7;
    int32_t bad = -1;
    if (moec_decode(other, &bad, 1, &text, NULL) != 1) return 8;
    if (!strstr(moec_message(), "token 0 is -1")) return 9;
    moec_free(other);
    moec_free(model);
    return 0;
}

static int use_grandchild(MoecModel *model, const Caller *caller) {
    double value;
    int32_t tokens[SAMPLE];
    fill_tokens(tokens, SAMPLE);
    if (moec_loss(model, tokens, &value) != 0) return 20;
    return in_child(use_inherited, model, caller);
}

static void test_fork(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN | MOEC_CAN_TRAIN | MOEC_CAN_GENERATE);
    const Caller caller = expected(model);
    double value;
    int32_t tokens[SAMPLE];
    fill_tokens(tokens, SAMPLE);
    assert_int_equal(in_child(use_inherited, model, &caller), 0);
    assert_int_equal(in_child(use_grandchild, model, &caller), 0);
    assert_int_equal(moec_loss(model, tokens, &value), 0); /* not changed by a child */
    assert_true(value == caller.loss);
    moec_release(caller.text);
    moec_free(model);
}

/* A callback that waits until the process has been forked during the call. */
static atomic_int in_call, forked;

static int wait_for_fork(void *context, const char *bytes, size_t length) {
    (void)context, (void)bytes, (void)length;
    atomic_store(&in_call, 1);
    while (!atomic_load(&forked)) usleep(1000);
    return 1;
}

static void *generate_long(void *model) {
    char *text;
    const MoecGeneration how = {.tokens = 6, .on_text = wait_for_fork};
    if (moec_generate(model, "ab", &how, &text) != 0) return "failed";
    moec_release(text);
    return NULL;
}

static int use_broken(MoecModel *model, const Caller *caller) {
    double value;
    int32_t tokens[SAMPLE];
    (void)caller;
    fill_tokens(tokens, SAMPLE);
    if (moec_loss(model, tokens, &value) != 1) return 1;
    if (!strstr(moec_message(), "forked while another thread used this model")) return 2;
    moec_free(model);
    return 0;
}

static void test_fork_during_call(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN | MOEC_CAN_GENERATE);
    const Caller caller = expected(model);
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, generate_long, model), 0);
    while (!atomic_load(&in_call)) usleep(1000);
    assert_int_equal(in_child(use_broken, model, &caller), 0);
    atomic_store(&forked, 1);
    pthread_join(thread, &result);
    assert_null(result);
    moec_release(caller.text);
    moec_free(model);
}

/* ---- callbacks ---- */

typedef struct Pieces {
    MoecModel *model;
    char text[64];
    size_t length;
    int calls, limit, refused;
} Pieces;

static int add_piece(void *context, const char *bytes, size_t length) {
    Pieces *pieces = context;
    double value;
    int32_t tokens[SAMPLE] = {0};
    memcpy(pieces->text + pieces->length, bytes, length);
    pieces->length += length;
    pieces->refused +=
        moec_loss(pieces->model, tokens, &value) == 1 && strstr(moec_message(), "on_text") != NULL;
    return ++pieces->calls == pieces->limit;
}

static void test_on_text(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN | MOEC_CAN_GENERATE);
    Pieces pieces = {.model = model};
    MoecGeneration how = {.tokens = 8, .on_text = add_piece, .context = &pieces};
    char *text;
    assert_int_equal(moec_generate(model, "abc", &how, &text), 0);
    assert_string_equal(moec_message(), "");
    assert_true(pieces.calls >= 10 && pieces.refused == pieces.calls);
    assert_memory_equal(text, pieces.text, pieces.length);
    moec_release(text);
    pieces = (Pieces){.model = model, .limit = 5};
    assert_int_equal(moec_generate(model, "abc", &how, &text), 0);
    assert_int_equal(pieces.calls, 5);
    assert_true(pieces.length < 8);
    moec_release(text);
    moec_free(model);
}

/* ---- wrong arguments ---- */

#define REFUSED(call, words)                                                                       \
    do {                                                                                           \
        assert_int_equal(call, 1);                                                                 \
        if (!strstr(moec_message(), words)) fail_msg("%s: %s", #call, moec_message());             \
    } while (0)

static void test_wrong_loads(void **state) {
    (void)state;
    MoecModel *model;
    const char *const sets[] = {"train.batch_size = 3", NULL};
    REFUSED(moec_load("x", NULL, NULL), "'model' is NULL");
    REFUSED(moec_load("x", &(MoecLoad){.spec = shared}, &model), "got both");
    REFUSED(moec_load(NULL, NULL, &model), "got neither");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .can = 64}, &model), "can is 64");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .batch = -1}, &model), "batch is -1");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .batch = 1L << 40}, &model), "batch is");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .batch = INT32_MAX}, &model), "elements");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .context = -5}, &model), "context is -5");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .set_count = -1}, &model), "set_count");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .set_count = 1}, &model), "'sets' is NULL");
    REFUSED(moec_load(NULL, &(MoecLoad){.spec = shared, .sets = sets, .set_count = 2}, &model),
            "sets[1] is NULL");
    REFUSED(
        moec_load(NULL, &(MoecLoad){.spec = spec, .can = MOEC_CAN_RUN, .cotangent = "dy"}, &model),
        "MOEC_CAN_TRAIN");
    assert_null(model);
}

static void test_wrong_generation(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_GENERATE);
    const struct {
        MoecGeneration how;
        const char *words;
    } cases[] = {{{.tokens = -1}, "tokens is -1"},
                 {{.temperature = NAN}, "temperature is"},
                 {{.temperature = -1}, "temperature is"},
                 {{.temperature = INFINITY}, "temperature"},
                 {{.top_k = -1}, "top_k is -1"},
                 {{.top_p = 1.5}, "top_p is 1.5"},
                 {{.top_p = NAN}, "top_p is"},
                 {{.min_p = -0.1}, "min_p is"},
                 {{.repetition = NAN}, "repetition is"},
                 {{.tokens = INT64_MAX}, "requested"}};
    char *text;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        REFUSED(moec_generate(model, "ab", &cases[i].how, &text), cases[i].words);
    REFUSED(moec_generate(model, NULL, NULL, &text), "'prompt' is NULL");
    REFUSED(moec_generate(model, "", NULL, &text), "prompt is empty");
    REFUSED(moec_generate(model, "ab", NULL, NULL), "'text' is NULL");
    REFUSED(moec_generate(NULL, "ab", NULL, &text), "'model' is NULL");
    moec_free(model);
}

static void test_wrong_calls(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN | MOEC_CAN_TRAIN);
    MoecArray array;
    const float *logits;
    double value;
    int32_t tokens[2 * SAMPLE] = {0}, *list;
    char bytes[64] = {0}, *text;
    size_t count;
    assert_int_equal(moec_accumulation(model), 2);
    assert_int_equal(moec_accumulation(NULL) + moec_batch(NULL) + moec_context(NULL), 0);
    assert_int_equal(moec_vocabulary(NULL) + moec_count(NULL, MOEC_WEIGHT), 0);
    assert_int_equal(moec_count(model, (MoecKind)77), 0);
    assert_int_equal(moec_tape_bytes(NULL), 0);
    REFUSED(moec_logits(NULL, tokens, &logits), "'model' is NULL");
    REFUSED(moec_logits(model, NULL, &logits), "'tokens' is NULL");
    REFUSED(moec_logits(model, tokens, NULL), "'logits' is NULL");
    REFUSED(moec_step(model, NULL, &value), "'tokens' is NULL");
    tokens[2 * SAMPLE - 1] = 256;
    REFUSED(moec_step(model, tokens, &value), "token 67 is 256: expected 0 to 255");
    REFUSED(moec_array(model, MOEC_WEIGHT, 0, NULL), "'array' is NULL");
    REFUSED(moec_array(model, (MoecKind)77, 0, &array), "no array 0 of kind 77");
    REFUSED(moec_array(model, MOEC_WEIGHT, -1, &array), "no array -1");
    REFUSED(moec_bind(model, MOEC_RUN_INPUT, 0, bytes + 1), "aligned");
    REFUSED(moec_forward(model, 0, bytes), "without a cotangent");
    REFUSED(moec_encode(model, NULL, 3, &list, &count), "'text' is NULL");
    REFUSED(moec_encode(NULL, "a", 1, &list, &count), "'model' is NULL");
    REFUSED(moec_decode(model, NULL, 3, &text, NULL), "'tokens' is NULL");
    REFUSED(moec_save(model, NULL), "'path' is NULL");
    assert_int_equal(moec_encode(model, NULL, 0, &list, &count), 0);
    moec_release(list);
    const int32_t zeros[] = {'a', 0, 'b'};
    assert_int_equal(moec_decode(model, zeros, 3, &text, &count), 0);
    assert_int_equal(count, 3);
    assert_memory_equal(text, "a\0b", 4);
    moec_release(text);
    moec_release(NULL);
    moec_free(model);
    if (moec_load(NULL, &inside, &model) != 0) fail_msg("%s", moec_message());
    REFUSED(moec_forward(model, 0, NULL), "'tape' is NULL");
    REFUSED(moec_backward(model, 0, bytes + 1), "aligned to 64");
    moec_free(model);
}

/* Tokens reach the model, also after its input was bound to other memory. */
static void test_bound_tokens(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN);
    int32_t zeros[2 * 16] = {0}, tokens[2 * 16];
    const float *logits;
    float *first = malloc(sizeof(float) * MOST);
    fill_tokens(tokens, 2 * 16);
    assert_int_equal(moec_logits(model, tokens, &logits), 0);
    memcpy(first, logits, sizeof(float) * MOST);
    assert_int_equal(moec_bind(model, MOEC_RUN_INPUT, 0, zeros), 0);
    assert_int_equal(moec_logits(model, tokens, &logits), 0);
    assert_memory_equal(logits, first, sizeof(float) * MOST);
    free(first);
    moec_free(model);
}

/* Specs and programs have decimal points in a locale with decimal commas. */
static void test_locale(void **state) {
    (void)state;
    MoecModel *model = open_shared(MOEC_CAN_RUN | MOEC_CAN_GENERATE);
    Caller caller = expected(model);
    moec_free(model);
    char folder[] = "/tmp/moec_locale_XXXXXX", command[256];
    if (!mkdtemp(folder)) fail();
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE 2>/dev/null", folder);
    int made = system(command);
    setenv("LOCPATH", folder, 1);
    if (made == 0 && setlocale(LC_ALL, "de_DE")) {
        assert_string_equal(localeconv()->decimal_point, ",");
        model = open_shared(MOEC_CAN_RUN | MOEC_CAN_GENERATE);
        Caller other = expected(model);
        assert_true(caller.loss == other.loss);
        assert_string_equal(localeconv()->decimal_point, ",");
        moec_release(other.text);
        moec_free(model);
        setlocale(LC_ALL, "C");
    } else {
        puts("no locale with decimal commas");
    }
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    moec_release(caller.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_step_mean),        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_during_call), cmocka_unit_test(test_on_text),
        cmocka_unit_test(test_wrong_loads),      cmocka_unit_test(test_wrong_generation),
        cmocka_unit_test(test_wrong_calls),      cmocka_unit_test(test_bound_tokens),
        cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

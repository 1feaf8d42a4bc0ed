/* Random models: what a compiled model computes against its meaning in double precision.
 *
 * A seed gives a spec: sizes that divide nothing evenly, uneven heads, gates, routes inside routes, and a layer of random
 * equations. Forward, backward and step-by-step decoding of the compiled program are compared with the interpreter.
 *
 *     test_models                         300 models from seed 1
 *     MOEC_MODELS=20000 MOEC_SEED=7 ...   that many, from that seed
 *     MOEC_SHOW=1 MOEC_MODELS=1 ...       prints the spec as well
 */
#include "../../runtime/call.h"
#include "../../runtime/decoder.h"
#include "../../runtime/memory.h"
#include "../../runtime/model.h"
#include "../../compiler/moec.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_MODELS = 300, BATCH = 2, SPEC_BYTES = 16384, WORKERS_MOST = 16 };

/* Equations drawn at random amplify rounding: five times the limits that the models of models/ are held to. */
static const double logits_limit = 5e-5, gradient_limit = 5e-4, tiny = 1e-12;

typedef struct Random {
    uint64_t state;
} Random;

static uint64_t draw(Random *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static long between(Random *random, long low, long high) {
    return low + (long)(draw(random) % (uint64_t)(high - low + 1));
}

static int chance(Random *random, long percent) { return between(random, 1, 100) <= percent; }

#define PICK(random, ...)                                                                                              \
    ((const char *const[]){__VA_ARGS__})[draw(random) % (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))]

/* ---- a spec ---- */

typedef struct Spec {
    char text[SPEC_BYTES];
    size_t length;
    Random random;
    int causal; /* may be decoded */
    long context, vocabulary;
} Spec;

static void add(Spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(Spec *spec, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(spec->text + spec->length, SPEC_BYTES - spec->length, format, arguments);
    va_end(arguments);
    spec->length += (size_t)written;
}

/* t<i>[s,f] from earlier ones. */
static void add_equation(Spec *spec, long i) {
    Random *random = &spec->random;
    long a = between(random, 0, i - 1), b = between(random, 0, i - 1);
    add(spec, "  t%ld[s,f] = ", i);
    switch (between(random, 0, 14)) {
    case 0: add(spec, "tanh(t%ld[s,f]) + t%ld[s,f]\n", a, b); break;
    case 1: add(spec, "sigmoid(t%ld[s,f]) * t%ld[s,f]\n", a, b); break;
    case 2: add(spec, "t%ld[s,f] * c[f] - t%ld[s,f]\n", a, b); break;
    case 3: add(spec, "where(t%ld[s,f] > 0.1, t%ld[s,f], 0.5 * t%ld[s,f])\n", a, a, b); break;
    case 4: add(spec, "softmax[f](t%ld[s,f]) * t%ld[s,f]\n", a, b); break;
    case 5: add(spec, "t%ld[s,f] * rsqrt((mean[f] t%ld[s,f] * t%ld[s,f]) + 0.01)\n", a, b, b); break;
    case 6: add(spec, "t%ld[s - %ld,f] + 0.5 * t%ld[s,f]\n", a, between(random, 1, 3), b); break;
    case 7: add(spec, "(max[f] t%ld[s,f]) * t%ld[s,f]\n", a, b); break;
    case 8: add(spec, "t%ld[s,f] - (logsumexp[f] t%ld[s,f])\n", a, b); break;
    case 9: add(spec, "exp(0 - t%ld[s,f] ^ 2) + t%ld[s,f]\n", a, b); break;
    case 10: add(spec, "sum[r] (sum[f] t%ld[s,f] * w[f,r]) * u[r,f] + t%ld[s,f]\n", a, b); break;
    case 11: add(spec, "sin(t%ld[s,f]) * (1 + abs(t%ld[s,f]))\n", a, b); break;
    case 12: add(spec, "(sum[f in near%ld] t%ld[s,f] * t%ld[s,f]) + t%ld[s,f]\n", i, a, b, b); break;
    case 13: add(spec, "t%ld[s,(f + 3) %% size(f)] + silu(t%ld[s,f])\n", a, b); break;
    default: add(spec, "gelu(t%ld[s,f]) + t%ld[s,f] * (s + 1) / 16\n", a, b); break;
    }
}

static void add_layer(Spec *spec) {
    Random *random = &spec->random;
    long count = between(random, 2, 6);
    add(spec, "layer made(x[s,d]) -> y[s,d] {\n  option size: int = 5\n  axis f = size\n  axis r = %ld\n",
        between(random, 1, 4));
    add(spec, "  param a[d,f], b[f,d], c[f] ~ normal(1)\n  param w[f,r], u[r,f]\n  t0[s,f] = sum[d] x[s,d] * a[d,f]\n");
    for (long i = 1; i <= count; i++) {
        size_t before = spec->length;
        add_equation(spec, i);
        char *relation = strstr(spec->text + before, "in near");
        if (!relation)
            continue;
        char kept[512];
        snprintf(kept, sizeof kept, "%s", spec->text + before);
        spec->length = before;
        add(spec, "  near%ld[s,f] = top[f](t%ld[s,f], 2)\n%s", i, between(random, 0, i - 1), kept);
    }
    add(spec, "  y[s,d] = sum[f] t%ld[s,f] * b[f,d]\n}\n\n", count);
}

static void add_gate(Spec *spec) {
    Random *random = &spec->random;
    const char *at = PICK(random, "sdpa", "v", "k", "q", "out");
    const char *per = strcmp(at, "out") ? PICK(random, "element", "head", "shared") : "element";
    add(spec, "{ at = %s, per = %s, act = %s, mode = %s }", at, per, PICK(random, "sigmoid", "silu", "ns_sigmoid", "identity"),
        PICK(random, "multiply", "add"));
}

static void add_attention(Spec *spec) {
    Random *random = &spec->random;
    static const long heads[][3] = {{1, 1, 1}, {2, 1, 2}, {3, 3, 1}, {4, 2, 4}, {4, 1, 2}, {6, 2, 3}, {6, 3, 1}};
    const long *h = heads[draw(random) % 7];
    add(spec, "  attention = {\n    heads = { q = %ld, k = %ld, v = %ld }\n    head_dim = %ld\n    value_dim = %ld\n", h[0],
        h[1], h[2], 2 * between(random, 1, 4), between(random, 1, 7));
    long gates = between(random, 0, 2);
    if (gates) {
        add(spec, "    gate = [");
        for (long i = 0; i < gates; i++) {
            if (i)
                add(spec, ", ");
            add_gate(spec);
        }
        add(spec, "]\n");
    }
    if (chance(random, 30))
        add(spec, "    qk_norm = true\n");
    if (chance(random, 20))
        add(spec, "    out_norm = true\n");
    if (chance(random, 25))
        add(spec, "    rotary = %s\n", chance(random, 50) ? "none" : "{ dim = 2 }");
    if (chance(random, 20))
        add(spec, "    mask = window\n    window = %ld\n", between(random, 1, 6));
    if (chance(random, 20))
        add(spec, "    cap = 3\n");
    if (chance(random, 20))
        add(spec, "    sink = true\n");
    if (chance(random, 20))
        add(spec, "    bias = true\n");
    add(spec, "  }\n");
}

static void add_block(Spec *spec, int depth) {
    Random *random = &spec->random;
    switch (between(random, 0, depth ? 3 : 5)) {
    case 0: add(spec, "swiglu { hidden = %ld }", between(random, 3, 17)); break;
    case 1: add(spec, "mlp { hidden = %ld, bias = %s }", between(random, 3, 17), PICK(random, "true", "false")); break;
    case 2: add(spec, "made { size = %ld }", between(random, 3, 9)); break;
    case 3:
        add(spec, "lore_mlp { hidden = %ld, lores = 4, top = %ld, rank = %ld }", between(random, 3, 11), between(random, 1, 2),
            between(random, 1, 3));
        break;
    default: {
        long experts = between(random, 2, 6);
        add(spec, "moe {\n    experts = %ld\n    top = %ld\n    score = %s\n    weights = %s\n", experts,
            between(random, 1, experts < 3 ? experts : 3), PICK(random, "softmax", "sigmoid"),
            PICK(random, "raw", "renormalised"));
        if (chance(random, 40))
            add(spec, "    balance = 0.01\n");
        if (chance(random, 40))
            add(spec, "    z = 0.001\n");
        if (chance(random, 30))
            add(spec, "    shared = swiglu { hidden = 5 }\n");
        if (chance(random, 15)) {
            add(spec, "    choice = expert\n");
            spec->causal = 0;
        }
        add(spec, "    expert = ");
        add_block(spec, depth + 1);
        add(spec, "\n  }");
    }
    }
}

static void make_spec(Spec *spec, uint64_t seed) {
    *spec = (Spec){.random = {seed * 0x2545F4914F6CDD1Du}, .causal = 1};
    Random *random = &spec->random;
    draw(random);
    spec->context = between(random, 4, 13);
    spec->vocabulary = between(random, 11, 30);
    add(spec, "use decoder\n\n");
    add_layer(spec);
    add(spec, "model random = decoder {\n  vocab = %ld\n  dim = %ld\n  layers = %ld\n", spec->vocabulary,
        between(random, 3, 14), between(random, 1, 4));
    add_attention(spec);
    add(spec, "  ffn = ");
    add_block(spec, 0);
    add(spec, "\n  norm = %s\n  sandwich = %s\n  tied = %s\n  cap = %s\n", PICK(random, "rms_norm", "layer_norm"),
        PICK(random, "false", "true"), PICK(random, "false", "true"), PICK(random, "0", "0", "5"));
    add(spec, "  train = { batch = %d, context = %ld, remat = %s }\n}\n", BATCH, spec->context,
        PICK(random, "none", "layer"));
}

/* ---- one model ---- */

typedef struct Trial {
    const Spec *spec;
    MoecCompiler *compiler;
    Model *model;
    int32_t *windows;
    char problem[256];
    double worst;
} Trial;

static int fail(Trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(Trial *trial, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trial->problem, sizeof trial->problem, format, arguments);
    va_end(arguments);
    return 0;
}

static int compare(Trial *trial, const char *name, const double *expected, const float *actual, size_t count,
                   double scale, double limit) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        double step = (double)actual[i] - expected[i];
        difference += step * step;
        norm += expected[i] * expected[i];
    }
    double error = sqrt(difference) / (sqrt(norm) > scale ? sqrt(norm) : scale);
    if (!(error <= limit))
        return fail(trial, "%s is off by %.2e (norm %.3e)", name, error, sqrt(norm));
    if (error / limit > trial->worst)
        trial->worst = error / limit;
    return 1;
}

static void set_all(MoecEval *eval, const PublicTensor *tensors, int count, const float *block) {
    for (int i = 0; i < count; i++) {
        double *wide = memory_new(sizeof *wide * (tensors[i].count + 1));
        for (size_t j = 0; j < tensors[i].count; j++)
            wide[j] = (double)block[tensors[i].offset / sizeof(float) + j];
        moec_eval_set(eval, tensors[i].name, wide, tensors[i].count);
        free(wide);
    }
}

static MoecEval *define(Trial *trial, MoecGraph graph) {
    MoecProgram *program = moec_compile(trial->compiler, graph, BATCH, trial->spec->context, 0);
    MoecEval *eval = program ? moec_eval_new(trial->compiler, program) : NULL;
    if (!eval)
        return NULL;
    set_all(eval, trial->model->parameters, trial->model->parameter_count, trial->model->weights);
    set_all(eval, trial->model->states, trial->model->state_count, trial->model->layer_states);
    size_t context = (size_t)trial->spec->context, count = BATCH * context;
    double *tokens = memory_new(sizeof *tokens * count), *targets = memory_new(sizeof *targets * count), one = 1;
    for (size_t i = 0; i < count; i++) {
        size_t place = i / context * (context + 1) + i % context;
        tokens[i] = trial->windows[place];
        targets[i] = trial->windows[place + 1];
    }
    moec_eval_set(eval, "tokens", tokens, count);
    moec_eval_set(eval, "targets", targets, count);
    moec_eval_set(eval, "loss_scale", &one, 1);
    const char *problem = moec_eval_run(eval, 0, true);
    if (problem)
        fail(trial, "%s", problem);
    free(tokens);
    free(targets);
    return eval;
}

static const MoecGraphEntry *graph_of(const Trial *trial, MoecGraphKind kind) { return model_graph(trial->model, kind); }

static int check_forward(Trial *trial, double *logits, size_t count) {
    Call *call = call_open(trial->model, graph_of(trial, MOEC_GRAPH_FORWARD), NULL);
    call_set_windows(call, trial->windows);
    call_run(call, 0, true);
    int good = compare(trial, "logits", logits, call->outputs[call_output(call, "logits")], count, tiny, logits_limit);
    call_close(call);
    return good;
}

/* Norms of single gradients can be next to nothing beside the others: errors are held against a share of the largest. */
static double gradient_scale(MoecEval *eval, const Model *model) {
    double largest = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        double *values = memory_new(sizeof *values * model->parameters[i].count), norm = 0;
        char *name = memory_format("gradient:%s", model->parameters[i].name);
        if (moec_eval_get(eval, name, values, model->parameters[i].count))
            for (size_t j = 0; j < model->parameters[i].count; j++)
                norm += values[j] * values[j];
        largest = norm > largest ? norm : largest;
        free(values);
        free(name);
    }
    return 1e-3 * sqrt(largest);
}

static int check_gradients(Trial *trial) {
    MoecEval *eval = define(trial, MOEC_TRAIN);
    if (!eval)
        return fail(trial, "no training program: %s", moec_reports(trial->compiler));
    Model *model = trial->model;
    Call *call = call_open(model, graph_of(trial, MOEC_GRAPH_TRAIN), NULL);
    call_set_windows(call, trial->windows);
    call_set_scalar(call, "loss_scale", 1);
    call_run(call, 0, true);
    double scale = gradient_scale(eval, model);
    int good = 1;
    for (int i = 0; i < model->parameter_count && good; i++) {
        const PublicTensor *one = &model->parameters[i];
        double *values = memory_new(sizeof *values * one->count);
        char *name = memory_format("gradient:%s", one->name);
        if (moec_eval_get(eval, name, values, one->count))
            good = compare(trial, name, values, model->gradients + one->offset / sizeof(float), one->count, scale,
                           gradient_limit);
        free(values);
        free(name);
    }
    call_close(call);
    moec_eval_free(eval);
    return good;
}

/* The first sequence of the batch, token by token. */
static int check_decoding(Trial *trial, const double *logits) {
    Decoder *decoder = decoder_open(trial->compiler, 0, trial->spec->context);
    if (!decoder)
        return fail(trial, "no decoder: %s", moec_reports(trial->compiler));
    memcpy(decoder->model->weights, trial->model->weights, trial->model->table->weight_bytes);
    if (trial->model->table->state_bytes)
        memcpy(decoder->model->layer_states, trial->model->layer_states, trial->model->table->state_bytes);
    size_t wide = (size_t)trial->spec->vocabulary;
    int good = 1;
    for (long i = 0; i < trial->spec->context && good; i++) {
        const float *step = decoder_feed(decoder, &trial->windows[i], 1);
        good = compare(trial, "decoded logits", logits + (size_t)i * wide, step, wide, tiny, 2 * logits_limit);
    }
    decoder_close(decoder);
    return good;
}

static int check_model(Trial *trial) {
    const Wish wishes[] = {{.graph = MOEC_FORWARD}, {.graph = MOEC_TRAIN}};
    trial->model = model_open(trial->compiler, wishes, 2, true);
    if (!trial->model)
        return fail(trial, "it does not compile: %s", moec_reports(trial->compiler));
    model_initialise(trial->model, 1 + trial->spec->random.state);
    size_t count = (size_t)(BATCH * trial->spec->context * trial->spec->vocabulary);
    double *logits = memory_new(sizeof *logits * count);
    MoecEval *eval = define(trial, MOEC_FORWARD);
    int good = eval && moec_eval_get(eval, "logits", logits, count);
    if (!good)
        fail(trial, "the interpreter gives no logits");
    moec_eval_free(eval);
    good = good && check_forward(trial, logits, count) && check_gradients(trial) &&
           (!trial->spec->causal || check_decoding(trial, logits));
    free(logits);
    model_close(trial->model);
    return good;
}

static int write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

/* 1 when all agrees. A choice of the largest may fall the other way where two are equal but for rounding: then other tokens are
 * tried, and a real fault shows again. */
static int run_trial(uint64_t seed, const char *folder, char *problem, size_t size, double *worst) {
    Spec *spec = memory_new(sizeof *spec);
    make_spec(spec, seed);
    char *path = memory_format("%s/random_%d.moe", folder, (int)getpid());
    int good = write_file(path, spec->text);
    if (getenv("MOEC_SHOW"))
        printf("%s", spec->text);
    for (int attempt = 0; attempt < 2; attempt++) {
        Trial trial = {.spec = spec, .compiler = moec_open(path, NULL, NULL, 0, NULL)};
        size_t count = (size_t)(BATCH * (spec->context + 1));
        trial.windows = memory_new(sizeof *trial.windows * count);
        for (size_t i = 0; i < count; i++)
            trial.windows[i] = (int32_t)between(&spec->random, 0, spec->vocabulary - 1);
        good = moec_failed(trial.compiler) ? fail(&trial, "%s", moec_reports(trial.compiler)) : check_model(&trial);
        if (trial.worst > *worst)
            *worst = trial.worst;
        snprintf(problem, size, "%s", trial.problem);
        free(trial.windows);
        moec_close(trial.compiler);
        if (good)
            break;
    }
    unlink(path);
    free(path);
    free(spec);
    return good;
}

static uint64_t present_seed;

/* The compiler gives up on a program that a pass broke: say which spec did it. */
static void tell_seed(int signal_number) {
    printf("seed %llu: stopped by signal %d\n", (unsigned long long)present_seed, signal_number);
    fflush(stdout);
    _exit(1);
}

static int run_shard(uint64_t first, long count, long worker, long workers, const char *folder) {
    int failed = 0;
    double worst = 0;
    signal(SIGABRT, tell_seed);
    signal(SIGSEGV, tell_seed);
    for (long i = worker; i < count; i += workers) {
        char problem[256] = "";
        uint64_t seed = present_seed = first + (uint64_t)i;
        if (run_trial(seed, folder, problem, sizeof problem, &worst))
            continue;
        failed++;
        printf("seed %llu: %s\n", (unsigned long long)seed, problem);
        fflush(stdout);
    }
    if (getenv("MOEC_SHOW"))
        printf("largest error: %.2f of its limit\n", worst);
    return failed;
}

static long number_from(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

int main(void) {
    long count = number_from("MOEC_MODELS", DEFAULT_MODELS), workers = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t first = (uint64_t)number_from("MOEC_SEED", 1);
    char folder[] = "/tmp/moec-models.XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("MOEC_CFLAGS", "-O0", 0);
    setenv("OMP_NUM_THREADS", "1", 0);
    if (workers > WORKERS_MOST)
        workers = WORKERS_MOST;
    if (workers > count)
        workers = count;
    for (long i = 0; i < workers; i++)
        if (fork() == 0)
            exit(run_shard(first, count, i, workers, folder) ? 1 : 0);
    int failed = 0, status;
    while (wait(&status) > 0)
        failed += status != 0;
    char *clean = memory_format("rm -rf %s", folder);
    if (system(clean) != 0)
        failed++;
    free(clean);
    printf("%ld models, %s\n", count, failed ? "some differ" : "all agree");
    return failed > 0;
}

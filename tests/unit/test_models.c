/* Random models: the results of a compiled model against the interpreter in double precision.
 *
 * A seed defines a spec (random_spec.h). Compared with the interpreter: every output of the forward and of the training graph,
 * gradients over two micro-batches, states, two optimizer steps, and decoding token by token.
 *
 * The limits are those of all tests: 1e-5 of the norm, 1e-4 for gradients. Random equations may amplify rounding errors beyond
 * that in any program. Above a limit, the interpreter therefore repeats the program several times with noise of four rounding
 * errors on every value. Twice its effect on the result is accepted, and counted.
 *
 *     test_models                         40 models from seed 1
 *     test_models recurrences             the same, with only recurrences
 *     test_models forms                   models that use every statement with affine subscripts
 *     test_models masks                   sums that select entries by masks of any equations
 *     test_models mesh [forms|...]        instead: the programs of all processes of a random mesh against the global program, both
 *                                         in the interpreter
 *     MOEC_MODELS=20000 MOEC_SEED=7 ...   that many, from that seed
 *     MOEC_SHOW=1 MOEC_MODELS=1 ...       prints the spec as well; MOEC_SHOW=only: the spec alone
 *     MOEC_TEXT=FILE MOEC_MODELS=1 ...    the text of the file instead of the seed, to reduce it
 *     MOEC_DEVICE=cuda ...                on that device, with MOEC_CUDA on the simulated one
 */
#include "model_meaning.h"
#include "random_forms.h"
#include "random_masks.h"

#include "../../runtime/model/decoder.h"
#include "../../runtime/base/threads.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DEFAULT_MODELS = 16,
    WORKERS_MOST = 16,
    ATTEMPTS = 3,
    MODELS_FOR_ALL_FORMS = 500,
    MODELS_FOR_ALL_MASKS = 1000
};

/* Results of the worker processes, in shared memory. */
typedef struct Tally {
    long models, failed, amplified, undecided;
    double worst;                       /* error within amplified rounding */
    long refused, divided, collectives; /* meshes: refused, with divided experts */
    long forms[FORM_COUNT];             /* number of models per form */
    MaskTally masks;
} Tally;

/* ---- graphs ---- */

static float *copy_of(const float *block, size_t bytes) {
    float *copy = memory_new(bytes + sizeof *copy);
    if (bytes) memcpy(copy, block, bytes);
    return copy;
}

static Call *open_call(const Trial *trial, MoecGraphKind kind) {
    return call_open(trial->model, model_graph(trial->model, kind), NULL);
}

static int check_forward(Trial *trial, Meaning *forward) {
    Call *call = open_call(trial, MOEC_GRAPH_FORWARD);
    set_call(trial, call, 0);
    call_run(call, 0, false);
    int ok = compare_outputs(trial, forward, call);
    call_close(call);
    return ok;
}

/* Weights and states stay unchanged for later comparisons. */
static int check_training(Trial *trial) {
    Meaning training;
    if (!define(trial, &training, MOEC_TRAIN)) return 0;
    Model *model = trial->model;
    float *states = copy_of(model->layer_states, model->table->state_bytes);
    Call *call = open_call(trial, MOEC_GRAPH_TRAIN);
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1.0 / PARTS);
    for (int part = 0; part < PARTS; part++) {
        set_call(trial, call, part);
        call_run(call, (uint64_t)part, part == PARTS - 1);
    }
    model_get_gradients(model);
    model_get(model, false);
    int ok = compare_outputs(trial, &training, call) &&
             compare_all(trial, &training, "gradient:", model->parameters, model->parameter_count,
                         model->gradients, gradient_limit) &&
             compare_all(trial, &training, "", model->states, model->state_count,
                         model->layer_states, result_limit);
    if (model->table->state_bytes) memcpy(model->layer_states, states, model->table->state_bytes);
    model_put(model);
    free(states);
    call_close(call);
    forget(&training);
    return ok;
}

/* By name: the blocks of a decode program have other offsets, and no optimizer states. */
static void copy_tensors(const PublicTensor *to, int count, float *block, const PublicTensor *from,
                         int known, const float *source) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < known; j++)
            if (!strcmp(to[i].name, from[j].name))
                memcpy((char *)block + to[i].offset, (const char *)source + from[j].offset,
                       to[i].count * sizeof(float));
}

/* The first sequence of the batch, token by token; a block of first tokens at once if there are enough. */
static int check_decoding(Trial *trial, Meaning *forward) {
    const Spec *spec = trial->spec;
    Decoder *decoder =
        decoder_open(trial->device, trial->compiler, 1, spec->context, spec->context);
    if (!decoder) return fail(trial, "no decoder: %s", moec_reports(trial->compiler));
    const Model *model = trial->model;
    Model *decoding = decoder->model;
    copy_tensors(decoding->parameters, decoding->parameter_count, decoding->weights,
                 model->parameters, model->parameter_count, model->weights);
    copy_tensors(decoding->states, decoding->state_count, decoding->layer_states, model->states,
                 model->state_count, model->layer_states);
    model_put(decoding);
    size_t wide = (size_t)spec->vocabulary, total = (size_t)(spec->batch * spec->context) * wide;
    int ok = 1;
    long fed = 0, part = spec->context >= PREFILL_TOKENS ? PREFILL_TOKENS : 1;
    for (; fed < spec->context && ok; part = 1) {
        const float *logits = decoder_feed(decoder, trial->windows + fed, part);
        fed += part;
        Result result = {"logits", total, (size_t)(fed - 1) * wide, wide};
        ok = compare(trial, forward, result, logits, result_limit);
    }
    if (!ok) {
        char *message = memory_format("decoding: %s", trial->problem);
        fail(trial, "%s", message);
        free(message);
    }
    decoder_close(decoder);
    return ok;
}

/* ---- the optimizer ---- */

enum { STATES_MOST = 4 };

/* Value of one element of a parameter after the steps so far. */
typedef struct Element {
    double weight, state[STATES_MOST];
} Element;

static double scalar_value(MoecScalar kind, long step) {
    if (kind == MOEC_SCALAR_RATE) return 0.01;
    if (kind == MOEC_SCALAR_CLIP) return 0.7;
    if (kind == MOEC_SCALAR_STEP) return (double)step;
    return kind == MOEC_SCALAR_STEPS ? 100 : 1;
}

static void update_element(MoecInterpreter *eval, const MoecUpdate *update,
                           const PublicTensor *parameter, long step, double gradient,
                           Element *element) {
    const float *own = update->own + parameter->tensor->group * update->scalar_count;
    for (int i = 0; i < update->scalar_count; i++) {
        double value = scalar_value(update->scalars[i].kind, step) * (double)own[i];
        moec_interpreter_set(eval, update->scalars[i].name, &value, 1);
    }
    moec_interpreter_set(eval, "grad", &gradient, 1);
    moec_interpreter_set(eval, "weight", &element->weight, 1);
    for (int i = 0; i < update->state_count; i++)
        moec_interpreter_set(eval, update->state_names[i], &element->state[i], 1);
    moec_interpreter_run(eval, 0, true);
    moec_interpreter_get(eval, "weight", &element->weight, 1);
    for (int i = 0; i < update->state_count; i++)
        moec_interpreter_get(eval, update->state_names[i], &element->state[i], 1);
}

static int compare_update(Trial *trial, MoecInterpreter *eval, const PublicTensor *parameter,
                          const float *before, long steps) {
    const Model *model = trial->model;
    const MoecUpdate *update = model->table->update;
    size_t first = parameter->offset / sizeof(float);
    double squares = 0, norm = 0;
    for (size_t i = first; i < first + parameter->count; i++) {
        Element element = {.weight = (double)before[i]};
        for (long step = 1; step <= steps && !parameter->tensor->frozen; step++)
            update_element(eval, update, parameter, step, (double)model->gradients[i], &element);
        double off = (double)model->weights[i] - element.weight;
        squares += off * off;
        /* A step may end near zero: the rounding of its start value also counts. */
        norm += element.weight * element.weight + (double)before[i] * (double)before[i];
    }
    if (sqrt(squares) <= result_limit * sqrt(norm)) return 1;
    return fail(trial, "%s is off by %.2e of %.3e after %ld steps", parameter->name, sqrt(squares),
                sqrt(norm), steps);
}

/* Some steps with the current gradients. */
static int check_update(Trial *trial) {
    Model *model = trial->model;
    const MoecUpdate *update = model->table->update;
    const long steps = 2;
    if (update->state_count > STATES_MOST)
        return fail(trial, "the optimizer has more states than this test supports");
    float *before = copy_of(model->weights, model->table->weight_bytes), scalars[16] = {0};
    for (long step = 1; step <= steps; step++) {
        for (int i = 0; i < update->scalar_count; i++)
            scalars[i] = (float)scalar_value(update->scalars[i].kind, step);
        const ModelMemory *there = &model->there;
        const BlockUpdate given = {.end = trained_bytes(model->table) / sizeof(float),
                                   .weights = there->weights,
                                   .gradients = there->gradients,
                                   .moments = there->moments,
                                   .scalars = scalars};
        model->device->kind->update(model->engine, &given);
    }
    model_get(model, false);
    MoecInterpreter *eval =
        moec_interpreter_new(trial->compiler, moec_compile(trial->compiler, MOEC_UPDATE, 0, 0, 0));
    int ok = 1;
    for (int i = 0; i < model->parameter_count && ok; i++)
        ok = model->parameters[i].tensor->whole ||
             compare_update(trial, eval, &model->parameters[i], before, steps);
    memcpy(model->weights, before, model->table->weight_bytes);
    model_put(model);
    free(before);
    moec_interpreter_free(eval);
    return ok;
}

static int compare_whole(Trial *trial, MoecInterpreter *eval, const PublicTensor *parameter) {
    double *expected = memory_new(sizeof *expected * (parameter->count + 1)), squares = 0, norm = 0;
    moec_interpreter_get(eval, parameter->name, expected, parameter->count);
    const float *actual = trial->model->weights + parameter->offset / sizeof(float);
    for (size_t i = 0; i < parameter->count; i++) {
        const double off = (double)actual[i] - expected[i];
        squares += off * off;
        norm += expected[i] * expected[i];
    }
    free(expected);
    if (sqrt(squares) <= result_limit * sqrt(norm)) return 1;
    return fail(trial, "%s is off by %.2e of %.3e after two steps", parameter->name, sqrt(squares),
                sqrt(norm));
}

/* Parameters with matrix updates, in the separate update program, with the same gradients. */
static int check_whole(Trial *trial) {
    Model *model = trial->model;
    const MoecGraphEntry *graph = model_graph(model, MOEC_GRAPH_STEP);
    Call *call = graph ? call_open(model, graph, NULL) : NULL;
    if (!call) return !graph || fail(trial, "the matrix update does not start");
    float *before = copy_of(model->weights, model->table->weight_bytes);
    MoecInterpreter *eval =
        moec_interpreter_new(trial->compiler, moec_compile(trial->compiler, MOEC_STEP, 0, 0, 0));
    set_all(eval, model->parameters, model->parameter_count, model->weights);
    set_all(eval, model->states, model->state_count, model->layer_states);
    for (int i = 0; i < model->parameter_count; i++) {
        char *name = memory_format("gradient:%s", model->parameters[i].name);
        PublicTensor gradient = model->parameters[i];
        gradient.name = name;
        set_all(eval, &gradient, 1, model->gradients);
        free(name);
    }
    for (long step = 1; step <= 2; step++) {
        for (int i = 0; i < graph->input_count; i++) {
            const double value = scalar_value(graph->inputs[i].scalar, step);
            call_set_scalar(call, graph->inputs[i].scalar, value);
            moec_interpreter_set(eval, graph->inputs[i].name, &value, 1);
        }
        call_run(call, 0, true);
        moec_interpreter_run(eval, 0, true);
    }
    model_get(model, false);
    int ok = 1;
    for (int i = 0; i < model->parameter_count && ok; i++)
        if (model->parameters[i].tensor->whole)
            ok = compare_whole(trial, eval, &model->parameters[i]);
    memcpy(model->weights, before, model->table->weight_bytes);
    model_put(model);
    free(before);
    call_close(call);
    moec_interpreter_free(eval);
    return ok;
}

/* ---- trials ---- */

/* Replaces parameters of zeros and ones: initial values of the spec would hide errors. */
static void shake(Model *model, Random *random) {
    for (int i = 0; i < model->parameter_count; i++)
        for (size_t j = 0; j < model->parameters[i].count; j++)
            model->weights[model->parameters[i].offset / sizeof(float) + j] +=
                (float)(0.2 * spread(random));
}

static int check_model(Trial *trial, Random *random) {
    const GraphShape shapes[] = {
        {.graph = MOEC_FORWARD}, {.graph = MOEC_TRAIN}, {.graph = MOEC_UPDATE}};
    trial->model = model_open(trial->device, trial->compiler, shapes, 3, true);
    if (!trial->model) return fail(trial, "it does not compile: %s", moec_reports(trial->compiler));
    model_initialise(trial->model, draw(random));
    shake(trial->model, random);
    model_put(trial->model);
    Meaning forward;
    int ok = define(trial, &forward, MOEC_FORWARD) && check_forward(trial, &forward) &&
             check_training(trial) && check_derivation(trial) && check_update(trial) &&
             check_whole(trial) && (!trial->spec->causal || check_decoding(trial, &forward));
    forget(&forward);
    model_close(trial->model);
    return ok;
}

static int write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

/* Another text with the same sizes. */
static void read_text(Spec *spec, const char *path) {
    FILE *file = fopen(path, "r");
    spec->length = file ? fread(spec->text, 1, SPEC_BYTES - 1, file) : 0;
    spec->text[spec->length] = 0;
    if (file) fclose(file);
}

/* ---- meshes ---- */

static int meshes; /* whether meshes are compared instead of compiled programs */

/* -1: the model cannot be divided so. */
static int check_graph_on_mesh(Trial *trial, MoecGraph graph, long batch, int apart, Tally *tally) {
    const MoecMeshReport *report =
        moec_mesh_verify(trial->compiler, graph, batch, trial->spec->context, apart, 3);
    if (!report) {
        const char *why = moec_reports(trial->compiler);
        const int known = strstr(why, "can be divided") || strstr(why, "cannot be divided");
        return known ? -1 : fail(trial, "%s", why);
    }
    if (report->message) return fail(trial, "%s", report->message);
    tally->collectives += report->collectives;
    tally->amplified += report->amplified > 0;
    return report->agrees || fail(trial, "%s is off by %.2e", report->worst, report->error);
}

static int check_on_mesh(Trial *trial, long data, long expert, long batch, Tally *tally) {
    char *mesh = memory_format("data=%ld,expert=%ld", data, expert);
    if (getenv("MOEC_SHOW")) printf("# --mesh %s --batch-size %ld\n", mesh, batch);
    int ok =
        moec_set_mesh(trial->compiler, mesh, 0) || fail(trial, "%s", moec_reports(trial->compiler));
    for (int apart = 0; apart < 1 + (expert > 1); apart++) {
        if (ok > 0)
            ok = check_graph_on_mesh(trial, MOEC_FORWARD, batch / (apart ? data : 1), apart, tally);
        if (ok > 0)
            ok = check_graph_on_mesh(trial, MOEC_TRAIN, batch / (apart ? data : 1), apart, tally);
    }
    free(mesh);
    return ok;
}

/* Up to 16 processes with one or two sequences each. A model whose experts cannot be divided is compared without `expert`. */
static int check_mesh(Trial *trial, const char *path, Random *random, Tally *tally) {
    static const long experts[] = {1, 2, 2, 2, 3, 4, 8}, groups[] = {1, 1, 2, 3, 5, 8, 16};
    const long expert = experts[between(random, 0, 6)];
    long data = expert * groups[between(random, 0, 6)];
    while (data > 16) data -= expert;
    const long batch = data * between(random, 1, 2);
    int ok = check_on_mesh(trial, data, expert, batch, tally);
    if (ok >= 0) {
        tally->divided += ok && expert > 1;
        return ok;
    }
    moec_close(trial->compiler);
    trial->compiler = moec_open(path, NULL, NULL, 0, NULL);
    ok = check_on_mesh(trial, data, 1, batch, tally);
    tally->refused += ok < 0;
    return ok != 0;
}

/* Tokens for which rounding may change a selection prove nothing: others are used. */
static void (*make)(Spec *spec, uint64_t seed) = make_spec;

static int run_trial(Device *device, uint64_t seed, const char *folder, char *problem, size_t size,
                     Tally *tally) {
    Spec *spec = memory_new(sizeof *spec);
    make(spec, seed);
    const char *other = getenv("MOEC_TEXT");
    if (other) read_text(spec, other);
    forms_count(spec->text, tally->forms);
    char *path = memory_format("%s/random_%d.moe", folder, (int)getpid());
    int ok = write_file(path, spec->text), undecided = 1;
    const char *show = getenv("MOEC_SHOW");
    if (show) printf("%s", spec->text);
    if (show && !strcmp(show, "only")) fflush(stdout), _exit(0);
    for (int attempt = 0; attempt < ATTEMPTS && ok && undecided; attempt++) {
        Trial trial = {
            .spec = spec, .device = device, .compiler = moec_open(path, NULL, NULL, 0, NULL)};
        size_t count = PARTS * window_tokens(spec);
        trial.windows = memory_new(sizeof *trial.windows * count);
        for (size_t i = 0; i < count; i++)
            trial.windows[i] = (int32_t)between(&spec->random, 0, spec->vocabulary - 1);
        ok = moec_failed(trial.compiler) ? fail(&trial, "%s", moec_reports(trial.compiler))
             : meshes                    ? check_mesh(&trial, path, &spec->random, tally)
                                         : check_model(&trial, &spec->random);
        if (ok && !attempt && make == make_masks) {
            char *evaluation = memory_format("%s", moec_dump(trial.compiler, MOEC_FORWARD, "route", moec_target("c")));
            const char *training = moec_dump(trial.compiler, MOEC_TRAIN, "route", moec_target("c"));
            masks_count(spec->text, training, &tally->masks);
            if (trains_all(spec->text, evaluation, training)) ok = fail(&trial, "training computes all entries of a network, evaluation does not");
            free(evaluation);
        }
        undecided = trial.undecided && !meshes;
        if (!undecided && trial.amplified > 0) {
            tally->amplified++;
            if (trial.amplified > tally->worst) tally->worst = trial.amplified;
        }
        snprintf(problem, size, "%s", trial.problem);
        free(trial.windows);
        moec_close(trial.compiler);
    }
    tally->models++;
    tally->undecided += ok && undecided;
    unlink(path);
    free(path);
    free(spec);
    return ok;
}

static uint64_t present_seed;

/* The compiler aborts on a program that a pass has damaged: reports the seed. */
static void report_seed(int signal_number) {
    printf("seed %llu: stopped by signal %d\n", (unsigned long long)present_seed, signal_number);
    fflush(stdout);
    _exit(1);
}

static void run_shard(uint64_t first, long count, long worker, long workers, const char *folder,
                      Tally *tally) {
    signal(SIGABRT, report_seed);
    signal(SIGSEGV, report_seed);
    Device *device = device_open(getenv("MOEC_DEVICE") ? getenv("MOEC_DEVICE") : "cpu");
    if (!device) exit(1);
    for (long i = worker; i < count; i += workers) {
        char problem[256] = "";
        uint64_t seed = present_seed = first + (uint64_t)i;
        if (run_trial(device, seed, folder, problem, sizeof problem, tally)) continue;
        tally->failed++;
        printf("seed %llu: %s\n", (unsigned long long)seed, problem);
        fflush(stdout);
    }
    device_close(device);
}

static long number_from(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static Tally total_of(const Tally *tallies, long workers) {
    Tally total = {0};
    for (long i = 0; i < workers; i++) {
        total.models += tallies[i].models;
        total.failed += tallies[i].failed;
        total.amplified += tallies[i].amplified;
        total.undecided += tallies[i].undecided;
        total.refused += tallies[i].refused;
        total.divided += tallies[i].divided;
        total.collectives += tallies[i].collectives;
        if (tallies[i].worst > total.worst) total.worst = tallies[i].worst;
        for (int j = 0; j < FORM_COUNT; j++) total.forms[j] += tallies[i].forms[j];
        masks_add(&total.masks, &tallies[i].masks);
    }
    return total;
}

/* Prints the table of statement forms and the number of models; returns the number of unused forms. */
static long print_forms(const Tally *total) {
    long missing = 0;
    for (int i = 0; i < FORM_COUNT; i++) {
        printf("%6ld  %s\n", total->forms[i], form_table[i].name);
        missing += !total->forms[i];
    }
    return missing;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    meshes = strcmp(kind, "mesh") == 0;
    if (meshes) kind = argc > 2 ? argv[2] : "";
    if (strcmp(kind, "recurrences") == 0) make = make_recurrence;
    if (strcmp(kind, "forms") == 0) make = make_forms;
    if (strcmp(kind, "masks") == 0) make = make_masks;
    setenv("OMP_NUM_THREADS", "2", 0);
    threads_begin(argv, 0, true);
    long count = number_from("MOEC_MODELS", DEFAULT_MODELS),
         workers = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t first = (uint64_t)number_from("MOEC_SEED", 1);
    char folder[] = "/tmp/moec-models.XXXXXX";
    if (!mkdtemp(folder)) return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("MOEC_CFLAGS", "-O0", 0);
    if (workers > WORKERS_MOST) workers = WORKERS_MOST;
    if (workers > count) workers = count;
    Tally *tallies = mmap(NULL, sizeof *tallies * WORKERS_MOST, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED) return 1;
    for (long i = 0; i < workers; i++)
        if (fork() == 0) {
            run_shard(first, count, i, workers, folder, &tallies[i]);
            exit(0);
        }
    int stopped = 0, status;
    while (wait(&status) > 0) stopped += status != 0;
    char *clean = memory_format("rm -rf %s", folder);
    stopped += system(clean) != 0;
    free(clean);
    Tally total = total_of(tallies, workers);
    printf("%ld of %ld models: %ld differ; %ld above the limits within their own rounding, "
           "by %.1e at most; "
           "%ld undecided\n",
           total.models, count, total.failed, total.amplified, total.worst, total.undecided);
    if (meshes)
        printf("%ld models with divided experts, %ld refused; %ld collectives\n", total.divided,
               total.refused, total.collectives);
    long missing = 0;
    if (make == make_forms && count >= MODELS_FOR_ALL_FORMS) missing = print_forms(&total);
    if (make == make_masks && count >= MODELS_FOR_ALL_MASKS) missing = masks_print(&total.masks);
    return stopped > 0 || total.failed > 0 || total.models < count || missing > 0;
}

/* Published systems: every row of models/ at its small size against PyTorch, from the numbers in
 * tests/oracle/expected.
 *
 *     test_oracle                      one row per idea, compiled
 *     test_oracle compiled [ROW...]    all rows, or those, compiled
 *     test_oracle meaning  [ROW...]    all rows, or those, in double precision
 *     MOEC_DEVICE=cuda ...             compiled for that device
 *
 * Both sides create the weights and the tokens by the same rule (tests/oracle/published.py: number, tokens). The norm, one
 * random projection and three elements of each tensor are compared, relative to its norm.
 */
#include "../../runtime/model/call.h"
#include "../../runtime/data/data.h"
#include "../../runtime/base/files.h"
#include "../../runtime/training/evaluation.h"
#include "../../runtime/base/memory.h"
#include "../../runtime/model/model.h"
#include "../../runtime/training/step.h"
#include "../../compiler/ir/ir.h"
#include "../../compiler/moec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 3, NAME_BYTES = 128, LINE_BYTES = 512 };

static const char *const families[] = {
    "gated_attention", "sigma", "structmoe", "complete_mue", "dit", "hybrid", "optimizers"};
/* One row per idea; the others are compiled on request, which needs minutes. */
static const char *const compiled_rows[] = {
    "moe_small_sdpa",       "moe_small_v_shared",  "sigma_small",    "gqa16_small_q_k4_half",
    "structmoe_small_top2", "mue_small_e16a8g4s1", "mue_small_wide", "dit_small_e8a3s1",
    "lstm_small",           "mamba2_small",        "rwkv7_small",    "hybrid_small",
    "muon_small",           "adafactor_small",     "shampoo_small"};

typedef struct Expected {
    char name[NAME_BYTES];
    int rank;   /* 0: a scalar */
    long count; /* elements */
    double norm, projection, sample[SAMPLES];
} Expected;

typedef struct Row {
    char family[32], model[64];
    long batch, context;
    Expected *all;
    int count;
} Row;

typedef struct Limits {
    double logits, gradient, step;
} Limits;

static const Limits meaning_limits = {1e-7, 1e-7, 0}, compiled_limits = {1e-5, 1e-4, 1e-4};

static long checked, wrong;

/* ---- numbers by rule ---- */

static double unit_number(uint64_t key, uint64_t element) {
    uint64_t z = key + (element + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 42) / 2097152.0 - 1;
}

static uint64_t key_of(const char *name) {
    uint64_t key = 0xCBF29CE484222325u;
    for (; *name; name++) key = (key ^ (unsigned char)*name) * 0x100000001B3u;
    return key;
}

/* Weights: matrices around 0, vectors around 1. */
static double *weights_of(const Expected *gradient) {
    const char *name = strchr(gradient->name, ':') + 1;
    uint64_t key = key_of(name);
    double *values = memory_new(sizeof *values * (size_t)gradient->count);
    for (long i = 0; i < gradient->count; i++)
        values[i] = (gradient->rank > 1 ? 0 : 1) + 0.25 * unit_number(key, (uint64_t)i);
    return values;
}

static void make_tokens(int32_t *tokens, long count) {
    uint64_t state = 1;
    for (long i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)(state >> 56);
    }
}

/* ---- the expected numbers ---- */

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static void read_line(const char *line, Row *row) {
    row->all = memory_grow(row->all, sizeof *row->all * (size_t)(row->count + 1));
    Expected *one = &row->all[row->count++];
    *one = (Expected){.count = 1};
    int read = sscanf(line, "scalar %127s %lf", one->name, &one->norm) == 2 ||
               sscanf(line, "tensor %127s %d %ld %lf %lf %lf %lf %lf", one->name, &one->rank,
                      &one->count, &one->norm, &one->projection, &one->sample[0], &one->sample[1],
                      &one->sample[2]) == 8;
    if (!read) {
        printf("cannot read: %s", line);
        exit(1);
    }
}

/* The rows of a family; increases *count. */
static Row *read_rows(const char *family, Row *rows, int *count) {
    char path[128], line[LINE_BYTES];
    snprintf(path, sizeof path, "tests/oracle/expected/%s.txt", family);
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    long batch = 0, context = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "batch %ld", &batch) == 1 || sscanf(line, "context %ld", &context) == 1)
            continue;
        if (starts(line, "model ")) {
            rows = memory_grow(rows, sizeof *rows * (size_t)(*count + 1));
            Row *row = &rows[(*count)++];
            *row = (Row){.batch = batch, .context = context};
            snprintf(row->family, sizeof row->family, "%s", family);
            sscanf(line, "model %63s", row->model);
        } else
            read_line(line, &rows[*count - 1]);
    }
    fclose(file);
    return rows;
}

static const Expected *find(const Row *row, const char *name) {
    for (int i = 0; i < row->count; i++)
        if (strcmp(row->all[i].name, name) == 0) return &row->all[i];
    return NULL;
}

/* An image model, whose inputs are not tokens; their values. */
static bool reads_images(const Row *row) {
    return find(row, "velocity") != NULL;
}

static double input_value(const char *name, long element) {
    double unit = unit_number(key_of(name), (uint64_t)element);
    if (strcmp(name, "label") == 0) return (double)((3 * element + 1) % 4);
    return strcmp(name, "time") == 0 ? 0.5 + 0.25 * unit : unit;
}

/* ---- comparing ---- */

static void fail(const Row *row, const char *how, const char *name, const char *what, double got,
                 double wanted) {
    wrong++;
    printf("%s (%s): %s: %s is %.9g, not %.9g\n", row->model, how, name, what, got, wanted);
}

static void compare(const Row *row, const char *how, const Expected *one, const double *values,
                    double limit) {
    static const char *const names[] = {"element 13 %", "element 47 %", "element 89 %"};
    static const int percents[] = {13, 47, 89};
    checked++;
    if (one->rank == 0) {
        if (!(fabs(values[0] - one->norm) <= limit * fmax(1, fabs(one->norm))))
            fail(row, how, one->name, "the value", values[0], one->norm);
        return;
    }
    double square = 0, projection = 0;
    uint64_t key = key_of("projection");
    for (long i = 0; i < one->count; i++) {
        square += values[i] * values[i];
        projection += values[i] * unit_number(key, (uint64_t)i);
    }
    double typical = one->norm / sqrt((double)one->count), tiny = 1e-12;
    if (!(fabs(sqrt(square) - one->norm) <= limit * one->norm + tiny))
        fail(row, how, one->name, "the norm", sqrt(square), one->norm);
    if (!(fabs(projection - one->projection) <= limit * one->norm + tiny))
        fail(row, how, one->name, "the projection", projection, one->projection);
    for (int i = 0; i < SAMPLES; i++) {
        double got = values[one->count * percents[i] / 100],
               scale = fmax(typical, fabs(one->sample[i]));
        if (!(fabs(got - one->sample[i]) <= limit * scale + tiny))
            fail(row, how, one->name, names[i], got, one->sample[i]);
    }
}

static void compare_floats(const Row *row, const Expected *one, const float *values, double limit) {
    double *wide = memory_new(sizeof *wide * (size_t)one->count);
    for (long i = 0; i < one->count; i++) wide[i] = (double)values[i];
    compare(row, "compiled", one, wide, limit);
    free(wide);
}

static void missing(const Row *row, const char *how, const char *name) {
    wrong++;
    printf("%s (%s): no %s of that size\n", row->model, how, name);
}

/* ---- interpreter, in double precision ---- */

static void set_images(MoecInterpreter *eval, const Row *row) {
    static const char *const names[] = {"image", "noise", "time", "label"};
    for (int i = 0; i < 4; i++) {
        long count = i < 2 ? find(row, "velocity")->count : row->batch;
        double *values = memory_new(sizeof *values * (size_t)count);
        for (long j = 0; j < count; j++) values[j] = input_value(names[i], j);
        if (!moec_interpreter_set(eval, names[i], values, (size_t)count))
            missing(row, "meaning", names[i]);
        free(values);
    }
}

static void set_inputs(MoecInterpreter *eval, const Row *row, const int32_t *windows) {
    moec_interpreter_set(eval, "loss_scale", &(double){1}, 1);
    if (reads_images(row)) {
        set_images(eval, row);
        return;
    }
    long batch = row->batch, context = row->context;
    size_t count = (size_t)(batch * context);
    double *tokens = memory_new(sizeof *tokens * count),
           *targets = memory_new(sizeof *targets * count);
    for (long b = 0; b < batch; b++)
        for (long s = 0; s < context; s++) {
            tokens[b * context + s] = windows[b * (context + 1) + s];
            targets[b * context + s] = windows[b * (context + 1) + s + 1];
        }
    moec_interpreter_set(eval, "tokens", tokens, count);
    moec_interpreter_set(eval, "targets", targets, count);
    free(tokens);
    free(targets);
}

static MoecInterpreter *meaning_of(MoecCompiler *compiler, const Row *row, MoecGraph graph,
                                   long batch, long tokens, MoecProgram **defined) {
    MoecProgram *program = moec_define(compiler, graph, batch, row->context, tokens);
    if (defined) *defined = program;
    MoecInterpreter *eval = program ? moec_interpreter_new(compiler, program) : NULL;
    if (!eval) {
        wrong++;
        printf("%s: %s\n", row->model, moec_reports(compiler));
        return NULL;
    }
    for (int i = 0; i < row->count; i++) {
        if (!starts(row->all[i].name, "gradient:")) continue;
        double *values = weights_of(&row->all[i]);
        if (!moec_interpreter_set(eval, row->all[i].name + 9, values, (size_t)row->all[i].count))
            missing(row, "meaning", row->all[i].name + 9);
        free(values);
    }
    return eval;
}

static void take(const Row *row, MoecInterpreter *eval, const Expected *one, double limit) {
    double *values = memory_new(sizeof *values * (size_t)one->count);
    if (moec_interpreter_get(eval, one->name, values, (size_t)one->count))
        compare(row, "meaning", one, values, limit);
    else
        missing(row, "meaning", one->name);
    free(values);
}

/* True if the last component of a path, without its number, is the name. */
static bool is_called(const char *path, const char *name) {
    size_t length = strlen(path), end = strlen(name);
    return length > end && path[length - end - 1] == '.' && !strcmp(path + length - end, name);
}

/* A probe has one value per layer, a row has their mean. */
static void compare_mean(const Row *row, MoecInterpreter *eval, const MoecProgram *program,
                      const Expected *one, double limit) {
    double sum = 0, value;
    long layers = 0;
    for (int i = 0; i < program->outputs.count; i++) {
        const Tensor *tensor = program->outputs.items[i];
        const char *brace = strchr(tensor->path, '{');
        if (tensor->probe == MOEC_PROBE_NONE || !is_called(tensor->path, one->name)) continue;
        for (long layer = 0; layer < (brace ? 64 : 1); layer++) {
            char *name = brace ? memory_format("%.*s%ld%s", (int)(brace - tensor->path),
                                               tensor->path, layer, strchr(brace, '}') + 1)
                               : memory_format("%s", tensor->path);
            if (moec_interpreter_get(eval, name, &value, 1)) sum += value, layers++;
            free(name);
        }
    }
    if (!layers) {
        missing(row, "meaning", one->name);
        return;
    }
    sum /= (double)layers;
    compare(row, "meaning", one, &sum, limit);
}

static bool is_of_loss(const Expected *one) {
    static const char *const names[] = {"loss", "total", "balance", "router_z"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(one->name, names[i])) return true;
    return false;
}

static void meaning_decodes(MoecCompiler *compiler, const Row *row, const int32_t *windows) {
    const Expected *one = find(row, "decode");
    MoecInterpreter *eval = one ? meaning_of(compiler, row, MOEC_DECODE, 1, 1, NULL) : NULL;
    if (!eval) return;
    size_t words = (size_t)(one->count / row->context);
    double *logits = memory_new(sizeof *logits * (size_t)one->count);
    for (long s = 0; s < row->context; s++) {
        moec_interpreter_set(eval, "tokens", &(double){windows[s]}, 1);
        moec_interpreter_set(eval, "position", &(double){(double)s}, 1);
        moec_interpreter_run(eval, 0, false);
        if (!moec_interpreter_get(eval, "logits", logits + (size_t)s * words, words))
            missing(row, "meaning", "logits");
    }
    compare(row, "meaning", one, logits, meaning_limits.logits);
    free(logits);
    moec_interpreter_free(eval);
}

static void check_meaning(MoecCompiler *compiler, const Row *row, const int32_t *windows) {
    MoecInterpreter *eval = meaning_of(compiler, row, MOEC_FORWARD, row->batch, 0, NULL);
    if (eval) {
        set_inputs(eval, row, windows);
        moec_interpreter_run(eval, 0, false);
        take(row, eval, find(row, reads_images(row) ? "velocity" : "logits"),
             meaning_limits.logits);
        moec_interpreter_free(eval);
    }
    MoecProgram *program;
    eval = meaning_of(compiler, row, MOEC_TRAIN, row->batch, 0, &program);
    if (eval) {
        set_inputs(eval, row, windows);
        moec_interpreter_run(eval, 0, false);
        for (int i = 0; i < row->count; i++) {
            const Expected *one = &row->all[i];
            bool scalar = one->rank == 0 && !starts(one->name, "step");
            bool total =
                strcmp(one->name, "total") == 0 && !find(row, "balance") && !find(row, "router_z");
            if (scalar && !is_of_loss(one))
                compare_mean(row, eval, program, one, meaning_limits.gradient);
            else if ((scalar && !total) || starts(one->name, "gradient:"))
                take(row, eval, one, meaning_limits.gradient);
        }
        moec_interpreter_free(eval);
    }
    meaning_decodes(compiler, row, windows);
}

/* ---- compiled ---- */

static Device *device;

static void set_weights(const Row *row, Model *model) {
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        char *name = memory_format("gradient:%s", one->name);
        const Expected *expected = find(row, name);
        free(name);
        if (!expected || (size_t)expected->count != one->count) {
            missing(row, "compiled", one->name);
            continue;
        }
        double *values = weights_of(expected);
        for (size_t j = 0; j < one->count; j++)
            model->weights[one->offset / sizeof(float) + j] = (float)values[j];
        free(values);
    }
}

static void compare_block(const Row *row, const Model *model, const char *prefix,
                          const float *block, double limit) {
    for (int i = 0; i < model->parameter_count; i++) {
        const PublicTensor *one = &model->parameters[i];
        char *name = memory_format("%s%s", prefix, one->name);
        const Expected *expected = find(row, name);
        if (expected && (size_t)expected->count == one->count)
            compare_floats(row, expected, block + one->offset / sizeof(float), limit);
        else
            missing(row, "compiled", name);
        free(name);
    }
}

/* The inputs as samples of the data, in the order of the slots. */
static int32_t *make_examples(const Call *call) {
    long record = examples_words(call), batch = call->graph->batch, offset = 0;
    int32_t *words = memory_new(sizeof *words * (size_t)(record * batch));
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        bool real = input->input == MOEC_INPUT_REAL;
        if (!real && input->input != MOEC_INPUT_CLASS) continue;
        long count = (long)tensor_count(input), each = count / batch;
        for (long j = 0; j < count; j++) {
            float value = (float)input_value(input->name, j);
            int32_t class = (int32_t)value, *word = words + j / each * record + offset + j % each;
            memcpy(word, real ? (const void *)&value : &class, sizeof *word);
        }
        offset += each;
    }
    return words;
}

static void compiled_probes(const Row *row, Call *call) {
    Probes *probes = probes_open(call);
    const char *odd;
    call_get_numbers(call);
    double *values = memory_new(sizeof *values * (probes->width + 1));
    if (!probes_read(probes, values)) exit(1);
    probes_add(probes, values);
    free(values);
    json_t *means = probes_json(probes, &odd);
    for (int i = 0; i < row->count; i++) {
        const Expected *one = &row->all[i];
        const json_t *mean = json_object_get(means, one->name);
        float value = (float)json_number_value(mean);
        if (one->rank || starts(one->name, "step") || is_of_loss(one)) continue;
        if (mean)
            compare_floats(row, one, &value, compiled_limits.logits);
        else
            missing(row, "compiled", one->name);
    }
    json_decref(means);
    probes_close(probes);
}

static void compiled_once(const Row *row, Call *call, const int32_t *windows) {
    Model *model = call->model;
    model->device->kind->zero(model->device, model->there.gradients, trained_bytes(model->table));
    call_set_scalar(call, MOEC_SCALAR_LOSS_SCALE, 1);
    int32_t *examples = reads_images(row) ? make_examples(call) : NULL;
    call_set_windows(call, examples ? examples : windows);
    call_run(call, 0, false);
    free(examples);
    for (int i = 0; i < call->graph->output_count; i++) {
        const Expected *one = find(row, call->graph->outputs[i].name);
        bool whole = one && (long)tensor_count(&call->graph->outputs[i]) == one->count;
        if (whole) compare_floats(row, one, call_get(call, i), compiled_limits.logits);
    }
    compiled_probes(row, call);
    if (call->graph->kind == MOEC_GRAPH_TRAIN && model_get_gradients(model))
        compare_block(row, model, "gradient:", model->gradients, compiled_limits.gradient);
}

static void compiled_decodes(const Row *row, Call *call, const int32_t *windows) {
    const Expected *one = find(row, "decode");
    int slot = call_output(call, "logits");
    size_t words = (size_t)(one->count / row->context);
    float *logits = memory_new(sizeof *logits * (size_t)one->count);
    for (long s = 0; s < row->context; s++) {
        call_set_tokens(call, windows + s, -1);
        call_set_scalar(call, MOEC_SCALAR_POSITION, (double)s);
        call_run(call, 0, false);
        memcpy(logits + (size_t)s * words, call_get(call, slot), sizeof *logits * words);
    }
    compare_floats(row, one, logits, compiled_limits.logits);
    free(logits);
}

/* The data of ten steps: both images, or only the first sequence. */
static Data *data_of(const Row *row, const Call *call, const int32_t *windows) {
    if (reads_images(row)) {
        Data *data = memory_new(sizeof *data);
        data->record = (size_t)examples_words(call);
        data->count = data->record * (size_t)row->batch;
        data->words = make_examples(call);
        return data;
    }
    char path[] = "/tmp/moec-oracle-XXXXXX";
    unsigned char *bytes = memory_new((size_t)row->context + 1);
    for (long i = 0; i <= row->context; i++) bytes[i] = (unsigned char)windows[i];
    int descriptor = mkstemp(path);
    bool ok = descriptor >= 0 && file_write(path, bytes, (size_t)row->context + 1);
    free(bytes);
    Data *data = ok ? data_open(path, 0) : NULL; /* it stays open without its name */
    close(descriptor);
    unlink(path);
    return data;
}

static void compiled_trains(const Row *row, Call *call, Settings settings, const int32_t *windows) {
    Data *data = data_of(row, call, windows);
    if (!data) {
        missing(row, "compiled", "data");
        return;
    }
    Stepper stepper = {.train = call,
                       .data = data,
                       .order = {1, data->count, call_context(call), data->record},
                       .settings = settings,
                       .seed = 1};
    step_prepare(&stepper);
    for (long step = 0; step < 10; step++) {
        StepResult result;
        char name[16];
        snprintf(name, sizeof name, "step%ld", step);
        if (step_run(&stepper, step, (uint64_t)(step * row->batch), &result))
            compare(row, "compiled", find(row, name), &result.loss, compiled_limits.step);
    }
    model_get(call->model, false);
    compare_block(row, call->model, "step:", call->model->weights, compiled_limits.step);
    step_release(&stepper);
    data_close(data);
}

static void check_compiled(MoecCompiler *compiler, const Row *row, const int32_t *windows) {
    const GraphShape shapes[] = {{MOEC_TRAIN, row->batch, row->context, 0},
                                 {MOEC_FORWARD, row->batch, row->context, 0},
                                 {.graph = MOEC_UPDATE},
                                 {MOEC_DECODE, 1, row->context, 1}};
    bool decodes = find(row, "decode") != NULL;
    Settings settings = settings_of(compiler);
    Model *model = model_open(device, compiler, shapes, decodes ? 4 : 3, true);
    if (!model) {
        missing(row, "compiled", "program");
        return;
    }
    set_weights(row, model);
    model_put(model);
    for (int i = 0; i < model->table->graph_count; i++) {
        if (model->table->graphs[i].kind == MOEC_GRAPH_STEP) continue; /* in compiled_trains */
        Call *call = call_open(model, &model->table->graphs[i], NULL);
        if (call && call->graph->kind == MOEC_GRAPH_DECODE)
            compiled_decodes(row, call, windows);
        else if (call)
            compiled_once(row, call, windows);
        call_close(call);
    }
    Call *train = call_open(model, model_graph(model, MOEC_GRAPH_TRAIN), NULL);
    if (train) compiled_trains(row, train, settings, windows);
    call_close(train);
    model_close(model);
}

/* ---- rows ---- */

typedef void Check(MoecCompiler *compiler, const Row *row, const int32_t *windows);

static void check_row(const Row *row, Check *check) {
    char path[64];
    snprintf(path, sizeof path, "models/%s.moe", row->family);
    const char *const given[] = {"draws=given"}; /* time and noise are inputs, too */
    MoecCompiler *compiler = moec_open(path, row->model, given, reads_images(row), NULL);
    int32_t *windows = memory_new(sizeof *windows * (size_t)(row->batch * (row->context + 1)));
    make_tokens(windows, row->batch * (row->context + 1));
    if (moec_failed(compiler)) {
        wrong++;
        printf("%s", moec_reports(compiler));
    } else
        check(compiler, row, windows);
    free(windows);
    moec_close(compiler);
}

static bool listed(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    Row *rows = NULL;
    int count = 0, named = argc - 2;
    device = device_open(getenv("MOEC_DEVICE") ? getenv("MOEC_DEVICE") : "cpu");
    if (!device) return 1;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        rows = read_rows(families[i], rows, &count);
    const char *how = argc > 1 ? argv[1] : "";
    for (int i = 0; i < count; i++) {
        const char *name = rows[i].model;
        bool wanted = named <= 0 || listed(name, (const char *const *)argv + 2, named);
        bool chosen =
            listed(name, compiled_rows, (int)(sizeof compiled_rows / sizeof *compiled_rows));
        if (*how && wanted && strcmp(how, "compiled") != 0) check_row(&rows[i], check_meaning);
        if (*how ? wanted && strcmp(how, "compiled") == 0 : chosen)
            check_row(&rows[i], check_compiled);
        free(rows[i].all);
    }
    free(rows);
    device_close(device);
    printf("%d rows, %ld comparisons, %ld wrong\n", count, checked, wrong);
    return wrong != 0;
}

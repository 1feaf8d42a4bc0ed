/* coordcheck: sizes of activations and their changes by some steps, over sizes of a model. With a
 * correct parametrization both are constant; otherwise the first activation that is not constant
 * shows the fault. */
#include "tools/command/internal.h"

#include "abi/json_make.h"
#include "abi/step_path.h"
#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"
#include "data/random.h"
#include "model/call.h"
#include "training/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 64 };

/* ---- one size ---- */

/* Activations of one size: by output, before and after the steps. */
typedef struct Sized {
    Model *model;
    Call *train, *forward;
    Stepper stepper;
    Data *data;
    float **before;
} Sized;

/* A random token or class; the k-th is 1/k as frequent as the first, as words are. */
static int32_t random_word(uint64_t place, long range) {
    double word = exp(random_uniform(5, place) * log((double)range + 1)) - 1;
    return word < (double)range ? (int32_t)word : (int32_t)range - 1;
}

/* Windows of random tokens or examples. */
static Data *random_data(const Call *call) {
    Data *data = memory_new(sizeof *data);
    long record = examples_words(call), context = call_context(call), at = 0;
    long length = record ? record : context + 1;
    data->record = (size_t)record;
    data->count = (uint64_t)(length * WINDOWS);
    data->words = memory_new(sizeof *data->words * (size_t)data->count);
    for (int i = 0; i < call->graph->input_count; i++) {
        const MoecTensor *input = &call->graph->inputs[i];
        bool real = input->input == MOEC_INPUT_REAL, class = input->input == MOEC_INPUT_CLASS;
        long each = (long)tensor_count(input) / call->graph->batch;
        long range = input->vocabulary > 0 ? input->vocabulary : 256;
        if (record ? !real && !class : input->input != MOEC_INPUT_TOKEN) continue;
        for (long j = 0; j < (record ? each * WINDOWS : (long)data->count); j++) {
            uint64_t place = (uint64_t)(j + 1);
            float value = (float)random_normal(5, place);
            int32_t *word = data->words + (record ? j / each * record + at + j % each : j);
            *word = random_word(place, range);
            if (real) memcpy(word, &value, sizeof *word);
        }
        at += record ? each : 0;
        if (!record) break;
    }
    return data;
}

static bool set_check_windows(Sized *sized) {
    long length = sized->stepper.order.context + 1;
    for (long b = 0; b < sized->train->graph->batch; b++) {
        uint64_t start = order_start(&sized->stepper.order, (uint64_t)b);
        if (!data_read(sized->data, start, (size_t)length, sized->stepper.windows + b * length))
            return false;
    }
    call_set_windows(sized->forward, sized->stepper.windows);
    return call_run(sized->forward, 1, false);
}

static bool sized_open(MoecCompiler *compiler, Sized *sized) {
    const GraphShape shapes[] = {
        {.graph = MOEC_TRAIN}, {.graph = MOEC_FORWARD}, {.graph = MOEC_UPDATE}};
    moec_observe(compiler);
    *sized = (Sized){.model = model_open(device_cpu(), compiler, shapes, 3, true)};
    if (!sized->model) return false;
    sized->train = call_open(sized->model, model_graph(sized->model, MOEC_GRAPH_TRAIN), NULL);
    sized->forward = call_open(sized->model, model_graph(sized->model, MOEC_GRAPH_FORWARD), NULL);
    if (!sized->train || !sized->forward) return false;
    sized->data = random_data(sized->train);
    sized->stepper =
        (Stepper){.train = sized->train,
                  .data = sized->data,
                  .order = {1, sized->data->count, call_context(sized->train), sized->data->record},
                  .settings = settings_of(compiler),
                  .seed = 1};
    sized->before =
        memory_new(sizeof *sized->before * (size_t)(sized->forward->graph->output_count + 1));
    return step_prepare(&sized->stepper);
}

/* Initializes the weights and the state of the optimizer. */
static bool draw_weights(Model *model, uint64_t seed) {
    const MoecUpdate *update = model->table->update;
    for (int i = 0; update && i < update->state_count; i++)
        memset(model->moments[i], 0, moment_bytes(model->table));
    model_initialise(model, seed);
    return model_put(model);
}

static void sized_close(Sized *sized) {
    if (sized->data) {
        step_release(&sized->stepper);
        data_close(sized->data);
    }
    for (int i = 0; sized->before && i < sized->forward->graph->output_count; i++)
        free(sized->before[i]);
    free(sized->before);
    call_close(sized->forward);
    call_close(sized->train);
    model_close(sized->model);
}

static bool sized_run(Sized *sized, long steps, uint64_t seed) {
    const MoecGraphEntry *graph = sized->forward->graph;
    if (!draw_weights(sized->model, seed) || !set_check_windows(sized)) return false;
    for (int i = 0; i < graph->output_count; i++) {
        size_t count = tensor_count(&graph->outputs[i]);
        if (!sized->before[i]) sized->before[i] = memory_new(sizeof(float) * (count + 1));
        memcpy(sized->before[i], call_get(sized->forward, i), sizeof(float) * count);
    }
    for (long step = 0; step < steps; step++) {
        StepResult result;
        if (!step_run(&sized->stepper, step, 0, &result)) return false;
        if (!isfinite(result.loss))
            return error_message("lower train.lr", "the loss is not a finite number at step %ld",
                                 step + 1);
    }
    return set_check_windows(sized);
}

/* ---- coordinates ---- */

double spread_of(const double *numbers, int count) {
    double least = INFINITY, most = 0;
    for (int i = 0; i < count; i++) {
        if (numbers[i] < least) least = numbers[i];
        if (numbers[i] > most) most = numbers[i];
    }
    return most == 0 ? 1 : least > 0 ? most / least : INFINITY;
}

static double root_mean_square(const float *values, const float *less, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double value = (double)values[i] - (less ? (double)less[i] : 0);
        sum += value * value;
    }
    return sqrt(sum / (double)(count ? count : 1));
}

static bool is_stacked_name(const MoecTensor *tensor) {
    return strchr(tensor->name, '{') != NULL;
}

static bool is_checked(const MoecTensor *tensor) {
    return tensor_count(tensor) > 1 && tensor->rank > 1;
}

/* "block.{2*i+1}.ffn.up" at iteration 3. */
static char *name_at(const MoecTensor *tensor, long layer) {
    StepPath parts;
    if (!step_path_read(tensor->name, &parts)) return memory_format("%s", tensor->name);
    return memory_format("%.*s%ld%s", parts.before, tensor->name, step_path_number(&parts, layer),
                         parts.after);
}

static const MoecTensor *output_called(const Sized *sized, const char *name, int *slot) {
    const MoecGraphEntry *graph = sized->forward->graph;
    for (*slot = 0; *slot < graph->output_count; ++*slot)
        if (!strcmp(graph->outputs[*slot].name, name)) return &graph->outputs[*slot];
    return NULL;
}

/* Whether it is the output of a residual branch: "block.{i}.ffn.down+". */
static bool is_branch(const MoecTensor *tensor) {
    return is_stacked_name(tensor) && tensor->name[strlen(tensor->name) - 1] == '+';
}

/* Position of an activation in its layer: the fraction of the layer's branches before it. */
static double share_before(const MoecGraphEntry *graph, int output) {
    int before = 0, all = 0;
    for (int i = 0; i < graph->output_count; i++) {
        bool branch = is_branch(&graph->outputs[i]);
        all += branch;
        before += branch && i < output;
    }
    return all ? (double)before / all : 0;
}

/* The layer of part `point`, if a model of `layers` layers is divided into `points` parts: the one
 * at the same fraction of its part as the activation in its layer. */
static long layer_of(long point, long points, long layers, double share) {
    return (long)(((double)point + share) * (double)layers / (double)points);
}

/* The next coordinate; it exists after the first random initialization. */
static Coordinate *coordinate_next(CoordinateCheck *check, const MoecTensor *tensor, long point) {
    if (check->drawn) return &check->all[check->count++];
    if (check->count % 64 == 0)
        check->all = memory_grow(check->all, sizeof *check->all * (size_t)(check->count + 64));
    Coordinate *coordinate = &check->all[check->count++];
    *coordinate = (Coordinate){.name = name_at(tensor, point)};
    return coordinate;
}

/* A branch is multiplied by the number of layers: the sum over all layers must keep its scale. */
static void measure_at(Sized *all, CoordinateCheck *check, int output, long point, long points) {
    const MoecGraphEntry *graph = all[0].forward->graph;
    Coordinate *coordinate = coordinate_next(check, &graph->outputs[output], point);
    double share = share_before(graph, output), part = 1.0 / (double)check->draws;
    for (int i = 0; i < check->sizes; i++) {
        int slot;
        const MoecTensor *tensor = output_called(&all[i], graph->outputs[output].name, &slot);
        long layers = is_stacked_name(tensor) ? tensor->shape[0] : 1;
        double times = part * (is_branch(tensor) ? (double)layers : 1);
        size_t count = tensor_count(tensor) / (size_t)layers;
        size_t first = (size_t)layer_of(point, points, layers, layers > 1 ? share : 0) * count;
        const float *after = call_get(all[i].forward, slot) + first;
        coordinate->size[i] += times * root_mean_square(after, NULL, count);
        coordinate->change[i] +=
            times * root_mean_square(after, all[i].before[slot] + first, count);
    }
}

/* Number of layers in which all sizes have this activation; 0 if some size does not have it. */
static long points_of(const Sized *all, int sizes, const MoecTensor *tensor) {
    long points = is_stacked_name(tensor) ? tensor->shape[0] : 1;
    if (!is_checked(tensor)) return 0;
    for (int i = 1; i < sizes; i++) {
        int slot;
        const MoecTensor *other = output_called(&all[i], tensor->name, &slot);
        if (!other || is_stacked_name(other) != is_stacked_name(tensor)) return 0;
        if (is_stacked_name(other) && other->shape[0] < points) points = other->shape[0];
    }
    return points;
}

/* Collects the activations of all sizes in as many layers as the smallest model has, in the order
 * of computation: all activations of the first layer, then those of the next. */
static void collect_coordinates(Sized *all, CoordinateCheck *check) {
    const MoecGraphEntry *graph = all[0].forward->graph;
    check->count = 0;
    for (int from = 0, to; from < graph->output_count; from = to) {
        long most = 1;
        for (to = from; to < graph->output_count; to++) {
            if (to > from &&
                is_stacked_name(&graph->outputs[to]) != is_stacked_name(&graph->outputs[from]))
                break;
            long points = points_of(all, check->sizes, &graph->outputs[to]);
            if (points > most) most = points;
        }
        for (long point = 0; point < most; point++) {
            for (int o = from; o < to; o++) {
                long points = points_of(all, check->sizes, &graph->outputs[o]);
                if (point < points) measure_at(all, check, o, point, points);
            }
        }
    }
}

/* ---- report ---- */

/* The first activation whose size changes too much, else the first whose update does: later ones
 * can be consequences of it. NULL if all pass. */
static const Coordinate *fault_of(const CoordinateCheck *check, bool *change) {
    for (int k = 0; k < 2; k++) {
        *change = k;
        for (int i = 0; i < check->count; i++) {
            const Coordinate *one = &check->all[i];
            if (spread_of(k ? one->change : one->size, check->sizes) > check->within) return one;
        }
    }
    return NULL;
}

static void print_coordinates(const double *numbers, int count) {
    for (int i = 0; i < count; i++) printf(" %9.3g", numbers[i]);
    printf("  %5.2f", spread_of(numbers, count));
}

static void print_coordinate_table(const CoordinateCheck *check) {
    printf("%s over %s, %ld steps: size after them | change by them, each with its spread\n\n",
           check->model, check->over, check->steps);
    printf("%-36s", "");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < check->sizes; i++) printf(" %9s", check->labels[i]);
        printf("  %5s%s", "", k ? "\n" : "  |");
    }
    for (int i = 0; i < check->count; i++) {
        printf("%-36s", check->all[i].name);
        print_coordinates(check->all[i].size, check->sizes);
        printf("  |");
        print_coordinates(check->all[i].change, check->sizes);
        printf("\n");
    }
}

static void print_verdict(const CoordinateCheck *check) {
    bool change;
    const Coordinate *fault = fault_of(check, &change);
    if (!fault) {
        printf("\nstays within a factor %.3g\n", check->within);
        return;
    }
    const double *numbers = change ? fault->change : fault->size;
    printf("\nat fault: %s, whose %s goes from %.3g to %.3g\n", fault->name,
           change ? "change" : "size", numbers[0], numbers[check->sizes - 1]);
}

static void print_check_json(const CoordinateCheck *check) {
    json_t *rows = json_array();
    bool change;
    const Coordinate *fault = fault_of(check, &change);
    for (int i = 0; i < check->count; i++) {
        json_t *size = json_array(), *changes = json_array();
        for (int j = 0; j < check->sizes; j++) {
            json_array_append_new(size, json_real(check->all[i].size[j]));
            json_array_append_new(changes, json_real(check->all[i].change[j]));
        }
        json_array_append_new(rows, json_make("{s:s, s:o, s:o}", "activation", check->all[i].name,
                                              "size", size, "change", changes));
    }
    json_auto_t *root = json_make("{s:s, s:s, s:I, s:o, s:o, s:s?}", "model", check->model, "over",
                                  check->over, "steps", (json_int_t)check->steps, "sizes",
                                  json_texts(check->labels, check->sizes), "activations", rows,
                                  "fault", fault ? fault->name : NULL);
    AUTO_FREE char *text = json_write(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    puts(text);
}

/* ---- the command ---- */

/* The sizes of "key=a,b,c" as sets "key=a", ...; how many there are. */
static int split_over(const char *over, TextList *sets) {
    const char *equals = strchr(over, '=');
    int count = 0;
    for (const char *at = equals ? equals + 1 : NULL; at && *at && count < CHECK_SIZES; count++) {
        size_t length = strcspn(at, ",");
        sets[count].items[sets[count].count++] =
            memory_format("%.*s=%.*s", (int)(equals - over), over, (int)length, at);
        at += length + (at[length] == ',');
    }
    return count;
}

/* The first --set of an option that the check sets itself, or NULL: the schedule, and the options
 * of --vary. */
static const char *refused_set(const TextList *given, const TextList *over) {
    for (int i = 0; i < given->count; i++) {
        bool refused = moec_sets(given->items[i], "train.schedule");
        for (int k = 0; k < over->count && !refused; k++) {
            AUTO_FREE char *path =
                memory_format("%.*s", (int)strcspn(over->items[k], " ="), over->items[k]);
            refused = moec_sets(given->items[i], path);
        }
        if (refused) return given->items[i];
    }
    return NULL;
}

static bool open_sizes(const char *operand, const TextList *sets, Sized *all,
                       CoordinateCheck *check) {
    for (int i = 0; i < check->sizes; i++) {
        MoecCompiler *compiler = spec_open(operand, &sets[i]);
        bool good = compiler && reports_good(compiler) && sized_open(compiler, &all[i]);
        if (good && i == 0) check->model = memory_format("%s", moec_model(compiler));
        moec_close(compiler);
        if (!good) return false;
    }
    return true;
}

static bool run_sizes(Sized *all, CoordinateCheck *check, uint64_t seed) {
    for (; check->drawn < check->draws; check->drawn++) {
        for (int i = 0; i < check->sizes; i++)
            if (!sized_run(&all[i], check->steps, seed + (uint64_t)check->drawn)) return false;
        collect_coordinates(all, check);
    }
    return true;
}

static bool write_picture(const CoordinateCheck *check, const char *path) {
    AUTO_FREE char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    coordcheck_picture(check, file);
    fclose(file);
    bool good = file_write(path, text, length);
    if (good) written_message(path, NULL);
    return good;
}

int command_coordcheck(const Command *command, int argc, char **argv) {
    const char *operand, *picture = NULL;
    CoordinateCheck check = {.steps = 5, .draws = 1, .within = 1.5};
    TextList over = {0}, given = {0}, *sets = memory_new(sizeof *sets * CHECK_SIZES);
    bool json = false;
    long seed = 1;
    const Option table[] = {
        {OPTION_LIST, "--vary", "PATH=A,B,...", &over,
         "option and its values; repeatable for options that vary together"},
        {OPTION_COUNT, "--steps", "N", &check.steps, "optimizer steps (default 5)"},
        {OPTION_NUMBER, "--max-ratio", "X", &check.within,
         "largest ratio over the sizes that passes (default 1.5)"},
        {OPTION_COUNT, "--seed", "N", &seed, "seed of the weights (default 1)"},
        {OPTION_COUNT, "--num-seeds", "N", &check.draws,
         "number of random initializations to average over (default 1)"},
        {OPTION_TEXT, "--svg", "FILE", &picture, "picture, - for stdout"},
        SET_OPTION(&given),
        {OPTION_FLAG, "--json", NULL, &json, "result as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    const char *refused = refused_set(&given, &over);
    if (refused)
        return arguments_wrong(command, "omit it",
                               "--set %s: the check sets the options of --vary itself, and "
                               "train.schedule to constant",
                               refused);
    for (int i = 0; i < CHECK_SIZES; i++) {
        sets[i] = given;
        sets[i].items[sets[i].count++] = "train.schedule=constant";
    }
    for (int i = 0; i < over.count; i++) {
        int count = split_over(over.items[i], sets);
        if (count < 2 || (i && count != check.sizes))
            return arguments_wrong(
                command, "for example --vary dim=64,128,256", "--vary %s: expected %s",
                over.items[i], i ? "as many values as the first --vary" : "at least two values");
        check.sizes = count;
    }
    if (!over.count)
        return arguments_wrong(command, "for example --vary dim=64,128,256",
                               "moec coordcheck requires --vary");
    check.over = over.items[0];
    for (int i = 0; i < check.sizes; i++)
        check.labels[i] = strchr(sets[i].items[given.count + 1], '=') + 1;
    Sized all[CHECK_SIZES] = {{0}};
    bool good = open_sizes(operand, sets, all, &check) && run_sizes(all, &check, (uint64_t)seed);
    bool change;
    if (good && json) print_check_json(&check);
    if (good && !json) print_coordinate_table(&check);
    if (good && !json) print_verdict(&check);
    if (good && picture) good = write_picture(&check, picture);
    bool fault = good && fault_of(&check, &change);
    for (int i = 0; i < check.sizes; i++) sized_close(&all[i]);
    free(sets);
    return good && !fault ? 0 : EXIT_INPUT;
}

/* verify: moec verify: compares the results of a device with the definition, tensor by tensor:
 * every output, every gradient, every state after the step, and decoding token by token with the
 * whole sequence, or with the definition of the step where that differs (moec_step_differs, or
 * weights that are stored smaller). The sizes are those of the spec, of the command line, or
 * --shapes.
 *
 * f32 has fixed limits. Where products round to bf16, the definition is evaluated in double
 * precision with products that round, with equal selections. The reference is its distance to the
 * exact definition: the largest of several equally good ways to round, as many as a device needs to
 * pass. The limit is twice the reference. Two programs round: that of the model, and that of the
 * device, which stores temporaries as bf16 and so rounds more. Results of many numbers (logits,
 * decoding, all gradients together) have the first one as reference. A single gradient can be a
 * difference of large terms, and a single number varies by chance: their reference is the second.
 *
 * Outputs also have a limit of 2e-2, unless rounding alone exceeds it; gradients do not, because
 * rounding alone can exceed it. Selections that depend on rounding would make the comparison one of
 * chance, so the first seed is used whose selections are all clear.
 *
 * A tensor beyond its limit is compared once more: the exact program runs again with small
 * perturbations of every value. Deviations up to twice the perturbation response are accepted and
 * reported, because the result is ill-conditioned: a tie between two largest values, a load at its
 * balance, or a difference of nearly equal terms. Anything beyond disagrees.
 */
#include "verify.h"

#include "base/memory.h"
#include "base/message.h"
#include "tools/against/against.h"
#include "tools/command/line/commands.h"

#include <stdlib.h>
#include <string.h>

/* Limits of the interpreter for one shape, in seconds: the spec's own, and each one of --shapes. */
enum { OWN_SECONDS = 120, EACH_SECONDS = 30 };
/* Sizes of a spec that has no train.batch_size or train.context_length. */
enum { DEFAULT_BATCH = 2, DEFAULT_CONTEXT = 12 };

typedef struct VerifyOptions {
    const char *operand, *device, *mesh;
    long batch, context, seed;
    bool json, shapes, forms, bisect;
    const char *against, *dtypes, *sizes, *inputs;
    TextList sets;
} VerifyOptions;

/* ---- one shape ---- */

/* The graphs that this model has: a loss to train, steps to decode, inputs to refine. */
static int graphs_of(const Comparison *comparison, GraphShape *graphs) {
    const char *bytes = moec_cost_json(comparison->compiler);
    json_auto_t *cost = json_loads(bytes ? bytes : "{}", 0, NULL);
    bool decodes = json_is_true(json_object_get(json_object_get(cost, "decoding"), "derived"));
    const long batch = comparison->shape.batch, context = comparison->context;
    int count = 0;
    graphs[count++] = (GraphShape){.graph = MOEC_TRAIN, .batch = batch, .context = context};
    graphs[count++] = (GraphShape){.graph = MOEC_FORWARD, .batch = batch, .context = context};
    if (decodes)
        graphs[count++] =
            (GraphShape){.graph = MOEC_DECODE, .batch = 1, .context = context, .tokens = 1};
    if (moec_refines(comparison->compiler))
        graphs[count++] = (GraphShape){.graph = MOEC_REFINE, .batch = batch, .context = context};
    return count;
}

/* The forms of these graphs, from programs compiled once more. */
static bool note_forms(Comparison *comparison, const GraphShape *graphs, int count) {
    AUTO(MoecCompiler) *compiler = spec_open_quietly(comparison->operand, comparison->sets);
    int forms;
    moec_form_names(comparison->compiler, &forms);
    for (int i = 0; compiler && i < count; i++)
        if (graphs[i].graph == MOEC_TRAIN) moec_trains(compiler);
    for (int i = 0; compiler && i < count; i++) {
        MoecProgram *program = moec_compile(compiler, graphs[i].graph, graphs[i].batch,
                                            graphs[i].context, graphs[i].tokens);
        if (program) moec_lower(compiler, program, device_target(comparison->device));
        const bool *has = program ? moec_forms(compiler, program) : NULL;
        for (int form = 0; has && form < forms; form++) comparison->forms[form] |= has[form];
    }
    return compiler && reports_good(compiler);
}

static void add_variants(Comparison *comparison, const Engine *engine) {
    comparison->variant = engine->variant;
    comparison->variant_launched += engine->variant_launched;
    comparison->variant_missing += engine->variant_missing;
}

/* Opens the model with these graphs, one of which trains or none, and compares them. */
static bool compare_graphs(Comparison *comparison, const GraphShape *graphs, int count, long seed) {
    bool trains = graphs[0].graph == MOEC_TRAIN, forward = count > trains;
    if (comparison->forms && !note_forms(comparison, graphs, count)) return false;
    comparison->model = model_open(comparison->device, comparison->compiler, graphs, count, true);
    bool good = comparison->model &&
                (forward ? verify_forward(comparison, seed) && verify_refinement(comparison)
                         : verify_set_weights(comparison));
    good = good && (!trains || verify_training(comparison));
    if (comparison->model) add_variants(comparison, comparison->model->engine);
    model_close(comparison->model);
    comparison->model = NULL;
    return good;
}

/* bf16 is not a type of its own where products are of bf16. */
static bool is_smaller_option(const Comparison *comparison, const char *option) {
    const char *type = moec_option(comparison->compiler, option);
    return type && strcmp(type, "f32") != 0 && strcmp(type, "same") != 0 &&
           !(comparison->rounded && !strcmp(type, "bf16"));
}

/* Training reads f32 weights. Where the other graphs read smaller ones, they are a model of their
 * own: a program that is compiled with training has its weights. */
static bool compare_all(Comparison *comparison, long seed) {
    GraphShape graphs[4];
    const int count = graphs_of(comparison, graphs);
    comparison->rounded = moec_rounded(comparison->compiler);
    comparison->smaller_weights = is_smaller_option(comparison, "inference.weight_dtype") ||
                                  is_smaller_option(comparison, "inference.head_dtype");
    if (!comparison->smaller_weights) return compare_graphs(comparison, graphs, count, seed);
    const bool rounded = comparison->rounded;
    comparison->rounded = false;
    bool good = compare_graphs(comparison, graphs + 1, count - 1, seed);
    comparison->rounded = rounded;
    return good && compare_graphs(comparison, graphs, 1, (long)comparison->seed);
}

static bool compare_shape(Comparison *comparison, long seed, json_t *json) {
    comparison->compiler = spec_open(comparison->operand, comparison->sets);
    if (!comparison->compiler) return false;
    comparison->context = comparison->shape.context;
    comparison->rounded = moec_rounded(comparison->compiler);
    if (comparison->bisect) verify_observe(comparison, comparison->compiler);
    AUTO_FREE char *problem = NULL, *help = NULL;
    bool fits = verify_fits(comparison, &problem, &help), good = fits;
    if (fits)
        good = compare_all(comparison, seed);
    else if (*comparison->shape.source || comparison->shape.asked)
        error_message(help, "batch %ld, context %ld%s %s", comparison->shape.batch,
                      comparison->shape.context, comparison->shape.source, problem);
    else
        verify_print_skipped(comparison, problem, json), good = true;
    if (good && fits) {
        verify_print(comparison, json);
        good = verify_agrees(comparison);
    }
    free(comparison->undecided);
    free(comparison->states);
    free(comparison->forms);
    moec_close(comparison->compiler);
    return good;
}

/* ---- the command ---- */

/* The sizes of the command line, else those of the spec. */
static VerifyShape own_shape(const VerifyOptions *options, MoecCompiler *compiler) {
    static const char *const sources[] = {" (from train)", " (batch from train)",
                                          " (context from train)", ""};
    const bool known = moec_option(compiler, "train.batch_size") != NULL;
    VerifyShape shape = {.batch = options->batch, .context = options->context};
    shape.source = known ? sources[2 * (options->batch > 0) + (options->context > 0)] : "";
    shape.asked = options->batch > 0 || options->context > 0;
    if (!shape.batch)
        shape.batch = (long)moec_option_number(compiler, "train.batch_size", DEFAULT_BATCH);
    if (!shape.context)
        shape.context = (long)moec_option_number(compiler, "train.context_length", DEFAULT_CONTEXT);
    return shape;
}

static bool compare(const VerifyOptions *options, Device *device, json_t *json) {
    VerifyShape shapes[SHAPE_LIMIT];
    AUTO(MoecCompiler) *compiler = spec_open_quietly(options->operand, &options->sets);
    if (!compiler || !reports_good(compiler)) return false;
    if (options->mesh) {
        const Comparison comparison = {.operand = options->operand,
                                       .sets = &options->sets,
                                       .shape = own_shape(options, compiler),
                                       .compiler = compiler,
                                       .seconds = OWN_SECONDS,
                                       .rounded = true};
        return verify_mesh(&comparison, options->mesh, options->seed, json);
    }
    int count = options->shapes ? verify_shapes(compiler, shapes) : 1, forms;
    if (!options->shapes) shapes[0] = own_shape(options, compiler);
    moec_form_names(compiler, &forms);
    bool good = true;
    for (int i = 0; i < count; i++) {
        TextList sets = options->sets;
        if (shapes[i].set) sets.items[sets.count++] = shapes[i].set;
        Comparison comparison = {.operand = options->operand,
                                 .sets = &sets,
                                 .shape = shapes[i],
                                 .device = device,
                                 .bisect = options->bisect,
                                 .seconds = options->shapes ? EACH_SECONDS : OWN_SECONDS};
        if (options->forms) comparison.forms = memory_new(sizeof(bool) * (size_t)forms);
        good &= compare_shape(&comparison, options->seed, json);
    }
    return good;
}

static void print_json(const VerifyOptions *options, json_t *reports) {
    const json_t *report = options->shapes ? reports : json_array_get(reports, 0);
    if (report) json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    if (report) puts("");
}

/* --against: other code instead of the compiled programs. */
static int verify_against(const VerifyOptions *options) {
    const AgainstOptions against = {.operand = options->operand,
                                    .code = options->against,
                                    .device = options->device,
                                    .dtypes = options->dtypes ? options->dtypes : "f32,bf16",
                                    .sizes = options->sizes,
                                    .inputs = options->inputs,
                                    .batch = options->batch,
                                    .context = options->context,
                                    .seed = options->seed,
                                    .sets = &options->sets};
    json_auto_t *json = options->json ? json_object() : NULL;
    const bool good = against_compare(&against, json);
    if (json_object_size(json)) {
        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        puts("");
    }
    return good ? 0 : EXIT_INPUT;
}

/* EXIT_USAGE after a message for options that exclude each other, else -1. */
static int check_against(const Command *command, const VerifyOptions *options) {
    const bool own = options->shapes || options->forms || options->bisect;
    if (options->against && own)
        return arguments_wrong(command, "omit --shapes, --forms and --bisect",
                               "--against compares at its own shapes");
    if (!options->against && (options->dtypes || options->sizes || options->inputs))
        return arguments_wrong(command, "add --against FILE.py:NAME",
                               "--dtypes, --sizes and --inputs belong to --against");
    return -1;
}

int command_verify(const Command *command, int argc, char **argv) {
    VerifyOptions options = {.device = "cpu", .batch = -1, .context = -1, .seed = 1};
    const Option table[] = {
        DEVICE_OPTION(&options.device),
        {OPTION_COUNT, "--batch-size", "N", &options.batch,
         "sequences per batch (default train.batch_size)"},
        {OPTION_COUNT, "--context-length", "N", &options.context,
         "positions per sequence (default train.context_length)"},
        {OPTION_FLAG, "--shapes", NULL, &options.shapes,
         "comparison at each shape that reaches another form of the program"},
        {OPTION_FLAG, "--bisect", NULL, &options.bisect,
         "comparison of every tensor that the spec names; the first equation that differs"},
        {OPTION_FLAG, "--forms", NULL, &options.forms,
         "list of the forms of the compiled programs"},
        {OPTION_TEXT, "--mesh", "AXES", &options.mesh,
         "comparison of the programs of a mesh of processes, data=2,expert=2, with the global one"},
        {OPTION_COUNT, "--seed", "N", &options.seed, "seed of weights and inputs (default 1)"},
        {OPTION_TEXT, "--against", "FILE:NAME", &options.against,
         "comparison of other code with a layer or model: FILE.py:NAME, FILE.so:NAME"},
        {OPTION_TEXT, "--dtypes", "LIST", &options.dtypes,
         "with --against: precisions, of f32, bf16 and f64 (default f32,bf16)"},
        {OPTION_TEXT, "--sizes", "LIST", &options.sizes,
         "with --against: sizes of the axes of a layer, d=64,h=4 (default 16 each)"},
        {OPTION_TEXT, "--inputs", "LIST", &options.inputs,
         "with --against: domains of inputs, ids=4,beta=0..1 (default all reals)"},
        {OPTION_FLAG, "--json", NULL, &options.json, "report as JSON"},
        SET_OPTION(&options.sets),
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &options.operand);
    if (code >= 0) return code;
    if (!options.batch || !options.context)
        return arguments_wrong(command, "omit them: the spec has values",
                               "--batch-size and --context-length must be at least 1");
    if (options.shapes && (options.batch > 0 || options.context > 0))
        return arguments_wrong(command, "omit --batch-size and --context-length",
                               "--shapes sets the batch size and the context length");
    if (options.batch < 0) options.batch = 0;
    if (options.context < 0) options.context = 0;
    code = check_against(command, &options);
    if (code >= 0) return code;
    if (options.against) return verify_against(&options);
    externs_compare_again();
    AUTO(Device) *device = device_open(options.device);
    json_auto_t *json = options.json ? json_array() : NULL;
    bool good = device && compare(&options, device, json);
    if (options.json) print_json(&options, json);
    return good ? 0 : EXIT_INPUT;
}

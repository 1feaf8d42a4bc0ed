/* model: elaborates the model of an open spec, and variants of it. */
#include "spec/compiler.h"

#include "analysis/parameter_facts.h"

#include <string.h>

/* Checks a spec that tests for its mode: parameters and states must not depend on it. A feature
 * that only training supports prevents decoding; it is not an error here. */
static Program *check_graph(MoecCompiler *compiler, Program *forward, Graph graph) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Program *other = elaborate(compiler->unit, compiler->model, graph, 0, 0, NULL);
    if (other) same_tensors(forward, other);
    if (other || graph != GRAPH_DECODE) return other;
    reports->errors = errors;
    reports->list.count = count;
    return NULL;
}

/* The optimizer needs the roles of parameters in training, which other passes with a loss may lack:
 *
 *     if training { aux more = ... w ... }      w is trained, and a matrix if it is multiplied
 */
static void take_training_facts(const MoecCompiler *compiler, const Program *program) {
    const List *all = compiler->training ? &compiler->training->tensors : NULL;
    for (int i = 0; all && i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_PARAMETER) continue;
        const Tensor *match = tensor_at_path(compiler->training, tensor->path);
        if (match) tensor->facts = match->facts;
    }
}

/* The optimizer reads options of single parameters from a table; notes their names. */
static void note_own(MoecCompiler *compiler, const Program *program) {
    List *names = &compiler->unit->own;
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        LIST_EACH(const OwnNumber, own, &tensor->own)
            if (!list_has_text(names, own->name))
                list_push(compiler->arena, names, (void *)own->name);
    }
}

static void mark_whole(const Unit *unit, const Program *program) {
    LIST_EACH(Tensor, tensor, &program->tensors)
        tensor->whole |=
            tensor->role == ROLE_PARAMETER && list_has_text(&unit->whole, tensor->path);
}

static Tensor *input_called(const Program *program, const char *name) {
    for (int i = 0; name && i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_INPUT && !strcmp(tensor->path, name)) return tensor;
    }
    return NULL;
}

Program *elaborated(MoecCompiler *compiler, Graph graph, long batch, long context) {
    List *settings = compiler->checked ? NULL : &compiler->settings;
    compiler->checked = true;
    Program *program = elaborate(compiler->unit, compiler->model, graph, batch, context, settings);
    if (!program) return NULL;
    program->rounded = moec_rounded(compiler);
    program->formats = operand_formats_find(moec_option(compiler, "train.precision"));
    if (graph == GRAPH_STEP) return program;
    choose_caches(program, moec_option(compiler, "inference.kv_cache_dtype"));
    program->input_gradients = compiler->differentiates && graph == GRAPH_TRAIN;
    if (graph == GRAPH_TRAIN) program->cotangent = input_called(program, compiler->unit->cotangent);
    parameter_facts(program);
    if (program->formats) find_head(program);
    if (!compiler->trains)
        choose_weights(program, moec_option(compiler, "inference.weight_dtype"),
                       moec_option(compiler, "inference.head_dtype"));
    if (program->loss) take_training_facts(compiler, program);
    if (compiler->tuning && graph != GRAPH_UPDATE) tune(compiler->tuning, program);
    mark_whole(compiler->unit, program);
    if (compiler->observes && graph == GRAPH_FORWARD) observe(program);
    if (compiler->observes_applied && graph == GRAPH_FORWARD) observe_applied(program);
    if (compiler->observed.count && (graph == GRAPH_FORWARD || graph == GRAPH_TRAIN))
        observe_by_name(program, &compiler->observed);
    return program;
}

/* The pass of training if it differs from the forward pass. */
static Program *training_pass(MoecCompiler *compiler, Program *forward) {
    Program *training = check_graph(compiler, forward, GRAPH_TRAIN);
    if (!training || compiler->reports.errors) return NULL;
    parameter_facts(training);
    compiler->training = training;
    take_training_facts(compiler, forward);
    return training;
}

static void elaborate_step(MoecCompiler *compiler, Program *program) {
    Unit *unit = compiler->unit;
    unit->parameters = program;
    unit->flows = (List){0};
    elaborate(unit, compiler->model, GRAPH_UPDATE, 0, 0, NULL);
}

/* The rules follow the forward pass and change the parameters of `tuned`. */
static void apply_transfer(MoecCompiler *compiler, Program *forward, Program *tuned) {
    compiler->tuning = transfer(compiler->unit, forward);
    if (compiler->tuning) tune(compiler->tuning, tuned);
}

void elaborate_model(MoecCompiler *compiler) {
    Program *program = elaborated(compiler, GRAPH_FORWARD, 0, 0);
    if (!program) return;
    compiler->model = program->name;
    compiler->gathers = program->gathers;
    compiler->reads_length = program->reads_length;
    compiler->refines = program->refines;
    Program *training = program->by_training ? training_pass(compiler, program) : program;
    if (program->by_decoding) check_graph(compiler, program, GRAPH_DECODE);
    if (program->refines) check_graph(compiler, program, GRAPH_REFINE);
    if (compiler->reports.errors) return;
    apply_transfer(compiler, program, training);
    note_own(compiler, training);
    if (!compiler->reports.errors && program->loss && moec_option(compiler, "train.optimizer"))
        elaborate_step(compiler, training);
}

/* ---- variants ---- */

static void elaborate_variant(void *data) {
    elaborate_model(data);
}

/* Elaborates the unit with more overrides. */
static void with_overrides(MoecCompiler *compiler, const Unit *unit, const List *overrides,
                           void (*run)(void *data), void *data) {
    Unit *own = arena_alloc(compiler->arena, sizeof *own);
    *own = *unit;
    own->arena = compiler->arena;
    own->reports = &compiler->reports;
    own->overrides = (List){0};
    own->own = (List){0};
    list_append(own->arena, &own->overrides, &unit->overrides);
    list_append(own->arena, &own->overrides, overrides);
    compiler->unit = own;
    bounded(compiler, run, data);
}

/* Reports the errors of a variant in its original compiler, by elaborating it there. Options of
 * groups such as train are read for the settings and are therefore requested again. */
static void repeat_errors(MoecCompiler *compiler, const List *overrides) {
    Unit *unit = compiler->unit;
    const List settings = compiler->settings;
    compiler->settings = (List){0};
    compiler->checked = false;
    with_overrides(compiler, unit, overrides, elaborate_variant, compiler);
    compiler->settings = settings;
    compiler->unit = unit;
}

static MoecCompiler *variant_new(const MoecCompiler *compiler) {
    MoecCompiler *variant = compiler_new();
    variant->model = compiler->model;
    variant->reports.saved = compiler->reports.saved;
    return variant;
}

/* The program of a variant, with its decisions. */
typedef struct ForwardVariant {
    MoecCompiler *compiler;
    List *decisions;
    Program *program;
} ForwardVariant;

static void elaborate_forward(void *data) {
    ForwardVariant *forward = data;
    Unit *unit = forward->compiler->unit;
    unit->decisions = forward->decisions;
    forward->program = elaborated(forward->compiler, GRAPH_FORWARD, 0, 0);
    unit->decisions = NULL;
    if (forward->program) apply_transfer(forward->compiler, forward->program, forward->program);
}

MoecCompiler *moec_vary_forward(MoecCompiler *compiler, const List *overrides, List *decisions,
                                Program **program) {
    ForwardVariant forward = {variant_new(compiler), decisions, NULL};
    with_overrides(forward.compiler, compiler->unit, overrides, elaborate_forward, &forward);
    *program = forward.compiler->reports.errors ? NULL : forward.program;
    return forward.compiler;
}

MoecCompiler *moec_vary(MoecCompiler *compiler, const List *overrides, bool tell) {
    MoecCompiler *variant = variant_new(compiler);
    with_overrides(variant, compiler->unit, overrides, elaborate_variant, variant);
    if (tell && moec_failed(variant)) repeat_errors(compiler, overrides);
    return variant;
}

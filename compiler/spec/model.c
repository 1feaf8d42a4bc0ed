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
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        for (int j = 0; j < tensor->own.count; j++) {
            const OwnNumber *own = tensor->own.items[j];
            bool known = false;
            for (int k = 0; k < names->count; k++) known |= !strcmp(names->items[k], own->name);
            if (!known) list_push(compiler->arena, names, (void *)own->name);
        }
    }
}

static void mark_whole(const Unit *unit, const Program *program) {
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        for (int j = 0; tensor->role == ROLE_PARAMETER && j < unit->whole.count; j++)
            tensor->whole |= !strcmp(tensor->path, unit->whole.items[j]);
    }
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
    if (compiler->observes_operands && graph == GRAPH_FORWARD) observe_operands(program);
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

void elaborate_model(MoecCompiler *compiler) {
    Program *program = elaborated(compiler, GRAPH_FORWARD, 0, 0);
    if (!program) return;
    compiler->model = program->name;
    compiler->gathers = program->gathers;
    Program *training = program->by_training ? training_pass(compiler, program) : program;
    if (program->by_decoding) check_graph(compiler, program, GRAPH_DECODE);
    if (compiler->reports.errors) return;
    compiler->tuning = transfer(compiler->unit, program);
    if (compiler->tuning) tune(compiler->tuning, training);
    note_own(compiler, training);
    if (!compiler->reports.errors && program->loss && moec_option(compiler, "train.optimizer"))
        elaborate_step(compiler, training);
}

/* ---- variants ---- */

static void elaborate_variant(void *data) {
    elaborate_model(data);
}

static void with_overrides(MoecCompiler *compiler, const Unit *unit, const List *overrides) {
    Unit *own = arena_alloc(compiler->arena, sizeof *own);
    *own = *unit;
    own->arena = compiler->arena;
    own->reports = &compiler->reports;
    own->overrides = (List){0};
    own->own = (List){0};
    for (int i = 0; i < unit->overrides.count; i++)
        list_push(own->arena, &own->overrides, unit->overrides.items[i]);
    for (int i = 0; i < overrides->count; i++)
        list_push(own->arena, &own->overrides, overrides->items[i]);
    compiler->unit = own;
    bounded(compiler, elaborate_variant, compiler);
}

/* Reports the errors of a variant in its original compiler, by elaborating it there. Options of
 * groups such as train are read for the settings and are therefore requested again. */
static void repeat_errors(MoecCompiler *compiler, const List *overrides) {
    Unit *unit = compiler->unit;
    const List settings = compiler->settings;
    compiler->settings = (List){0};
    compiler->checked = false;
    with_overrides(compiler, unit, overrides);
    compiler->settings = settings;
    compiler->unit = unit;
}

MoecCompiler *moec_vary(MoecCompiler *compiler, const List *overrides, bool tell) {
    MoecCompiler *variant = compiler_new();
    variant->model = compiler->model;
    variant->reports.saved = compiler->reports.saved;
    with_overrides(variant, compiler->unit, overrides);
    if (tell && moec_failed(variant)) repeat_errors(compiler, overrides);
    return variant;
}

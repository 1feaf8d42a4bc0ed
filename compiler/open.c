/* open: opens and checks a spec; implements the queries about it. */
#include "driver.h"

#include "analysis/parameter_facts.h"
#include "calls/call_table.h"

#include <stdlib.h>
#include <string.h>

/* ---- bounds ---- */

/* Memory limit for opening and compiling a spec. Models within the limits of the elaborator need
 * less; this limit catches unforeseen cases and machines with less memory. */
enum { MEGABYTE = 1 << 20, MAX_MEGABYTES = 450 };

static void stop_without_memory(void *data) {
    MoecCompiler *compiler = data;
    bool large = arena_bytes(compiler->arena) > (size_t)MEGABYTE * (MAX_MEGABYTES - 100);
    arena_limit(compiler->arena, 0, NULL, NULL);
    if (large)
        report_error(&compiler->reports, compiler->reports.at,
                     "the program is too large: the compiler needs more than %d MB", MAX_MEGABYTES);
    else
        report_error(&compiler->reports, compiler->reports.at,
                     "not enough memory for the compiler");
    report_help(&compiler->reports,
                "apply fewer layers, or apply them in a repeat, which is compiled once");
    report_give_up(&compiler->reports);
}

bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data) {
    arena_limit(compiler->arena, (size_t)MEGABYTE * MAX_MEGABYTES, stop_without_memory, compiler);
    bool whole = reports_guard(&compiler->reports, run, data);
    arena_limit(compiler->arena, 0, NULL, NULL);
    return whole;
}

/* ---- opening ---- */

static MoecCompiler *compiler_new(void) {
    Arena *arena = arena_new();
    MoecCompiler *compiler = arena_alloc(arena, sizeof *compiler);
    compiler->arena = arena;
    compiler->reports.arena = arena;
    return compiler;
}

/* The input of a spec: a file, or sources in memory. */
typedef struct SpecReading {
    MoecCompiler *compiler;
    const char *file, *search, *model;
    List sources; /* Source * */
    bool shown;   /* in an editor: replaces the files of these paths */
    List sets;    /* char * */
    bool layouts; /* open without a model */
    bool asks;    /* open for an experiment: */
    const char *experiment;
} SpecReading;

/* Checks a spec that tests for its mode: parameters and states must not depend on it. A feature
 * that only training supports prevents decoding; it is not an error here. */
static void check_graph(MoecCompiler *compiler, Program *forward, Graph graph) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Program *other = elaborate(compiler->unit, compiler->model, graph, 0, 0, NULL);
    if (other) same_tensors(forward, other);
    if (other || graph != GRAPH_DECODE) return;
    reports->errors = errors;
    reports->list.count = count;
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
    if (compiler->tuning && graph != GRAPH_UPDATE) tune(compiler->tuning, program);
    mark_whole(compiler->unit, program);
    if (compiler->observes && graph == GRAPH_FORWARD) observe(program);
    if (compiler->observes_operands && graph == GRAPH_FORWARD) observe_operands(program);
    if (compiler->observed.count && (graph == GRAPH_FORWARD || graph == GRAPH_TRAIN))
        observe_by_name(program, &compiler->observed);
    return program;
}

const char *moec_learned_positions(MoecCompiler *compiler) {
    const Program *program = elaborated(compiler, GRAPH_FORWARD, 0, 0);
    for (int i = 0; program && i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        for (int j = 0; tensor->role == ROLE_PARAMETER && j < tensor->rank; j++)
            if (tensor->axes[j] == program->sequence) return tensor->path;
    }
    return NULL;
}

static void elaborate_step(MoecCompiler *compiler, Program *program) {
    Unit *unit = compiler->unit;
    unit->parameters = program;
    unit->flows = (List){0};
    elaborate(unit, compiler->model, GRAPH_UPDATE, 0, 0, NULL);
}

/* Elaborates the model once, so that its errors and settings are known before other queries. */
static void elaborate_model(MoecCompiler *compiler) {
    Program *program = elaborated(compiler, GRAPH_FORWARD, 0, 0);
    if (!program) return;
    compiler->model = program->name;
    compiler->gathers = program->gathers;
    if (program->by_training) check_graph(compiler, program, GRAPH_TRAIN);
    if (program->by_decoding) check_graph(compiler, program, GRAPH_DECODE);
    if (compiler->reports.errors) return;
    compiler->tuning = transfer(compiler->unit, program);
    if (compiler->tuning) tune(compiler->tuning, program);
    note_own(compiler, program);
    if (!compiler->reports.errors && program->loss && moec_option(compiler, "train.optimizer"))
        elaborate_step(compiler, program);
}

/* True if one of the nodes is declared in the file itself. */
static bool has_own(const Unit *unit, const List *nodes) {
    for (int i = 0; i < nodes->count; i++)
        if (((Node *)nodes->items[i])->span.source == unit->sources.items[0]) return true;
    return false;
}

/* Reads every experiment and reports its errors. The model is the baseline of the selected
 * experiment, or of the last one if the file has no model. */
static void read_experiments(const SpecReading *reading) {
    MoecCompiler *compiler = reading->compiler;
    Unit *unit = compiler->unit;
    const Experiment *last = NULL;
    rename_experiments(unit);
    for (int i = 0; i < unit->experiments.count; i++)
        last = experiment_read(unit, unit->experiments.items[i]);
    bool own = has_own(unit, &unit->models);
    if (reading->asks && !compiler->reports.errors)
        compiler->experiment = last = experiment_find(unit, reading->experiment);
    if (last && !compiler->reports.errors && !compiler->model && (reading->asks || !own))
        compiler->model = last->model;
}

bool moec_only_layouts(const MoecCompiler *compiler) {
    const Unit *unit = compiler->unit;
    return unit && unit->sources.count && has_own(unit, &unit->layouts) &&
           !has_own(unit, &unit->models) && !has_own(unit, &unit->layers);
}

static void read_model(void *data) {
    const SpecReading *reading = data;
    MoecCompiler *compiler = reading->compiler;
    const char *const *sets = (const char *const *)reading->sets.items;
    const Source *const *sources = (const Source *const *)reading->sources.items;
    int set_count = reading->sets.count, source_count = reading->sources.count;
    compiler->unit = reading->shown  ? resolve_documents(compiler->arena, &compiler->reports,
                                                         sources, source_count, reading->search)
                     : reading->file ? resolve(compiler->arena, &compiler->reports, reading->file,
                                               reading->search, sets, set_count)
                                     : resolve_sources(compiler->arena, &compiler->reports, sources,
                                                       source_count, sets, set_count);
    compiler->unit->calls = call_table;
    if (reading->layouts || !compiler->reports.errors)
        compiler->layouts = layouts_read(compiler->unit);
    if (reading->layouts || (reading->shown && moec_only_layouts(compiler))) return;
    if (!compiler->reports.errors) read_experiments(reading);
    if (!compiler->reports.errors) elaborate_model(compiler);
}

/* ---- variants of an open model ---- */

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

static MoecCompiler *read_spec_file(SpecReading reading, const char *const *sets, int set_count) {
    MoecCompiler *compiler = reading.compiler = compiler_new();
    const char *model = reading.model;
    if (model) compiler->model = arena_copy(compiler->arena, model, strlen(model));
    for (int i = 0; i < set_count; i++) list_push(compiler->arena, &reading.sets, (void *)sets[i]);
    bounded(compiler, read_model, &reading);
    return compiler;
}

MoecCompiler *moec_open(const char *file, const char *model, const char *const *sets, int set_count,
                        const char *search) {
    return read_spec_file((SpecReading){.file = file, .search = search, .model = model}, sets,
                          set_count);
}

MoecCompiler *moec_open_experiment(const char *file, const char *experiment,
                                   const char *const *sets, int set_count, const char *search) {
    const SpecReading reading = {
        .file = file, .search = search, .asks = true, .experiment = experiment};
    return read_spec_file(reading, sets, set_count);
}

/* Without a model; no file: a part of the standard library. */
static MoecCompiler *open_part(const char *file, const char *search, bool layouts) {
    MoecCompiler *compiler = compiler_new();
    SpecReading reading = {.compiler = compiler, .file = file, .search = search, .layouts = true};
    if (!file) reading.sources = standard_sources(compiler->arena, layouts);
    bounded(compiler, read_model, &reading);
    return compiler;
}

MoecCompiler *moec_open_layouts(const char *file, const char *search) {
    return open_part(file, search, true);
}

MoecCompiler *moec_open_declarations(const char *file, const char *search) {
    return open_part(file, search, false);
}

MoecCompiler *moec_open_document(const MoecDocument *documents, int count, const char *model,
                                 const char *search) {
    MoecCompiler *compiler = compiler_new();
    SpecReading reading = {.compiler = compiler, .search = search, .shown = true};
    compiler->reports.shown = true;
    if (model) compiler->model = arena_copy(compiler->arena, model, strlen(model));
    for (int i = 0; i < count; i++) {
        Source *source = arena_alloc(compiler->arena, sizeof *source);
        const MoecDocument *document = &documents[i];
        source->path = arena_copy(compiler->arena, document->path, strlen(document->path));
        source->text = arena_copy(compiler->arena, document->text, document->length);
        source->length = document->length;
        list_push(compiler->arena, &reading.sources, source);
    }
    bounded(compiler, read_model, &reading);
    return compiler;
}

void moec_close(MoecCompiler *compiler) {
    if (!compiler) return;
    arena_free(compiler->scratch);
    arena_free(compiler->arena);
}

bool moec_failed(const MoecCompiler *compiler) {
    return compiler->reports.errors > 0;
}

const char *moec_reports(MoecCompiler *compiler) {
    return reports_text(&compiler->reports, compiler->arena);
}

const char *moec_reports_json(MoecCompiler *compiler) {
    return reports_json(&compiler->reports, compiler->arena);
}

const char *moec_warnings(MoecCompiler *compiler) {
    return warnings_text(&compiler->reports, compiler->arena);
}

const char *moec_warnings_json(MoecCompiler *compiler) {
    return warnings_json(&compiler->reports, compiler->arena);
}

const char *moec_nearest(const char *name, const char *const *candidates, int count) {
    return did_you_mean(name, candidates, count);
}

void moec_print_notes(bool print) {
    reports_print_notes(print);
}

void moec_observe(MoecCompiler *compiler) {
    compiler->observes = true;
}

void moec_observe_operands(MoecCompiler *compiler) {
    compiler->observes_operands = true;
}

void moec_observe_name(MoecCompiler *compiler, const char *name) {
    list_push(compiler->arena, &compiler->observed,
              arena_copy(compiler->arena, name, strlen(name)));
}

static MoecSpecTensor described_tensor(Arena *arena, const Tensor *tensor, const char *name,
                                       bool stacked) {
    Text axes = {.arena = arena};
    text_add(&axes, "%s", "");
    for (int i = stacked; i < tensor->rank; i++)
        text_add(&axes, "%s%s=%ld", i > stacked ? "," : "", tensor->axes[i]->name,
                 tensor->axes[i]->size);
    return (MoecSpecTensor){.name = name,
                            .axes = axes.text,
                            .part = tensor->part,
                            .file = tensor->span.source ? tensor->span.source->path : NULL,
                            .line = span_line(tensor->span)};
}

static bool is_stacked_tensor(const Tensor *tensor) {
    return tensor->rank && tensor->axes[0]->kind == AXIS_REPEAT;
}

/* The tensor of a list entry; false: it has no name in the spec. */
static bool describe_spec_tensor(Arena *arena, const Tensor *tensor, MoecSpecTensor *to) {
    if (!tensor->spec_name || tensor->type != TYPE_REAL) return false;
    *to = described_tensor(arena, tensor, tensor->spec_name, is_stacked_tensor(tensor));
    return true;
}

const MoecSpecTensor *moec_spec_tensors(MoecCompiler *compiler, long batch, long context,
                                        int *count) {
    Program *program = elaborated(compiler, GRAPH_FORWARD, batch, context);
    *count = 0;
    if (!program) return NULL;
    attention_weights(program, NULL);
    MoecSpecTensor *list =
        arena_alloc(compiler->arena, ((size_t)program->tensors.count + 1) * sizeof *list);
    for (int i = 0; i < program->tensors.count; i++)
        *count += describe_spec_tensor(compiler->arena, program->tensors.items[i], &list[*count]);
    return list;
}

const MoecCacheTensor *moec_cache_tensors(MoecCompiler *compiler, MoecProgram *program,
                                          int *count) {
    const List *tensors = &program->tensors;
    MoecCacheTensor *list =
        arena_alloc(compiler->arena, ((size_t)tensors->count + 1) * sizeof *list);
    *count = 0;
    for (int i = 0; i < tensors->count; i++) {
        const Tensor *tensor = tensors->items[i];
        if (tensor->role != ROLE_CACHE) continue;
        const char *name = tensor->path ? tensor->path : tensor->name;
        long *shape = arena_alloc(compiler->arena, (MAX_RANK + 1) * sizeof *shape);
        Text axes = {.arena = compiler->arena};
        text_add(&axes, "%s", "");
        for (int j = 0; j < tensor->rank; j++) {
            shape[j] = tensor->axes[j]->size;
            text_add(&axes, "%s%s", j ? "," : "", tensor->axes[j]->name);
        }
        const bool stacked = tensor->spec_name && strchr(tensor->spec_name, '{'),
                   named = tensor->spec_name && stacked == is_stacked_tensor(tensor);
        list[(*count)++] = (MoecCacheTensor){
            .spec = described_tensor(compiler->arena, tensor, named ? tensor->spec_name : name,
                                     named && stacked),
            .stored = {name, axes.text, tensor->rank, shape},
            .reference = arena_format(compiler->arena, "cache:%s", tensor->name)};
    }
    return list;
}

/* Search for the first statement that reads a tensor. */
typedef struct ReaderSearch {
    const Tensor *tensor;
    const Statement *found;
} ReaderSearch;

static void look_for_reader(Statement *statement, void *data) {
    ReaderSearch *search = data;
    bool reads = statement->value && expr_reads(statement->value, search->tensor);
    for (int i = 0; i < statement->inputs.count; i++)
        reads |= expr_reads(statement->inputs.items[i], search->tensor);
    if (reads && !search->found && statement->span.source) search->found = statement;
}

bool moec_first_reader(MoecCompiler *compiler, const char *name, const char **file, int *line) {
    Program *program = elaborated(compiler, GRAPH_TRAIN, 0, 0);
    for (int i = 0; program && i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if ((tensor->role != ROLE_PARAMETER && tensor->role != ROLE_INPUT) || !tensor->path ||
            strcmp(tensor->path, name) != 0)
            continue;
        ReaderSearch search = {.tensor = tensor};
        block_walk(&program->body, look_for_reader, &search);
        if (!search.found) return false;
        *file = search.found->span.source->path;
        *line = span_line(search.found->span);
        return true;
    }
    return false;
}

void moec_probe(MoecCompiler *compiler) {
    if (compiler->unit) compiler->unit->probing = true;
}

void moec_differentiate_inputs(MoecCompiler *compiler) {
    compiler->differentiates = true;
}

void moec_split_training(MoecCompiler *compiler, const char *name) {
    if (compiler->unit) compiler->unit->cotangent = arena_format(compiler->arena, "%s", name);
}

const MoecStage *moec_stages(MoecCompiler *compiler, int *count) {
    const List *stages = &compiler->unit->stages;
    MoecStage *copies = arena_alloc(compiler->arena, sizeof *copies * (size_t)(stages->count + 1));
    *count = stages->count ? stages->count - 1 : 0;
    for (int i = 0; i < *count; i++) {
        const Stage *stage = stages->items[i];
        copies[i] = (MoecStage){stage->steps, stage->batch, stage->context, stage->accumulate};
    }
    return copies;
}

bool moec_gathers(const MoecCompiler *compiler) {
    return compiler->gathers;
}

const char *moec_transfer(MoecCompiler *compiler, MoecTransferForm form) {
    static char *(*const forms[])(Arena *,
                                  const Tuning *) = {[MOEC_TRANSFER_FACTORS] = tuning_factors,
                                                     [MOEC_TRANSFER_JSON] = tuning_json,
                                                     [MOEC_TRANSFER_FORMULAS] = tuning_text};
    if (moec_failed(compiler) || !compiler->tuning) return NULL;
    return forms[form](compiler->arena, compiler->tuning);
}

Arena *moec_arena(MoecCompiler *compiler) {
    return compiler->arena;
}

Unit *moec_unit(MoecCompiler *compiler) {
    return compiler->unit;
}

const List *moec_settings(MoecCompiler *compiler) {
    return &compiler->settings;
}

const List *moec_layout_list(MoecCompiler *compiler) {
    return &compiler->layouts;
}

const Experiment *moec_asked(MoecCompiler *compiler) {
    return compiler->experiment;
}

const char *moec_model(const MoecCompiler *compiler) {
    return compiler->model;
}

void moec_mark_units(MoecCompiler *compiler) {
    compiler->marks = true;
}

void moec_trains(MoecCompiler *compiler) {
    compiler->trains = true;
}

bool moec_rounded(MoecCompiler *compiler) {
    const char *precision = moec_option(compiler, "train.precision");
    return precision && strcmp(precision, "f32") != 0;
}

MoecCompiler *moec_open_bundle(const char *text, size_t length, const char *const *sets,
                               int set_count) {
    MoecCompiler *compiler = compiler_new();
    SpecReading reading = {.compiler = compiler};
    compiler->reports.saved = true;
    compiler->model = bundle_read(compiler->arena, text, length, &reading.sources, &reading.sets);
    if (!compiler->model) {
        report_error(&compiler->reports, (Span){0}, "invalid spec in the checkpoint");
        report_help(
            &compiler->reports,
            "the file is damaged or was written by a newer version; use another checkpoint");
        return compiler;
    }
    for (int i = 0; i < set_count; i++) list_push(compiler->arena, &reading.sets, (void *)sets[i]);
    bounded(compiler, read_model, &reading);
    return compiler;
}

MoecCompiler *moec_open_beside(MoecCompiler *compiler, const char *text, const char *model) {
    MoecCompiler *beside = compiler_new();
    const Unit *unit = compiler->unit;
    Source *source = arena_alloc(beside->arena, sizeof *source);
    *source = (Source){.path = "layer.moe", .text = text, .length = strlen(text)};
    SpecReading reading = {.compiler = beside};
    beside->reports.saved = true;
    beside->model = model;
    list_push(beside->arena, &reading.sources, source);
    for (int i = 0; i < unit->sources.count; i++) {
        Source *other = unit->sources.items[i];
        if (strcmp(other->path, "--set") != 0 && !path_is_standard(other->path))
            list_push(beside->arena, &reading.sources, other);
    }
    for (int i = 0; i < unit->kernels.count; i++)
        list_push(beside->arena, &reading.sources, unit->kernels.items[i]);
    bounded(beside, read_model, &reading);
    return beside;
}

MoecCompiler *moec_open_names(const char *bundle) {
    MoecCompiler *compiler = compiler_new();
    SpecReading reading = {.compiler = compiler, .layouts = true};
    compiler->reports.saved = true;
    if (bundle_read(compiler->arena, bundle, strlen(bundle), &reading.sources, &reading.sets))
        bounded(compiler, read_model, &reading);
    return compiler;
}

const char *moec_log_name(MoecCompiler *compiler, const char *name) {
    return compiler->unit ? renamed_log_name(compiler->unit, name) : name;
}

/* ---- formatting ---- */

typedef struct Formatting {
    MoecCompiler *compiler;
    const char *text;
} Formatting;

static void format_source(void *data) {
    Formatting *formatting = data;
    MoecCompiler *compiler = formatting->compiler;
    const Source *source = compiler->unit->sources.items[0];
    Reports reports = {.arena = compiler->arena};
    Node *file = parse(compiler->arena, &reports, source);
    reports.saved = true;
    if (file) rename_words(compiler->unit, file);
    if (file) rename_options(compiler->unit, file);
    if (file && !reports.errors) formatting->text = format_tree(compiler->arena, source, file);
}

const char *moec_format(MoecCompiler *compiler) {
    if (!compiler->unit || !compiler->unit->sources.count) return NULL;
    Formatting formatting = {.compiler = compiler};
    bool saved = compiler->reports.saved;
    compiler->reports.saved = true;
    bool whole = bounded(compiler, format_source, &formatting);
    compiler->reports.saved = saved;
    return whole ? formatting.text : NULL;
}

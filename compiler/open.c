/* open: opens and checks a spec; implements the queries about it. */
#include "driver/driver.h"

#include "calls/call_table.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

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

const char *moec_learned_positions(MoecCompiler *compiler) {
    const Program *program = elaborated(compiler, GRAPH_FORWARD, 0, 0);
    for (int i = 0; program && i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        for (int j = 0; tensor->role == ROLE_PARAMETER && j < tensor->rank; j++)
            if (tensor->axes[j] == program->sequence) return tensor->path;
    }
    return NULL;
}

/* True if one of the nodes is declared in the file itself. */
static bool has_own(const Unit *unit, const List *nodes) {
    return list_find_by(nodes, offsetof(Node, span.source), unit->sources.items[0]) != NULL;
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

const char *moec_nearest(const char *name, const char *const *candidates, int count) {
    return did_you_mean(name, candidates, count);
}

static MoecSpecTensor described_tensor(Arena *arena, const Tensor *tensor, const char *name,
                                       bool stacked) {
    Text axes = text_new(arena);
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
    LIST_EACH(const Tensor, tensor, tensors) {
        if (tensor->role != ROLE_CACHE) continue;
        const char *name = tensor->path ? tensor->path : tensor->name;
        long *shape = arena_alloc(compiler->arena, (MAX_RANK + 1) * sizeof *shape);
        Text axes = text_new(compiler->arena);
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

const char *moec_transfer(MoecCompiler *compiler, MoecTransferForm form) {
    static char *(*const forms[])(Arena *,
                                  const Tuning *) = {[MOEC_TRANSFER_FACTORS] = tuning_factors,
                                                     [MOEC_TRANSFER_JSON] = tuning_json,
                                                     [MOEC_TRANSFER_FORMULAS] = tuning_text};
    if (moec_failed(compiler) || !compiler->tuning) return NULL;
    return forms[form](compiler->arena, compiler->tuning);
}

MoecCompiler *moec_open_bundle(const char *text, size_t length, const char *const *sets,
                               int set_count) {
    MoecCompiler *compiler = compiler_new();
    SpecReading reading = {.compiler = compiler};
    compiler->reports.saved = true;
    compiler->model = bundle_read(compiler->arena, text, length, &reading.sources, &reading.sets);
    if (!compiler->model) {
        report_invalid(
            &compiler->reports, (Span){0},
            "the file is damaged or was written by a newer version; use another checkpoint",
            "invalid spec in the checkpoint");
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
    LIST_EACH(Source, other, &unit->sources)
        if (strcmp(other->path, "--set") != 0 && !path_is_standard(other->path))
            list_push(beside->arena, &reading.sources, other);
    list_append(beside->arena, &reading.sources, &unit->kernels);
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

/* ---- comparison ---- */

static bool same_kernels(const List *then, const List *now) {
    bool same = then->count == now->count;
    for (int i = 0; same && i < now->count; i++)
        same =
            !strcmp(((const Source *)then->items[i])->text, ((const Source *)now->items[i])->text);
    return same;
}

bool moec_same_training(MoecCompiler *then, MoecCompiler *now) {
    static const MoecGraph graphs[] = {MOEC_TRAIN, MOEC_UPDATE, MOEC_STEP};
    for (int i = 0; i < 3; i++) {
        const char *was = moec_dump(then, graphs[i], "elaborate", &target_processor);
        const char *is = moec_dump(now, graphs[i], "elaborate", &target_processor);
        if (!was || !is || strcmp(was, is) != 0) return false;
    }
    LIST_EACH(const Setting, setting, &now->settings) {
        const Setting *was = find_setting(then, setting->path);
        if (strncmp(setting->path, "train.", 6) || !was) continue;
        if (!same_value(now->unit, was, setting)) return false;
    }
    return same_kernels(&then->unit->kernels, &now->unit->kernels);
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

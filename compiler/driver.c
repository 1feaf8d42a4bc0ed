/* driver: the passes in their order, behind the public header. */
#include "moec.h"

#include "analysis/parameter_facts.h"
#include "loop/form.h"
#include "schedule/kernel.h"
#include "passes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct MoecCompiler {
    Arena *arena;
    Reports reports;
    Unit *unit;
    const char *model;
    bool observes;       /* programs of the forward pass give their activations */
    bool differentiates; /* programs that train give the gradients of real inputs */
    Tuning *tuning;      /* NULL: the model names no transfer */
    List settings;       /* Setting * */
    bool checked;
    bool gathers;
    bool trains;                  /* its programs share weights with training */
    List layouts;                 /* Layout * */
    const Experiment *experiment; /* that it was opened for, or NULL */
};

/* ---- the pipeline ---- */

/* A program on its way, and what a pass may want to know besides. */
typedef struct Work {
    MoecCompiler *compiler;
    Program *program;
    Schedule *schedule; /* from fuse on */
    const char *pass;   /* that is run */
    List forms;         /* KernelForm *, from loops on */
    bool lowered;
    bool defined; /* what it means is asked for: what only makes it faster is left out */
    Graph graph;
    long batch, context, tokens;
} Work;

static bool layer_recomputes(MoecCompiler *compiler) {
    const char *remat = moec_option(compiler, "train.remat");
    return remat && !strcmp(remat, "layer");
}

static void pass_elaborate(Work *work) {
    MoecCompiler *compiler = work->compiler;
    List *settings = compiler->checked ? NULL : &compiler->settings;
    compiler->checked = true;
    work->program = elaborate(compiler->unit, compiler->model, work->graph, work->batch,
                              work->context, settings);
    if (!work->program) return;
    work->program->rounded = moec_rounded(compiler);
    if (!compiler->trains) choose_weights(work->program, moec_option(compiler, "train.weights"));
    work->program->input_gradients = compiler->differentiates && work->graph == GRAPH_TRAIN;
    parameter_facts(work->program);
    if (compiler->tuning && work->graph != GRAPH_UPDATE) tune(compiler->tuning, work->program);
    if (compiler->observes && work->graph == GRAPH_FORWARD) observe(work->program);
}

static void pass_chunk_scan(Work *work) {
    if (work->defined) return;
    chunk_scan(work->program, (long)moec_option_number(work->compiler, "train.places", 0));
}

static void pass_reassociate(Work *work) {
    if (work->program->loss) reassociate(work->program);
}

static void pass_gradient(Work *work) {
    if (work->program->loss) gradient(work->program, layer_recomputes(work->compiler));
}

static void pass_decode(Work *work) {
    decode(work->program, work->tokens > 0 ? work->tokens : 1);
}

static void pass_measure(Work *work) {
    measure(work->program);
}

static void pass_simplify(Work *work) {
    simplify(work->program);
}

static void pass_route(Work *work) {
    route(work->program);
}

static void pass_gather_fusion(Work *work) {
    gather_fusion(work->program);
}

static void pass_strip_mine(Work *work) {
    strip_mine(work->program, (long)moec_option_number(work->compiler, "train.chunk", 0));
}

/* A processor adds at one place sooner than it compares everywhere, unless that keeps the rows from
 * being stored as bf16. */
static void pass_scatter_to_select(Work *work) {
    if (work->program->target->launches || work->program->rounded) scatter_to_select(work->program);
}

static void pass_smaller_weights(Work *work) {
    smaller_weights(work->program);
}

static void pass_precision(Work *work) {
    precision(work->program);
}

static void pass_storage(Work *work) {
    storage(work->program);
}

static void pass_pad(Work *work) {
    pad(work->program);
}

static void pass_fuse(Work *work) {
    work->schedule = fuse(work->program);
}

static void pass_plan(Work *work) {
    plan(work->schedule);
}

static void pass_loops(Work *work) {
    Schedule none = {.program = work->program}; /* the optimizer's program has no units */
    Schedule *schedule = work->schedule ? work->schedule : &none;
    work->forms = emit_forms(work->compiler->arena, schedule);
    work->lowered = true;
}

static void pass_form(Work *work) {
    form_pass(work->compiler->arena, &work->forms, work->pass, work->program->target);
}

enum {
    FORWARD = 1 << GRAPH_FORWARD,
    TRAIN = 1 << GRAPH_TRAIN,
    DECODE = 1 << GRAPH_DECODE,
    UPDATE = 1 << GRAPH_UPDATE,
    MEASURE = 1 << GRAPH_MEASURE,
    GATHER = 1 << GRAPH_GATHER,
    MODELS = FORWARD | TRAIN | DECODE | MEASURE | GATHER
};

typedef enum Machine { ANY, DEVICE } Machine;

/* The way of a program, from the tree of a file to what an emitter writes down. Before it resolve
 * reads the file and all that it uses; after it emit_c or emit_cuda write one text of several
 * programs: they lower each kernel to loops as they come to it, so that `loops` and what follows
 * are here for moec_dump alone. The optimizer's program is the same on all machines and a single
 * kernel. */
static const struct Pass {
    const char *name;
    int graphs; /* that it is for */
    Machine machine;
    void (*run)(Work *work);
} passes[] = {
    {"elaborate", MODELS | UPDATE, ANY, pass_elaborate},
    {"chunk_scan", FORWARD | TRAIN | MEASURE, ANY, pass_chunk_scan},
    {"reassociate", TRAIN, ANY, pass_reassociate},
    {"gradient", TRAIN, ANY, pass_gradient},
    {"decode", DECODE, ANY, pass_decode},
    {"measure", MEASURE, ANY, pass_measure},
    {"simplify", MODELS | UPDATE, ANY, pass_simplify},
    {"route", MODELS, ANY, pass_route},
    {"gather_fusion", MODELS, ANY, pass_gather_fusion},
    {"strip_mine", FORWARD | TRAIN | MEASURE | GATHER, ANY, pass_strip_mine},
    {"smaller_weights", FORWARD | DECODE | MEASURE, ANY, pass_smaller_weights},
    {"scatter_to_select", MODELS, ANY, pass_scatter_to_select},
    {"precision", MODELS, ANY, pass_precision},
    {"storage", MODELS, ANY, pass_storage},
    {"pad", MODELS, DEVICE, pass_pad},
    {"fuse", MODELS, ANY, pass_fuse},
    {"plan", MODELS, ANY, pass_plan},
    {"loops", MODELS | UPDATE, ANY, pass_loops},
    {"vectors", MODELS | UPDATE, ANY, pass_form},
    {"barriers", MODELS | UPDATE, ANY, pass_form},
    {"unused", MODELS | UPDATE, ANY, pass_form},
};

enum { PASS_COUNT = sizeof passes / sizeof *passes };

/* What moec_compile leaves: everything up to the choice of a machine. */
static const char *const last_of_all = "smaller_weights", *const last_of_machine = "pad",
                         *const last_of_schedule = "plan";

static int place_of(const char *pass) {
    int place = 0;
    while (place < PASS_COUNT && strcmp(passes[place].name, pass)) place++;
    return place;
}

/* A program that a pass broke is our mistake, not the user's. */
static void check_program(MoecCompiler *compiler, const char *pass, Program *program) {
    char *wrong = verify(compiler->arena, program);
    if (!wrong) return;
    fprintf(stderr, "moec: internal error: after pass '%s': %s\n%s", pass, wrong,
            print_program(compiler->arena, program));
    abort();
}

/* ---- bounds ---- */

/* What reading a spec and passing it on may take. A model at the bounds of the elaborator needs
 * less: this is for what they do not foresee, and for machines without that much memory. */
enum { MEGABYTE = 1 << 20, MAX_MEGABYTES = 450 };

static void out_of_memory(void *data) {
    MoecCompiler *compiler = data;
    bool large = arena_bytes(compiler->arena) > (size_t)MEGABYTE * (MAX_MEGABYTES - 100);
    arena_limit(compiler->arena, 0, NULL, NULL);
    if (large)
        report_error(&compiler->reports, compiler->reports.at,
                     "this is too large: the compiler would need more than %d MB for it",
                     MAX_MEGABYTES);
    else
        report_error(&compiler->reports, compiler->reports.at,
                     "the machine has no memory left for the compiler");
    report_help(&compiler->reports,
                "apply fewer layers, or let a repeat apply them: its turns count once");
    report_give_up(&compiler->reports);
}

/* Runs what may turn out to be too large; false when it did, and that was reported. */
static bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data) {
    arena_limit(compiler->arena, (size_t)MEGABYTE * MAX_MEGABYTES, out_of_memory, compiler);
    bool whole = reports_guard(&compiler->reports, run, data);
    arena_limit(compiler->arena, 0, NULL, NULL);
    return whole;
}

/* ---- the way through the passes ---- */

typedef struct Way {
    Work *work;
    const char *after, *last;
    Machine machine;
    bool good;
} Way;

static void follow(void *data) {
    Way *way = data;
    Work *work = way->work;
    MoecCompiler *compiler = work->compiler;
    for (int i = way->after ? place_of(way->after) + 1 : 0; i <= place_of(way->last); i++) {
        const struct Pass *pass = &passes[i];
        if (!(pass->graphs & 1 << work->graph) || (pass->machine && way->machine != pass->machine))
            continue;
        work->pass = pass->name;
        pass->run(work);
        if (!work->program || compiler->reports.errors) return;
        check_program(compiler, pass->name, work->program);
    }
    way->good = true;
}

/* The passes behind `after` (NULL: from the first one) up to `last`. False after an error. */
static bool run_passes(Work *work, const char *after, const char *last, Machine machine) {
    Way way = {work, after, last, machine, false};
    return bounded(work->compiler, follow, &way) && way.good;
}

static Work work_of(MoecCompiler *compiler, Program *program) {
    return (Work){.compiler = compiler, .program = program, .graph = program->graph};
}

/* A program that is emitted twice is lowered already. */
void moec_lower(MoecCompiler *compiler, Program *program, bool device) {
    if (program->lowered) return;
    program->target = device ? &target_device : &target_processor;
    program->lowered = true;
    if (device && !weights_fit(program, &compiler->reports)) return;
    Work work = work_of(compiler, program);
    run_passes(&work, last_of_all, last_of_machine, device ? DEVICE : ANY);
}

Schedule *moec_schedule(MoecCompiler *compiler, Program *program) {
    moec_lower(compiler, program, false);
    Work work = work_of(compiler, program);
    bool good = run_passes(&work, last_of_machine, last_of_schedule, ANY);
    if (!good || !work.schedule) work.schedule = arena_alloc(program->arena, sizeof *work.schedule);
    work.schedule->program = program;
    return work.schedule;
}

static Schedule **schedules_of(MoecCompiler *compiler, Program *const *programs, int count) {
    Schedule **schedules = arena_alloc(compiler->arena, ((size_t)count + 1) * sizeof *schedules);
    for (int i = 0; i < count; i++) schedules[i] = moec_schedule(compiler, programs[i]);
    return schedules;
}

const char *const *moec_passes(int *count) {
    static const char *names[PASS_COUNT];
    for (int i = 0; i < PASS_COUNT; i++) names[i] = passes[i].name;
    *count = PASS_COUNT;
    return names;
}

static MoecProgram *compile(MoecCompiler *compiler, Work work) {
    if (moec_failed(compiler)) return NULL;
    work.compiler = compiler;
    return run_passes(&work, NULL, last_of_all, ANY) ? work.program : NULL;
}

MoecProgram *moec_compile(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                          long tokens) {
    return compile(
        compiler,
        (Work){.graph = (Graph)graph, .batch = batch, .context = context, .tokens = tokens});
}

MoecProgram *moec_define(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                         long tokens) {
    return compile(compiler, (Work){.graph = (Graph)graph,
                                    .batch = batch,
                                    .context = context,
                                    .tokens = tokens,
                                    .defined = true});
}

/* What only training can do stands in the way of decoding, and is no error here. */
Decoding moec_decoding(MoecCompiler *compiler) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Program *step = moec_compile(compiler, MOEC_DECODE, 0, 0, 1);
    if (reports->gave_up) return (Decoding){.hindrance = "it is too large"};
    if (!step) {
        static const char known[] = "cannot decode: ";
        const char *hindrance = report_message(reports, count);
        if (!strncmp(hindrance, known, strlen(known))) hindrance += strlen(known);
        reports->errors = errors;
        reports->list.count = count;
        return (Decoding){.hindrance = hindrance};
    }
    Decoding decoding = {.flops = cost(compiler->arena, step)->flops_forward,
                         .places = step->context};
    moec_lower(compiler, step, false);
    decoding.bytes_per_token = cache_bytes_per_token(step);
    decoding.recurrent_bytes = recurrent_bytes(step);
    return decoding;
}

/* A pass that only a device has asks for a device. */
const char *moec_dump(MoecCompiler *compiler, MoecGraph graph, const char *pass, bool device) {
    int place = place_of(pass);
    if (place == PASS_COUNT || moec_failed(compiler)) return NULL;
    Work work = {.compiler = compiler, .graph = (Graph)graph};
    Machine machine = device ? DEVICE : passes[place].machine;
    bool early = place <= place_of(last_of_all);
    if (!run_passes(&work, NULL, early ? pass : last_of_all, machine)) return NULL;
    work.program->target = machine == DEVICE ? &target_device : &target_processor;
    if (!early && !run_passes(&work, last_of_all, pass, machine)) return NULL;
    if (work.lowered) return dump_forms(compiler->arena, &work.forms);
    return work.schedule ? print_plan(compiler->arena, work.schedule)
                         : print_program(compiler->arena, work.program);
}

double moec_weight_traffic(MoecProgram *program) {
    return traffic(program);
}

const char *moec_emit_c(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                        bool standalone) {
    Schedule **schedules = schedules_of(compiler, programs, count);
    if (moec_failed(compiler)) return NULL;
    return emit_c(compiler->arena, schedules, count,
                  standalone ? TARGET_STANDALONE : TARGET_HOSTED);
}

const char *moec_emit_cuda(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                           bool standalone, const char **device) {
    char *kernels;
    for (int i = 0; i < count; i++) moec_lower(compiler, programs[i], true);
    if (moec_failed(compiler)) return NULL;
    Schedule **schedules = schedules_of(compiler, programs, count);
    if (moec_failed(compiler)) return NULL;
    const char *text = emit_cuda(compiler->arena, schedules, count,
                                 standalone ? TARGET_STANDALONE : TARGET_HOSTED, &kernels);
    *device = kernels;
    return text;
}

/* ---- opening ---- */

static MoecCompiler *compiler_new(void) {
    Arena *arena = arena_new();
    MoecCompiler *compiler = arena_alloc(arena, sizeof *compiler);
    compiler->arena = arena;
    compiler->reports.arena = arena;
    return compiler;
}

/* What a spec is read from: a file, or sources that are at hand. */
typedef struct Reading {
    MoecCompiler *compiler;
    const char *file, *search, *model;
    List sources; /* Source * */
    bool shown;   /* in an editor, the first of them; others are used where they are asked for */
    List sets;    /* char * */
    bool layouts; /* no model is wanted */
    bool asks;    /* for an experiment: */
    const char *experiment;
} Reading;

/* A spec that asks which graph it is: what is kept must not depend on that. What only training can
 * do stands in the way of decoding, and is no error here. */
static void check_graph(MoecCompiler *compiler, Program *forward, Graph graph) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Program *other = elaborate(compiler->unit, compiler->model, graph, 0, 0, NULL);
    if (other) same_tensors(forward, other);
    if (other || graph != GRAPH_DECODE) return;
    reports->errors = errors;
    reports->list.count = count;
}

/* What parameters have for themselves the optimizer reads from a table. */
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

/* Elaborates the model once, so that its errors and settings are known before anything else is
 * asked for. */
static void elaborate_model(MoecCompiler *compiler) {
    Work work = {.compiler = compiler, .graph = GRAPH_FORWARD};
    pass_elaborate(&work);
    if (!work.program) return;
    compiler->model = work.program->name;
    compiler->gathers = work.program->gathers;
    if (work.program->by_training) check_graph(compiler, work.program, GRAPH_TRAIN);
    if (work.program->by_decoding) check_graph(compiler, work.program, GRAPH_DECODE);
    if (compiler->reports.errors) return;
    compiler->tuning = transfer(compiler->unit, work.program);
    if (compiler->tuning) tune(compiler->tuning, work.program);
    note_own(compiler, work.program);
    if (!compiler->reports.errors && work.program->loss && moec_option(compiler, "train.optimizer"))
        elaborate(compiler->unit, compiler->model, GRAPH_UPDATE, 0, 0, NULL);
}

/* Every experiment is read for its errors. The base of the one that is asked for is the model; so
 * is that of the last one where the file has no model of its own. */
static void read_experiments(const Reading *reading) {
    MoecCompiler *compiler = reading->compiler;
    Unit *unit = compiler->unit;
    const Experiment *last = NULL;
    for (int i = 0; i < unit->experiments.count; i++)
        last = experiment_read(unit, unit->experiments.items[i]);
    bool own = false;
    for (int i = 0; i < unit->models.count; i++)
        own = own || ((Node *)unit->models.items[i])->span.source == unit->sources.items[0];
    if (reading->asks && !compiler->reports.errors)
        compiler->experiment = last = experiment_find(unit, reading->experiment);
    if (last && !compiler->reports.errors && !compiler->model && (reading->asks || !own))
        compiler->model = last->model;
}

static void read_model(void *data) {
    const Reading *reading = data;
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
    if (reading->layouts) compiler->layouts = layouts_read(compiler->unit);
    if (reading->layouts) return;
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

/* Errors are told by going the same way again in the one that is to have them. */
MoecCompiler *moec_vary(MoecCompiler *compiler, const List *overrides, bool tell) {
    MoecCompiler *variant = compiler_new();
    variant->model = compiler->model;
    with_overrides(variant, compiler->unit, overrides);
    Unit *unit = compiler->unit;
    if (tell && moec_failed(variant)) with_overrides(compiler, unit, overrides);
    compiler->unit = unit;
    return variant;
}

static MoecCompiler *read_file(Reading reading, const char *const *sets, int set_count) {
    MoecCompiler *compiler = reading.compiler = compiler_new();
    const char *model = reading.model;
    if (model) compiler->model = arena_copy(compiler->arena, model, strlen(model));
    for (int i = 0; i < set_count; i++) list_push(compiler->arena, &reading.sets, (void *)sets[i]);
    bounded(compiler, read_model, &reading);
    return compiler;
}

MoecCompiler *moec_open(const char *file, const char *model, const char *const *sets, int set_count,
                        const char *search) {
    return read_file((Reading){.file = file, .search = search, .model = model}, sets, set_count);
}

MoecCompiler *moec_open_experiment(const char *file, const char *experiment,
                                   const char *const *sets, int set_count, const char *search) {
    const Reading reading = {
        .file = file, .search = search, .asks = true, .experiment = experiment};
    return read_file(reading, sets, set_count);
}

MoecCompiler *moec_open_layouts(const char *file, const char *search) {
    MoecCompiler *compiler = compiler_new();
    Reading reading = {.compiler = compiler, .file = file, .search = search, .layouts = true};
    if (!file) reading.sources = standard_layouts(compiler->arena);
    bounded(compiler, read_model, &reading);
    return compiler;
}

MoecCompiler *moec_open_document(const MoecDocument *documents, int count, const char *model,
                                 const char *search) {
    MoecCompiler *compiler = compiler_new();
    Reading reading = {.compiler = compiler, .search = search, .shown = true};
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
    if (compiler) arena_free(compiler->arena);
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

void moec_observe(MoecCompiler *compiler) {
    compiler->observes = true;
}

void moec_probe(MoecCompiler *compiler) {
    if (compiler->unit) compiler->unit->probing = true;
}

void moec_differentiate_inputs(MoecCompiler *compiler) {
    compiler->differentiates = true;
}

bool moec_gathers(const MoecCompiler *compiler) {
    return compiler->gathers;
}

const char *moec_transfer(MoecCompiler *compiler, bool json) {
    if (moec_failed(compiler) || !compiler->tuning) return NULL;
    return (json ? tuning_json : tuning_text)(compiler->arena, compiler->tuning);
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

static const Setting *find_setting(const MoecCompiler *compiler, const char *path) {
    for (int i = 0; i < compiler->settings.count; i++) {
        const Setting *setting = compiler->settings.items[i];
        if (!strcmp(setting->path, path)) return setting;
    }
    return NULL;
}

const char *moec_option(MoecCompiler *compiler, const char *path) {
    const Setting *setting = find_setting(compiler, path);
    return setting ? setting->text : NULL;
}

void moec_trains(MoecCompiler *compiler) {
    compiler->trains = true;
}

bool moec_rounded(MoecCompiler *compiler) {
    const char *precision = moec_option(compiler, "train.precision");
    return precision && !strcmp(precision, "bf16");
}

double moec_option_number(MoecCompiler *compiler, const char *path, double otherwise) {
    const Setting *setting = find_setting(compiler, path);
    return setting && setting->kind == VALUE_NUMBER ? setting->number : otherwise;
}

MoecCompiler *moec_open_bundle(const char *text, size_t length, const char *const *sets,
                               int set_count) {
    MoecCompiler *compiler = compiler_new();
    Reading reading = {.compiler = compiler};
    compiler->model = bundle_read(compiler->arena, text, length, &reading.sources, &reading.sets);
    if (!compiler->model) {
        report_error(&compiler->reports, (Span){0}, "the spec saved with the weights is damaged");
        return compiler;
    }
    for (int i = 0; i < set_count; i++) list_push(compiler->arena, &reading.sets, (void *)sets[i]);
    bounded(compiler, read_model, &reading);
    return compiler;
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
    const Node *file = parse(compiler->arena, &reports, source);
    if (file && !reports.errors) formatting->text = format_tree(compiler->arena, source, file);
}

const char *moec_format(MoecCompiler *compiler) {
    if (!compiler->unit || !compiler->unit->sources.count) return NULL;
    Formatting formatting = {.compiler = compiler};
    return bounded(compiler, format_source, &formatting) ? formatting.text : NULL;
}

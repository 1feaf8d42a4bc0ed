/* driver: the table of passes and the public functions that run them. */
#include "driver/driver.h"

#include "base/must.h"
#include "module/lowered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the pipeline ---- */

/* A program in the pipeline and the context of its passes. */
typedef struct Work {
    MoecCompiler *compiler;
    Program *program;
    Schedule *schedule; /* after fuse */
    bool defined;       /* compile the definition for the interpreter, without optimizing passes */
    bool provided;      /* the caller of decoding provides other inputs than the tokens */

    /* from loops on: all programs of a text */
    Schedule *const *schedules;
    int schedule_count;
    Hosting hosting;
    bool plain; /* print loops with numbers as sizes */
    Module *module;
    uint64_t state;   /* of the module when it was checked */
    const char *text; /* after emit; after check: of a dump */
    MoecKernels kernels;
    MoecFreestanding freestanding;

    Graph graph;
    long batch, context, tokens;
} Work;

static Arena *scratch_of(MoecCompiler *compiler) {
    if (!compiler->scratch) compiler->scratch = arena_new();
    return compiler->scratch;
}

static bool layer_recomputes(MoecCompiler *compiler) {
    const char *remat = moec_option(compiler, "train.activation_checkpointing");
    return remat && !strcmp(remat, "layer");
}

static void pass_elaborate(Work *work) {
    Unit *unit = work->compiler->unit;
    unit->extern_target = work->defined ? NULL : work->compiler->extern_target;
    unit->unused = (List){0};
    unit->processes = work->compiler->divides ? work->compiler->mesh.size[MESH_DATA] : 1;
    work->program = elaborated(work->compiler, work->graph, work->batch, work->context);
    unit->extern_target = NULL;
}

/* Before `prepare`, which then rounds weights once; later passes change products and find them
 * again. */
static void pass_decode_formats(Work *work) {
    if (!work->program->formats) return;
    find_products(work->program);
    operand_formats(work->program);
    work->program->properties &= ~(unsigned)HAS_PRODUCTS;
}

/* A definition consists of the equations alone, but rounds the same weights as other programs. */
static void pass_prepare(Work *work) {
    if (!work->defined || reads_copies(work->program)) prepare_weights(work->program);
}

/* A program that counts the cost of training keeps the values of its gradient. */
static void pass_written_masks(Work *work) {
    written_masks(work->program,
                  work->graph == GRAPH_TRAIN || work->compiler->unit->counts_training);
}

static void pass_chunk_scan(Work *work) {
    if (work->defined) return;
    chunk_scan(work->program, (long)moec_option_number(work->compiler, "train.scan_chunk_size", 0));
}

/* A definition consists of the equations alone. */
static void pass_low_rank(Work *work) {
    if (!work->defined) low_rank(work->program);
}

static void pass_reassociate(Work *work) {
    if (work->program->loss) reassociate(work->program);
}

static void pass_gradient(Work *work) {
    if (work->program->loss) gradient(work->program, layer_recomputes(work->compiler));
}

static void pass_decode(Work *work) {
    if (!work->provided && reads_examples(work->program)) return;
    decode(work->program, work->tokens > 0 ? work->tokens : 1);
}

static void pass_mesh(Work *work) {
    MeshSizes sizes = work->compiler->mesh;
    /* An evaluation has enough sequences for all processes. */
    if (work->program->graph == GRAPH_MEASURE) sizes.size[MESH_DATA] = 1;
    if (work->compiler->divides) mesh(work->program, &sizes);
}

static void pass_mesh_rows(Work *work) {
    if (work->compiler->divides) mesh_rows(work->program, &work->compiler->mesh);
}

static void pass_hessians(Work *work) {
    if (work->compiler->observes_hessians) hessians(work->program);
}

static void pass_strip_mine(Work *work) {
    strip_mine(work->program,
               (long)moec_option_number(work->compiler, "train.logits_chunk_size", 0));
}

/* On a CPU adding to one element is faster than a selection over all elements, unless it prevents
 * storing the rows as bf16. */
static void pass_scatter_to_select(Work *work) {
    if (work->program->target->launches || work->program->rounded) scatter_to_select(work->program);
}

static void pass_fuse(Work *work) {
    work->schedule = fuse(work->program);
}

static void pass_overlap(Work *work) {
    overlap(work->schedule);
}

static void pass_plan(Work *work) {
    plan(work->schedule);
}

static void pass_map(Work *work) {
    map(work->schedule);
}

/* The schedule; the optimizer's program has one without units. */
static Schedule *schedule_of(Work *work) {
    if (!work->schedule) work->schedule = arena_alloc(work->program->arena, sizeof *work->schedule);
    work->schedule->program = work->program;
    return work->schedule;
}

/* Without a list of schedules: of this program alone. */
static void pass_loops(Work *work) {
    Schedule *schedule = work->schedules ? NULL : schedule_of(work);
    work->module = lower_module(work->compiler->arena, schedule ? &schedule : work->schedules,
                                schedule ? 1 : work->schedule_count, work->program->target,
                                work->hosting, work->plain);
}

/* Faults are internal errors after every pass; this one lists the undecided terms for a dump. */
static void pass_check(Work *work) {
    if (work->plain) work->text = module_unproven(work->module, scratch_of(work->compiler));
}

static void pass_emit(Work *work) {
    Arena *arena = work->compiler->arena;
    if (work->hosting == TARGET_FREESTANDING)
        work->text = print_freestanding(arena, work->module, &work->freestanding);
    else
        work->text = work->module->apart ? print_cuda(arena, work->module, &work->kernels)
                                         : print_c(arena, work->module);
}

enum {
    FORWARD = 1 << GRAPH_FORWARD | 1 << GRAPH_REFINE,
    TRAIN = 1 << GRAPH_TRAIN,
    DECODE = 1 << GRAPH_DECODE,
    UPDATE = 1 << GRAPH_UPDATE,
    MEASURE = 1 << GRAPH_MEASURE,
    STEP = 1 << GRAPH_STEP,
    GATHER = 1 << GRAPH_GATHER,
    PREPARE = 1 << GRAPH_PREPARE,
    MODELS = FORWARD | TRAIN | DECODE | MEASURE | STEP | GATHER | PREPARE,
    ALL = MODELS | UPDATE
};

/* The pipeline, from the tree of a file to the program text. Before it, resolve reads the file and
 * the files that it uses. Up to `map` each program is processed alone. `loops` makes one module of
 * programs that run together; the passes after it process each of its kernels. The optimizer's
 * program is the same on all machines and consists of one kernel. The columns state the properties
 * that a pass needs, leaves and breaks; needs apply if another pass of the same graph and machine
 * leaves them. */
static const PassRow passes[] = {
    {"elaborate", ALL, ANY, .run = pass_elaborate, .leaves = IS_FORWARD},
    {"decode_formats", DECODE, ANY, .run = pass_decode_formats, .needs = IS_FORWARD},
    {"prepare", DECODE, ANY, .run = pass_prepare, .needs = IS_FORWARD},
    {"written_masks", FORWARD | TRAIN | DECODE | MEASURE | GATHER, ANY, .run = pass_written_masks,
     .needs = IS_FORWARD},
    {"chunk_scan", FORWARD | TRAIN | MEASURE, ANY, .run = pass_chunk_scan, .needs = IS_FORWARD},
    {"low_rank", FORWARD | TRAIN | MEASURE, ANY, .run = pass_low_rank, .needs = IS_FORWARD},
    {"reassociate", TRAIN, ANY, .run = pass_reassociate, .needs = IS_FORWARD},
    {"gradient", TRAIN, ANY, .run = pass_gradient, .needs = IS_FORWARD, IS_COMPLETE, IS_FORWARD},
    {"decode", DECODE, ANY, .run = pass_decode, .needs = IS_FORWARD, IS_COMPLETE, IS_FORWARD},
    {"measure", MEASURE, ANY, .program = measure, NULL, IS_FORWARD, IS_COMPLETE, IS_FORWARD},
    {"externs", MODELS, ANY, .program = externs, .needs = IS_COMPLETE},
    {"tables", MODELS, ANY, .program = tables, .needs = IS_COMPLETE, .leaves = HAS_TABLES},
    {"simplify", ALL, ANY, .program = simplify, NULL, IS_COMPLETE | HAS_TABLES, HAS_NO_DEAD_CODE},
    {"mesh", FORWARD | TRAIN | MEASURE | GATHER, ANY, .run = pass_mesh, .needs = HAS_NO_DEAD_CODE},
    {"route", MODELS, ANY, .program = route, .needs = HAS_NO_DEAD_CODE, .leaves = IS_ROUTED},
    {"gather_fusion", MODELS, ANY, .program = gather_fusion, NULL, IS_ROUTED, IS_GATHERED},
    {"mesh_rows", FORWARD | TRAIN | MEASURE | GATHER, ANY, .run = pass_mesh_rows,
     .needs = IS_GATHERED},
    {"hessians", FORWARD, ANY, .run = pass_hessians, .needs = IS_GATHERED},
    {"products", MODELS, ANY, .program = find_products, NULL, IS_GATHERED, HAS_PRODUCTS},
    {"operand_formats", FORWARD | TRAIN | MEASURE | GATHER, ANY, .program = operand_formats,
     .needs = HAS_PRODUCTS},
    {"smaller_weights", FORWARD | DECODE | MEASURE, ANY, .program = smaller_weights,
     .needs = HAS_PRODUCTS},
    {"mask_words", FORWARD | TRAIN | MEASURE, ANY, .program = mask_words, .needs = IS_ROUTED},
    {"views", FORWARD | TRAIN | MEASURE, ANY, .program = views, .needs = HAS_PRODUCTS},
    {"strip_mine", FORWARD | TRAIN | MEASURE | GATHER, ANY, .run = pass_strip_mine,
     .needs = HAS_PRODUCTS},
    {"scatter_to_select", MODELS, ANY, .run = pass_scatter_to_select, .needs = HAS_PRODUCTS},
    {"precision", MODELS, ANY, .program = precision, .needs = HAS_PRODUCTS, .leaves = IS_EXACT},
    {"byte_operands", FORWARD | TRAIN | MEASURE | GATHER, DEVICE, .program = byte_operands,
     .needs = IS_EXACT},
    {"storage", MODELS, ANY, .program = storage, .needs = IS_EXACT, .leaves = HAS_STORAGE},
    {"pad", MODELS, DEVICE, .program = pad, .needs = HAS_STORAGE},
    {"fuse", MODELS, ANY, .run = pass_fuse, .needs = HAS_STORAGE, .leaves = IS_SCHEDULED},
    {"overlap", FORWARD | TRAIN | MEASURE | GATHER, ANY, .run = pass_overlap,
     .needs = IS_SCHEDULED},
    {"plan", MODELS, ANY, .run = pass_plan, .needs = IS_SCHEDULED, .leaves = IS_PLANNED},
    {"map", MODELS, ANY, .run = pass_map, .needs = IS_PLANNED, .leaves = IS_MAPPED},
    {"loops", ALL, ANY, .run = pass_loops, .needs = IS_MAPPED | HAS_NO_DEAD_CODE, IS_LOWERED},
    {"parallel", ALL, ANY, .loops = parallel, IS_LOWERED, IS_PARALLEL},
    {"owners", ALL, ANY, .loops = owners, IS_LOWERED, HAS_OWNERS},
    {"shared", ALL, ANY, .loops = shared_rows, IS_LOWERED, HAS_ROWS},
    {"licm", ALL, ANY, .loops = hoist, IS_PARALLEL | HAS_OWNERS},
    {"cse", ALL, ANY, .loops = name_common, IS_PARALLEL},
    {"vectors", ALL, ANY, .loops = vectors, IS_PARALLEL, HAS_VECTORS},
    {"blocks", ALL, ANY, .loops = split_blocks, HAS_VECTORS},
    {"unroll", ALL, ANY, .loops = unroll, HAS_VECTORS},
    {"guards", ALL, ANY, .loops = guards, HAS_VECTORS},
    {"rolled", ALL, ANY, .loops = rolled, IS_LOWERED},
    {"barriers", ALL, ANY, .loops = barriers, HAS_OWNERS | HAS_ROWS, HAS_BARRIERS},
    {"unused", ALL, ANY, .loops = unused, IS_LOWERED},
    {"names", ALL, ANY, .loops = name_variables, HAS_BARRIERS, HAS_NAMES},
    {"check", ALL, ANY, .run = pass_check, .needs = HAS_NAMES},
    {"emit", ALL, ANY, .run = pass_emit, .needs = HAS_NAMES},
};

enum { PASS_COUNT = sizeof passes / sizeof *passes };

/* moec_compile runs the passes up to the selection of a machine; a program of GRAPH_PREPARE begins
 * after the pass that makes it. */
static const char *const after_prepare = "prepare", *const last_of_all = "smaller_weights",
                         *const last_of_machine = "pad", *const last_of_schedule = "map",
                         *const last_of_text = "emit";

const PassRow *pass_rows(int *count) {
    *count = PASS_COUNT;
    return passes;
}

static bool applies(const PassRow *pass, Graph graph, Machine machine) {
    return pass->graphs & 1 << graph && (!pass->machine || pass->machine == machine);
}

unsigned pass_missing(const PassRow *rows, int count, const PassRow *pass, Graph graph,
                      Machine machine, unsigned properties) {
    unsigned left = 0;
    for (int i = 0; i < count; i++)
        if (applies(&rows[i], graph, machine)) left |= rows[i].leaves;
    return pass->needs & left & ~properties;
}

static int pass_index(const char *pass) {
    int index = 0;
    while (index < PASS_COUNT && strcmp(passes[index].name, pass)) index++;
    return index;
}

/* Aborts if a pass has broken the program: a bug in the compiler, not a user error. */
static void check_program(MoecCompiler *compiler, const char *pass, Program *program,
                          const Schedule *schedule) {
    const char *wrong = well_formed(compiler->arena, program);
    if (!wrong && program->properties & IS_MAPPED) wrong = map_fault(compiler->arena, schedule);
    const Statement *changed = wrong ? NULL : changed_product(program);
    if (changed)
        wrong = arena_format(compiler->arena, "a changed product: %s",
                             print_statement(compiler->arena, changed));
    if (!wrong) return;
    fprintf(stderr, "moec: internal error: after pass '%s': %s\n%s", pass, wrong,
            print_program(compiler->arena, program));
    abort();
}

static void check_module(MoecCompiler *compiler, const char *pass, const Module *module) {
    if (!module_changed(module)) return;
    const Fault fault = module_check(module, scratch_of(compiler));
    if (!fault.what) return;
    fprintf(stderr, "moec: internal error: after pass '%s': %s\n", pass,
            fault_text(compiler->arena, &fault));
    abort();
}

/* ---- running the passes ---- */

typedef struct PassRange {
    Work *work;
    const char *after, *last;
    Machine machine;
    bool good;
} PassRange;

const MoecPassTime *moec_pass_times(MoecCompiler *compiler, int *count) {
    *count = PASS_COUNT;
    if (compiler->times) return compiler->times;
    compiler->times = arena_alloc(compiler->arena, PASS_COUNT * sizeof *compiler->times);
    for (int i = 0; i < PASS_COUNT; i++) compiler->times[i].name = passes[i].name;
    return compiler->times;
}

static double now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Programs become one module in the pass loops, which therefore begins with all of them. A program
 * that elaborate did not make has no known properties. */
static void check_needs(const Work *work, const PassRow *pass, Machine machine) {
    for (int i = 0; i < (work->schedules ? work->schedule_count : 1) && !work->module; i++) {
        const Program *program = work->schedules ? work->schedules[i]->program : work->program;
        if (program && program->properties & (IS_FORWARD | IS_COMPLETE))
            MUST(!pass_missing(passes, PASS_COUNT, pass, program->graph, machine,
                               program->properties));
    }
    if (work->module)
        MUST(!pass_missing(passes, PASS_COUNT, pass, work->graph, machine,
                           work->module->properties));
}

static void set_properties(const Work *work, const PassRow *pass) {
    unsigned *properties = work->module    ? &work->module->properties
                           : work->program ? &work->program->properties
                                           : NULL;
    if (properties) *properties = (*properties & ~pass->breaks) | pass->leaves;
}

static void run_pass(Work *work, const PassRow *pass) {
    MoecCompiler *compiler = work->compiler;
    int count;
    moec_pass_times(compiler, &count);
    const double start = now();
    if (pass->run) pass->run(work);
    if (pass->program) pass->program(work->program);
    for (int i = 0; pass->loops && i < work->module->kernels.count; i++) {
        LoopKernel *kernel = work->module->kernels.items[i];
        pass->loops(compiler->arena, &kernel->form, kernel->target);
    }
    MoecPassTime *time = &compiler->times[pass - passes];
    time->runs++;
    time->seconds += now() - start;
}

static void run_way(void *data) {
    PassRange *way = data;
    Work *work = way->work;
    MoecCompiler *compiler = work->compiler;
    for (int i = way->after ? pass_index(way->after) + 1 : 0; i <= pass_index(way->last); i++) {
        const PassRow *pass = &passes[i];
        if (!applies(pass, work->graph, way->machine)) continue;
        must_pass = pass->name;
        check_needs(work, pass, way->machine);
        run_pass(work, pass);
        set_properties(work, pass);
        if (!work->program || compiler->reports.errors) return;
        if (work->module)
            check_module(compiler, pass->name, work->module);
        else
            check_program(compiler, pass->name, work->program, work->schedule);
    }
    way->good = true;
}

/* Runs the passes after `after` (NULL: from the first) up to `last`. Returns false after an
 * error. */
static bool run_passes(Work *work, const char *after, const char *last, Machine machine) {
    PassRange way = {work, after, last, machine, false};
    const bool ended = bounded(work->compiler, run_way, &way);
    must_pass = NULL;
    return ended && way.good;
}

static Work work_of(MoecCompiler *compiler, Program *program) {
    return (Work){.compiler = compiler, .program = program, .graph = program->graph};
}

/* A program that is emitted twice is lowered once. */
void moec_lower(MoecCompiler *compiler, Program *program, const Target *target) {
    if (program->lowered) return;
    program->target = target;
    if (compiler->unit->target) program->target = compiler->unit->target;
    program->lowered = true;
    if (target->launches && !weights_fit(program, &compiler->reports)) return;
    Work work = work_of(compiler, program);
    run_passes(&work, last_of_all, last_of_machine, target->launches ? DEVICE : ANY);
}

Schedule *moec_schedule(MoecCompiler *compiler, Program *program) {
    moec_lower(compiler, program, &target_processor);
    Work work = work_of(compiler, program);
    if (!run_passes(&work, last_of_machine, last_of_schedule, ANY)) work.schedule = NULL;
    return schedule_of(&work);
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
    if (!run_passes(&work, NULL, last_of_all, ANY)) return NULL;
    Program *prepares = work.program->prepare;
    Work other = {.compiler = compiler, .program = prepares, .graph = GRAPH_PREPARE};
    return !prepares || run_passes(&other, after_prepare, last_of_all, ANY) ? work.program : NULL;
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

/* The first report from `count` on as a hindrance. A feature that only training supports prevents
 * decoding; it is no error: the reports are dropped. */
static Decoding hindered(Reports *reports, int errors, int count) {
    static const char known[] = "cannot decode: ";
    if (reports->gave_up) return (Decoding){.hindrance = "the program is too large"};
    const char *hindrance = report_message(reports, count),
               *equation = report_source_line(reports, count);
    if (!strncmp(hindrance, known, strlen(known))) hindrance += strlen(known);
    reports->errors = errors;
    reports->list.count = count;
    return (Decoding){.hindrance = hindrance, .equation = equation};
}

const char *moec_hindrance(MoecCompiler *compiler) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Work work = {.compiler = compiler, .graph = GRAPH_DECODE, .tokens = 1, .provided = true};
    return run_passes(&work, NULL, "decode", ANY) ? NULL
                                                  : hindered(reports, errors, count).hindrance;
}

double training_flops(MoecCompiler *compiler, Program *forward) {
    bool *counts = &compiler->unit->counts_training;
    *counts = forward->by_training;
    Program *program = *counts ? moec_compile(compiler, MOEC_FORWARD, 0, 0, 0) : forward;
    *counts = false;
    return program ? cost(compiler->arena, program)->flops_train : 0;
}

Decoding moec_decoding(MoecCompiler *compiler) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Program *step = moec_compile(compiler, MOEC_DECODE, 0, 0, 1);
    if (!step || reports->gave_up) return hindered(reports, errors, count);
    Decoding decoding = {.flops = cost(compiler->arena, step)->flops_forward,
                         .positions = step->context};
    moec_lower(compiler, step, &target_processor);
    decoding.bytes_per_token = cache_bytes_per_token(step);
    decoding.constant_bytes = constant_bytes(step);
    decoding.weights = weight_memory(step);
    return decoding;
}

const Target *moec_target(const char *language) {
    if (strcmp(language, "c") == 0) return &target_processor;
    return strcmp(language, "cuda") == 0 ? &target_device : NULL;
}

/* A pass that exists only for GPUs selects the GPU. */
const char *moec_dump(MoecCompiler *compiler, MoecGraph graph, const char *pass,
                      const Target *target) {
    int index = pass_index(pass);
    if (index == PASS_COUNT || moec_failed(compiler)) return NULL;
    Work work = {
        .compiler = compiler, .graph = (Graph)graph, .plain = index < pass_index(last_of_text)};
    Machine machine = target->launches ? DEVICE : passes[index].machine;
    bool early = index <= pass_index(last_of_all);
    if (!run_passes(&work, NULL, early ? pass : last_of_all, machine)) return NULL;
    work.program->target = target->launches || machine != DEVICE ? target : &target_device;
    if (!early && !run_passes(&work, last_of_all, pass, machine)) return NULL;
    if (work.text)
        return arena_format(compiler->arena, "%s%s", work.text,
                            work.kernels.text ? work.kernels.text : "");
    if (work.module) return dump_module(work.module);
    if (work.schedule)
        return (work.program->properties & IS_MAPPED ? print_map : print_plan)(compiler->arena,
                                                                               work.schedule);
    const Program *prepares = strcmp(pass, after_prepare) ? NULL : work.program->prepare;
    return arena_format(compiler->arena, "%s%s", print_program(compiler->arena, work.program),
                        prepares ? print_program(compiler->arena, prepares) : "");
}

double moec_weight_traffic(MoecProgram *program) {
    return traffic(program);
}

double moec_cache_traffic(MoecProgram *step, long positions) {
    double sequences = step->batch ? (double)step->batch->size : 1;
    double grown = (double)cache_bytes_per_token(step) * (double)positions;
    return sequences * (grown + (double)constant_bytes(step));
}

/* Adds the programs that belong to these: for whole-matrix updates to the elementwise one; in a
 * hosted text, for prepared tensors to that of decoding. Others have prepared tensors in files. */
static MoecProgram *const *with_others(MoecCompiler *compiler, MoecProgram *const *programs,
                                       int *count, bool hosted) {
    MoecProgram **all = arena_alloc(compiler->arena, ((size_t)*count + 2) * sizeof(MoecProgram *));
    MoecProgram *prepares = NULL;
    bool updates = false;
    for (int i = 0; i < *count; i++) {
        all[i] = programs[i];
        updates |= programs[i]->graph == GRAPH_UPDATE;
        if (programs[i]->prepare) prepares = programs[i]->prepare;
    }
    if (prepares && hosted) all[(*count)++] = prepares;
    if (!updates || !compiler->unit->whole.count) return all;
    all[*count] = moec_compile(compiler, MOEC_STEP, 0, 0, 0);
    if (all[*count]) ++*count;
    return all;
}

/* Runs the rest of the passes up to `pass` on all programs together; false after an error. */
static bool lower_together(Work *work, MoecProgram *const *programs, int count, const char *pass) {
    work->schedules = schedules_of(work->compiler, programs, count);
    work->schedule_count = count;
    return !moec_failed(work->compiler) && run_passes(work, last_of_schedule, pass, ANY);
}

static const char *emitted(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                           Hosting hosting, MoecKernels *kernels) {
    Work work = work_of(compiler, programs[0]);
    work.hosting = hosting;
    if (!lower_together(&work, programs, count, last_of_text)) return NULL;
    if (kernels) *kernels = work.kernels;
    return work.text;
}

Module *lowered_module(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                       const Target *target, const char *pass) {
    for (int i = 0; i < count; i++) moec_lower(compiler, programs[i], target);
    if (moec_failed(compiler)) return NULL;
    Work work = work_of(compiler, programs[0]);
    return lower_together(&work, programs, count, pass) ? work.module : NULL;
}

const char *moec_emit_c(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                        bool standalone) {
    programs = with_others(compiler, programs, &count, true);
    const Hosting hosted = compiler->marks ? TARGET_MARKED : TARGET_HOSTED;
    return emitted(compiler, programs, count, standalone ? TARGET_STANDALONE : hosted, NULL);
}

const MoecFreestanding *moec_emit_freestanding(MoecCompiler *compiler, MoecProgram *program) {
    Work work = work_of(compiler, program);
    work.hosting = TARGET_FREESTANDING;
    if (!lower_together(&work, &program, 1, last_of_text)) return NULL;
    refuse_freestanding(work.module, &compiler->reports);
    if (moec_failed(compiler)) return NULL;
    MoecFreestanding *result = arena_alloc(compiler->arena, sizeof *result);
    *result = work.freestanding;
    result->text = work.text;
    return result;
}

const char *moec_emit_cuda(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                           MoecKernels *kernels) {
    programs = with_others(compiler, programs, &count, false);
    for (int i = 0; i < count; i++) moec_lower(compiler, programs[i], &target_device);
    return moec_failed(compiler) ? NULL
                                 : emitted(compiler, programs, count, TARGET_STANDALONE, kernels);
}

/* ---- programs for a GPU as data ---- */

typedef struct OwnedProgram {
    MoecDeviceProgram program;
    Arena *arena; /* of everything but the text */
    const RateProgram *rate;
} OwnedProgram;

MoecDeviceProgram *moec_device_program(MoecCompiler *compiler, MoecProgram *const *programs,
                                       int count) {
    programs = with_others(compiler, programs, &count, true);
    const Module *module = lowered_module(compiler, programs, count, &target_device, "check");
    if (!module) return NULL;
    Arena *arena = arena_new();
    OwnedProgram *made = arena_alloc(arena, sizeof *made);
    const MoecSteps **graphs =
        arena_alloc(arena, ((size_t)module->entries.count + 1) * sizeof *graphs);
    for (int i = 0; i < module->entries.count; i++)
        graphs[i] = entry_steps(arena, module, module->entries.items[i]);
    made->arena = arena;
    made->program.table = module_table(arena, module);
    made->program.graphs = graphs;
    if (module->rounded) made->program.round = rounding_steps(arena, module);
    if (module->update) {
        made->program.update = update_steps(arena, module);
        made->rate = rate_program(arena, module->update);
    }
    made->program.kernels = print_kernels(moec_arena(compiler), module);
    return &made->program;
}

static const OwnedProgram *owned(const MoecDeviceProgram *program) {
    return (const OwnedProgram *)(const void *)program;
}

void moec_device_program_free(MoecDeviceProgram *program) {
    if (program) arena_free(owned(program)->arena);
}

double moec_rate(const MoecDeviceProgram *program, double step, double steps) {
    return rate_value(owned(program)->rate, step, steps);
}

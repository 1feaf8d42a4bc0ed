/* driver: the passes in their order, behind the public header. */
#include "moec.h"

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
    List settings; /* Setting * */
    bool checked;
};

/* ---- passes ---- */

typedef struct Work {
    MoecCompiler *compiler;
    Program *program;
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
    const char *precision = moec_option(compiler, "train.precision");
    if (work->program) work->program->rounded = precision && !strcmp(precision, "bf16");
}

/* Updates of states run when everything else has read the old values. */
static void updates_last(Program *program) {
    List *all = &program->body.statements, kept = {0}, last = {0};
    for (int i = 0; i < all->count; i++) {
        Statement *statement = all->items[i];
        list_push(program->arena, statement->once ? &last : &kept, statement);
    }
    for (int i = 0; i < last.count; i++) list_push(program->arena, &kept, last.items[i]);
    *all = kept;
}

static void pass_gradient(Work *work) {
    if (work->graph != GRAPH_TRAIN || !work->program->loss) return;
    weigh(work->program);
    gradient(work->program, layer_recomputes(work->compiler));
    updates_last(work->program);
}

static void pass_decode(Work *work) {
    if (work->graph == GRAPH_DECODE) decode(work->program, work->tokens > 0 ? work->tokens : 1);
}

static void pass_measure(Work *work) {
    if (work->graph == GRAPH_MEASURE) measure(work->program);
}

static void pass_simplify(Work *work) {
    simplify(work->program);
}

static void pass_route(Work *work) {
    if (work->graph == GRAPH_UPDATE) return;
    route(work->program);
    gathers(work->program);
}

static void pass_chunk(Work *work) {
    if (work->graph != GRAPH_DECODE && work->graph != GRAPH_UPDATE)
        chunk(work->program, (long)moec_option_number(work->compiler, "train.chunk", 0));
}

static const struct {
    const char *name;
    void (*run)(Work *work);
} passes[] = {
    {"elaborate", pass_elaborate}, {"gradient", pass_gradient}, {"decode", pass_decode},
    {"measure", pass_measure},     {"simplify", pass_simplify}, {"route", pass_route},
    {"chunk", pass_chunk},
};

enum { PASS_COUNT = sizeof passes / sizeof *passes };

/* What a program for a device goes through besides, before it is emitted. */
static const struct {
    const char *name;
    void (*run)(Program *program);
} device_passes[] = {
    {"absorb", absorb}, {"precision", precision}, {"storage", storage}, {"pad", pad}};

enum { DEVICE_PASS_COUNT = sizeof device_passes / sizeof *device_passes };

/* The schedule as text: of a processor, of a device. */
static const char *const plans[] = {"plan", "device-plan"};

enum { DUMP_COUNT = PASS_COUNT + DEVICE_PASS_COUNT + 2 };

/* A program that a pass broke is our mistake, not the user's. */
static void check_program(MoecCompiler *compiler, const char *pass, Program *program) {
    char *wrong = verify(compiler->arena, program);
    if (!wrong) return;
    fprintf(stderr, "moec: internal error: after pass '%s': %s\n%s", pass, wrong,
            print_program(compiler->arena, program));
    abort();
}

static Program *run_passes(MoecCompiler *compiler, Work *work, const char *last) {
    for (int i = 0; i < PASS_COUNT; i++) {
        passes[i].run(work);
        if (!work->program || compiler->reports.errors) return NULL;
        check_program(compiler, passes[i].name, work->program);
        if (last && !strcmp(last, passes[i].name)) break;
    }
    return work->program;
}

/* A program that is emitted twice is for a device already. */
static void for_device(MoecCompiler *compiler, Program *program, const char *last) {
    if (program->device) return;
    program->device = true;
    for (int i = 0; i < DEVICE_PASS_COUNT && program->graph != GRAPH_UPDATE; i++) {
        device_passes[i].run(program);
        check_program(compiler, device_passes[i].name, program);
        if (last && !strcmp(last, device_passes[i].name)) break;
    }
}

const char *const *moec_passes(int *count) {
    static const char *names[DUMP_COUNT];
    for (int i = 0; i < PASS_COUNT; i++) names[i] = passes[i].name;
    names[PASS_COUNT] = plans[0];
    for (int i = 0; i < DEVICE_PASS_COUNT; i++) names[PASS_COUNT + 1 + i] = device_passes[i].name;
    names[DUMP_COUNT - 1] = plans[1];
    *count = DUMP_COUNT;
    return names;
}

MoecProgram *moec_compile(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                          long tokens) {
    if (moec_failed(compiler)) return NULL;
    Work work = {.compiler = compiler,
                 .graph = (Graph)graph,
                 .batch = batch,
                 .context = context,
                 .tokens = tokens};
    return run_passes(compiler, &work, NULL);
}

/* What only training can do stands in the way of decoding, and is no error here. */
long moec_cache_bytes(MoecCompiler *compiler) {
    Reports *reports = &compiler->reports;
    int errors = reports->errors, count = reports->list.count;
    Program *step = moec_compile(compiler, MOEC_DECODE, 0, 0, 1);
    reports->errors = errors;
    reports->list.count = count;
    if (step && step->rounded) for_device(compiler, step, NULL);
    return step ? cache_bytes_per_token(step) : 0;
}

const char *moec_dump(MoecCompiler *compiler, MoecGraph graph, const char *pass) {
    int count, place = 0;
    const char *const *names = moec_passes(&count);
    while (place < count && strcmp(names[place], pass)) place++;
    if (place == count || moec_failed(compiler)) return NULL;
    Work work = {.compiler = compiler, .graph = (Graph)graph};
    Program *program = run_passes(compiler, &work, pass);
    if (!program) return NULL;
    if (place > PASS_COUNT) for_device(compiler, program, pass);
    if (strcmp(pass, plans[0]) && strcmp(pass, plans[1]))
        return print_program(compiler->arena, program);
    Schedule *schedule = fuse(program);
    plan(schedule);
    return print_plan(compiler->arena, schedule);
}

void moec_for_device(MoecCompiler *compiler, MoecProgram *program) {
    for_device(compiler, program, NULL);
}

double moec_weight_traffic(MoecProgram *program) {
    return traffic(program);
}

const char *moec_emit_c(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                        bool standalone) {
    return emit_c(compiler->arena, programs, count, standalone ? TARGET_STANDALONE : TARGET_HOSTED);
}

const char *moec_emit_cuda(MoecCompiler *compiler, MoecProgram *const *programs, int count,
                           bool standalone, const char **device) {
    char *kernels;
    for (int i = 0; i < count; i++) for_device(compiler, programs[i], NULL);
    const char *text = emit_cuda(compiler->arena, programs, count,
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

/* Reads the model once, so that its errors and settings are known before anything else is asked
 * for. */
static void check_model(MoecCompiler *compiler) {
    if (compiler->reports.errors) return;
    Work work = {.compiler = compiler, .graph = GRAPH_FORWARD};
    pass_elaborate(&work);
    if (work.program) compiler->model = work.program->name;
}

MoecCompiler *moec_open(const char *file, const char *model, const char *const *sets, int set_count,
                        const char *search) {
    MoecCompiler *compiler = compiler_new();
    if (model) compiler->model = arena_copy(compiler->arena, model, strlen(model));
    compiler->unit = resolve(compiler->arena, &compiler->reports, file, search, sets, set_count);
    check_model(compiler);
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

Arena *moec_arena(MoecCompiler *compiler) {
    return compiler->arena;
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

double moec_option_number(MoecCompiler *compiler, const char *path, double otherwise) {
    const Setting *setting = find_setting(compiler, path);
    return setting && setting->kind == VALUE_NUMBER ? setting->number : otherwise;
}

/* ---- bundles ----
 *
 *     moec-bundle 1
 *     model NAME
 *     file LENGTH PATH
 *     ...text...
 *     set LENGTH
 *     ...text...
 */

const char *moec_bundle(MoecCompiler *compiler) {
    Text text = {.arena = compiler->arena};
    text_add(&text, "moec-bundle 1\nmodel %s\n", compiler->model);
    for (int i = 0; i < compiler->unit->sources.count; i++) {
        const Source *source = compiler->unit->sources.items[i];
        bool set = !strcmp(source->path, "--set");
        if (set)
            text_add(&text, "set %zu\n", source->length);
        else
            text_add(&text, "file %zu %s\n", source->length, source->path);
        text_add_bytes(&text, source->text, source->length);
        text_add(&text, "\n");
    }
    return text.text;
}

typedef struct Bundle {
    const char *at, *end;
    List sources; /* Source * */
    List sets;    /* char * */
} Bundle;

static char *bundle_line(Arena *arena, Bundle *bundle) {
    const char *newline = memchr(bundle->at, '\n', (size_t)(bundle->end - bundle->at));
    if (!newline) return NULL;
    char *line = arena_copy(arena, bundle->at, (size_t)(newline - bundle->at));
    bundle->at = newline + 1;
    return line;
}

static bool bundle_part(Arena *arena, Bundle *bundle, const char *line) {
    size_t length = 0;
    int read = 0;
    bool file = !strncmp(line, "file ", 5);
    if (sscanf(line, file ? "file %zu %n" : "set %zu%n", &length, &read) != 1 || !read)
        return false;
    if (length >= (size_t)(bundle->end - bundle->at) || bundle->at[length] != '\n') return false;
    char *text = arena_copy(arena, bundle->at, length);
    bundle->at += length + 1;
    if (!file) {
        list_push(arena, &bundle->sets, text);
        return true;
    }
    Source *source = arena_alloc(arena, sizeof *source);
    *source = (Source){.path = line + read, .text = text, .length = length};
    list_push(arena, &bundle->sources, source);
    return true;
}

MoecCompiler *moec_open_bundle(const char *text, size_t length, const char *const *sets,
                               int set_count) {
    MoecCompiler *compiler = compiler_new();
    Arena *arena = compiler->arena;
    Bundle bundle = {.at = text, .end = text + length};
    char *line = bundle_line(arena, &bundle);
    bool fine = line && !strcmp(line, "moec-bundle 1");
    line = fine ? bundle_line(arena, &bundle) : NULL;
    fine = line && !strncmp(line, "model ", 6);
    if (fine) compiler->model = line + 6;
    while (fine && bundle.at < bundle.end) {
        line = bundle_line(arena, &bundle);
        fine = line && bundle_part(arena, &bundle, line);
    }
    if (!fine) {
        report_error(&compiler->reports, (Span){0}, "the spec saved with the weights is damaged");
        return compiler;
    }
    for (int i = 0; i < set_count; i++) list_push(arena, &bundle.sets, (void *)sets[i]);
    compiler->unit = resolve_sources(
        arena, &compiler->reports, (const Source *const *)bundle.sources.items,
        bundle.sources.count, (const char *const *)bundle.sets.items, bundle.sets.count);
    check_model(compiler);
    return compiler;
}

/* ---- formatting ---- */

const char *moec_format(MoecCompiler *compiler) {
    if (!compiler->unit || !compiler->unit->sources.count) return NULL;
    const Source *source = compiler->unit->sources.items[0];
    Reports reports = {.arena = compiler->arena};
    const Node *file = parse(compiler->arena, &reports, source);
    return file && !reports.errors ? format_tree(compiler->arena, source, file) : NULL;
}

/* explain: collects the layer graph, the kernels with their cost, and memory over the step. */
#include "explain/explain.h"

#include "analysis/access.h"
#include "ir/call.h"
#include "ir/weight_type.h"
#include "lower/lower.h"

#include <math.h>
#include <string.h>

/* Operations of one thread that are slow, compared with a launch. */
enum { MANY_OPERATIONS = 2048 };

/* True for the number of a layer in a path: "{i}", "3". */
static bool is_number_segment(const char *part, size_t length) {
    return length && (*part == '{' || strspn(part, "0123456789") >= length);
}

/* "block.attention" of "block.{i}.attention". */
static const char *explain_path(Arena *arena, const char *path) {
    Text text = {.arena = arena};
    for (const char *part = path; *part; part += *part == '.') {
        size_t length = strcspn(part, ".");
        if (!is_number_segment(part, length))
            text_add(&text, "%s%.*s", text.length ? "." : "", (int)length, part);
        part += length;
    }
    return text.length ? text.text : path;
}

/* ---- units of work ---- */

/* True if the tensor has no memory outside of one of the kernels. */
static bool stays_local(const List *kernels, const Tensor *tensor) {
    for (int i = 0; i < kernels->count; i++) {
        const Local *local = local_in(kernels->items[i], tensor);
        if (local && !local->stored) return true;
    }
    return false;
}

static double touched(const Explanation *explanation, const ExplainedUnit *unit,
                      const List *kernels) {
    Arena *arena = explanation->arena;
    int count = explanation->schedule->program->tensors.count;
    double *reads = arena_alloc(arena, ((size_t)count + 1) * sizeof *reads), bytes = 0,
           *writes = arena_alloc(arena, ((size_t)count + 1) * sizeof *writes);
    LIST_EACH(const Statement, statement, &unit->statements) {
        for (int pass = 0; pass < 2; pass++) {
            List accesses = {0};
            (pass ? writes_of : reads_of)(arena, statement, &accesses);
            LIST_EACH(const Expr, access, &accesses) {
                if (stays_local(kernels, access->tensor)) continue;
                double elements = access_elements(access, true);
                double *most = &(pass ? writes : reads)[access->tensor->id];
                bool adds = pass && statement->kind == STATEMENT_LOOP && statement->accumulate;
                *most = fmax(*most, elements * (adds ? 2 : 1));
            }
        }
    }
    for (int i = 0; i < count; i++) {
        const Tensor *tensor = explanation->schedule->program->tensors.items[i];
        bytes += element_bytes(tensor->type) * (writes[i] > 0 ? writes[i] : reads[i]);
    }
    return bytes;
}

/* Sets the two names of the operation. */
static void name_kind(const ScheduleUnit *from, ExplainedUnit *unit) {
    static const char *const names[][2] = {
        {"loops", "loop nest"}, {"product", "matmul"}, {"grouped product", "grouped matmul"}};
    const CallRow *row = from->kind == UNIT_CALL ? from->statement->row : NULL;
    bool product = from->kind == UNIT_CONTRACTION;
    int label = product ? 1 + (from->contraction->kind != CONTRACTION_PRODUCT) : 0;
    unit->kind = row ? row->kind : names[label][0];
    unit->operation = row ? row->title : names[label][1];
}

static const char *result_name(const Statement *statement) {
    if (statement->kind == STATEMENT_LOOP) return statement->target->tensor->name;
    const Expr *first = statement->outputs.count ? statement->outputs.items[0] : NULL;
    return first ? first->tensor->name : "";
}

static void add_unit_statement(const Explanation *explanation, ExplainedUnit *unit,
                               const Statement *statement) {
    if (!statement) return;
    if (list_find(&unit->statements, statement) >= 0) return;
    list_push(explanation->arena, &unit->statements, (void *)statement);
}

static void count_threads(ExplainedUnit *unit, double threads, double work) {
    if (work / threads <= unit->serial) return;
    unit->threads = threads;
    unit->serial = work / threads;
}

static void collect_threads(const Explanation *explanation, const ScheduleUnit *from,
                            ExplainedUnit *unit) {
    const Program *program = explanation->schedule->program;
    const Statement *scan = from->kind == UNIT_CALL ? from->statement : NULL;
    if (!program->target->launches) return;
    if (scan && statement_is_scan(scan)) {
        const double threads = scan_threads(scan, from->scan);
        double work = 0;
        for (int i = 0; i < scan->body.statements.count; i++)
            work += statement_work(scan->body.statements.items[i]);
        count_threads(unit, threads, work * (double)scan->index->axis->size);
    }
    if (from->kind != UNIT_KERNEL || from->kernel->work < small_work(program)) return;
    LIST_EACH(const Member, member, &from->kernel->members)
        count_threads(unit, statement_threads(from->kernel, member),
                      statement_work(member->statement));
}

bool explain_few_threads(const Explanation *explanation, const ExplainedUnit *unit) {
    return unit->threads < explanation->schedule->program->target->threads &&
           unit->serial > MANY_OPERATIONS;
}

static void add_kernel_statements(const Explanation *explanation, ExplainedUnit *unit,
                                  const Kernel *kernel) {
    for (int i = 0; kernel && i < kernel->members.count; i++)
        add_unit_statement(explanation, unit,
                           ((const Member *)kernel->members.items[i])->statement);
}

static void add_unit_statements(const Explanation *explanation, const ScheduleUnit *from,
                                ExplainedUnit *unit, List *kernels) {
    Kernel *kernel = from->kernel ? from->kernel : from->epilogue;
    if (from->kind != UNIT_KERNEL) add_unit_statement(explanation, unit, from->statement);
    if (from->accumulated_product)
        add_unit_statement(explanation, unit, from->accumulated_product->statement);
    if (from->paired_row) add_unit_statement(explanation, unit, from->paired_row->statement);
    add_kernel_statements(explanation, unit, from->prologue);
    for (int i = 0; i < STEP_OPERANDS; i++)
        add_kernel_statements(explanation, unit, from->elements[i]);
    add_kernel_statements(explanation, unit, kernel);
    if (kernel) list_push(explanation->arena, kernels, kernel);
}

ExplainedUnit *explain_unit(Explanation *explanation, const List *units, int at, double runs) {
    const ScheduleUnit *from = units->items[at], *next = from;
    ExplainedUnit *unit = arena_alloc(explanation->arena, sizeof *unit);
    List kernels = {0};
    *unit = (ExplainedUnit){.runs = runs, .at = from->first};
    name_kind(from, unit);
    do {
        add_unit_statements(explanation, next, unit, &kernels);
        next = ++at < units->count ? units->items[at] : NULL;
    } while (next && next->beside);
    if (!unit->statements.count) return NULL;
    const Statement *last = unit->statements.items[unit->statements.count - 1];
    unit->name = result_name(from->kind == UNIT_KERNEL ? last : unit->statements.items[0]);
    for (int i = 0; i < unit->statements.count; i++)
        unit->flops +=
            runs * statement_flops(explanation->schedule->program, unit->statements.items[i]);
    unit->bytes = runs * touched(explanation, unit, &kernels);
    collect_threads(explanation, from, unit);
    double compute = unit->flops / explanation->ceilings.products,
           memory = unit->bytes / explanation->ceilings.memory;
    unit->by_memory = memory > compute;
    unit->seconds = fmax(memory, compute);
    return unit;
}

static void collect_unit(Explanation *explanation, const List *units, int at, double runs) {
    ExplainedUnit *unit = explain_unit(explanation, units, at, runs);
    if (!unit) return;
    explanation->flops += unit->flops;
    explanation->bytes += unit->bytes;
    explanation->seconds += unit->seconds;
    list_push(explanation->arena, &explanation->units, unit);
}

static void collect_units(Explanation *explanation, const List *units, double runs) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->kind == UNIT_REPEAT)
            collect_units(explanation, &unit->body,
                          runs * (double)unit->statement->index->axis->size);
        else if (!unit->beside)
            collect_unit(explanation, units, i, runs);
    }
}

/* ---- memory over the step ---- */

int last_moment(const List *units, int most) {
    LIST_EACH(const ScheduleUnit, unit, units)
        if (unit->last > most) most = unit->last;
    return most;
}

static void collect_memory(Explanation *explanation) {
    const Schedule *schedule = explanation->schedule;
    explanation->moments = last_moment(&schedule->units, 0) + 1;
    explanation->memory =
        arena_alloc(explanation->arena, (size_t)explanation->moments * sizeof(double));
    for (int i = 0; schedule->allocations && i < schedule->program->tensors.count; i++) {
        const Allocation *allocation = &schedule->allocations[i];
        for (int t = allocation->first; allocation->used && t <= allocation->last; t++)
            if (t >= 0 && t < explanation->moments && !(allocation->taken && t == allocation->last))
                explanation->memory[t] += (double)allocation->bytes;
    }
    for (int t = 0; t < explanation->moments; t++)
        if (explanation->memory[t] > explanation->memory[explanation->peak]) explanation->peak = t;
}

List explain_peak(const Explanation *explanation) {
    const Schedule *schedule = explanation->schedule;
    List list = {0};
    for (int i = 0; schedule->allocations && i < schedule->program->tensors.count; i++) {
        const Allocation *allocation = &schedule->allocations[i];
        if (!allocation->used || allocation->first > explanation->peak ||
            allocation->last < explanation->peak)
            continue;
        Tensor *tensor = schedule->program->tensors.items[i];
        list_push(explanation->arena, &list, tensor);
        int at = list.count - 1;
        for (; at > 0; at--) {
            Tensor *before = list.items[at - 1];
            if (schedule->allocations[before->id].bytes >= allocation->bytes) break;
            list.items[at] = before;
        }
        list.items[at] = tensor;
    }
    return list;
}

/* ---- layers ---- */

static int explained_layer_at(Explanation *explanation, const char *path, bool input) {
    for (int i = 0; i < explanation->layers.count; i++)
        if (!strcmp(((const ExplainedLayer *)explanation->layers.items[i])->path, path)) return i;
    ExplainedLayer *layer = arena_alloc(explanation->arena, sizeof *layer);
    *layer = (ExplainedLayer){.path = path, .input = input};
    list_push(explanation->arena, &explanation->layers, layer);
    return explanation->layers.count - 1;
}

static void add_edge(Explanation *explanation, int from, int to) {
    LIST_EACH(const ExplainedEdge, edge, &explanation->edges)
        if (edge->from == from && edge->to == to) return;
    ExplainedEdge *edge = arena_alloc(explanation->arena, sizeof *edge);
    *edge = (ExplainedEdge){from, to};
    list_push(explanation->arena, &explanation->edges, edge);
}

typedef struct LayerTracing {
    Explanation *explanation;
    const List *paths; /* of the statements, in program order */
    int at;
    const char **makers; /* by tensor->id: the layer that wrote it last */
} LayerTracing;

static void trace_read(LayerTracing *tracing, const Tensor *tensor, int to) {
    bool input = tensor->role == ROLE_INPUT && tensor->rank;
    const char *maker = input ? tensor->name : tracing->makers[tensor->id];
    int from = maker ? explained_layer_at(tracing->explanation, maker, input) : to;
    if (from != to) add_edge(tracing->explanation, from, to);
}

static void trace(Statement *statement, void *data) {
    LayerTracing *tracing = data;
    Explanation *explanation = tracing->explanation;
    if (statement->kind == STATEMENT_REPEAT || statement_is_scan(statement)) return;
    const char *path = tracing->paths->items[tracing->at++];
    if (!path) return;
    path = explain_path(explanation->arena, path);
    List reads = {0}, writes = {0};
    reads_of(explanation->arena, statement, &reads);
    writes_of(explanation->arena, statement, &writes);
    for (int i = 0; i < reads.count; i++) {
        const Tensor *tensor = ((const Expr *)reads.items[i])->tensor;
        if (tensor->role == ROLE_INPUT && tensor->rank)
            explained_layer_at(explanation, tensor->name, true);
    }
    int to = explained_layer_at(explanation, path, false);
    for (int i = 0; i < reads.count; i++)
        trace_read(tracing, ((const Expr *)reads.items[i])->tensor, to);
    for (int i = 0; i < writes.count; i++)
        tracing->makers[((const Expr *)writes.items[i])->tensor->id] = path;
}

static void collect_layers(Explanation *explanation, Program *forward) {
    const Cost *total = cost(explanation->arena, forward);
    LayerTracing tracing = {explanation, &total->paths, 0, NULL};
    tracing.makers = arena_alloc(explanation->arena,
                                 ((size_t)forward->tensors.count + 1) * sizeof *tracing.makers);
    block_walk(&forward->body, trace, &tracing);
    LIST_EACH(const LayerCost, layer, &total->layers) {
        const char *path = explain_path(explanation->arena, layer->path);
        LIST_EACH(ExplainedLayer, own, &explanation->layers) {
            if (strcmp(own->path, path)) continue;
            own->parameters += layer->parameters;
            own->flops += layer->flops;
            own->count++;
        }
    }
}

double explain_seconds(MoecCompiler *compiler, MoecCeilings ceilings) {
    Program *program = moec_compile(compiler, MOEC_TRAIN, 0, 0, 0);
    if (!program) return 0;
    Explanation explanation = {.arena = moec_arena(compiler), .ceilings = ceilings};
    explanation.schedule = moec_schedule(compiler, program);
    if (moec_failed(compiler)) return 0;
    collect_units(&explanation, &explanation.schedule->units, 1);
    return explanation.seconds;
}

const char *moec_explain(MoecCompiler *compiler, MoecGraph graph, const Target *target,
                         MoecCeilings ceilings, MoecExplainForm form) {
    static const char *const names[] = {"forward", "training",  "decoding",
                                        "update",  "measuring", "gathering"};
    Arena *arena = moec_arena(compiler);
    const long one = graph == MOEC_DECODE; /* sequence, new token; else the spec's */
    Program *program = moec_compile(compiler, graph, one, 0, one);
    Program *forward = program ? moec_compile(compiler, MOEC_FORWARD, 0, 0, 0) : NULL;
    if (!forward) return NULL;
    moec_lower(compiler, program, target);
    Explanation explanation = {.arena = arena, .model = moec_model(compiler), .ceilings = ceilings};
    explanation.graph = names[graph];
    explanation.machine = target->launches ? "GPU" : "CPU";
    explanation.schedule = moec_schedule(compiler, program);
    if (moec_failed(compiler)) return NULL;
    collect_units(&explanation, &explanation.schedule->units, 1);
    collect_memory(&explanation);
    collect_layers(&explanation, forward);
    switch (form) {
    case MOEC_EXPLAIN_JSON:
        return explain_json(&explanation);
    case MOEC_EXPLAIN_SVG:
        return explain_svg(&explanation);
    case MOEC_EXPLAIN_DOT:
        return explain_dot(&explanation);
    default:
        return explain_text(&explanation);
    }
}

/* program_forms: the forms of a compiled program, for the public interface. The passes note most of
 * them in Program.has. Those of products, calls and kernels are found in the schedule. The
 * hand-written kernels that it calls. */
#include "driver/driver.h"

#include "analysis/access.h"
#include "analysis/contraction.h"
#include "base/must.h"
#include "ir/call.h"
#include "module/lowered.h"
#include "print/print.h"

#include <stdint.h>
#include <string.h>

static const char *const form_names[PROGRAM_FORMS] = {
#define PROGRAM_FORM(name, text) text,
#include "ir/program_form.def"
#undef PROGRAM_FORM
};

/* Number of the form of a call, after those of the passes; of the kind CALLS: the number of all. */
static int call_form(const CallRow *const *calls, CallKind kind) {
    int form = PROGRAM_FORMS;
    for (int call = 0; call < (int)kind; call++) form += calls[call]->form != NULL;
    return form;
}

const char *const *moec_form_names(MoecCompiler *compiler, int *count) {
    const CallRow *const *calls = compiler->unit->calls;
    *count = call_form(calls, CALLS);
    const char **names = arena_alloc(compiler->arena, (size_t)*count * sizeof *names);
    memcpy(names, form_names, sizeof form_names);
    for (int call = 0; call < CALLS; call++)
        if (calls[call]->form) names[call_form(calls, call)] = calls[call]->form;
    return names;
}

/* ---- statements ---- */

/* The scans of a chunked form run over its chunks or within one of them. */
static void note_statement(const Statement *statement, bool *has) {
    bool scan = statement_is_scan(statement);
    has[HAS_SCAN] |= scan && !has[HAS_CHUNKED_SCAN];
    has[HAS_REVERSE_SCAN] |= scan && statement->reverse;
    has[HAS_SCATTER] |= statement->kind == STATEMENT_LOOP && statement_is_scatter(statement);
}

static void note_small_product(const Statement *statement, bool *has) {
    Expr *a, *b;
    if (statement->reduction == REDUCE_SUM && product_of_reads(statement, &a, &b))
        has[HAS_LOOPS_PRODUCT] = true;
}

/* ---- products ---- */

static bool is_shifted(const Expr *read) {
    MUST(read->kind == EXPR_READ);
    for (int i = 0; i < read->count; i++)
        if (read->args[i]->kind == EXPR_APPLY) return true;
    return false;
}

static void note_dense(const ScheduleUnit *unit, bool *has) {
    const Contraction *product = unit->contraction;
    const Product *sizes = &product->product;
    has[HAS_PRODUCT] = true;
    has[HAS_BATCHED_PRODUCT] |= sizes->batch[0] * sizes->batch[1] > 1;
    for (int i = 0; i < product->outer_count; i++)
        has[product->outer[i].summed ? HAS_SUMMED_PRODUCT : HAS_LOOPED_PRODUCT] = true;
    has[HAS_SHIFTED_OPERAND] |= is_shifted(product->a) || is_shifted(product->b);
    has[HAS_LIBRARY_EPILOGUE] |= sizes->epilogue_ops != 0;
    has[HAS_ROW_PRODUCT] |= unit->row;
    has[HAS_PAIRED_ROWS] |= unit->paired_row != NULL;
}

static void note_product(const ScheduleUnit *unit, bool *has) {
    const Contraction *product = unit->contraction;
    if (product->kind == CONTRACTION_PRODUCT) note_dense(unit, has);
    has[HAS_GROUPED_BY_WEIGHT] |= product->kind == CONTRACTION_ROWS_BY_WEIGHT;
    has[HAS_GROUPED_BY_ROWS] |= product->kind == CONTRACTION_ROWS_BY_ROWS;
    has[HAS_GATHERED_OPERAND] |= product->gather || product->gather_b;
    has[HAS_TWO_GATHERED_OPERANDS] |= product->gather && product->gather_b;
    has[HAS_ADDED_PRODUCT] |= product->product.accumulate;
    has[HAS_BEGUN_GRADIENT] |= unit->overwrites_gradient;
    has[HAS_DUAL_PRODUCT] |= unit->accumulated_product != NULL;
    has[HAS_SHARED_LAUNCH] |= unit->beside;
    has[HAS_PRODUCT_EPILOGUE] |=
        unit->epilogue && unit->epilogue->members.count > 1 && !product->product.epilogue_ops;
}

/* ---- calls and kernels ---- */

static void note_call(const CallRow *const *calls, const ScheduleUnit *unit, bool *has) {
    const Statement *call = unit->statement;
    if (call->row->form) has[call_form(calls, call->call)] = true;
    has[HAS_STEP_QUERIES] |= unit->elements[0] != NULL;
    has[HAS_STEP_CACHES] |= unit->elements[1] || unit->elements[2];
    has[HAS_ATTENTION_EPILOGUE] |= unit->epilogue && unit->epilogue->members.count > 1;
}

static void note_kernel(const Kernel *kernel, bool *has) {
    has[HAS_FUSED_KERNEL] |= kernel->members.count > 1;
    LIST_EACH(const Member, member, &kernel->members) {
        has[HAS_ONLINE_SOFTMAX] |= member->is_online_max;
        note_statement(member->statement, has);
        note_small_product(member->statement, has);
    }
    for (int i = 0; i < kernel->locals.count; i++)
        has[HAS_LOCAL_ROW] |= ((const Local *)kernel->locals.items[i])->kind == LOCAL_ROW;
}

static void note_prologue(const Kernel *kernel, bool *has) {
    has[HAS_ROW_PROLOGUE] = true;
    note_kernel(kernel, has);
    LIST_EACH(const Local, local, &kernel->locals)
        has[HAS_STORED_ROW] |= local->operand && local->stored;
}

static void note_units(const CallRow *const *calls, const List *units, bool *has) {
    LIST_EACH(const ScheduleUnit, unit, units) {
        if (unit->kind == UNIT_REPEAT) note_units(calls, &unit->body, has);
        if (unit->kind == UNIT_CONTRACTION) note_product(unit, has);
        if (unit->kind == UNIT_CALL) note_call(calls, unit, has);
        if (unit->kind == UNIT_KERNEL) note_kernel(unit->kernel, has);
        if (unit->prologue) note_prologue(unit->prologue, has);
        if (unit->statement) note_statement(unit->statement, has);
    }
}

static void note_buffers(const Schedule *schedule, bool *has) {
    for (int i = 0; schedule->allocations && i < schedule->program->tensors.count; i++)
        has[HAS_REUSED_BUFFER] |= schedule->allocations[i].over != NULL;
}

const bool *moec_forms(MoecCompiler *compiler, MoecProgram *program) {
    const Schedule *schedule = moec_schedule(compiler, program);
    bool *has = program->has;
    if (moec_failed(compiler)) return NULL;
    has[HAS_DISPATCHED] |= program->relations.count > 0;
    LIST_EACH(const Relation, relation, &program->relations) {
        has[HAS_NESTED_DISPATCH] |= relation->outer != NULL;
        has[HAS_COUNTED_DISPATCH] |= relation->rows->expected > 0;
    }
    note_units(program->calls, &schedule->units, has);
    note_buffers(schedule, has);
    return has;
}

long moec_scan_chunk(const MoecProgram *program) {
    long chunk = 0;
    LIST_EACH(const ScanForm, form, &program->scans)
        if (form->chunk_size > chunk) chunk = form->chunk_size;
    return chunk;
}

MoecThresholds moec_thresholds(void) {
    return (MoecThresholds){.scan_positions = SCAN_MIN_POSITIONS, .strip_rows = STRIP_MIN_ROWS};
}

/* ---- tensors ---- */

const MoecTable *moec_table(MoecCompiler *compiler, const MoecProgram *program) {
    Arena *arena = moec_arena(compiler);
    Program *only = (Program *)(uintptr_t)program;
    const BlockLayout weights = layout_of(arena, &only, 1, ROLE_PARAMETER),
                      states = layout_of(arena, &only, 1, ROLE_STATE);
    return tensors_table(arena, &only, 1, &weights, &states);
}

/* ---- hand-written kernels of layers ---- */

bool moec_use_externs(MoecCompiler *compiler, const char *target) {
    compiler->extern_target = target;
    return compiler->unit->externs.count > 0;
}

static const char *extern_title(Arena *arena, const ExternFunction *function) {
    return arena_format(arena, "%s:%s", function->file->path, function->name);
}

static const char *location_text(Arena *arena, Span span) {
    return span.source ? arena_format(arena, "%s:%d", span.source->path, span_line(span)) : "?";
}

/* ---- the calls of a program ---- */

typedef struct ExternCalls {
    MoecCompiler *compiler;
    MoecExtern *list;
    const ExternCall **calls;
    int count, capacity;
} ExternCalls;

/* At the same sizes, with the same options of the layer. */
static bool same_sizes(const MoecExtern *a, const MoecExtern *b) {
    bool same = !strcmp(a->layer, b->layer) && a->rows == b->rows &&
                a->size_count == b->size_count && a->option_count == b->option_count;
    for (int i = 0; same && i < a->size_count; i++) same = a->sizes[i].size == b->sizes[i].size;
    for (int i = 0; same && i < a->option_count; i++) same = !strcmp(a->options[i], b->options[i]);
    return same;
}

static MoecExtern describe_extern(Arena *arena, const Statement *statement) {
    const ExternCall *call = statement->external;
    const size_t count = (size_t)call->size_count + 1, inputs = (size_t)call->inputs.count + 1;
    MoecExternSize *sizes = arena_alloc(arena, count * sizeof *sizes);
    bool *integers = arena_alloc(arena, inputs * sizeof *integers);
    const MoecExtern one = {
        .name = extern_title(arena, call->function),
        .function = call->function->name,
        .path = call->function->file->path,
        .text = call->function->file->text,
        .emitted = extern_file_name(arena, call->function->file->path),
        .spec = call->function->span.source->path,
        .line = span_line(call->function->span),
        .equation = location_text(arena, call->result),
        .layer = call->layer,
        .options = (const char *const *)call->options.items,
        .option_count = call->options.count,
        .types = call->types,
        .parameters = call->parameters,
        .inputs = (const char *const *)call->inputs.items,
        .outputs = (const char *const *)call->outputs.items,
        .integers = integers,
        .input_count = call->inputs.count,
        .output_count = call->outputs.count,
        .gradient = call->backward,
        .forward = -1,
        .rows = extern_rows(statement),
        .named = call->named,
        .sizes = sizes,
        .size_count = call->size_count,
        .blocks = {call->blocks.factor, call->blocks.sizes, call->blocks.count},
        .workspace = {call->space.factor, call->space.sizes, call->space.count},
        .threads = call->threads,
        .shared = call->shared,
        .key = call->function,
    };
    for (int i = 0; i < call->size_count; i++) {
        const ExternSize *size = &call->sizes[i];
        sizes[i] =
            (MoecExternSize){size->name, size->operand, size->back, extern_size(statement, i)};
    }
    for (int i = 0; i < call->inputs.count; i++)
        integers[i] = call_input(statement, i)->tensor->type == TYPE_INT;
    return one;
}

static void add_extern_call(Statement *statement, void *data) {
    ExternCalls *calls = data;
    if (statement->kind != STATEMENT_CALL || !statement->external) return;
    Arena *arena = calls->compiler->arena;
    const MoecExtern one = describe_extern(arena, statement);
    for (int i = 0; i < calls->count; i++)
        if (calls->list[i].key == one.key && same_sizes(&calls->list[i], &one)) return;
    if (calls->count == calls->capacity) {
        calls->capacity = 2 * calls->capacity + 8;
        MoecExtern *list = arena_alloc(arena, (size_t)calls->capacity * sizeof *list);
        const ExternCall **own = arena_alloc(arena, (size_t)calls->capacity * sizeof *own);
        for (int i = 0; i < calls->count; i++) {
            list[i] = calls->list[i];
            own[i] = calls->calls[i];
        }
        calls->list = list;
        calls->calls = own;
    }
    calls->calls[calls->count] = statement->external;
    calls->list[calls->count++] = one;
}

/* The call whose gradient it is. */
static void find_forward(const ExternCalls *calls, int gradient) {
    for (int i = 0; i < calls->count; i++)
        if (calls->calls[i]->gradient &&
            calls->calls[i]->gradient->function == calls->calls[gradient]->function &&
            same_sizes(&calls->list[i], &calls->list[gradient]))
            calls->list[gradient].forward = i;
}

const MoecExtern *moec_externs(MoecCompiler *compiler, MoecProgram *program, int *count) {
    ExternCalls calls = {.compiler = compiler};
    block_walk(&program->body, add_extern_call, &calls);
    for (int i = 0; i < calls.count; i++)
        if (calls.list[i].gradient) find_forward(&calls, i);
    *count = calls.count;
    return calls.list;
}

void moec_refuse_extern(MoecCompiler *compiler, const MoecExtern *external) {
    list_push(compiler->arena, &compiler->unit->refused, (void *)(uintptr_t)external->key);
}

/* ---- kernels of all programs ---- */

typedef struct UsesOfGraph {
    MoecCompiler *compiler;
    MoecExternUse *uses;
    const char *graph;
} UsesOfGraph;

static MoecExternUse *extern_use_of(const UsesOfGraph *found, const ExternFunction *function) {
    const List *externs = &found->compiler->unit->externs;
    for (int i = 0; i < externs->count; i++)
        if (&((const ExternFile *)externs->items[i])->function == function) return &found->uses[i];
    return NULL;
}

static void note_extern_use(const UsesOfGraph *found, const ExternCall *call) {
    Arena *arena = found->compiler->arena;
    MoecExternUse *use = call ? extern_use_of(found, call->function) : NULL;
    if (!use) return;
    const bool cuda = !strcmp(use->target, "cuda");
    use->declaration = arena_format(arena, "%s %s(%s)", cuda ? "__global__ void" : "int",
                                    call->function->name, call->parameters);
    if (!use->programs)
        use->programs = found->graph;
    else if (!strstr(use->programs, found->graph))
        use->programs = arena_format(arena, "%s, %s", use->programs, found->graph);
}

static void find_extern_use(Statement *statement, void *data) {
    const UsesOfGraph *found = data;
    if (statement->kind != STATEMENT_CALL || !statement->external) return;
    note_extern_use(found, statement->external);
    if (!strcmp(found->graph, "training")) note_extern_use(found, statement->external->gradient);
}

/* The calls of one graph, elaborated alone. */
static bool find_extern_uses(UsesOfGraph *found, const char *target, Graph graph) {
    MoecCompiler *compiler = found->compiler;
    Unit *unit = compiler->unit;
    unit->extern_target = target;
    unit->unused = (List){0};
    Program *program = elaborated(compiler, graph, 0, 0);
    unit->extern_target = NULL;
    if (!program || compiler->reports.errors) return false;
    block_walk(&program->body, find_extern_use, found);
    LIST_EACH(const ExternUnused, unused, &unit->unused) {
        MoecExternUse *use = extern_use_of(found, unused->function);
        if (use && !use->reason)
            use->reason = arena_format(compiler->arena, "%s: %s", found->graph, unused->reason);
    }
    return true;
}

const MoecExternUse *moec_extern_uses(MoecCompiler *compiler, int *count) {
    static const struct {
        Graph graph;
        const char *name;
    } graphs[] = {
        {GRAPH_FORWARD, "forward"}, {GRAPH_TRAIN, "training"}, {GRAPH_DECODE, "decoding"}};
    static const char *const targets[] = {"c", "cuda"};
    const List *externs = &compiler->unit->externs;
    UsesOfGraph found = {.compiler = compiler};
    found.uses = arena_alloc(compiler->arena, ((size_t)externs->count + 1) * sizeof *found.uses);
    for (int i = 0; i < externs->count; i++) {
        const ExternFunction *function = &((const ExternFile *)externs->items[i])->function;
        found.uses[i] = (MoecExternUse){.target = function->target,
                                        .name = extern_title(compiler->arena, function),
                                        .spec = function->span.source->path,
                                        .line = span_line(function->span)};
    }
    *count = externs->count;
    for (int i = 0; externs->count && i < 6; i++) {
        found.graph = graphs[i % 3].name;
        if (!find_extern_uses(&found, targets[i / 3], graphs[i % 3].graph)) return NULL;
    }
    return found.uses;
}

const char *moec_weight_type(MoecProgram *program, const char *name) {
    const int *touches = touches_of(program);
    const char *type = NULL;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (!touches[i] || !tensor->path || strcmp(tensor->path, name) != 0) continue;
        if (tensor->role == ROLE_PARAMETER) return NULL;
        if (tensor->role == ROLE_ROUNDED) type = real_type_name(tensor->type);
    }
    return type;
}

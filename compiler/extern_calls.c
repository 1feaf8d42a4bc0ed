/* extern_calls: the hand-written kernels of the layers of a model, for the public interface. */
#include "driver.h"
#include "ir/call.h"
#include "print/print.h"

#include <stdint.h>
#include <string.h>

bool moec_use_externs(MoecCompiler *compiler, const char *target) {
    compiler->extern_target = target;
    return compiler->unit->externs.count > 0;
}

static const char *extern_title(Arena *arena, const ExternFunction *function) {
    return arena_format(arena, "%s:%s", function->file->path, function->name);
}

static const char *span_text(Arena *arena, Span span) {
    return span.source ? arena_format(arena, "%s:%d", span.source->path, span_line(span)) : "?";
}

/* ---- the calls of a program ---- */

typedef struct ExternCalls {
    MoecCompiler *compiler;
    MoecExtern *list;
    const ExternCall **calls;
    int count, capacity;
} ExternCalls;

static long operand_size(const Statement *statement, int number, int back) {
    const int inputs = statement->external->inputs.count;
    const Expr *operand = number < inputs ? call_input(statement, number)
                                          : call_output(statement, number - inputs);
    const CallShape shape = call_shape(operand);
    return size_at(&shape, back + 1);
}

/* At the same sizes, with the same options of the layer. */
static bool same_sizes(const MoecExtern *a, const MoecExtern *b) {
    bool same = !strcmp(a->layer, b->layer) && a->rows == b->rows && a->size_count == b->size_count &&
                a->option_count == b->option_count;
    for (int i = 0; same && i < a->size_count; i++) same = a->sizes[i].size == b->sizes[i].size;
    for (int i = 0; same && i < a->option_count; i++)
        same = !strcmp(a->options[i], b->options[i]);
    return same;
}

static MoecExtern describe_extern(Arena *arena, const Statement *statement) {
    const ExternCall *call = statement->external;
    const CallShape first = call_shape(call_input(statement, 0));
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
        .equation = span_text(arena, call->result),
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
        .rows = leading_size(&first, call->named),
        .named = call->named,
        .sizes = sizes,
        .size_count = call->size_count,
        .factor = call->factor,
        .threads = call->threads,
        .shared = call->shared,
        .blocks = call->blocks,
        .block_count = call->block_count,
        .key = call->function,
    };
    for (int i = 0; i < call->size_count; i++) {
        const ExternSize *size = &call->sizes[i];
        sizes[i] = (MoecExternSize){size->name, size->operand, size->back,
                                    operand_size(statement, size->operand, size->back)};
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

/* ---- what all programs call ---- */

typedef struct UsesOfGraph {
    MoecCompiler *compiler;
    MoecExternUse *uses;
    const char *graph;
} UsesOfGraph;

static MoecExternUse *use_of(const UsesOfGraph *found, const ExternFunction *function) {
    const List *externs = &found->compiler->unit->externs;
    for (int i = 0; i < externs->count; i++)
        if (&((const ExternFile *)externs->items[i])->function == function) return &found->uses[i];
    return NULL;
}

static void note_use(const UsesOfGraph *found, const ExternCall *call) {
    Arena *arena = found->compiler->arena;
    MoecExternUse *use = call ? use_of(found, call->function) : NULL;
    if (!use) return;
    const bool cuda = !strcmp(use->target, "cuda");
    use->declaration = arena_format(arena, "%s %s(%s)", cuda ? "__global__ void" : "int",
                                    call->function->name, call->parameters);
    if (!use->programs)
        use->programs = found->graph;
    else if (!strstr(use->programs, found->graph))
        use->programs = arena_format(arena, "%s, %s", use->programs, found->graph);
}

static void find_use(Statement *statement, void *data) {
    const UsesOfGraph *found = data;
    if (statement->kind != STATEMENT_CALL || !statement->external) return;
    note_use(found, statement->external);
    if (!strcmp(found->graph, "training")) note_use(found, statement->external->gradient);
}

/* The calls of one graph, elaborated alone. */
static bool find_uses(UsesOfGraph *found, const char *target, Graph graph) {
    MoecCompiler *compiler = found->compiler;
    Unit *unit = compiler->unit;
    unit->extern_target = target;
    unit->unused = (List){0};
    Program *program = elaborated(compiler, graph, 0, 0);
    unit->extern_target = NULL;
    if (!program || compiler->reports.errors) return false;
    block_walk(&program->body, find_use, found);
    for (int i = 0; i < unit->unused.count; i++) {
        const ExternUnused *unused = unit->unused.items[i];
        MoecExternUse *use = use_of(found, unused->function);
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
        if (!find_uses(&found, targets[i / 3], graphs[i % 3].graph)) return NULL;
    }
    return found.uses;
}

/* leaks: warns of a model that depends on the tokens that it is trained to predict.
 *
 * The model is elaborated once more with a short sequence, for which analysis/lookahead.h follows
 * every position.
 */
#include "describe.h"

#include "analysis/lookahead.h"
#include "ir/call.h"

enum { SHORTEST = 64 };

static const char *const fixes[] = {
    [LEAK_SUBSCRIPT] = "read the same or an earlier position: %1$s, %1$s - 1",
    [LEAK_REDUCTION] =
        "restrict it to earlier positions, sum[t] x[t] * (t <= %1$s) for example, or "
        "compute it in a scan over %1$s",
    [LEAK_SCAN] = "scan from the first position to the last: leave out 'reversed'",
    [LEAK_TARGET] =
        "compute predictions from the tokens; only the loss and probes read the next token",
};

/* How far it reads, where the sequence is long enough to see an end. */
static const char *distance(Arena *arena, const Leak *leak, const Axis *sequence) {
    bool all = leak->kind == LEAK_REDUCTION;
    if (2L * leak->most >= sequence->size)
        return arena_format(arena, "this reads %s positions of '%s'", all ? "all" : "later",
                            sequence->name);
    return arena_format(arena, "this reads %s%d position%s ahead along '%s'",
                        leak->least == leak->most ? "" : "up to ", leak->most,
                        leak->most == 1 ? "" : "s", sequence->name);
}

static const char *action(Arena *arena, const Leak *leak, const Axis *sequence) {
    const char *name = sequence->name;
    switch (leak->kind) {
    case LEAK_CALL:
        return arena_format(
            arena, "this %s",
            arena_format(arena, leak->statement->row->ahead, arena_format(arena, "'%s'", name)));
    case LEAK_SCAN:
        return arena_format(arena, "this scan runs from the last position of '%s' to the first",
                            name);
    case LEAK_TARGET:
        return arena_format(arena, "this reads '%s', the next token", leak->read->tensor->path);
    default:
        return distance(arena, leak, sequence);
    }
}

static void warn_of(Reports *reports, const Leak *leak, const Axis *sequence) {
    Span span = leak->span;
    bool standard = span.source && path_is_standard(span.source->path);
    if (standard && leak->statement->asked.source) span = leak->statement->asked;
    report_warning(reports, span, "'%s' depends on the tokens that it predicts: %s",
                   leak->output->name, action(reports->arena, leak, sequence));
    if (span.source != leak->span.source) report_note(reports, leak->span, "in this equation");
    report_help(reports, leak->kind == LEAK_CALL ? leak->statement->row->remedy : fixes[leak->kind],
                sequence->name);
}

/* The model with a short sequence and discarded reports. */
typedef struct Short {
    MoecCompiler *compiler;
    Graph graph;
    long context;
    Program *program;
} Short;

static void elaborate_short(void *data) {
    Short *wanted = data;
    wanted->program = elaborated(wanted->compiler, wanted->graph, 1, wanted->context);
}

static Program *short_program(MoecCompiler *compiler, Graph graph, long context) {
    Reports *reports = &compiler->reports;
    const Reports before = *reports;
    Short wanted = {.compiler = compiler, .graph = graph, .context = context};
    bool whole = bounded(compiler, elaborate_short, &wanted);
    int count = before.list.count;
    reports->errors = before.errors;
    reports->told = before.told;
    reports->repeated = before.repeated;
    reports->gave_up = before.gave_up;
    reports->list.count = count;
    return whole ? wanted.program : NULL;
}

/* A size that depends on the context may require a longer one. */
static void warn_of_graph(MoecCompiler *compiler, Graph graph, long context) {
    Program *program = NULL;
    for (long size = SHORTEST; size < context && size <= 2 * SHORTEST && !program; size += 32)
        program = short_program(compiler, graph, size);
    if (!program && context <= 2 * SHORTEST) program = short_program(compiler, graph, context);
    List leaks = program ? lookahead(program) : (List){0};
    for (int i = 0; i < leaks.count; i++)
        warn_of(&compiler->reports, leaks.items[i], program->sequence);
}

void warn_of_leaks(MoecCompiler *compiler, const Program *forward) {
    if (!forward->sequence) return;
    warn_of_graph(compiler, GRAPH_FORWARD, forward->sequence->size);
    if (forward->by_training) warn_of_graph(compiler, GRAPH_TRAIN, forward->sequence->size);
}

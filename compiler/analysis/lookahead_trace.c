/* lookahead_trace: the predictions that depend on tokens after their position, and the statements
 * where that begins.
 *
 * A prediction is an output along the sequence, or a tensor that the next token subscripts. From
 * its cell the reads are followed that depend on the later token; a statement that reads a later
 * position than its own is where the dependence begins:
 *
 *     m[d]        = mean[s] x[s,d]          here, for every s but the last
 *     y[s,d]      = x[s,d] + m[d]
 *     logits[s,v] = sum[d] y[s,d] * w[d,v]
 *     loss        = mean[s] (... - logits[s,targets[s]])
 */
#include "analysis/lookahead.h"

#include "analysis/past.h"
#include "base/must.h"

#include <string.h>

enum { MAX_TRACED = 6 }; /* cells of one prediction */

/* A statement that writes a tensor, and the scan that it is part of. */
typedef struct Writer {
    const Statement *statement, *scan;
    const Expr *target;
} Writer;

/* A cell that the prediction depends on. `at`: the position that it is computed for. */
typedef struct PendingCell {
    const Tensor *tensor;
    long cell;
    int at;
} PendingCell;

typedef struct Trace {
    Lookahead *look;
    List *writers; /* Writer *, by tensor id */
    List leaks;    /* Leak * */
    const Statement *scan;
    const Tensor *output;
    int limit;        /* position of the first token that the prediction must not depend on */
    int traced;       /* cells of the prediction so far */
    List pending;     /* PendingCell *: cells whose reads are to be followed, in their order */
    List subscripted; /* Expr *: reads that the next token subscripts */
    List limits;      /* CellRead *: their cells, each with its limit as the latest token */
} Trace;

/* ---- writers ---- */

static void add_writer(Trace *trace, const Statement *statement, const Expr *target) {
    MUST(target->kind == EXPR_READ);
    Arena *arena = trace->look->program->arena;
    Writer *writer = arena_alloc(arena, sizeof *writer);
    *writer = (Writer){statement, trace->scan, target};
    list_push(arena, &trace->writers[target->tensor->id], writer);
}

static void add_writers(Trace *trace, const Block *block) {
    LIST_EACH(const Statement, statement, &block->statements) {
        const Statement *outer = trace->scan;
        if (statement_is_scan(statement)) trace->scan = statement;
        add_writers(trace, &statement->body);
        trace->scan = outer;
        if (statement->once || statement_is_scan(statement)) continue;
        if (statement->kind == STATEMENT_LOOP) add_writer(trace, statement, statement->target);
        for (int j = 0; j < statement->outputs.count; j++)
            add_writer(trace, statement, statement->outputs.items[j]);
    }
}

/* ---- where a dependence begins ---- */

/* The latest position of the sequence among the coordinates of a cell; -1: it has none. */
static int position_of(const Lookahead *look, const Tensor *tensor, long cell) {
    const Grid *grid = &look->grids[tensor->id];
    int latest = -1;
    for (int i = grid->count - 1; i >= 0; i--) {
        const Axis *axis = tensor->axes[grid->dims[i]];
        int position = (int)(cell % axis->size);
        cell /= axis->size;
        if (axis->kind == AXIS_SEQUENCE && position > latest) latest = position;
    }
    return latest;
}

/* Whether a subscript of the read is a reduced index of the statement. */
static bool is_traced_sum(const Statement *statement, const Expr *read) {
    MUST(statement->kind == STATEMENT_LOOP && read->kind == EXPR_READ);
    for (int i = 0; i < read->count; i++)
        for (int j = 0; j < statement->loop_count; j++) {
            const Index *index = statement->loops[j];
            bool along = read->tensor->axes[i]->kind == AXIS_SEQUENCE;
            if (along && !on_left(statement, index) && expr_uses_index(read->args[i], index))
                return index->axis->kind == AXIS_SEQUENCE;
        }
    return false;
}

/* Whether the scan itself computes the tensor: its state at the position after. */
static bool is_of_scan(const Trace *trace, const Statement *scan, const Tensor *tensor) {
    const List *writers = &trace->writers[tensor->id];
    return list_find_by(writers, offsetof(Writer, scan), scan) != NULL;
}

static LeakKind kind_of(const Trace *trace, const Writer *writer, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    const Statement *statement = writer->statement;
    if (read->tensor == trace->look->next) return LEAK_TARGET;
    if (statement->kind == STATEMENT_CALL) return LEAK_CALL;
    if (writer->scan && is_of_scan(trace, writer->scan, read->tensor)) return LEAK_SCAN;
    return is_traced_sum(statement, read) ? LEAK_REDUCTION : LEAK_SUBSCRIPT;
}

static Span span_of(const Leak *leak) {
    for (int i = 0; leak->kind == LEAK_SUBSCRIPT && i < leak->read->count; i++)
        if (leak->read->tensor->axes[i]->kind == AXIS_SEQUENCE && leak->read->args[i]->span.source)
            return leak->read->args[i]->span;
    return leak->statement->span;
}

static bool same_span(Span a, Span b) {
    return a.source == b.source && a.start == b.start && a.end == b.end;
}

static void add_leak(Trace *trace, const Writer *writer, const Expr *read, int distance) {
    Leak leak = {.kind = kind_of(trace, writer, read),
                 .statement = writer->statement,
                 .read = read,
                 .output = trace->output,
                 .least = distance,
                 .most = distance};
    if (leak.kind == LEAK_SCAN) leak.statement = writer->scan;
    leak.span = span_of(&leak);
    LIST_EACH(Leak, other, &trace->leaks) {
        if (!same_span(other->span, leak.span)) continue;
        if (distance > other->most) other->most = distance;
        if (distance < other->least) other->least = distance;
        return;
    }
    Leak *kept = arena_alloc(trace->look->program->arena, sizeof *kept);
    *kept = leak;
    list_push(trace->look->program->arena, &trace->leaks, kept);
}

static void add_pending(Trace *trace, const Tensor *tensor, long cell, int at) {
    bool *traced = &trace->look->grids[tensor->id].traced[cell];
    if (*traced) return;
    *traced = true;
    PendingCell *one = arena_alloc(trace->look->program->arena, sizeof *one);
    *one = (PendingCell){tensor, cell, at};
    list_push(trace->look->program->arena, &trace->pending, one);
}

static void follow(Trace *trace, const Writer *writer, const List *reads, int at) {
    LIST_EACH(const CellRead, one, reads) {
        const Tensor *tensor = one->read->tensor;
        if (one->value.known || one->value.latest < trace->limit) continue;
        int position = position_of(trace->look, tensor, one->cell);
        bool target = tensor == trace->look->next;
        if (position > at || target) add_leak(trace, writer, one->read, position - at + target);
        add_pending(trace, tensor, one->cell, at);
    }
}

/* Assigns the coordinates of a cell to the subscripts of the target; false: it writes others. */
static bool assign_cell(Lookahead *look, const Expr *target, long cell) {
    MUST(target->kind == EXPR_READ);
    const Grid *grid = &look->grids[target->tensor->id];
    for (int i = grid->count - 1; i >= 0; i--) {
        const Expr *sub = target->args[grid->dims[i]];
        long size = target->tensor->axes[grid->dims[i]]->size, coordinate = cell % size;
        cell /= size;
        if (sub->kind == EXPR_INDEX)
            look_assign(look, sub->index, coordinate);
        else if (!expr_is_number(sub, (double)coordinate))
            return false;
    }
    return true;
}

static void follow_cell(Trace *trace, const PendingCell *one) {
    Lookahead *look = trace->look;
    const Tensor *tensor = one->tensor;
    int own = position_of(look, tensor, one->cell);
    LIST_EACH(const Writer, writer, &trace->writers[tensor->id]) {
        List reads = {0};
        look->reads = &reads;
        if (assign_cell(look, writer->target, one->cell)) look_statement(look, writer->statement);
        look->reads = NULL;
        look->assigned = 0;
        follow(trace, writer, &reads, own >= 0 ? own : one->at);
    }
}

/* Follows the reads that the cell depends on, the nearest first: `at` of a cell without a position
 * is then the position that is fewest reads away. */
static void trace_cell(Trace *trace, const Tensor *tensor, long cell) {
    trace->pending = (List){0};
    add_pending(trace, tensor, cell, position_of(trace->look, tensor, cell));
    for (int i = 0; i < trace->pending.count; i++) follow_cell(trace, trace->pending.items[i]);
}

/* ---- predictions ---- */

/* A cell that must not depend on the token at `limit`, nor on later ones. */
static void check_cell(Trace *trace, const Tensor *tensor, long cell, int limit) {
    const Grid *grid = &trace->look->grids[tensor->id];
    const Cell *value = &grid->cells[cell];
    if (value->known || value->latest < limit || trace->traced == MAX_TRACED) return;
    Program *program = trace->look->program;
    for (int i = 0; i < program->tensors.count; i++) {
        const Grid *other = &trace->look->grids[i];
        memset(other->traced, 0, (size_t)other->size * sizeof *other->traced);
    }
    trace->traced++;
    trace->output = tensor;
    trace->limit = limit;
    trace_cell(trace, tensor, cell);
}

static void check_outputs(Trace *trace) {
    const Program *program = trace->look->program;
    LIST_EACH(const Tensor, tensor, &program->outputs) {
        trace->traced = 0;
        if (tensor->probe != MOEC_PROBE_NONE) continue;
        for (long j = 0; j < trace->look->grids[tensor->id].size; j++) {
            int position = position_of(trace->look, tensor, j);
            if (position >= 0) check_cell(trace, tensor, j, position + 1);
        }
    }
}

static void find_subscripted(Expr *expr, void *data) {
    Trace *trace = data;
    Role role = expr->kind == EXPR_READ ? expr->tensor->role : ROLE_PARAMETER;
    if (role == ROLE_PARAMETER || role == ROLE_STATE || role == ROLE_INPUT) return;
    for (int i = 0; i < expr->count; i++)
        if (expr_reads(expr->args[i], trace->look->next))
            list_push(trace->look->program->arena, &trace->subscripted, expr);
}

/* logits[s,targets[s]] for the positions that are assigned: the last token of the subscripts is the
 * one that the cell must not depend on. */
static void check_subscripted(Trace *trace, Expr *read) {
    MUST(read->kind == EXPR_READ);
    Lookahead *look = trace->look;
    List reads = {0};
    int limit = -1;
    look->reads = &reads;
    look_value(look, read);
    look->reads = NULL;
    LIST_EACH(const CellRead, one, &reads)
        if (one->read->tensor == look->next && one->value.latest > limit) limit = one->value.latest;
    for (int i = 0; limit >= 0 && i < reads.count; i++) {
        CellRead *one = reads.items[i];
        if (one->read != read) continue;
        one->value.latest = limit;
        list_push(look->program->arena, &trace->limits, one);
    }
}

/* The same for all of them. */
static void check_positions(Trace *trace, const Statement *statement, int from, Expr *read) {
    MUST(statement->kind == STATEMENT_LOOP);
    Lookahead *look = trace->look;
    if (from == statement->loop_count) {
        check_subscripted(trace, read);
        return;
    }
    const Index *index = statement->loops[from];
    if (!look_matters(look, index->axis)) {
        check_positions(trace, statement, from + 1, read);
        return;
    }
    for (long i = 0; i < index->axis->size; i++) {
        look_assign(look, index, i);
        check_positions(trace, statement, from + 1, read);
        look->assigned--;
    }
}

static void trace_reads(Statement *statement, void *data) {
    Trace *trace = data;
    if (statement->kind != STATEMENT_LOOP || statement->once) return;
    trace->subscripted = (List){0};
    expr_walk(statement->value, find_subscripted, trace);
    for (int i = 0; i < trace->subscripted.count; i++) {
        trace->limits = (List){0};
        trace->traced = 0;
        check_positions(trace, statement, 0, trace->subscripted.items[i]);
        LIST_EACH(const CellRead, one, &trace->limits)
            check_cell(trace, one->read->tensor, one->cell, one->value.latest);
    }
}

List look_leaks(Lookahead *look) {
    Program *program = look->program;
    Trace trace = {.look = look};
    trace.writers = arena_alloc(program->arena, (size_t)program->tensors.count * sizeof(List));
    add_writers(&trace, &program->body);
    check_outputs(&trace);
    block_walk(&program->body, trace_reads, &trace);
    return trace.leaks;
}

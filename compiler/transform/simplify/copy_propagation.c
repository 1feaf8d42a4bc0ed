/* copy_propagation: readers of a copy of another tensor, or of a number, read its source.
 *
 *     t[b,s] = x[b,s]
 *     y[b,s] = exp(t[b,s])      -->     y[b,s] = exp(x[b,s])
 *
 * Not if the source changes in between. Copies with computed subscripts stay, because products need
 * plain operands.
 */
#include "ir/ir.h"
#include "base/must.h"
#include "transform/simplify/simplify.h"

typedef struct Copies {
    const DefUse *def_use;
    const Statement **source; /* by tensor id: the statement that copies, or NULL */
    bool call;                /* an operand of a call must remain a read of the same axes */
    bool changed;
} Copies;

static bool is_step_position(const Tensor *tensor, const Expr *sub, int dimension) {
    if (tensor->axes[dimension]->kind != AXIS_REPEAT) return false;
    if (sub->kind == EXPR_APPLY)
        return sub->args[0]->kind == EXPR_INDEX && sub->args[0]->index->of_repeat;
    return sub->kind == EXPR_NUMBER || sub->kind == EXPR_INDEX;
}

static bool is_copyable(const Expr *value) {
    if (value->kind == EXPR_NUMBER) return true;
    if (value->kind != EXPR_READ) return false;
    for (int i = 0; i < value->count; i++) {
        const Expr *sub = value->args[i];
        if (sub->kind != EXPR_INDEX && !is_step_position(value->tensor, sub, i)) return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(sub, value->args[j])) return false;
    }
    return true;
}

/* True if every read of the target of the statement may be replaced by its value. */
static bool is_copy(const DefUse *def_use, int position) {
    const ProgramPoint *point = &def_use->points[position];
    const Statement *statement = point->statement;
    if (statement->kind != STATEMENT_LOOP || statement->reduction != REDUCE_NONE) return false;
    const Tensor *tensor = statement->target->tensor;
    const Expr *value = statement->value;
    if (!def_use_is_plain(def_use, tensor) || !is_copyable(value)) return false;
    bool stacked = point->repeat && expr_uses_index(statement->target, point->repeat->index);
    if (point->repeat && !stacked && !def_use_reads_in(def_use, tensor, point->repeat))
        return false;
    if (value->kind == EXPR_NUMBER) return true;
    if (value->tensor->type != tensor->type || value->tensor == tensor) return false;
    if (stacked && def_use_is_local(def_use, value->tensor, point->repeat)) return false;
    return !def_use_changes(def_use, value, position);
}

static bool is_same_position(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *target = statement->target, *value = statement->value;
    if (value->kind != EXPR_READ || value->count < target->count) return false;
    int extra = value->count - target->count;
    for (int i = 0; i < target->count; i++)
        if (!expr_equal(target->args[i], value->args[i + extra])) return false;
    return extra == 0 || (extra == 1 && value->tensor->axes[0]->kind == AXIS_REPEAT);
}

static bool is_mask(const Tensor *tensor) {
    return tensor->selects || tensor->share > 0;
}

/* The source replaces a copy that is a mask. */
static void pass_mask(const Tensor *copy, Tensor *source) {
    source->selects |= copy->selects;
    if (copy->share > 0) source->share = copy->share;
}

static Expr *replace_copy(Program *program, Expr *read, void *data) {
    Copies *copies = data;
    if (read->tensor->id >= copies->def_use->tensor_count) return NULL;
    const Statement *statement = copies->source[read->tensor->id];
    if (!statement || (copies->call && !is_same_position(statement))) return NULL;
    Index *from[MAX_RANK];
    for (int i = 0; i < read->count; i++) {
        from[i] = statement->target->args[i]->index;
        MUST(from[i]); /* def_use_is_plain */
        /* an index outside of the axis must still read 0 */
        if (read->args[i]->kind == EXPR_INDEX || is_step_position(read->tensor, read->args[i], i))
            continue;
        if (statement->value->kind == EXPR_NUMBER || !expr_uses_index(statement->value, from[i]))
            return NULL;
    }
    copies->changed = true;
    if (is_mask(read->tensor)) pass_mask(read->tensor, statement->value->tensor);
    return expr_substitute(program, statement->value, from, read->args, read->count);
}

/* A copy of a copy reads the original source: sources are in execution order, so one round follows
 * a chain. */
static Expr *replace_chain(Program *program, Expr *read, void *data) {
    Expr *value = replace_copy(program, read, data);
    while (value && value->kind == EXPR_READ) {
        Expr *next = replace_copy(program, value, data);
        if (!next) break;
        value = next;
    }
    return value;
}

bool copy_propagation(Program *program) {
    Copies copies = {.def_use = def_use_new(program)};
    copies.source =
        arena_alloc(program->arena, (size_t)copies.def_use->tensor_count * sizeof *copies.source);
    bool found = false;
    for (int i = 0; i < copies.def_use->count; i++) {
        const Statement *statement = copies.def_use->points[i].statement;
        if (!is_copy(copies.def_use, i)) continue;
        if (is_mask(statement->target->tensor) && !is_same_position(statement)) continue;
        copies.source[statement->target->tensor->id] = statement;
        found = true;
    }
    for (int i = 0; found && i < copies.def_use->count; i++) {
        Statement *statement = copies.def_use->points[i].statement;
        copies.call = statement->kind == STATEMENT_CALL;
        rewrite_statement(program, statement, false, replace_chain, &copies);
    }
    copies.call = false;
    for (int i = 0; found && i < program->masked.count; i++) {
        MaskedReduction *masked = program->masked.items[i];
        masked->mask = rewrite_expr(program, masked->mask, replace_chain, &copies);
    }
    return copies.changed;
}

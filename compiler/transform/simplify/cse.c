/* cse: computes two statements of one block with the same value once; the second becomes a copy of
 * the first.
 *
 *     a[b,s] = exp(x[b,s])              a[b,s] = exp(x[b,s])
 *     c[u,t] = exp(x[u,t])      -->     c[u,t] = a[u,t]
 *
 * A value that the backward pass recomputes is not saved for it again.
 */
#include "transform/simplify/simplify.h"
#include "base/must.h"

static bool same_dimensions(const Statement *a, const Statement *b) {
    MUST(a->kind == STATEMENT_LOOP && b->kind == STATEMENT_LOOP);
    if (a->reduction != b->reduction || a->loop_count != b->loop_count ||
        a->target->count != b->target->count || a->again != b->again)
        return false;
    if (a->target->tensor->type != b->target->tensor->type || a->value->kind != b->value->kind)
        return false;
    if (a->value->kind == EXPR_NUMBER || a->value->count != b->value->count) return false;
    if (a->value->kind == EXPR_APPLY && a->value->op != b->value->op) return false;
    if (a->value->kind == EXPR_READ && a->value->tensor != b->value->tensor) return false;
    for (int i = 0; i < a->loop_count; i++)
        if (a->loops[i]->axis->size != b->loops[i]->axis->size) return false;
    return true;
}

/* True if the second statement computes the same values as the first. */
static bool same_value(const Statement *a, const Statement *b) {
    MUST(a->kind == STATEMENT_LOOP && b->kind == STATEMENT_LOOP);
    if (!same_dimensions(a, b)) return false;
    for (int i = 0; i < a->target->count; i++)
        if (!expr_matches(a->target->args[i], a->loops, b->target->args[i], b->loops,
                          a->loop_count))
            return false;
    return expr_matches(a->value, a->loops, b->value, b->loops, a->loop_count);
}

typedef struct Between {
    const DefUse *def_use;
    int first, last;
    bool changed;
} Between;

static void find_change(Expr *expr, void *data) {
    Between *between = data;
    if (expr->kind != EXPR_READ) return;
    const List *writes = &between->def_use->writes[expr->tensor->id];
    LIST_EACH(const TensorAccess, write, writes)
        if (write->position >= between->first && write->position < between->last)
            between->changed = true;
}

static bool is_candidate(const DefUse *def_use, int position) {
    const Statement *statement = def_use->points[position].statement;
    return statement->kind == STATEMENT_LOOP &&
           def_use_is_plain(def_use, statement->target->tensor);
}

/* True for a copy that copy_propagation replaces; it does not replace computed subscripts. */
static bool is_same_copy(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *value = statement->value;
    if (statement->reduction != REDUCE_NONE || value->kind != EXPR_READ) return false;
    for (int i = 0; i < value->count; i++)
        if (value->args[i]->kind == EXPR_APPLY || value->args[i]->kind == EXPR_READ) return false;
    return true;
}

/* Statements that compute the same have the same hash, independent of their position in a block. */
static uint64_t statement_hash(const ProgramPoint *point) {
    const Statement *statement = point->statement;
    uint64_t hash = hash_word(HASH_START, (uint64_t)(uintptr_t)point->block);
    hash = hash_word(hash, statement->reduction);
    return expr_hash(hash, statement->value, statement->loops, statement->loop_count);
}

/* The first of the statements before with the value of the one at the position, or NULL. */
static const Statement *find_equal(const DefUse *def_use, const List *before, int position) {
    const ProgramPoint *point = &def_use->points[position];
    LIST_EACH(const ProgramPoint, first, before) {
        if (first->block != point->block || !same_value(first->statement, point->statement))
            continue;
        Between between = {def_use, (int)(first - def_use->points), position, false};
        expr_walk(first->statement->value, find_change, &between);
        if (!between.changed) return first->statement;
    }
    return NULL;
}

static void share_value(Program *program, Statement *statement, Tensor *of) {
    MUST(of->rank == statement->target->count);
    statement->value = expr_read(program, of, statement->target->args);
    statement->reduction = REDUCE_NONE;
    statement->loop_count = 0;
    for (int i = 0; i < statement->target->count; i++)
        if (!statement->target->args[i]->index->of_repeat)
            statement->loops[statement->loop_count++] = statement->target->args[i]->index;
}

bool cse(Program *program) {
    DefUse *def_use = def_use_new(program);
    Table before = {0}; /* `ProgramPoint *` */
    bool changed = false;
    for (int i = 0; i < def_use->count; i++) {
        Statement *statement = def_use->points[i].statement;
        if (!is_candidate(def_use, i) || is_same_copy(statement)) continue;
        uint64_t hash = statement_hash(&def_use->points[i]);
        const Statement *first = find_equal(def_use, table_find(&before, hash), i);
        if (first) {
            share_value(program, statement, first->target->tensor);
            changed = true;
        } else {
            table_add(program->arena, &before, hash, &def_use->points[i]);
        }
    }
    return changed;
}

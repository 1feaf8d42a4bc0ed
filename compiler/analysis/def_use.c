/* def_use: numbers the statements in execution order and records the readers and writers of each
 * tensor. */
#include "analysis/def_use.h"

typedef struct Visit {
    DefUse *def_use;
    Statement *repeat;
} Visit;

static void note_read(Expr *expr, void *data) {
    const Visit *visit = data;
    if (expr->kind != EXPR_READ) return;
    Facts *facts = &visit->def_use->facts[expr->tensor->id];
    if (facts->read && facts->reader_repeat != visit->repeat) facts->scattered_reads = true;
    facts->read = true;
    facts->reader_repeat = visit->repeat;
}

static void note_write(DefUse *def_use, Expr *target) {
    Arena *arena = def_use->program->arena;
    Write *write = arena_alloc(arena, sizeof *write);
    *write = (Write){def_use->count, target};
    list_push(arena, &def_use->facts[target->tensor->id].writes, write);
}

static void note_statement(Visit *visit, Statement *statement, Block *block) {
    DefUse *def_use = visit->def_use;
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->value, note_read, visit);
        for (int i = 0; i < statement->target->count; i++)
            expr_walk(statement->target->args[i], note_read, visit);
        note_write(def_use, statement->target);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], note_read, visit);
    for (int i = 0; i < statement->outputs.count; i++)
        note_write(def_use, statement->outputs.items[i]);
    def_use->places[def_use->count++] = (Place){statement, block, visit->repeat};
}

static void note_block(Visit *visit, Block *block) {
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        if (statement->kind != STATEMENT_REPEAT) {
            note_statement(visit, statement, block);
            continue;
        }
        Statement *outer = visit->repeat;
        visit->repeat = statement;
        note_block(visit, &statement->body);
        visit->repeat = outer;
    }
}

static void count_statement(Statement *statement, void *data) {
    (void)statement;
    ++*(int *)data;
}

DefUse *def_use_new(Program *program) {
    DefUse *def_use = arena_alloc(program->arena, sizeof *def_use);
    int statements = 0;
    block_walk(&program->body, count_statement, &statements);
    def_use->program = program;
    def_use->places =
        arena_alloc(program->arena, (size_t)(statements + 1) * sizeof *def_use->places);
    def_use->tensor_count = program->tensors.count;
    def_use->facts =
        arena_alloc(program->arena, (size_t)def_use->tensor_count * sizeof *def_use->facts);
    Visit visit = {def_use, NULL};
    note_block(&visit, &program->body);
    return def_use;
}

bool def_use_is_plain(const DefUse *def_use, const Tensor *tensor) {
    const Facts *facts = &def_use->facts[tensor->id];
    if (tensor->role != ROLE_TEMP || facts->writes.count != 1) return false;
    const Write *write = facts->writes.items[0];
    const Statement *statement = def_use->places[write->position].statement;
    if (statement->once || statement->accumulate) return false;
    for (int i = 0; i < write->target->count; i++) {
        if (write->target->args[i]->kind != EXPR_INDEX) return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(write->target->args[i], write->target->args[j])) return false;
    }
    return true;
}

/* Two slices of one step that are always different: [i] and [i+1]. */
static bool differs(const Expr *a, const Expr *b, const Statement *repeat) {
    if (!a->count || !b->count || !repeat || expr_equal(a->args[0], b->args[0])) return false;
    for (int side = 0; side < 2; side++) {
        const Expr *slice = side ? b->args[0] : a->args[0];
        const Expr *base =
            slice->kind == EXPR_APPLY && slice->op == OP_ADD ? slice->args[0] : slice;
        if (base->kind != EXPR_INDEX || base->index != repeat->index) return false;
        if (base != slice && slice->args[1]->kind != EXPR_NUMBER) return false;
    }
    return true;
}

bool def_use_changes(const DefUse *def_use, const Expr *read, int position) {
    const List *writes = &def_use->facts[read->tensor->id].writes;
    const Statement *repeat = def_use->places[position].repeat;
    for (int i = 0; i < writes->count; i++) {
        const Write *write = writes->items[i];
        if (write->position < position) continue;
        if (def_use->places[write->position].repeat == repeat &&
            differs(read, write->target, repeat))
            continue;
        return true;
    }
    return false;
}

bool def_use_is_local(const DefUse *def_use, const Tensor *tensor, const Statement *repeat) {
    const List *writes = &def_use->facts[tensor->id].writes;
    if (!repeat) return false;
    for (int i = 0; i < writes->count; i++) {
        const Write *write = writes->items[i];
        if (def_use->places[write->position].repeat == repeat &&
            !expr_uses_index(write->target, repeat->index))
            return true;
    }
    return false;
}

/* def_use: numbers the statements in execution order and records the accesses of each tensor. */
#include "analysis/def_use.h"
#include "base/must.h"

#include "analysis/access.h"

static void add_accesses(DefUse *def_use, const List *exprs, bool write) {
    Arena *arena = def_use->program->arena;
    for (int i = 0; i < exprs->count; i++) {
        TensorAccess *access = arena_alloc(arena, sizeof *access);
        *access = (TensorAccess){exprs->items[i], def_use->count, write};
        const int tensor = access->expr->tensor->id;
        list_push(arena, &def_use->accesses[tensor], access);
        if (write) list_push(arena, &def_use->writes[tensor], access);
    }
}

static void add_block_uses(DefUse *def_use, Block *block, const ProgramPoint *outer) {
    Arena *arena = def_use->program->arena;
    LIST_EACH(Statement, statement, &block->statements) {
        ProgramPoint point = {statement, block, outer ? outer->statement : NULL, outer};
        if (statement->kind == STATEMENT_REPEAT) {
            ProgramPoint *around = arena_alloc(arena, sizeof *around);
            *around = point;
            add_block_uses(def_use, &statement->body, around);
            continue;
        }
        List reads = {0}, writes = {0};
        reads_of(arena, statement, &reads);
        writes_of(arena, statement, &writes);
        add_accesses(def_use, &reads, false);
        add_accesses(def_use, &writes, true);
        def_use->points[def_use->count++] = point;
    }
}

static void count_statement(Statement *statement, void *data) {
    (void)statement;
    ++*(int *)data;
}

DefUse *def_use_new(Program *program) {
    DefUse *def_use = arena_alloc(program->arena, sizeof *def_use);
    const size_t tensors = (size_t)program->tensors.count + 1;
    int statements = 0;
    block_walk(&program->body, count_statement, &statements);
    def_use->program = program;
    def_use->points =
        arena_alloc(program->arena, (size_t)(statements + 1) * sizeof *def_use->points);
    def_use->tensor_count = program->tensors.count;
    def_use->accesses = arena_alloc(program->arena, tensors * sizeof *def_use->accesses);
    def_use->writes = arena_alloc(program->arena, tensors * sizeof *def_use->writes);
    add_block_uses(def_use, &program->body, NULL);
    return def_use;
}

/* The writes of a tensor that the snapshot contains. */
static const List *writes_to(const DefUse *def_use, const Tensor *tensor) {
    MUST(tensor->id < def_use->tensor_count);
    return &def_use->writes[tensor->id];
}

bool def_use_is_plain(const DefUse *def_use, const Tensor *tensor) {
    const List *writes = writes_to(def_use, tensor);
    if (tensor->role != ROLE_TEMP || tensor->observed || writes->count != 1) return false;
    const TensorAccess *write = writes->items[0];
    const Statement *statement = def_use->points[write->position].statement;
    if (statement->once || statement->accumulate) return false;
    for (int i = 0; i < write->expr->count; i++) {
        if (write->expr->args[i]->kind != EXPR_INDEX) return false;
        for (int j = 0; j < i; j++)
            if (expr_equal(write->expr->args[i], write->expr->args[j])) return false;
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
    const List *writes = writes_to(def_use, read->tensor);
    MUST(position >= 0 && position < def_use->count);
    const Statement *repeat = def_use->points[position].repeat;
    LIST_EACH(const TensorAccess, write, writes) {
        if (write->position < position) continue;
        if (def_use->points[write->position].repeat == repeat && differs(read, write->expr, repeat))
            continue;
        return true;
    }
    return false;
}

bool def_use_is_local(const DefUse *def_use, const Tensor *tensor, const Statement *repeat) {
    const List *writes = writes_to(def_use, tensor);
    if (!repeat) return false;
    LIST_EACH(const TensorAccess, write, writes)
        if (def_use->points[write->position].repeat == repeat &&
            !expr_uses_index(write->expr, repeat->index))
            return true;
    return false;
}

bool def_use_reads_in(const DefUse *def_use, const Tensor *tensor, const Statement *repeat) {
    MUST(tensor->id < def_use->tensor_count);
    const List *accesses = &def_use->accesses[tensor->id];
    LIST_EACH(const TensorAccess, access, accesses)
        if (!access->write && def_use->points[access->position].repeat != repeat) return false;
    return true;
}

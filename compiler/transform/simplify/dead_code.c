/* dead_code: removes statements whose results have no reader.
 *
 * Needs:   the roots: tensors with readers outside of the program.
 * Leaves:  the statements that the roots depend on, and no repeat without statements.
 *
 *     t[b] = exp(x[b])      -->     y[b] = x[b]       with the root y
 *     y[b] = x[b]
 */
#include "passes.h"
#include "analysis/access.h"

typedef struct Liveness {
    const bool *roots; /* by tensor id */
    bool *used;        /* by tensor id: a root or an operand of a used statement */
    bool changed;
} Liveness;

static void use_read(Expr *expr, void *data) {
    Liveness *live = data;
    if (expr->kind != EXPR_READ || live->used[expr->tensor->id]) return;
    live->used[expr->tensor->id] = live->changed = true;
}

/* Readers of a state read its value before the update, which only a reader outside needs. */
static bool is_live(const Liveness *live, const Statement *statement) {
    const bool *used = statement->once ? live->roots : live->used;
    if (statement->kind == STATEMENT_LOOP && used[statement->target->tensor->id]) return true;
    for (int i = 0; i < statement->outputs.count; i++)
        if (used[((Expr *)statement->outputs.items[i])->tensor->id]) return true;
    return false;
}

static void use_operands(Statement *statement, void *data) {
    Liveness *live = data;
    if (!is_live(live, statement)) return;
    statement_walk(statement, use_read, live);
    LIST_EACH(const Expr, output, &statement->outputs)
        for (int j = 0; j < output->count; j++) expr_walk(output->args[j], use_read, live);
}

static void remove_unused(Block *block, const Liveness *live) {
    List *statements = &block->statements;
    int count = 0;
    LIST_EACH(Statement, statement, statements) {
        if (statement->kind == STATEMENT_REPEAT) remove_unused(&statement->body, live);
        bool keep = statement->kind == STATEMENT_REPEAT ? statement->body.statements.count > 0
                                                        : is_live(live, statement);
        for (int j = 0; keep && j < statement->outputs.count; j++)
            live->used[((Expr *)statement->outputs.items[j])->tensor->id] = true;
        if (keep) statements->items[count++] = statement;
    }
    statements->count = count;
}

/* Readers follow writers: from last to first, only a repeat requires a second round. */
bool *live_tensors(Program *program, const bool *roots) {
    const size_t tensors = (size_t)program->tensors.count + 1;
    Liveness live = {.roots = roots};
    live.used = arena_alloc(program->arena, tensors * sizeof *live.used);
    for (int i = 0; i < program->tensors.count; i++) live.used[i] = roots[i];
    do {
        live.changed = false;
        block_walk_back(&program->body, use_operands, &live);
    } while (live.changed);
    return live.used;
}

bool *dead_code(Program *program, const bool *roots) {
    bool *used = live_tensors(program, roots);
    remove_unused(&program->body, &(const Liveness){.roots = roots, .used = used});
    return used;
}

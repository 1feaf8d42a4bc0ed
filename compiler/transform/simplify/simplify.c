/* simplify: removes repeated, loop-invariant and unused computation.
 *
 * Needs:   a well-formed program.
 * Leaves:  contractions of two plain reads; no copies, no value computed twice in a block, no
 *          loop-invariant statement in a repeat, no statement and no temporary without use.
 *          Outputs, parameters, gradients, states and caches stay.
 *
 *     t[b] = x[b]
 *     a[b] = exp(t[b])               -->     a[b] = exp(x[b])
 *     c[b] = exp(x[b])                       y[b] = a[b] + a[b]
 *     y[b] = a[b] + c[b]
 */
#include "passes.h"
#include "transform/simplify/simplify.h"

#include <string.h>

enum { MAX_ROUNDS = 8 };

typedef struct Use {
    bool *used; /* by tensor id */
    bool changed;
} Use;

static void use_read(Expr *expr, void *data) {
    Use *use = data;
    if (expr->kind != EXPR_READ) return;
    if (!use->used[expr->tensor->id]) use->changed = true;
    use->used[expr->tensor->id] = true;
}

static bool is_used(const Use *use, const Statement *statement) {
    if (statement->once) return true;
    if (statement->kind == STATEMENT_LOOP && use->used[statement->target->tensor->id]) return true;
    for (int i = 0; i < statement->outputs.count; i++)
        if (use->used[((Expr *)statement->outputs.items[i])->tensor->id]) return true;
    return false;
}

static void use_statement(Statement *statement, void *data) {
    Use *use = data;
    if (statement->kind == STATEMENT_REPEAT || !is_used(use, statement)) return;
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->target, use_read, use);
        expr_walk(statement->value, use_read, use);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], use_read, use);
    for (int i = 0; i < statement->outputs.count; i++)
        expr_walk(statement->outputs.items[i], use_read, use);
}

/* True for tensors with readers outside of the program. An output counts if it is among the outputs
 * of the program. */
static bool is_root(const Program *program, const Tensor *tensor) {
    if (tensor->role != ROLE_OUTPUT) return tensor->role != ROLE_TEMP && tensor->role != ROLE_INPUT;
    for (int i = 0; i < program->outputs.count; i++)
        if (program->outputs.items[i] == tensor) return true;
    return program->outputs.count == 0;
}

static void use_tensor(const Tensor *tensor, Use *use) {
    if (tensor) use->used[tensor->id] = true;
}

/* The tables of a relation are read by products over rows, without a read in a statement. */
static void use_relation(const Relation *relation, Use *use) {
    use_tensor(relation->mask, use);
    use_tensor(relation->group, use);
    use_tensor(relation->row_of, use);
    use_tensor(relation->start, use);
    use_tensor(relation->list, use);
    for (int i = 0; i < MAX_RANK; i++) use_tensor(relation->coordinate[i], use);
    for (int i = 0; i < relation->group_of_count; i++) use_tensor(relation->group_of[i], use);
    for (int i = 0; i < relation->flats.count; i++) {
        const Flat *flat = relation->flats.items[i];
        use_tensor(flat->table, use);
        for (int j = 0; j < flat->count; j++) use_tensor(flat->of[j], use);
    }
}

/* Readers follow writers: from last to first, only a repeat requires a second round. */
static void find_used(Program *program, Use *use) {
    use->used = arena_alloc(program->arena, (size_t)program->tensors.count * sizeof *use->used);
    for (int i = 0; i < program->tensors.count; i++)
        use->used[i] = is_root(program, program->tensors.items[i]);
    for (int i = 0; i < program->relations.count; i++)
        use_relation(program->relations.items[i], use);
    do {
        use->changed = false;
        block_walk_back(&program->body, use_statement, use);
    } while (use->changed);
}

/* Removes unused statements, and repeats that became empty. */
static void remove_dead(Block *block, const Use *use) {
    List *statements = &block->statements;
    int count = 0;
    for (int i = 0; i < statements->count; i++) {
        Statement *statement = statements->items[i];
        if (statement->kind == STATEMENT_REPEAT) remove_dead(&statement->body, use);
        bool keep = statement->kind == STATEMENT_REPEAT ? statement->body.statements.count > 0
                                                        : is_used(use, statement);
        if (keep) statements->items[count++] = statement;
    }
    statements->count = count;
}

void simplify(Program *program) {
    bool changed = true;
    for (int round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = contract_sums(program);
        changed |= cse(program);
        changed |= copy_propagation(program);
        changed |= licm(program);
        Use use = {0};
        find_used(program, &use);
        remove_dead(&program->body, &use);
    }
    Use use = {0};
    find_used(program, &use);
    tensors_keep(program, use.used);
}

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

enum { MAX_ROUNDS = 8 };

/* True for tensors with readers outside of the program. An output counts if it is among the outputs
 * of the program. */
static bool is_root(const Program *program, const Tensor *tensor) {
    if (tensor->role != ROLE_OUTPUT) return tensor->role != ROLE_TEMP && tensor->role != ROLE_INPUT;
    return program->outputs.count == 0 || list_find(&program->outputs, tensor) >= 0;
}

static void add_root(const Tensor *tensor, bool *roots) {
    if (tensor) roots[tensor->id] = true;
}

/* The tables of a relation are read by products over rows, without a read in a statement. */
static void add_relation(const Relation *relation, bool *roots) {
    add_root(relation->mask, roots);
    add_root(relation->group, roots);
    add_root(relation->number, roots);
    add_root(relation->row_of, roots);
    add_root(relation->start, roots);
    add_root(relation->list, roots);
    for (int i = 0; i < MAX_RANK; i++) add_root(relation->coordinate[i], roots);
    for (int i = 0; i < relation->group_of_count; i++) add_root(relation->group_of[i], roots);
    LIST_EACH(const Flat, flat, &relation->flats) {
        add_root(flat->table, roots);
        for (int j = 0; j < flat->count; j++) add_root(flat->of[j], roots);
    }
}

static const bool *roots_of(const Program *program) {
    bool *roots = arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *roots);
    for (int i = 0; i < program->tensors.count; i++)
        roots[i] = is_root(program, program->tensors.items[i]);
    for (int i = 0; i < program->relations.count; i++)
        add_relation(program->relations.items[i], roots);
    return roots;
}

void simplify(Program *program) {
    const bool *used = NULL;
    bool changed = true;
    for (int round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = contract_sums(program);
        changed |= cse(program);
        changed |= copy_propagation(program);
        changed |= licm(program);
        used = dead_code(program, roots_of(program));
    }
    tensors_keep(program, used);
}

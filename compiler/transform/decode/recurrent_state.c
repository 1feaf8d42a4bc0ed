/* recurrent_state: the state of a scan after the last position, which the next step reads.
 *
 *     scan s: S[b,s,h] = a * S[b,s-1,h] + ...
 *
 * becomes, for the new positions of a step,
 *
 *     scan s: S[b,s,h] = a * where(position + s > 0,
 *                                  where(s > 0, S[b,s-1,h], cache_S[b,h]), 0) + ...
 *     cache_S[b,h] = S[b,last,h]
 */
#include "transform/decode/decode.h"

#include "base/must.h"

bool is_scanned(const Statement *scan, const Tensor *tensor) {
    for (int i = 0; scan && i < scan->outputs.count; i++)
        if (((const Expr *)scan->outputs.items[i])->tensor == tensor) return true;
    return false;
}

/* The subscripts of the cache are those of the tensor without the position, with the index of the
 * repeat that encloses the scan. */
Expr *state_element(const Decode *decode, Tensor *cache, const Expr *read,
                    const Statement *repeat) {
    Expr *subs[MAX_RANK];
    int rank = 0, position = dimension_of(read->tensor, decode->step);
    if (cache->rank > read->tensor->rank - (position >= 0))
        subs[rank++] = expr_index(decode->program, repeat->index);
    for (int i = 0; i < read->count; i++)
        if (i != position) subs[rank++] = read->args[i];
    MUST(rank <= MAX_RANK);
    return expr_read(decode->program, cache, subs);
}

Tensor *state_cache(Decode *decode, Tensor *tensor, const Statement *repeat) {
    Program *program = decode->program;
    const char *name = arena_format(program->arena, "cache_%s", tensor->name);
    Tensor *cache = cache_new(decode, name, tensor, NULL, repeat);
    cache->path = tensor->name;
    cache->spec_name = tensor->spec_name;
    keep(program, &decode->states, tensor, cache);
    program->has[HAS_RECURRENT_STATE] = true;
    return cache;
}

/* cache[...] = tensor[..., last, ...], directly after the scan. */
static void store_last_state(Decode *decode, Tensor *tensor, Tensor *cache, const Region *region) {
    Program *program = decode->program;
    Expr *subs[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) {
        Axis *axis = tensor->axes[i];
        subs[i] = axis == decode->step ? expr_number(program, (double)axis->size - 1)
                                       : expr_index(program, index_over(program, axis));
    }
    Expr *last = expr_read(program, tensor, subs);
    Block made = {{NULL, 0, 0}};
    statement_assign(program, &made, state_element(decode, cache, last, region->repeat), last,
                     tensor->span);
    List *statements = &region->block->statements;
    int behind = 0;
    while (statements->items[behind++] != region->scan) continue;
    list_insert(program->arena, statements, behind, &made.statements);
}

Expr *state_read(Decode *decode, Expr *read, const Region *region) {
    MUST(read->kind == EXPR_READ);
    Program *program = decode->program;
    Tensor *cache = find_kept(&decode->states, read->tensor);
    if (!cache) {
        cache = state_cache(decode, read->tensor, region->repeat);
        store_last_state(decode, read->tensor, cache, region);
    }
    Index *position = region->scan->index;
    Expr *zero = expr_number(program, 0), *here = expr_index(program, position), *subs[MAX_RANK];
    int dimension = dimension_of(read->tensor, decode->step);
    for (int i = 0; i < read->count; i++) subs[i] = read->args[i];
    subs[dimension] = expr_apply(program, OP_SUB, here, expr_number(program, 1), NULL);
    Expr *before = state_element(decode, cache, read, region->repeat);
    if (decode->step->size > 1)
        before = expr_apply(program, OP_WHERE, expr_apply(program, OP_GT, here, zero, NULL),
                            expr_read(program, read->tensor, subs), before);
    Expr *later = expr_apply(program, OP_GT, absolute_position(decode, here), zero, NULL);
    return expr_apply(program, OP_WHERE, later, before, zero);
}

/* pad: aligns the rows of product operands on a GPU to 16 bytes.
 *
 * Needs:   storage, which sets the types.
 * Leaves:  temporaries whose last axis is slightly longer than the loops over it. Elements after
 *          the end are unused: no result depends on them.
 *
 *     logits[b,s,v] = sum[d] x[b,s,d] * w[v,d]      v is 50257: the rows of logits have different
 *     dx[b,s,d] = sum[v] dlogits[b,s,v] * w[v,d]    alignments, for which libraries have only slow
 *                                                   products
 *
 * Tensors that the host, an attention, a top or a pack accesses keep their shape.
 */
#include "analysis/access.h"
#include "analysis/contraction.h"
#include "passes.h"
#include "base/must.h"

/* Elements of 16 bytes in bf16; padding a shorter axis is not worth the memory. */
enum { VECTOR = 8, MIN_SIZE = 16 };

typedef struct Padding {
    Program *program;
    bool *wanted, *fixed; /* by tensor->id: operand or result of a product; must keep its shape */
} Padding;

/* True if the last subscript is a loop over the whole axis, or a number within it. */
static bool stays_before_end(const Expr *access) {
    MUST(access->kind == EXPR_READ);
    const Axis *axis = access->tensor->axes[access->count - 1];
    const Expr *sub = access->args[access->count - 1];
    if (sub->kind == EXPR_READ)
        return sub->tensor->vocabulary > 0 && sub->tensor->vocabulary <= axis->size;
    return sub->kind == EXPR_INDEX && !sub->index->of_repeat &&
           sub->index->axis->size == axis->size;
}

static void pad_access(Statement *statement, void *data) {
    Padding *padding = data;
    const Contraction *product = unit_product(padding->program, statement);
    const List touched = accesses_of(padding->program->arena, statement);
    for (int i = 0; i < touched.count; i++) {
        const Expr *access = touched.items[i];
        if (access->count == 0) continue;
        bool loop = statement->kind == STATEMENT_LOOP;
        if (product) padding->wanted[access->tensor->id] = true;
        if (!loop || !stays_before_end(access)) padding->fixed[access->tensor->id] = true;
    }
}

static Axis *padded_size(Padding *padding, const Axis *axis) {
    List *axes = &padding->program->axes;
    const long size = (axis->size + VECTOR - 1) / VECTOR * VECTOR;
    for (int i = 0; i < axes->count; i++) {
        Axis *other = axes->items[i];
        if (other->padded && other->name == axis->name && other->size == size) return other;
    }
    Axis *longer = axis_new(padding->program, axis->name, size, AXIS_PLAIN, axis->span);
    longer->padded = true;
    return longer;
}

void pad(Program *program) {
    const int count = program->tensors.count;
    Padding padding = {.program = program};
    padding.wanted = arena_alloc(program->arena, ((size_t)count + 1) * sizeof *padding.wanted);
    padding.fixed = arena_alloc(program->arena, ((size_t)count + 1) * sizeof *padding.fixed);
    block_walk(&program->body, pad_access, &padding);
    for (int i = 0; i < count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_TEMP || tensor->rank < 2 || tensor->type == TYPE_INT ||
            !padding.wanted[i] || padding.fixed[i])
            continue;
        Axis **last = &tensor->axes[tensor->rank - 1];
        if ((*last)->kind != AXIS_PLAIN || (*last)->size < MIN_SIZE || (*last)->size % VECTOR == 0)
            continue;
        *last = padded_size(&padding, *last);
        program->has[HAS_PADDED] = true;
    }
    find_products(program); /* padding separates the loops of some products over dispatched rows */
}

/* pad: lines of what a product of a device touches begin at multiples of 16 bytes.
 *
 * Needs:   storage, so that types are known.
 * Leaves:  temporaries whose last axis is a little longer than the loops over it. The places behind
 *          its end belong to nobody: nothing is read from them that counts.
 *
 *     logits[b,s,v] = sum[d] x[b,s,d] * w[v,d]      v is 50257: each line of logits lies at another
 *     dx[b,s,d] = sum[v] dlogits[b,s,v] * w[v,d]    distance from a multiple of 16 bytes, and a
 *                                                   library has slow products for those only
 *
 * Tensors that the host or an attention, a choice or a pack sees keep their shape.
 */
#include "analysis/access.h"
#include "analysis/contraction.h"
#include "passes.h"

/* Elements of 16 bytes where they are of bf16; a shorter axis is not worth more memory. */
enum { VECTOR = 8, MIN_SIZE = 16 };

typedef struct Padding {
    Program *program;
    bool *wanted, *fixed; /* by tensor->id: operand or result of a product; has to stay as it is */
} Padding;

/* The last subscript is a loop over all of the axis, or a number that is never behind its end. */
static bool stays_before_end(const Expr *access) {
    const Axis *axis = access->tensor->axes[access->count - 1];
    const Expr *sub = access->args[access->count - 1];
    if (sub->kind == EXPR_READ)
        return sub->tensor->vocabulary > 0 && sub->tensor->vocabulary <= axis->size;
    return sub->kind == EXPR_INDEX && !sub->index->of_repeat &&
           sub->index->axis->size == axis->size;
}

static void look_at(Statement *statement, void *data) {
    Padding *padding = data;
    const Contraction *product = unit_product(padding->program, statement);
    List touched = {0};
    reads_of(padding->program->arena, statement, &touched);
    writes_of(padding->program->arena, statement, &touched);
    for (int i = 0; i < touched.count; i++) {
        const Expr *access = touched.items[i];
        if (access->count == 0) continue;
        bool loop = statement->kind == STATEMENT_LOOP;
        if (product) padding->wanted[access->tensor->id] = true;
        if (!loop || !stays_before_end(access)) padding->fixed[access->tensor->id] = true;
    }
}

static Axis *padded(Padding *padding, const Axis *axis) {
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
    block_walk(&program->body, look_at, &padding);
    for (int i = 0; i < count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_TEMP || tensor->rank < 2 || tensor->type == TYPE_INT ||
            !padding.wanted[i] || padding.fixed[i])
            continue;
        Axis **last = &tensor->axes[tensor->rank - 1];
        if ((*last)->kind != AXIS_PLAIN || (*last)->size < MIN_SIZE || (*last)->size % VECTOR == 0)
            continue;
        *last = padded(&padding, *last);
        program->has[HAS_PADDED] = true;
    }
}

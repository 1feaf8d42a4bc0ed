/* pad: aligns the rows of product operands on a GPU, and the sizes of these products.
 *
 * Needs:   storage, which sets the types.
 * Leaves:  temporaries whose last axis is slightly longer than the loops over it. No result depends
 *          on the elements after the end. Products run over the whole axis if all their operands
 *          have it; a sum finds zeros there.
 *
 *     logits[s,v] = sum[d] x[s,d] * w[v,d]       v is 50257: the rows of logits have different
 *     dlogits[s,v] = f(logits[s,v])              alignments, and libraries have only slow products
 *     dx[s,d] = sum[v] dlogits[s,v] * w[v,d]     for such rows and sizes
 *     dw[v,d] += sum[s] dlogits[s,v] * x[s,d]
 *                                                v is still 50257, u is 50304:
 *     logits[s,u] = sum[d] x[s,d] * w[u,d]       logits and dlogits have 50304 columns
 *     dlogits[s,v] = f(logits[s,v])
 *     dlogits[s,50257+i] = 0
 *     dx[s,d] = sum[u] dlogits[s,u] * w[u,d]     w is the copy as bf16. Its block and that of the
 *     dw[u,d] += sum[s] dlogits[s,u] * x[s,d]    gradients have zeros after the last row of w
 *
 * Tensors that the host, an attention, a top or a pack accesses keep their shape.
 */
#include "analysis/access.h"
#include "analysis/contraction.h"
#include "passes.h"
#include "base/must.h"

/* Elements of 16 bytes in bf16; of 128 bytes, a line of the cache. Padding a shorter axis is not
 * worth the memory. */
enum { VECTOR = 8, LINE = 64, MIN_SIZE = 16 };

typedef struct Padding {
    Program *program;
    bool *wanted, *fixed; /* by tensor->id: operand or result of a product; must keep its shape */
    bool *summed;         /* by tensor->id: a product also sums the elements after the end */
    List changes;         /* WideLoop * */
} Padding;

/* A loop of a product that covers the elements after the end. */
typedef struct WideLoop {
    Statement *statement;
    int loop;
    Axis *axis;
} WideLoop;

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

/* Not for the scales of units. */
static bool is_operand(const Contraction *product, const Tensor *tensor) {
    return product->a->tensor == tensor || product->b->tensor == tensor ||
           product->c->tensor == tensor;
}

static void pad_access(Statement *statement, void *data) {
    Padding *padding = data;
    const Contraction *product = unit_product(padding->program, statement);
    const List touched = accesses_of(padding->program->arena, statement);
    LIST_EACH(const Expr, access, &touched) {
        if (access->count == 0) continue;
        bool loop = statement->kind == STATEMENT_LOOP;
        if (product && is_operand(product, access->tensor))
            padding->wanted[access->tensor->id] = true;
        if (!loop || !stays_before_end(access)) padding->fixed[access->tensor->id] = true;
    }
}

Axis *padded_axis(Program *program, Axis *axis, long unit) {
    const long size = (axis->size + unit - 1) / unit * unit;
    if (size == axis->size) return axis;
    LIST_EACH(Axis, other, &program->axes)
        if (other->padded == axis->size && other->name == axis->name && other->size == size)
            return other;
    Axis *longer = axis_new(program, axis->name, size, AXIS_PLAIN, axis->span);
    longer->padded = axis->size;
    return longer;
}

/* ---- loops over the whole axis ---- */

/* True for elements of a block that may have zeros after its last row. Copies for inference have no
 * space for them. */
static bool has_spare_rows(const Program *program, const Tensor *tensor) {
    const bool copy = tensor->role == ROLE_ROUNDED && !reads_copies(program);
    return (copy || tensor->role == ROLE_GRADIENT) && tensor->rank > 1;
}

/* The longer axis of the access for a loop over this dimension: that of the tensor, or `axis` if
 * rows may follow its last row. NULL: none. */
static Axis *longer_axis(const Program *program, const Expr *access, int dimension, Axis *axis) {
    Tensor *tensor = access->tensor;
    Axis *own = tensor->axes[dimension];
    if (own->padded) return own;
    return dimension == 0 && axis && has_spare_rows(program, tensor) ? axis : NULL;
}

/* The padded axis that all operands with the loop have or can have; NULL: none. */
static Axis *common_axis(const Program *program, Expr *const operands[3], const Index *loop) {
    Axis *axis = NULL;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 3; i++)
            for (int d = 0; d < operands[i]->count; d++) {
                const Expr *sub = operands[i]->args[d];
                if (!expr_uses_index(sub, loop)) continue;
                Axis *own = sub->kind == EXPR_INDEX
                                ? longer_axis(program, operands[i], d, pass ? axis : NULL)
                                : NULL;
                if (pass && (!axis || !own || own->size != axis->size)) return NULL;
                if (own && own->size > loop->axis->size) axis = own;
            }
    return axis;
}

static bool has_loop(const Expr *access, const Index *loop) {
    for (int i = 0; i < access->count; i++)
        if (expr_uses_index(access->args[i], loop)) return true;
    return false;
}

/* Sums over the end of temporaries need zeros there; gradients receive only zeros. */
static void widen_loop(Padding *padding, Statement *statement, Expr *const operands[3], int at) {
    Program *program = padding->program;
    const Index *loop = statement->loops[at];
    Axis *axis = common_axis(program, operands, loop);
    if (!axis) return;
    const bool sums = !has_loop(operands[2], loop) || operands[2]->tensor->role == ROLE_GRADIENT;
    for (int i = 0; i < 3; i++) {
        Tensor *tensor = operands[i]->tensor;
        if (!has_loop(operands[i], loop)) continue;
        if (tensor->role == ROLE_TEMP) {
            padding->summed[tensor->id] |= sums && i < 2;
            continue;
        }
        MUST(tensor->of && !tensor->axes[0]->padded);
        const long rows = axis->size - tensor->axes[0]->size;
        const long spare = rows * (tensor_elements(tensor) / tensor->axes[0]->size);
        if (tensor->of->spare < spare) tensor->of->spare = spare;
    }
    WideLoop change = {statement, at, axis};
    list_copy(program->arena, &padding->changes, &change, sizeof change);
}

static void widen_product(Statement *statement, void *data) {
    Padding *padding = data;
    const Contraction *product = unit_product(padding->program, statement);
    if (!product || product->kind != CONTRACTION_PRODUCT) return;
    Expr *const operands[3] = {product->a, product->b, product->c};
    for (int i = 0; i < statement->loop_count; i++) widen_loop(padding, statement, operands, i);
}

/* Copies and gradients have the longer axis, too. */
static void lengthen_rows(const Expr *access, const Index *loop, Axis *axis) {
    Tensor *tensor = access->tensor;
    if (tensor->role != ROLE_TEMP && has_loop(access, loop)) tensor->axes[0] = axis;
}

static void change_loop(Program *program, const WideLoop *change) {
    Statement *statement = change->statement;
    Index *from = statement->loops[change->loop];
    Index *loop = index_new(program, from->name, change->axis);
    Expr *to = expr_index(program, loop), *operands[2];
    MUST(product_of_reads(statement, &operands[0], &operands[1]));
    for (int i = 0; i < 2; i++) lengthen_rows(operands[i], from, change->axis);
    lengthen_rows(statement->target, from, change->axis);
    statement->loops[change->loop] = loop;
    statement->target = expr_substitute(program, statement->target, &from, &to, 1);
    statement->value = expr_substitute(program, statement->value, &from, &to, 1);
}

/* ---- zeros after the end ---- */

/* y[i,s,50257+e] = 0 for y[i,s,v] = ... */
void zeros_after_end(Program *program, Block *block, const Statement *writer) {
    const Expr *target = writer->target;
    const int last = target->count - 1;
    const Expr *end = target->args[last];
    if (end->kind != EXPR_INDEX) return;
    const Axis *axis = target->tensor->axes[last];
    const long size = end->index->axis->size;
    if (size == axis->size) return;
    Axis *rest = axis_new(program, axis->name, axis->size - size, AXIS_PLAIN, axis->span);
    Index *from[MAX_LOOPS], *after = index_new(program, end->index->name, rest);
    Expr *to[MAX_LOOPS];
    for (int i = 0; i < writer->loop_count; i++) {
        from[i] = writer->loops[i];
        to[i] = from[i] == end->index
                    ? expr_apply(program, OP_ADD, expr_number(program, (double)size),
                                 expr_index(program, after), NULL)
                    : expr_index(program, index_new(program, from[i]->name, from[i]->axis));
    }
    Expr *zeros = expr_substitute(program, (Expr *)target, from, to, writer->loop_count);
    MUST(zeros->kind == EXPR_READ);
    statement_loop(program, block, zeros, false, REDUCE_NONE, &after, 1, expr_number(program, 0),
                   writer->span);
}

static void add_all_zeros(Padding *padding, Block *block) {
    const List old = block->statements;
    block->statements = (List){0};
    LIST_EACH(Statement, statement, &old) {
        list_push(padding->program->arena, &block->statements, statement);
        add_all_zeros(padding, &statement->body);
        if (statement->kind == STATEMENT_LOOP && statement->target->kind == EXPR_READ &&
            padding->summed[statement->target->tensor->id])
            zeros_after_end(padding->program, block, statement);
    }
}

void pad(Program *program) {
    const size_t count = (size_t)program->tensors.count + 1;
    Padding padding = {.program = program};
    padding.wanted = arena_alloc(program->arena, count * sizeof *padding.wanted);
    padding.fixed = arena_alloc(program->arena, count * sizeof *padding.fixed);
    padding.summed = arena_alloc(program->arena, count * sizeof *padding.summed);
    block_walk(&program->body, pad_access, &padding);
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_TEMP || tensor->rank < 2 || tensor->type == TYPE_INT ||
            !padding.wanted[i] || padding.fixed[i])
            continue;
        Axis **last = &tensor->axes[tensor->rank - 1];
        if ((*last)->kind != AXIS_PLAIN || (*last)->size < MIN_SIZE || (*last)->size % VECTOR == 0)
            continue;
        *last = padded_axis(program, *last, (*last)->size < LINE * LINE ? VECTOR : LINE);
        program->has[HAS_PADDED] = true;
    }
    if (program->has[HAS_PADDED]) block_walk(&program->body, widen_product, &padding);
    add_all_zeros(&padding, &program->body);
    for (int i = 0; i < padding.changes.count; i++) change_loop(program, padding.changes.items[i]);
    find_products(program); /* padding separates the loops of some products over dispatched rows */
}

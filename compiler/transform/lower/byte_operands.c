/* byte_operands: a GPU stores operands of small formats in one byte, and multiplies these bytes.
 *
 * Needs:   operand_formats, precision.
 * Leaves:  products of units, TYPE_E4M3 or TYPE_E5M2, and their scales. The terms of a sum are the
 *          last dimensions of units, in the order of the product's loops. The last one is padded to
 *          a multiple of MOEC_UNITS with zeros. Sums are those of the rounded operands: units and
 *          products of two are exact.
 *
 *     x_fp8[b,s,d] = e4m3(x[b,s,d] / scale[b,s]) * scale[b,s]
 *     up_fp8[d,f] = e4m3(up[d,f] / up_scale[f]) * up_scale[f]
 *     y[b,s,f] = sum[d] x_fp8[b,s,d] * up_fp8[d,f]
 *                                                 -->
 *     x_fp8[b,s,d] = e4m3(x[b,s,d] / scale[b,s])
 *     up_fp8[f,d] = e4m3(up[d,f] / up_scale[f])
 *     y[b,s,f] = sum[d] (x_fp8[b,s,d] * scale[b,s]) * (up_fp8[f,d] * up_scale[f])
 *
 * Numbers of E2M1 are numbers of E4M3. Left in bf16: operands of products over dispatched rows,
 * small products, operands with another reader, and weights that decoding rounds once.
 */
#include "analysis/access.h"
#include "analysis/contraction.h"
#include "analysis/def_use.h"
#include "base/must.h"
#include "passes.h"

/* A rounded operand. */
typedef struct ByteOperand {
    Tensor *tensor;
    const ProgramPoint *writer;
    Expr *units, *scale; /* its value is their product; both use the loops of the writer */
    int order[MAX_RANK]; /* former dimensions; those of the sum last */
    bool ordered;        /* a product has set the order */
    Axis *axes[MAX_RANK], *former[MAX_RANK];
} ByteOperand;

/* A product of two of them. */
typedef struct ByteProduct {
    Statement *statement;
    ByteOperand *operands[2];
    Index *inner; /* the last loop of the sum */
    Expr *former_value;
} ByteProduct;

typedef struct ByteOperands {
    Program *program;
    ByteOperand **operands; /* by tensor->id; NULL: the tensor is none */
    List products;          /* ByteProduct * */
} ByteOperands;

/* ---- operands ---- */

static Type type_of_op(OpCode op) {
    return op == OP_E4M3 || op == OP_E2M1 ? TYPE_E4M3 : op == OP_E5M2 ? TYPE_E5M2 : TYPE_REAL;
}

static bool stores_by_loops(const Statement *statement) {
    const Expr *target = statement->target;
    for (int i = 0; i < target->count; i++)
        if (target->args[i]->kind != EXPR_INDEX || target->args[i]->index->of_repeat ||
            target->args[i]->index->axis->kind == AXIS_ROWS)
            return false;
    return target->count == statement->loop_count && target->count > 0;
}

/* The operand that the only writer of the tensor rounds, or NULL. */
static ByteOperand *byte_operand_of(const DefUse *def_use, Tensor *tensor) {
    Arena *arena = def_use->program->arena;
    const List *writes = &def_use->writes[tensor->id];
    if (tensor->role != ROLE_TEMP || tensor->type != TYPE_REAL || writes->count != 1) return NULL;
    const TensorAccess *write = writes->items[0];
    const ProgramPoint *point = &def_use->points[write->position];
    const Statement *statement = point->statement;
    if (statement->kind != STATEMENT_LOOP || statement->accumulate ||
        statement->reduction != REDUCE_NONE || !stores_by_loops(statement))
        return NULL;
    const Expr *value = statement->value;
    if (value->kind != EXPR_APPLY || value->op != OP_MUL || value->args[0]->kind != EXPR_APPLY ||
        value->args[1]->kind != EXPR_READ || type_of_op(value->args[0]->op) == TYPE_REAL)
        return NULL;
    ByteOperand *made = arena_alloc(arena, sizeof *made);
    *made = (ByteOperand){
        .tensor = tensor, .writer = point, .units = value->args[0], .scale = value->args[1]};
    return made;
}

/* ---- products ---- */

static bool uses_summed_loop(const Statement *statement, const Expr *sub) {
    for (int i = 0; i < statement->loop_count; i++)
        if (expr_uses_index(sub, statement->loops[i]) &&
            !expr_uses_index(statement->target, statement->loops[i]))
            return true;
    return false;
}

/* Orders the dimensions for a product. False if another product needs another order, or if a
 * summed subscript is no loop. */
static bool order_dimensions(ByteOperand *operand, const Statement *statement, const Expr *read,
                             const Index **inner) {
    int order[MAX_RANK], count = 0;
    for (int i = 0; i < read->count; i++)
        if (!uses_summed_loop(statement, read->args[i])) order[count++] = i;
    for (int i = 0; i < statement->loop_count; i++)
        for (int j = 0; j < read->count; j++) {
            const Expr *sub = read->args[j];
            if (sub->kind != EXPR_INDEX || sub->index != statement->loops[i] ||
                !uses_summed_loop(statement, sub))
                continue;
            order[count++] = j;
            *inner = sub->index;
        }
    bool same = count == read->count;
    for (int i = 0; i < read->count && same && operand->ordered; i++)
        same = order[i] == operand->order[i];
    for (int i = 0; i < count && same; i++) operand->order[i] = order[i];
    operand->ordered = true;
    return same;
}

/* Notes a product of two operands; false if the statement is none. */
static bool add_byte_product(ByteOperands *all, Statement *statement) {
    Expr *reads[2];
    const Index *inner[2] = {NULL, NULL};
    if (statement->kind != STATEMENT_LOOP || statement->exact || !statement->product ||
        statement->product->relation || !product_of_reads(statement, &reads[0], &reads[1]))
        return false;
    ByteProduct *made = arena_alloc(all->program->arena, sizeof *made);
    *made = (ByteProduct){.statement = statement, .former_value = statement->value};
    for (int i = 0; i < 2; i++) {
        made->operands[i] = all->operands[reads[i]->tensor->id];
        if (!made->operands[i] ||
            !order_dimensions(made->operands[i], statement, reads[i], &inner[i]))
            return false;
    }
    if (!inner[0] || inner[0] != inner[1]) return false;
    made->inner = (Index *)(uintptr_t)inner[0];
    list_push(all->program->arena, &all->products, made);
    return true;
}

static void refuse_read(ByteOperands *all, const Expr *expr) {
    if (expr->kind == EXPR_READ) all->operands[expr->tensor->id] = NULL;
    for (int i = 0; i < expr->count; i++) refuse_read(all, expr->args[i]);
}

/* Refuses the operands that something other than such products reads. */
static void find_byte_products(ByteOperands *all, const DefUse *def_use) {
    for (int i = 0; i < def_use->count; i++) {
        Statement *statement = def_use->points[i].statement;
        if (add_byte_product(all, statement)) continue;
        const List reads = accesses_of(all->program->arena, statement);
        LIST_EACH(const Expr, read, &reads) {
            const ByteOperand *operand = all->operands[read->tensor->id];
            if (operand && operand->writer->statement != statement) refuse_read(all, read);
        }
    }
}

/* ---- their new form ---- */

static void set_axes(Program *program, ByteOperand *operand) {
    Tensor *tensor = operand->tensor;
    for (int i = 0; i < tensor->rank; i++) {
        operand->former[i] = tensor->axes[i];
        operand->axes[i] = tensor->axes[operand->order[i]];
    }
    Axis **last = &operand->axes[tensor->rank - 1];
    *last = padded_axis(program, *last, MOEC_UNITS);
}

static void store_units(const ByteOperand *operand, bool units) {
    Tensor *tensor = operand->tensor;
    tensor->type = units ? type_of_op(operand->units->op) : TYPE_REAL;
    for (int i = 0; i < tensor->rank; i++)
        tensor->axes[i] = units ? operand->axes[i] : operand->former[i];
}

/* An operand of a product, with these subscripts, as units times their scale. */
static Expr *scaled_units(Program *program, const ByteOperand *operand, Expr *const *subs) {
    const Expr *target = operand->writer->statement->target;
    Index *loops[MAX_RANK];
    Expr *ordered[MAX_RANK];
    for (int i = 0; i < target->count; i++) {
        loops[i] = target->args[i]->index;
        ordered[i] = subs[operand->order[i]];
    }
    return expr_apply(program, OP_MUL, expr_read(program, operand->tensor, ordered),
                      expr_substitute(program, operand->scale, loops, subs, target->count), NULL);
}

static void multiply_units(Program *program, ByteProduct *product) {
    Statement *statement = product->statement;
    Expr *factors[2];
    Index *loop = index_new(program, product->inner->name,
                            padded_axis(program, product->inner->axis, MOEC_UNITS));
    Expr *to = expr_index(program, loop);
    for (int i = 0; i < 2; i++) {
        const Expr *read = product->former_value->args[i];
        Expr *subs[MAX_RANK];
        for (int j = 0; j < read->count; j++)
            subs[j] = expr_substitute(program, read->args[j], &product->inner, &to, 1);
        factors[i] = scaled_units(program, product->operands[i], subs);
        factors[i]->span = read->span;
    }
    statement->value = expr_apply(program, OP_MUL, factors[0], factors[1], NULL);
    statement->value->span = product->former_value->span;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] == product->inner) statement->loops[i] = loop;
    product->inner = loop;
    find_product(program, statement);
}

static void multiply_formers(Program *program, ByteProduct *product, Index *inner) {
    Statement *statement = product->statement;
    statement->value = product->former_value;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] == product->inner) statement->loops[i] = inner;
    product->inner = inner;
    find_product(program, statement);
}

static bool has_both(const ByteOperands *all, const ByteProduct *product) {
    for (int i = 0; i < 2; i++)
        if (all->operands[product->operands[i]->tensor->id] != product->operands[i]) return false;
    return true;
}

/* Refuses the other operand, too, until each product has both or none. */
static void refuse_partners(ByteOperands *all) {
    for (bool changed = true; changed;) {
        changed = false;
        LIST_EACH(const ByteProduct, product, &all->products)
            for (int i = 0; i < 2 && !has_both(all, product); i++) {
                ByteOperand **operand = &all->operands[product->operands[i]->tensor->id];
                changed |= *operand != NULL;
                *operand = NULL;
            }
    }
}

/* True if the kernel for units computes the product in its new form. */
static bool fits_in_bytes(ByteOperands *all, ByteProduct *product) {
    Program *program = all->program;
    Index *inner = product->inner;
    for (int i = 0; i < 2; i++) store_units(product->operands[i], true);
    multiply_units(program, product);
    const Contraction *made = unit_product(program, product->statement);
    const bool fits = made && fits_units(made);
    for (int i = 0; i < 2; i++) store_units(product->operands[i], false);
    multiply_formers(program, product, inner);
    return fits;
}

static void write_units(Program *program, const ByteOperand *operand) {
    Statement *statement = operand->writer->statement;
    Block *block = operand->writer->block, zeros = {{0}};
    Expr *subs[MAX_RANK];
    for (int i = 0; i < operand->tensor->rank; i++)
        subs[i] = statement->target->args[operand->order[i]];
    statement->target = expr_read(program, operand->tensor, subs);
    statement->value = operand->units;
    zeros_after_end(program, &zeros, statement);
    list_insert(program->arena, &block->statements, list_find(&block->statements, statement) + 1,
                &zeros.statements);
}

void byte_operands(Program *program) {
    if (!program->has[HAS_OPERAND_FORMATS] || !program->rounded) return;
    ByteOperands all = {.program = program};
    const int count = program->tensors.count;
    const DefUse *def_use = def_use_new(program);
    all.operands = arena_alloc(program->arena, ((size_t)count + 1) * sizeof *all.operands);
    for (int i = 0; i < count; i++)
        all.operands[i] = byte_operand_of(def_use, program->tensors.items[i]);
    find_byte_products(&all, def_use);
    LIST_EACH(ByteProduct, product, &all.products)
        for (int i = 0; i < 2; i++)
            if (!product->operands[i]->former[0]) set_axes(program, product->operands[i]);
    LIST_EACH(ByteProduct, product, &all.products)
        if (!fits_in_bytes(&all, product)) all.operands[product->operands[0]->tensor->id] = NULL;
    refuse_partners(&all);
    LIST_EACH(ByteProduct, product, &all.products) {
        if (!has_both(&all, product)) continue;
        for (int i = 0; i < 2; i++) store_units(product->operands[i], true);
        multiply_units(program, product);
        program->has[HAS_BYTE_OPERANDS] = true;
    }
    for (int i = 0; i < count; i++)
        if (all.operands[i] && all.operands[i]->former[0]) write_units(program, all.operands[i]);
}

/* contraction: recognizes matrix products. product_form finds the structure of one, product_shape
 * the sizes and strides of its operands.
 *
 *     y[b,s,h,e] = sum[d] x[b,s,d] * w[d,h,e]     m = b*s, n = h*e, k = d: one product
 *     p[b,h,s,t] = sum[e] q[b,s,h,e] * k[b,t,h,e] m = s, n = t, k = e, batched over b and h
 *
 * Every loop of such a statement belongs to one of four sorts, according to the tensors whose
 * address it moves. Adjacent loops of one sort count as one if they are contiguous in every tensor.
 * The best rows, columns and sums become m, n and k. The remaining loops are batched; those that
 * cannot be batched become loops around the product.
 */
#include "analysis/contraction.h"
#include "analysis/range.h"
#include "base/must.h"
#include "ir/weight_type.h"

enum { SORT_BATCH, SORT_ROW, SORT_COLUMN, SORT_SUM, SORTS };

/* By sort: the operands that its loops move. */
static const int sort_moves[SORTS] = {MOVES_A | MOVES_B | MOVES_C, MOVES_A | MOVES_C,
                                      MOVES_B | MOVES_C, MOVES_A | MOVES_B};

/* Below this number of multiply-adds per matrix, loops are faster than a call. */
enum { MIN_PRODUCT = 256 };

/* The addresses that loops move: those of the operands and of the scales of units. A scale that
 * `block` terms share moves by 1 / block per term: its strides are multiplied by `block`. */
enum { IN_A, IN_B, IN_C, IN_A_SCALE, IN_B_SCALE, ADDRESSES };

typedef struct LoopRun {
    Index *index; /* the innermost loop in it */
    bool single;  /* it is only that loop */
    long size;
    long stride[ADDRESSES];
} LoopRun;

typedef struct Sorted {
    LoopRun runs[SORTS][MAX_LOOPS];
    int count[SORTS];
} Sorted;

/* The distance that an expression moves per iteration of the loop; -1: not constant. */
static long coefficient(const Expr *expr, const Index *loop) {
    if (expr->kind == EXPR_INDEX) return expr->index == loop;
    if (!expr_uses_index(expr, loop)) return 0;
    if (expr->kind != EXPR_APPLY || (expr->op != OP_ADD && expr->op != OP_MUL)) return -1;
    const long first = coefficient(expr->args[0], loop);
    if (expr->op == OP_MUL && expr->args[1]->kind == EXPR_NUMBER && first > 0)
        return first * (long)expr->args[1]->number;
    const long second = coefficient(expr->args[1], loop);
    return expr->op == OP_MUL || first < 0 || second < 0 ? -1 : first + second;
}

/* The same for a subscript; 0: it is not plain. Loops may share an axis, a part of it and the
 * offset there: n * size + i. */
static long index_step(const Expr *sub, const Axis *axis, const Index *loop) {
    if (sub_loop(sub, axis) == loop) return 1;
    const long step = sub_is_inside(sub, axis) ? coefficient(sub, loop) : 0;
    return step > 0 ? step : 0;
}

bool strides_of(const Expr *read, Index *const *loops, int count, long *strides) {
    MUST(read->kind == EXPR_READ);
    for (int i = 0; i < count; i++) strides[i] = 0;
    long stride = 1;
    for (int dimension = read->count - 1; dimension >= 0; dimension--) {
        const Expr *sub = read->args[dimension];
        for (int i = 0; i < count; i++) {
            if (!expr_uses_index(sub, loops[i])) continue;
            const long step = index_step(sub, read->tensor->axes[dimension], loops[i]);
            if (!step) return false;
            strides[i] += step * stride;
        }
        stride *= read->tensor->axes[dimension]->size;
    }
    return true;
}

/* True if the value of the subscript determines the iteration of each loop that it uses, as digits
 * do: n * size + i. */
static bool has_digits(const Statement *statement, const Expr *sub) {
    for (int i = 0; i < statement->loop_count; i++) {
        const long step = coefficient(sub, statement->loops[i]);
        long below = 0;
        if (step < 0) return false;
        for (int j = 0; j < statement->loop_count; j++) {
            const long other = coefficient(sub, statement->loops[j]);
            if (j != i && other <= step) below += other * (loop_size(statement->loops[j]) - 1);
        }
        if (step > 0 && below >= step) return false;
    }
    return true;
}

bool is_digit(const Statement *statement, const Index *loop) {
    MUST(statement->kind == STATEMENT_LOOP);
    const Expr *target = statement->target;
    for (int i = 0; i < target->count; i++)
        if (expr_uses_index(target->args[i], loop) && has_digits(statement, target->args[i]))
            return true;
    return false;
}

/* True for types that products read and write. */
static bool is_multiplied(const Tensor *tensor) {
    return tensor->type != TYPE_INT && tensor->type != TYPE_BYTE;
}

bool is_units(const Tensor *tensor) {
    return unit_type(tensor->type) != NULL;
}

/* The read of a factor; of units times their scale, the units. *scale: the read of the scale, or
 * NULL. */
static Expr *read_of_factor(Expr *factor, Expr **scale) {
    *scale = NULL;
    if (factor->kind != EXPR_APPLY || factor->op != OP_MUL || factor->args[0]->kind != EXPR_READ ||
        factor->args[1]->kind != EXPR_READ || !is_units(factor->args[0]->tensor))
        return factor;
    *scale = factor->args[1];
    return factor->args[0];
}

bool product_of_reads(const Statement *statement, Expr **a, Expr **b) {
    const Expr *value = statement->value;
    Expr *scale;
    if (statement->kind != STATEMENT_LOOP || value->kind != EXPR_APPLY || value->op != OP_MUL)
        return false;
    *a = read_of_factor(value->args[0], &scale);
    *b = read_of_factor(value->args[1], &scale);
    return (*a)->kind == EXPR_READ && (*b)->kind == EXPR_READ && is_multiplied((*a)->tensor) &&
           is_multiplied((*b)->tensor) && is_multiplied(statement->target->tensor);
}

/* The value of a subscript with loop `last` (or every loop if NULL) at its last iteration and all
 * others at their first. Indices of repeats and reads count as 0. */
static double subscript_at(const Expr *expr, Index *const *loops, int count, const Index *last) {
    if (expr->kind == EXPR_NUMBER) return expr->number;
    if (expr->kind == EXPR_INDEX) {
        bool moved = last ? expr->index == last : indices_have(loops, count, expr->index);
        return moved ? (double)expr->index->axis->size - 1 : 0;
    }
    if (expr->kind != EXPR_APPLY) return 0;
    double args[3] = {0, 0, 0};
    for (int i = 0; i < expr->count; i++) args[i] = subscript_at(expr->args[i], loops, count, last);
    return op_value(expr->op, args[0], args[1], args[2]);
}

static double address_at(const Expr *read, Index *const *loops, int count, const Index *last) {
    MUST(read->kind == EXPR_READ);
    double address = 0;
    for (int i = 0; i < read->count; i++)
        address = address * (double)read->tensor->axes[i]->size +
                  subscript_at(read->args[i], loops, count, last);
    return address;
}

static double reach_of(const Index *loop, long stride) {
    return (double)stride * ((double)loop->axis->size - 1);
}

/* True if the strides lead from the first to the last element of every loop, and of all loops
 * together. Checks the strides that strides_of derives from the form of a subscript against its
 * value. */
static bool strides_reach(const Expr *read, Index *const *loops, int count, const long *strides) {
    static const Index nothing = {.name = ""};
    const double first = address_at(read, loops, count, &nothing);
    double all = first;
    for (int i = 0; i < count; i++) {
        const double moved = reach_of(loops[i], strides[i]);
        if (address_at(read, loops, count, loops[i]) != first + moved) return false;
        all += moved;
    }
    return address_at(read, loops, count, NULL) == all;
}

bool product_strides(const Statement *statement, Expr *const *operands, const Index *row,
                     long strides[3][MAX_LOOPS]) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < statement->loop_count; j++) {
            strides[i][j] = 0;
            if (statement->loops[j] != row &&
                !strides_of(operands[i], &statement->loops[j], 1, &strides[i][j]))
                return false;
        }
    return true;
}

void product_moves(const Statement *statement, long strides[3][MAX_LOOPS], int *moves) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->loop_count; i++) {
        moves[i] = 0;
        for (int j = 0; j < 3; j++)
            if (statement->loops[i]->axis->size > 1 && strides[j][i]) moves[i] |= MOVES_A << j;
    }
}

/* ---- scales of units ---- */

/* The number of terms that share a scale if the subscript is floor(loop / block); else 0. */
static long block_of_sub(const Expr *sub) {
    if (sub->kind != EXPR_APPLY || sub->op != OP_FLOOR || sub->args[0]->kind != EXPR_APPLY ||
        sub->args[0]->op != OP_DIV)
        return 0;
    const Expr *loop = sub->args[0]->args[0], *size = sub->args[0]->args[1];
    return loop->kind == EXPR_INDEX && size->kind == EXPR_NUMBER ? (long)size->number : 0;
}

static long block_of_scale(const Expr *scale) {
    for (int i = 0; scale && i < scale->count; i++)
        if (block_of_sub(scale->args[i])) return block_of_sub(scale->args[i]);
    return 0;
}

/* Strides of a scale, times the number of terms that share one. False if a subscript is not
 * plain. */
static bool scale_strides(const Statement *statement, const Expr *scale, long *strides) {
    MUST(scale->kind == EXPR_READ);
    const long block = block_of_scale(scale);
    long stride = block ? block : 1;
    for (int i = scale->count - 1; i >= 0; i--) {
        const Expr *sub = scale->args[i];
        for (int j = 0; j < statement->loop_count; j++) {
            const Index *loop = statement->loops[j];
            if (!expr_uses_index(sub, loop)) continue;
            const bool blocks = block_of_sub(sub) == block && block > 0;
            const long step = blocks ? 1 : index_step(sub, scale->tensor->axes[i], loop);
            if (!step) return false;
            strides[j] += blocks ? stride / block : step * stride;
        }
        stride *= scale->tensor->axes[i]->size;
    }
    return true;
}

/* The strides of both scales in the product; False if they do not fit to its sum, whose terms share
 * a scale all or by blocks. */
static bool set_scales(Contraction *result, const LoopRun *m, const LoopRun *n, const LoopRun *k) {
    const long block = block_of_scale(result->a_scale), divisor = block ? block : 1;
    if (block != block_of_scale(result->b_scale)) return false;
    result->product.scales = (UnitScales){.block = block,
                                          .a_m = m->stride[IN_A_SCALE] / divisor,
                                          .a_k = k->stride[IN_A_SCALE],
                                          .b_k = k->stride[IN_B_SCALE],
                                          .b_n = n->stride[IN_B_SCALE] / divisor};
    return (block || (!k->stride[IN_A_SCALE] && !k->stride[IN_B_SCALE])) &&
           m->stride[IN_A_SCALE] % divisor == 0 && n->stride[IN_B_SCALE] % divisor == 0;
}

static int sort_of(int moves) {
    for (int sort = 0; sort < SORTS; sort++)
        if (sort_moves[sort] == moves) return sort;
    return -1;
}

/* The loops of a dense product as runs of one loop each. */
static void sort_loops(const Statement *statement, const ProductForm *form,
                       long strides[ADDRESSES][MAX_LOOPS], Sorted *sorted) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->loop_count; i++) {
        Index *index = statement->loops[i];
        int sort = sort_of(form->moves[i]);
        if (sort < 0) continue;
        LoopRun run = {index, true, index->axis->size, {0}};
        for (int j = 0; j < ADDRESSES; j++) run.stride[j] = strides[j][i];
        sorted->runs[sort][sorted->count[sort]++] = run;
    }
}

static bool lies_behind(const LoopRun *outer, const LoopRun *inner) {
    for (int i = 0; i < ADDRESSES; i++)
        if (outer->stride[i] != inner->size * inner->stride[i]) return false;
    return true;
}

/* Joins runs of one sort that are contiguous in all tensors, longest stride first. */
static void merge_runs(LoopRun *runs, int *count, int by) {
    for (int i = 1; i < *count; i++)
        for (int j = i; j > 0 && runs[j].stride[by] > runs[j - 1].stride[by]; j--) {
            LoopRun swap = runs[j];
            runs[j] = runs[j - 1];
            runs[j - 1] = swap;
        }
    int kept = 0;
    for (int i = 1; i < *count; i++) {
        if (lies_behind(&runs[kept], &runs[i])) {
            runs[i].size *= runs[kept].size;
            runs[i].single = false;
            runs[kept] = runs[i];
        } else {
            runs[++kept] = runs[i];
        }
    }
    if (*count) *count = kept + 1;
}

static const LoopRun one = {NULL, true, 1, {0}};

static const LoopRun *run_at(const Sorted *sorted, int sort, int i) {
    return i < sorted->count[sort] ? &sorted->runs[sort][i] : &one;
}

static bool strides_fit(const LoopRun *m, const LoopRun *n, const LoopRun *k) {
    bool a = m->size == 1 || k->size == 1 || m->stride[0] == 1 || k->stride[0] == 1;
    bool b = n->size == 1 || k->size == 1 || n->stride[1] == 1 || k->stride[1] == 1;
    return a && b && (n->size == 1 || n->stride[2] == 1);
}

/* Selects the runs for m, n and k: the largest matrix with allowed strides. */
static bool choose_contraction(const Sorted *sorted, int chosen[3]) {
    double best = 0;
    for (int m = 0; m < sorted->count[SORT_ROW] || m == 0; m++)
        for (int n = 0; n < sorted->count[SORT_COLUMN] || n == 0; n++)
            for (int k = 0; k < sorted->count[SORT_SUM]; k++) {
                const LoopRun *row = run_at(sorted, SORT_ROW, m),
                              *column = run_at(sorted, SORT_COLUMN, n);
                const LoopRun *sum = run_at(sorted, SORT_SUM, k);
                double size = (double)row->size * (double)column->size * (double)sum->size;
                if (size <= best || !strides_fit(row, column, sum)) continue;
                best = size;
                chosen[0] = m, chosen[1] = n, chosen[2] = k;
            }
    return best >= MIN_PRODUCT;
}

static Product product_from(const LoopRun *m, const LoopRun *n, const LoopRun *k) {
    Product product = {.m = m->size, .n = n->size, .k = k->size, .batch = {1, 1}};
    product.a_m = m->stride[0], product.a_k = k->stride[0];
    product.b_k = k->stride[1], product.b_n = n->stride[1];
    product.c_m = m->stride[2];
    /* A dimension of size one gets the stride of an ordinary matrix. */
    if (m->size == 1) product.a_m = product.a_k == 1 ? k->size : 1, product.c_m = n->size;
    if (n->size == 1) product.b_n = product.b_k == 1 ? k->size : 1;
    return product;
}

/* Adds a run that is no part of the matrix: a batch dimension, else an outer loop if it is one
 * loop. */
static bool place_leftover(Contraction *result, const LoopRun *run, bool summed) {
    Product *product = &result->product;
    const long divisor = product->scales.block ? product->scales.block : 1;
    int free = product->batch[0] == 1 ? 0 : product->batch[1] == 1 ? 1 : -1;
    if (!summed && free >= 0) {
        product->batch[free] = run->size;
        product->a_batch[free] = run->stride[0];
        product->b_batch[free] = run->stride[1];
        product->c_batch[free] = run->stride[2];
        product->scales.a_batch[free] = run->stride[IN_A_SCALE] / divisor;
        product->scales.b_batch[free] = run->stride[IN_B_SCALE] / divisor;
        return true;
    }
    MUST(result->outer_count < MAX_LOOPS);
    result->outer[result->outer_count++] = (OuterLoop){run->index, summed};
    return run->single;
}

static bool place_leftovers(Contraction *result, const Sorted *sorted, const int chosen[3]) {
    for (int sort = 0; sort < SORTS; sort++)
        for (int i = 0; i < sorted->count[sort]; i++) {
            if (sort != SORT_BATCH && chosen[sort - SORT_ROW] == i) continue;
            if (!place_leftover(result, &sorted->runs[sort][i], sort == SORT_SUM)) return false;
        }
    return true;
}

static bool dense_shape(const Statement *statement, const ProductForm *form, Contraction *result) {
    Expr *const operands[3] = {result->a, result->b, result->c};
    long strides[ADDRESSES][MAX_LOOPS] = {{0}};
    Sorted sorted = {.count = {0}};
    const bool scaled = result->a_scale && result->b_scale;
    if (!product_strides(statement, operands, NULL, strides) ||
        (scaled && !(scale_strides(statement, result->a_scale, strides[IN_A_SCALE]) &&
                     scale_strides(statement, result->b_scale, strides[IN_B_SCALE]))))
        return false;
    sort_loops(statement, form, strides, &sorted);
    for (int sort = 0; sort < SORTS; sort++)
        merge_runs(sorted.runs[sort], &sorted.count[sort], sort == SORT_SUM ? 0 : 2);
    int chosen[3];
    if (!choose_contraction(&sorted, chosen)) return false;
    const LoopRun *m = run_at(&sorted, SORT_ROW, chosen[0]),
                  *n = run_at(&sorted, SORT_COLUMN, chosen[1]);
    if (m->size == 1 && n->size == 1) return false;
    const LoopRun *k = run_at(&sorted, SORT_SUM, chosen[2]);
    result->product = product_from(m, n, k);
    return (!scaled || set_scales(result, m, n, k)) && place_leftovers(result, &sorted, chosen);
}

Contraction *product_shape(Program *program, const Statement *statement) {
    const ProductForm *form = statement->product;
    if (!form) return NULL;
    MUST(statement->value->kind == EXPR_APPLY && statement->value->op == OP_MUL);
    Expr *const *factors = statement->value->args;
    Contraction *result = arena_alloc(program->arena, sizeof *result);
    *result = (Contraction){.kind = form->kind, .c = statement->target, .relation = form->relation};
    result->a = read_of_factor(factors[form->swapped], &result->a_scale);
    result->b = read_of_factor(factors[!form->swapped], &result->b_scale);
    bool found = form->relation ? grouped_shape(statement, form, result)
                                : dense_shape(statement, form, result);
    result->product.accumulate = statement->accumulate;
    return found ? result : NULL;
}

/* ---- structure ---- */

/* Makes b the operand whose columns are contiguous in c. False if there is none. */
static bool order_operands(const Statement *statement, const long *c, ProductForm *form) {
    int rows = 0, columns = 0;
    bool row = false, column = false;
    for (int i = 0; i < statement->loop_count; i++) {
        const int sort = sort_of(form->moves[i]);
        rows += sort == SORT_ROW;
        columns += sort == SORT_COLUMN;
        row |= sort == SORT_ROW && c[i] == 1;
        column |= sort == SORT_COLUMN && c[i] == 1;
    }
    if (!row && !column && rows && columns) return false;
    form->swapped = row || (!column && columns);
    for (int i = 0; i < statement->loop_count && form->swapped; i++) {
        const int moves = form->moves[i];
        form->moves[i] =
            ((moves & MOVES_C) | (moves & MOVES_A ? MOVES_B : 0) | (moves & MOVES_B ? MOVES_A : 0));
    }
    return true;
}

/* True for a sum over rows that stops at the rows of the data. */
static bool sums_rows_of_data(const Statement *statement) {
    for (int i = 0; statement->bound && i < statement->loop_count; i++)
        if (statement->loops[i]->axis->kind == AXIS_ROWS)
            return !expr_uses_index(statement->target, statement->loops[i]);
    return false;
}

static bool dense_form(const Statement *statement, Expr *const *operands, ProductForm *form) {
    MUST(statement->kind == STATEMENT_LOOP);
    long strides[3][MAX_LOOPS];
    if (statement->reduction != REDUCE_SUM || sums_rows_of_data(statement) ||
        !product_strides(statement, operands, NULL, strides))
        return false;
    for (int i = 0; i < 3; i++)
        if (!strides_reach(operands[i], statement->loops, statement->loop_count, strides[i]))
            return false;
    product_moves(statement, strides, form->moves);
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis->size > 1 && sort_of(form->moves[i]) < 0) return false;
    return order_operands(statement, strides[2], form);
}

bool product_form(const Program *program, const Statement *statement, ProductForm *form) {
    Expr *operands[3] = {NULL, NULL, statement->target};
    *form = (ProductForm){.kind = CONTRACTION_PRODUCT};
    return program->target->products && product_of_reads(statement, &operands[0], &operands[1]) &&
           (grouped_form(program, statement, form) || dense_form(statement, operands, form));
}

/* ---- units ---- */

bool lies_in_vectors(const Expr *read) {
    MUST(read->kind == EXPR_READ);
    const Tensor *tensor = read->tensor;
    if (tensor->type != TYPE_BF16 || !tensor->rank) return false;
    const Expr *last = read->args[tensor->rank - 1];
    return tensor->axes[tensor->rank - 1]->size % MOEC_VECTOR == 0 && last->kind == EXPR_INDEX &&
           !last->index->of_repeat;
}

bool fits_units(const Contraction *contraction) {
    const Product *product = &contraction->product;
    if (contraction->kind != CONTRACTION_PRODUCT || !is_units(contraction->a->tensor) ||
        !is_units(contraction->b->tensor) || !contraction->a_scale || !contraction->b_scale)
        return false;
    long strides = product->k | product->a_m | product->b_n;
    for (int i = 0; i < 2; i++) strides |= product->a_batch[i] | product->b_batch[i];
    return product->a_k == 1 && product->b_k == 1 && strides % MOEC_UNITS == 0;
}

/* For the own type of the tensor; `across`: the stride between separate rows. */
static bool lines_begin_in_vectors(const Expr *read, long across) {
    MUST(read->kind == EXPR_READ);
    const Tensor *tensor = read->tensor;
    const long vector = 16 / type_bytes(tensor->type);
    if (!tensor->rank || tensor->type == TYPE_INT) return false;
    const Expr *last = read->args[tensor->rank - 1];
    return tensor->axes[tensor->rank - 1]->size % vector == 0 && across % vector == 0 &&
           last->kind == EXPR_INDEX && !last->index->of_repeat;
}

bool fits_row_kernel(const Contraction *contraction, long across) {
    const Product *product = &contraction->product;
    const bool along = product->b_k == 1;
    const long vector = 16 / type_bytes(contraction->b->tensor->type);
    return lines_begin_in_vectors(contraction->a, across) &&
           lines_begin_in_vectors(contraction->b, along ? product->b_n : product->b_k) &&
           (!along || product->k % vector == 0);
}

/* The host cannot read the memory of a GPU. */
static bool reads_inside(const Expr *access) {
    for (int i = 0; i < access->count; i++)
        if (access->args[i]->kind == EXPR_READ || reads_inside(access->args[i])) return true;
    return false;
}

Contraction *unit_product(Program *program, const Statement *statement) {
    Contraction *product = product_shape(program, statement);
    bool inside =
        product && product->kind == CONTRACTION_PRODUCT && program->target->launches &&
        (reads_inside(product->a) || reads_inside(product->b) || reads_inside(product->c));
    if (!product || inside) return NULL;
    product->product.rounded =
        program->target->rounded_products && program->rounded && !statement->exact;
    product->product.a_type = product->a->tensor->type;
    product->product.b_type = product->b->tensor->type;
    product->product.c_type = product->c->tensor->type;
    return product;
}

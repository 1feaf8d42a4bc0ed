/* grouped: recognize products over the dispatched rows of a relation.
 *
 *     h[r,f] = sum[d] x[b[r],s[r],d] * up[n[r],d,f]
 *         rows by weight: row r of x times the matrix of its group
 *     dup[n[r],d,f] += x[b[r],s[r],d] * dh[r,f]
 *         rows by rows: each group sums over its own rows
 *
 * The rows of a mask of positions are one group: dup[d,f] += sum[r] x[b[r],s[r],d] * dh[r,f].
 */
#include "analysis/contraction.h"
#include "base/must.h"

/* A read of one row per dispatched row. */
typedef struct GroupedRows {
    long stride;    /* between rows */
    Tensor *gather; /* row numbers in the tensor; NULL if they equal the dispatched rows */
} GroupedRows;

/* A read of one matrix per group, or of the matrix of the only one. */
typedef struct Groups {
    long stride, count;
} Groups;

static bool is_coordinate(const Expr *sub, const Tensor *tensor, const Index *row) {
    return sub->kind == EXPR_READ && sub->tensor == tensor && sub->count == 1 &&
           sub->args[0]->kind == EXPR_INDEX && sub->args[0]->index == row;
}

static long dimension_stride(const Tensor *tensor, int dimension) {
    long stride = 1;
    for (int i = dimension + 1; i < tensor->rank; i++) stride *= tensor->axes[i]->size;
    return stride;
}

static bool uses_once(const Expr *read, const Index *row, int first, int count) {
    MUST(read->kind == EXPR_READ);
    for (int i = 0; i < read->count; i++)
        if ((i < first || i >= first + count) && expr_uses_index(read->args[i], row)) return false;
    return true;
}

/* True if the subscripts from `first` on are these tensors, read at the row. */
static bool subscripts_are(const Expr *read, int first, Tensor *const *tensors, int count,
                           const Index *row) {
    MUST(read->kind == EXPR_READ);
    if (count == 0 || first + count > read->count) return false;
    for (int i = 0; i < count; i++)
        if (!is_coordinate(read->args[first + i], tensors[i], row)) return false;
    return uses_once(read, row, first, count);
}

/* The tensor with the row number of `read` if the subscripts from `first` on are gathered. */
static Tensor *gather_at(const Relation *relation, const Expr *read, int first, const Index *row,
                         int *count) {
    MUST(read->kind == EXPR_READ);
    LIST_EACH(const Flat, flat, &relation->flats) {
        *count = flat->count;
        if (subscripts_are(read, first, flat->of, flat->count, row)) return flat->table;
    }
    const Expr *sub = read->args[first];
    *count = 1;
    bool single = sub->kind == EXPR_READ && sub->tensor->type == TYPE_INT &&
                  is_coordinate(sub, sub->tensor, row);
    return single && uses_once(read, row, first, 1) ? sub->tensor : NULL;
}

static bool as_rows(const Relation *relation, const Expr *read, const Index *row,
                    GroupedRows *rows) {
    MUST(read->kind == EXPR_READ);
    for (int i = 0; i < read->count; i++) {
        if (!expr_uses_index(read->args[i], row)) continue;
        int count = 1;
        bool plain = read->args[i]->kind == EXPR_INDEX && uses_once(read, row, i, 1);
        rows->gather = plain ? NULL : gather_at(relation, read, i, row, &count);
        rows->stride = dimension_stride(read->tensor, i + count - 1);
        return plain || rows->gather;
    }
    return false;
}

static bool as_groups(const Relation *relation, const Expr *read, const Index *row,
                      Groups *groups) {
    MUST(read->kind == EXPR_READ);
    int count = relation->group_of_count;
    if (!count) {
        *groups = (Groups){.count = 1};
        return relation->group->axes[0]->size == 2 && !expr_uses_index(read, row);
    }
    for (int i = 0; i < read->count; i++) {
        if (!subscripts_are(read, i, relation->group_of, count, row)) continue;
        groups->stride = dimension_stride(read->tensor, i + count - 1);
        groups->count = 1;
        for (int j = 0; j < count; j++) groups->count *= read->tensor->axes[i + j]->size;
        return groups->count == relation->group->axes[0]->size - 1;
    }
    return false;
}

/* The loops that move the same operands, joined into one run; of size 1 without loops. */
typedef struct Joined {
    long size, stride[3];
} Joined;

/* False if the loops are not contiguous in every operand. */
static bool join_groups(const Statement *statement, const int *moves, long strides[3][MAX_LOOPS],
                        int moved, Joined *joined) {
    MUST(statement->kind == STATEMENT_LOOP);
    *joined = (Joined){.size = 1};
    for (int i = statement->loop_count - 1; i >= 0; i--) {
        if (moves[i] != moved) continue;
        for (int j = 0; j < 3; j++) {
            if (joined->size == 1)
                joined->stride[j] = strides[j][i];
            else if (strides[j][i] != joined->size * joined->stride[j])
                return false;
        }
        joined->size *= statement->loops[i]->axis->size;
    }
    return true;
}

static bool joins_all(const Statement *statement, const Index *row, const Joined *k,
                      const Joined *n) {
    MUST(statement->kind == STATEMENT_LOOP);
    long size = 1;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] != row) size *= statement->loops[i]->axis->size;
    return size == k->size * n->size && k->size > 1 && n->size > 1;
}

/* Joins the loops of a statement except the row: k from those that move a and `other`, n from those
 * that move b and c. */
static bool joined_loops(const Statement *statement, const Index *row, const ProductForm *form,
                         const Contraction *shape, int other, Joined *k, Joined *n) {
    Expr *const operands[3] = {shape->a, shape->b, shape->c};
    long strides[3][MAX_LOOPS];
    return product_strides(statement, operands, row, strides) &&
           join_groups(statement, form->moves, strides, MOVES_A | other, k) &&
           join_groups(statement, form->moves, strides, MOVES_B | MOVES_C, n) &&
           joins_all(statement, row, k, n) && k->stride[0] == 1;
}

/* Common part of both kinds: rows with contiguous k in a. */
static Product product_of_rows(const Index *row, const Joined *k, const Joined *n) {
    return (Product){.m = row->axis->size, .n = n->size, .k = k->size, .a_k = 1, .batch = {1, 1}};
}

static bool rows_by_weight(const Statement *statement, const Index *row, const ProductForm *form,
                           Contraction *shape) {
    const Relation *relation = form->relation;
    GroupedRows a, c;
    Groups b;
    Joined k, n;
    if (statement->reduction != REDUCE_SUM || !as_rows(relation, shape->a, row, &a) ||
        !as_groups(relation, shape->b, row, &b) || !as_rows(relation, shape->c, row, &c) ||
        c.gather || !joined_loops(statement, row, form, shape, MOVES_B, &k, &n))
        return false;
    if (n.stride[2] != 1 || (k.stride[1] != 1 && n.stride[1] != 1)) return false;
    shape->product = product_of_rows(row, &k, &n);
    shape->product.a_m = a.stride;
    shape->product.b_k = k.stride[1];
    shape->product.b_n = n.stride[1];
    shape->product.b_batch[0] = b.stride;
    shape->product.c_m = c.stride;
    shape->product.batch[0] = b.count;
    shape->gather = a.gather;
    shape->gather_b = relation->number;
    return true;
}

static bool rows_by_rows(const Statement *statement, const Index *row, const ProductForm *form,
                         Contraction *shape) {
    const Relation *relation = form->relation;
    GroupedRows a, b;
    Groups c;
    Joined k, n;
    const Reduction over_rows = relation->group_of_count ? REDUCE_NONE : REDUCE_SUM;
    if (statement->reduction != over_rows || !statement->accumulate ||
        !as_rows(relation, shape->a, row, &a) || !as_rows(relation, shape->b, row, &b) ||
        relation->number || !as_groups(relation, shape->c, row, &c) ||
        !joined_loops(statement, row, form, shape, MOVES_C, &k, &n) || n.stride[1] != 1 ||
        n.stride[2] != 1)
        return false;
    shape->product = product_of_rows(row, &k, &n);
    shape->product.a_m = a.stride;
    shape->product.b_k = b.stride;
    shape->product.b_n = 1;
    shape->product.c_m = k.stride[2];
    shape->product.c_batch[0] = c.stride;
    shape->product.batch[0] = c.count;
    shape->gather = a.gather;
    shape->gather_b = b.gather;
    return true;
}

static Index *row_of_statement(const Statement *statement) {
    MUST(statement->kind == STATEMENT_LOOP);
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis->kind == AXIS_ROWS) return statement->loops[i];
    return NULL;
}

bool grouped_shape(const Statement *statement, const ProductForm *form, Contraction *shape) {
    const Index *row = row_of_statement(statement);
    MUST(row && form->relation && form->kind != CONTRACTION_PRODUCT);
    return form->kind == CONTRACTION_ROWS_BY_WEIGHT ? rows_by_weight(statement, row, form, shape)
                                                    : rows_by_rows(statement, row, form, shape);
}

/* Finds the kind of a product over the rows of form->relation with form->swapped. */
static bool find_kind(const Statement *statement, const Index *row, ProductForm *form) {
    MUST(statement->kind == STATEMENT_LOOP);
    Expr *const *factors = statement->value->args;
    Expr *const operands[3] = {factors[form->swapped], factors[!form->swapped], statement->target};
    long strides[3][MAX_LOOPS];
    if (!product_strides(statement, operands, row, strides)) return false;
    product_moves(statement, strides, form->moves);
    for (int i = 0; i < 2; i++) {
        Contraction shape = {.a = operands[0], .b = operands[1], .c = operands[2]};
        form->kind = i ? CONTRACTION_ROWS_BY_ROWS : CONTRACTION_ROWS_BY_WEIGHT;
        if (grouped_shape(statement, form, &shape)) return true;
    }
    return false;
}

/* True if the statement runs over the rows of the relation. Without groups, the subscripts of an
 * operand or the bound show which of the relations with these rows it is. */
static bool is_over(const Statement *statement, const Relation *relation, const Index *row) {
    if (relation->rows != row->axis) return false;
    if (relation->group_of_count) return true;
    bool gathers = false;
    for (int i = 0; i < relation->mask->rank; i++)
        gathers |= relation->coordinate[i] && expr_reads(statement->value, relation->coordinate[i]);
    return statement->bound ? statement->bound->tensor == relation->group : gathers;
}

bool grouped_form(const Program *program, const Statement *statement, ProductForm *form) {
    Expr *a, *b;
    const Index *row = row_of_statement(statement);
    if (!row || !product_of_reads(statement, &a, &b)) return false;
    for (int i = 0; i < 2 * program->relations.count; i++) {
        ProductForm found = {.relation = program->relations.items[i / 2], .swapped = i % 2};
        if (!is_over(statement, found.relation, row) || !find_kind(statement, row, &found))
            continue;
        *form = found;
        return true;
    }
    return false;
}

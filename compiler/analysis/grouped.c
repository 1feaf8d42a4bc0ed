/* grouped: recognize products over the dispatched rows of a relation.
 *
 *     h[r,f] = sum[d] x[b[r],s[r],d] * up[n[r],d,f]
 *         rows by weight: row r of x times the matrix of its group
 *     dup[n[r],d,f] += x[b[r],s[r],d] * dh[r,f]
 *         rows by rows: each group sums over its own rows
 */
#include "analysis/contraction.h"

/* A read of one row per dispatched row. */
typedef struct Rows {
    long stride;    /* between rows */
    Tensor *gather; /* row numbers in the tensor; NULL if they equal the dispatched rows */
} Rows;

/* A read of one matrix per group. */
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
    for (int i = 0; i < read->count; i++)
        if ((i < first || i >= first + count) && expr_uses_index(read->args[i], row)) return false;
    return true;
}

/* True if the subscripts from `first` on are these tensors, read at the row. */
static bool subscripts_are(const Expr *read, int first, Tensor *const *tensors, int count,
                           const Index *row) {
    if (count == 0 || first + count > read->count) return false;
    for (int i = 0; i < count; i++)
        if (!is_coordinate(read->args[first + i], tensors[i], row)) return false;
    return uses_once(read, row, first, count);
}

/* The tensor with the row number of `read` if the subscripts from `first` on are gathered. */
static Tensor *gather_at(const Relation *relation, const Expr *read, int first, const Index *row,
                         int *count) {
    for (int i = 0; i < relation->flats.count; i++) {
        const Flat *flat = relation->flats.items[i];
        *count = flat->count;
        if (subscripts_are(read, first, flat->of, flat->count, row)) return flat->table;
    }
    const Expr *sub = read->args[first];
    *count = 1;
    bool single = sub->kind == EXPR_READ && sub->tensor->type == TYPE_INT &&
                  is_coordinate(sub, sub->tensor, row);
    return single && uses_once(read, row, first, 1) ? sub->tensor : NULL;
}

static bool as_rows(const Relation *relation, const Expr *read, const Index *row, Rows *rows) {
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
    int count = relation->group_of_count;
    for (int i = 0; i < read->count; i++) {
        if (!subscripts_are(read, i, relation->group_of, count, row)) continue;
        groups->stride = dimension_stride(read->tensor, i + count - 1);
        groups->count = 1;
        for (int j = 0; j < count; j++) groups->count *= read->tensor->axes[i + j]->size;
        return groups->count == relation->group->axes[0]->size - 1;
    }
    return false;
}

/* Strides of a read in the loops other than the row. */
static bool inner_strides(const Expr *read, const Statement *statement, const Index *row,
                          long *strides) {
    for (int i = 0; i < statement->loop_count; i++) {
        if (statement->loops[i] == row) continue;
        Index *loop = statement->loops[i];
        if (!strides_of(read, &loop, 1, &strides[i])) return false;
    }
    return true;
}

/* Loops with nonzero strides in exactly the tensors of `mask` (1 a, 2 b, 4 c), joined into one run.
 * False if such loops cannot be joined; a run of size 1 has no loops. */
typedef struct Joined {
    long size, stride[3];
} Joined;

static bool join(const Statement *statement, const Index *row, long strides[3][MAX_LOOPS], int mask,
                 Joined *joined) {
    *joined = (Joined){.size = 1};
    for (int i = statement->loop_count - 1; i >= 0; i--) {
        if (statement->loops[i] == row || statement->loops[i]->axis->size == 1) continue;
        int moved = (strides[0][i] ? 1 : 0) + (strides[1][i] ? 2 : 0) + (strides[2][i] ? 4 : 0);
        if (moved != mask) continue;
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
    long size = 1;
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] != row) size *= statement->loops[i]->axis->size;
    return size == k->size * n->size && k->size > 1 && n->size > 1;
}

static bool all_strides(const Statement *statement, const Index *row, const Contraction *shape,
                        long strides[3][MAX_LOOPS]) {
    return inner_strides(shape->a, statement, row, strides[0]) &&
           inner_strides(shape->b, statement, row, strides[1]) &&
           inner_strides(shape->c, statement, row, strides[2]);
}

/* Joins the loops of a statement except the row: k from those that move the tensors of `mask_k`, n
 * from the others. */
static bool joined_loops(const Statement *statement, const Index *row, const Contraction *shape,
                         int mask_k, int mask_n, Joined *k, Joined *n) {
    long strides[3][MAX_LOOPS];
    return all_strides(statement, row, shape, strides) &&
           join(statement, row, strides, mask_k, k) && join(statement, row, strides, mask_n, n) &&
           joins_all(statement, row, k, n) && k->stride[0] == 1;
}

/* Common part of both kinds: rows with contiguous k in a. */
static Product product_of_rows(const Index *row, const Joined *k, const Joined *n) {
    return (Product){.m = row->axis->size, .n = n->size, .k = k->size, .a_k = 1, .batch = {1, 1}};
}

static bool rows_by_weight(const Relation *relation, const Statement *statement, const Index *row,
                           Contraction *shape) {
    Rows a, c;
    Groups b;
    Joined k, n;
    if (statement->reduction != REDUCE_SUM || !as_rows(relation, shape->a, row, &a) ||
        !as_groups(relation, shape->b, row, &b) || !as_rows(relation, shape->c, row, &c) ||
        c.gather || !joined_loops(statement, row, shape, 1 + 2, 2 + 4, &k, &n))
        return false;
    if (n.stride[2] != 1 || (k.stride[1] != 1 && n.stride[1] != 1)) return false;
    shape->kind = CONTRACTION_ROWS_BY_WEIGHT;
    shape->product = product_of_rows(row, &k, &n);
    shape->product.a_m = a.stride;
    shape->product.b_k = k.stride[1];
    shape->product.b_n = n.stride[1];
    shape->product.b_batch[0] = b.stride;
    shape->product.c_m = c.stride;
    shape->product.batch[0] = b.count;
    shape->product.accumulate = statement->accumulate;
    shape->gather = a.gather;
    return true;
}

static bool rows_by_rows(const Relation *relation, const Statement *statement, const Index *row,
                         Contraction *shape) {
    Rows a, b;
    Groups c;
    Joined k, n;
    if (statement->reduction != REDUCE_NONE || !statement->accumulate ||
        !as_rows(relation, shape->a, row, &a) || !as_rows(relation, shape->b, row, &b) ||
        !as_groups(relation, shape->c, row, &c) ||
        !joined_loops(statement, row, shape, 1 + 4, 2 + 4, &k, &n) || n.stride[1] != 1 ||
        n.stride[2] != 1)
        return false;
    shape->kind = CONTRACTION_ROWS_BY_ROWS;
    shape->product = product_of_rows(row, &k, &n);
    shape->product.a_m = a.stride;
    shape->product.b_k = b.stride;
    shape->product.b_n = 1;
    shape->product.c_m = k.stride[2];
    shape->product.c_batch[0] = c.stride;
    shape->product.batch[0] = c.count;
    shape->product.accumulate = true;
    shape->gather = a.gather;
    shape->gather_b = b.gather;
    return true;
}

static Index *row_of_statement(const Statement *statement) {
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i]->axis->kind == AXIS_ROWS) return statement->loops[i];
    return NULL;
}

Contraction *grouped_contraction(Program *program, const Statement *statement) {
    Expr *first, *second;
    Index *row = row_of_statement(statement);
    if (!row || !product_of_reads(statement, &first, &second)) return NULL;
    for (int i = 0; i < program->relations.count; i++) {
        Relation *relation = program->relations.items[i];
        if (relation->rows != row->axis) continue;
        for (int swap = 0; swap < 2; swap++) {
            Contraction shape = {
                .a = swap ? second : first, .b = swap ? first : second, .c = statement->target};
            shape.relation = relation;
            if (!rows_by_weight(relation, statement, row, &shape) &&
                !rows_by_rows(relation, statement, row, &shape))
                continue;
            Contraction *result = arena_alloc(program->arena, sizeof *result);
            *result = shape;
            return result;
        }
    }
    return NULL;
}

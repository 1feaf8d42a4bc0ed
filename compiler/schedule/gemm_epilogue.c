/* gemm_epilogue: the epilogue of a dense product in a library.
 *
 *     t[b,s,f] = sum[d] x[b,s,d] * w[d,f]      one product that adds bias[f], keeps a and stores h
 *     a[b,s,f] = t[b,s,f] + bias[f]      -->
 *     h[b,s,f] = gelu(a[b,s,f])
 *
 * A library can do the following, in this order: multiply by a number; add a tensor with the shape
 * of the result; add a bias to each row; apply its function or the derivative.
 * Every operand has the type of the stored result.
 */
#include "schedule/nest.h"
#include "base/must.h"

#include <math.h>

/* These functions require kept elements aligned to 16 bytes. */
enum { FUNCTIONS = MOEC_GELU | MOEC_GELU_BACK };

/* The number of loops of the result that form its rows; -1 if rows and columns are not separate. */
static int row_loops(const Contraction *product, const Member *first) {
    long rows = 1, all = 1;
    int count = 0;
    for (int level = 0; level < first->depth; level++) all *= loop_size(first->order[level]);
    while (rows < product->product.m && count < first->depth)
        rows *= loop_size(first->order[count++]);
    return rows == product->product.m && all == rows * product->product.n ? count : -1;
}

/* Contiguous loops become one with the stride of the innermost. */
static bool join_strides(const Member *member, const long *strides, int from, int to,
                         long *joined) {
    *joined = to > from ? strides[to - 1] : 0;
    for (int level = to - 1; level > from; level--)
        if (strides[level - 1] != strides[level] * loop_size(member->order[level])) return false;
    return true;
}

/* Subscripts are loops, or numbers that do not depend on the step. */
static bool is_plain_product(const Expr *access) {
    MUST(access->kind == EXPR_READ);
    for (int i = 0; i < access->count; i++) {
        const Expr *sub = access->args[i];
        const Index *step;
        double offset;
        if (sub->kind == EXPR_INDEX && !sub->index->of_repeat) continue;
        if (!step_and_offset(sub, &step, &offset) || offset < 0) return false;
        if (offset + (step ? (double)step->axis->size : 1) > (double)access->tensor->axes[i]->size)
            return false;
    }
    return true;
}

typedef struct MatrixStrides {
    long row, column; /* strides */
} MatrixStrides;

static bool as_matrix(const Expr *access, const Member *member, int rows, MatrixStrides *matrix) {
    long strides[MAX_LOOPS];
    return is_plain_product(access) && strides_of(access, member->order, member->depth, strides) &&
           join_strides(member, strides, 0, rows, &matrix->row) &&
           join_strides(member, strides, rows, member->depth, &matrix->column);
}

/* ---- sums ---- */

typedef struct EpilogueSum {
    ScheduleUnit *unit; /* to which the terms are added */
    const Member *member;
    int rows, results;
} EpilogueSum;

/* Accepts a number times the result, unless a term has been added. */
static bool take_factor(Contraction *fused, const Expr *term) {
    for (int i = 0; i < 2; i++) {
        const Expr *factor = term->args[i], *result = term->args[1 - i];
        if (factor->kind != EXPR_NUMBER || result->kind != EXPR_READ ||
            result->tensor != fused->c->tensor || (fused->product.epilogue_ops & ~MOEC_SCALE))
            continue;
        const bool again = fused->product.epilogue_ops & MOEC_SCALE;
        fused->product.scale = factor->number * (again ? fused->product.scale : 1);
        fused->product.epilogue_ops |= MOEC_SCALE;
        return true;
    }
    return false;
}

/* Accepts a sum if its terms are the result, once, and addable tensors. */
static bool take_terms(EpilogueSum *sum, Expr *term) {
    ScheduleUnit *unit = sum->unit;
    Contraction *fused = unit->contraction;
    MatrixStrides matrix;
    if (term->kind == EXPR_APPLY && term->op == OP_MUL)
        return take_factor(fused, term) && ++sum->results == 1;
    if (term->kind == EXPR_APPLY && term->op == OP_ADD)
        return take_terms(sum, term->args[0]) && take_terms(sum, term->args[1]);
    if (term->kind != EXPR_READ) return false;
    if (term->tensor == fused->c->tensor) return ++sum->results == 1;
    if (!as_matrix(term, sum->member, sum->rows, &matrix) || matrix.column != 1) return false;
    if (!unit->bias && matrix.row == 0) {
        unit->bias = term;
        return true;
    }
    if (unit->add || matrix.row < fused->product.n) return false;
    unit->add = term;
    fused->product.add_m = matrix.row;
    return true;
}

/* ---- the function ---- */

/* True if the value depends only on the result and on one other element, *other. */
static bool depends_on(Expr *expr, const Tensor *result, Expr **other) {
    if (expr->kind == EXPR_READ && expr->tensor != result) {
        if (!*other) *other = expr;
        return expr_equal(*other, expr);
    }
    for (int i = 0; expr->kind == EXPR_APPLY && i < expr->count; i++)
        if (!depends_on(expr->args[i], result, other)) return false;
    return expr->kind != EXPR_INDEX;
}

static double value_at(const Expr *expr, const Tensor *result, double x, double y) {
    double value[3] = {0};
    if (expr->kind == EXPR_READ) return expr->tensor == result ? x : y;
    if (expr->kind != EXPR_APPLY) return expr->number;
    for (int i = 0; i < expr->count; i++) value[i] = value_at(expr->args[i], result, x, y);
    return op_value(expr->op, value[0], value[1], value[2]);
}

static double gelu(double x, double *slope) {
    const double scale = sqrt(2 / acos(-1)), bend = 0.044715;
    double t = tanh(scale * (x + bend * x * x * x));
    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * bend * x * x);
    return 0.5 * x * (1 + t);
}

/* The function of the result, or the result times its derivative at the other element. Compares
 * values, because an equation can be written in many ways. */
static int function_of(const Expr *expr, const Tensor *result, const Expr *other) {
    bool forward = !other, back = other;
    for (double at = -6; at <= 6; at += 0.37) {
        double slope, wanted = gelu(at, &slope), allowed = 1e-7 * (1 + fabs(at));
        forward = forward && fabs(value_at(expr, result, at, 0) - wanted) <= allowed;
        for (double x = -2; x <= 3 && back; x += 2.5)
            back = fabs(value_at(expr, result, x, at) - x * slope) <= 3 * allowed;
    }
    return forward ? MOEC_GELU : back ? MOEC_GELU_BACK : 0;
}

/* ---- the product ---- */

void copy_product(ScheduleUnit *to, const ScheduleUnit *from) {
    Contraction *own = to->contraction;
    *own = *from->contraction;
    *to = *from;
    to->contraction = own;
}

static bool has_type(const Expr *operand, Type type) {
    return !operand || operand->tensor->type == type;
}

/* Adds the statement, a function, as the end of the epilogue; kept: the result has other
 * readers. */
static bool end_in_function(ScheduleUnit *unit, const Member *next, int rows, bool kept) {
    Contraction *fused = unit->contraction;
    Expr *other = NULL, *value = next->statement->value;
    MatrixStrides matrix = {fused->product.c_m, 1};
    if (!depends_on(value, fused->c->tensor, &other)) return false;
    int function = function_of(value, fused->c->tensor, other);
    if (function == MOEC_GELU_BACK &&
        (kept || fused->product.epilogue_ops || !as_matrix(other, next, rows, &matrix)))
        return false;
    if (function == MOEC_GELU_BACK || kept) {
        unit->kept = other ? other : fused->c;
        fused->product.kept_m = matrix.row;
    }
    fused->product.epilogue_ops |= function | (kept ? MOEC_KEEP : 0);
    return function && matrix.column == 1 && fused->product.kept_m % MOEC_VECTOR == 0;
}

static bool end_in_sum(ScheduleUnit *unit, const Member *next, int rows) {
    EpilogueSum sum = {unit, next, rows, 0};
    if (!take_terms(&sum, next->statement->value) || sum.results != 1) return false;
    unit->contraction->product.epilogue_ops |=
        (unit->add ? MOEC_ADD : 0) | (unit->bias ? MOEC_BIAS : 0);
    return true;
}

bool gemm_epilogue(ScheduleUnit *unit, const Member *first, const Member *next, bool kept) {
    const Contraction *product = unit->contraction;
    ScheduleUnit trial = *unit;
    Contraction fused = *product;
    const Statement *statement = next->statement;
    Expr *target = statement->target;
    int rows = row_loops(product, first);
    MatrixStrides matrix;
    if (rows < 0 || (product->product.epilogue_ops & FUNCTIONS) || statement->accumulate ||
        !as_matrix(target, next, rows, &matrix) || matrix.column != 1 ||
        matrix.row < product->product.n)
        return false;
    trial.contraction = &fused;
    if (!end_in_function(&trial, next, rows, kept)) {
        trial.kept = unit->kept;
        fused = *product;
        if (kept || !end_in_sum(&trial, next, rows)) return false;
    }
    Type type = target->tensor->type;
    if (!has_type(trial.add, type) || !has_type(trial.bias, type) || !has_type(trial.kept, type))
        return false;
    fused.c = target;
    fused.product.c_m = matrix.row;
    fused.product.c_type = type;
    copy_product(unit, &trial);
    return true;
}

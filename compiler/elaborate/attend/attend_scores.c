/* attend_scores: attention as equations, for biases that the call does not support.
 *
 *     o[s,h,c] = attend[t](q, k, v; mask = seen[s,t], bias = b[s,t,h], sink = z[s,h])
 *
 * means, with key head g and value head w of query head h,
 *
 *     score[h,s,t] = scale * (sum[e] q[s,h,e] * k[t,g,e]) + b[s,t,h]
 *     most[h,s]    = the largest visible score, and z[s,h]
 *     power[h,s,t] = exp(score[h,s,t] - most[h,s]) if visible, else 0
 *     total[h,s]   = (sum[t] power[h,s,t]) + exp(z[s,h] - most[h,s])
 *     o[s,h,c]     = (sum[t] power[h,s,t] * v[t,w,c]) / total[h,s]         0 if no key is visible
 */
#include "elaborate/elaborate.h"

/* The score of a masked key, below LEFT_OUT: a quarter of the largest float. */
#define FAR_AWAY (-8e37)

static Value *op(Elaborator *e, OpCode code, Value *a, Value *b) {
    return apply_op(e, code, a, b, NULL, a->span);
}

static Value *value_of_number(Elaborator *e, double value, Span span) {
    return value_number(e, value, span);
}

static Value *index_number(Elaborator *e, Index *index, Span span) {
    return value_tensor(e, expr_index(e->program, index), &index, 1, span);
}

static Value *both_conditions(Elaborator *e, Value *a, Value *b) {
    return !a ? b : !b ? a : op(e, OP_AND, a, b);
}

/* The condition of a pair of positions from the options of the call and the mask. NULL: all pairs
 * are visible. */
static Value *seen_pairs(Elaborator *e, const Attending *at) {
    Span span = at->node->span;
    Value *query = index_number(e, at->query->dims[0], span), *key = index_number(e, at->key, span);
    Value *seen = at->mask;
    if (at->options.mask != MASK_NONE) seen = both_conditions(e, seen, op(e, OP_LE, key, query));
    if (at->options.mask == MASK_WINDOW)
        seen = both_conditions(e, seen,
                               op(e, OP_LT, op(e, OP_SUB, query, key),
                                  value_of_number(e, (double)at->options.window, span)));
    if (at->documents) {
        Index *query_position = at->query->dims[0];
        Expr *to = expr_index(e->program, at->key);
        Value *theirs = value_tensor(
            e, expr_substitute(e->program, at->documents->expr, &query_position, &to, 1), &at->key,
            1, span);
        seen = both_conditions(e, seen, op(e, OP_EQ, at->documents, theirs));
    }
    return seen;
}

/* Keys or values of query head h at position t, with another index for their width. */
static Value *of_head(Elaborator *e, const Attending *at, const Value *value, Index *width) {
    Program *program = e->program;
    Index *head = at->query->dims[1], *dims[3] = {at->key, head, width};
    long share = head->axis->size / value->dims[1]->axis->size;
    Expr *own = expr_index(program, head);
    if (share > 1)
        own =
            expr_apply(program, OP_FLOOR,
                       expr_apply(program, OP_DIV, own, expr_number(program, (double)share), NULL),
                       NULL, NULL);
    if (value->dims[1]->axis->size == 1) own = expr_number(program, 0);
    Expr *to[3] = {expr_index(program, at->key), own, expr_index(program, width)};
    Index *from[3] = {value->dims[0], value->dims[1], value->dims[2]};
    return value_tensor(e, expr_substitute(program, value->expr, from, to, 3), dims, 3,
                        value->span);
}

/* A tensor over query head, query position and, with `pairs`, key position. */
static Value *define_attend_tensor(Elaborator *e, const Attending *at, const char *name, bool pairs,
                                   Value *value) {
    Index *dims[3] = {at->query->dims[1], at->query->dims[0], at->key};
    if (value->kind == KIND_ERROR) return value;
    return define(e, name, dims, pairs ? 3 : 2, REDUCE_NONE, NULL, 0, value_expr(e, value),
                  at->node->span);
}

static Value *scores(Elaborator *e, const Attending *at) {
    Span span = at->node->span;
    const Value *query = at->query;
    Index *width = index_new(e->program, query->dims[2]->name, query->dims[2]->axis);
    Index *own = query->dims[2], *dims[3] = {query->dims[0], query->dims[1], width};
    Expr *to = expr_index(e->program, width);
    Value *wide =
        value_tensor(e, expr_substitute(e->program, query->expr, &own, &to, 1), dims, 3, span);
    Value *product = op(e, OP_MUL, wide, of_head(e, at, at->keys, width));
    if (product->kind == KIND_ERROR) return product;
    Index *pairs[3] = {query->dims[1], query->dims[0], at->key};
    Value *score = define(e, "score", pairs, 3, REDUCE_SUM, &width, 1, product->expr, span);
    if (at->options.scale != 1)
        score = op(e, OP_MUL, score, value_of_number(e, at->options.scale, span));
    if (at->options.cap != 0) {
        Value *cap = value_of_number(e, at->options.cap, span);
        score = op(e, OP_MUL, op(e, OP_TANH, op(e, OP_DIV, score, cap), NULL), cap);
    }
    if (at->bias) score = op(e, OP_ADD, score, at->bias);
    return define_attend_tensor(e, at, "score", true, score);
}

/* The reduction over key positions. */
static Value *over_keys(Elaborator *e, Attending *at, const char *kind, Value *value) {
    Index *inner = index_new(e->program, at->key->name, at->key->axis);
    Expr *to = expr_index(e->program, inner);
    if (value->kind == KIND_ERROR) return value;
    Value *own = value_tensor(e, expr_substitute(e->program, value->expr, &at->key, &to, 1),
                              value->dims, value->rank, value->span);
    for (int i = 0; i < own->rank; i++)
        if (own->dims[i] == at->key) own->dims[i] = inner;
    return reduce(e, kind, &inner, 1, own, at->node->span);
}

static Value *where_seen(Elaborator *e, Value *seen, Value *value, double otherwise) {
    if (!seen) return value;
    return apply_op(e, OP_WHERE, seen, value, value_of_number(e, otherwise, value->span),
                    value->span);
}

Value *attend_scores(Elaborator *e, Attending *at) {
    Span span = at->node->span;
    Value *seen = seen_pairs(e, at), *score = scores(e, at);
    if (score->kind == KIND_TENSOR) {
        if (at->bias) score->expr->tensor->span = at->bias->span;
        list_push(e->program->arena, &e->program->scores, score->expr->tensor);
    }
    Value *shown = where_seen(e, seen, score, FAR_AWAY);
    Value *most = over_keys(e, at, "max", shown);
    if (at->sink) most = op(e, OP_MAX, most, at->sink);
    most = op(e, OP_STOP, define_attend_tensor(e, at, "most", false, most), NULL);
    Value *power = op(e, OP_EXP, op(e, OP_SUB, shown, most), NULL);
    power = define_attend_tensor(e, at, "power", true, where_seen(e, seen, power, 0));
    Value *total = over_keys(e, at, "sum", power);
    if (at->sink) total = op(e, OP_ADD, total, op(e, OP_EXP, op(e, OP_SUB, at->sink, most), NULL));
    if (seen) {
        Value *any = op(e, OP_GT, total, value_of_number(e, 0, span));
        total = apply_op(e, OP_WHERE, any, total, value_of_number(e, 1, span), span);
    }
    total = define_attend_tensor(e, at, "total", false, total);
    Value *lse =
        define_attend_tensor(e, at, "lse", false, op(e, OP_ADD, most, op(e, OP_LOG, total, NULL)));
    Index *width = at->values->dims[2];
    Value *sum = over_keys(e, at, "sum", op(e, OP_MUL, power, of_head(e, at, at->values, width)));
    Value *output = op(e, OP_DIV, sum, total);
    if (output->kind == KIND_ERROR || lse->kind == KIND_ERROR) return value_error(e, span);
    Index *dims[3] = {at->query->dims[0], at->query->dims[1], width};
    Value *result = define(e, "attended", dims, 3, REDUCE_NONE, NULL, 0, output->expr, span);
    if (result->kind != KIND_ERROR)
        value_add_result(e, result, "lse", value_tensor(e, lse->expr, dims, 2, span));
    return result;
}

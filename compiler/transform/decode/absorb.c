/* absorb: MLA weight absorption: attention reads the cached tensors directly if keys and values are
 * linear in them.
 *
 *     k[b,s,h,w] = where(w < 4, sum[r] x[b,s,r] * up[r,h,w], z[b,s,w - 4])      cache x, cache z
 *     v[b,s,h,c] = sum[r] x[b,s,r] * down[r,h,c]
 *     o = attend(q, k, v)
 *   -->
 *     joined[b,s,u] = x and z concatenated                                      cached
 *     query[b,s,h,u] = sum[w] q[b,s,h,w] * (derivative of k[w] by joined[u])
 *     inner = attend(query, joined, joined)
 *     o[b,s,h,c] = sum[r] inner[b,s,h,r] * down[r,h,c]
 *
 * because q k = q (A x) = (q A) x, and sum p (D x) = D (sum p x). The cost of an earlier position
 * is then proportional to the width of the cache; keys and values of all heads are not recomputed.
 * If this costs more, or if the map depends on the position or is not linear, keys and values are
 * recomputed.
 *
 * Keys alone can be linear in a cached tensor that has their heads (narrow keys):
 *
 *     k[b,s,h,e] = sum[j] x[b,s,h,j] * wide[j,e]                                cache x
 *   -->
 *     narrow_query[b,s,h,j] = sum[e] q[b,s,h,e] * wide[j,e]
 *     o = attend(narrow_query, x, v)
 */
#include "transform/decode/decode.h"

#include "base/must.h"

enum { MAX_PARTS = 4, MAX_EQUATIONS = 32 /* in the derivation, counted once per read */ };

/* A cached tensor: [leading..., position, one dimension, others of size 1], columns first .. first
 * + size - 1 of the joined tensor. Or [leading..., position, key heads, one dimension]. */
typedef struct CacheColumns {
    Tensor *tensor;
    int dimension;
    int heads; /* the dimension of the key heads, or -1 */
    long first, size;
} CacheColumns;

typedef struct Absorb {
    Decode *decode;
    const Region *region;
    const Expr *query; /* [leading..., position, head, width] */
    const Axis *heads; /* key heads, if parts can have them; else NULL */
    CacheColumns parts[MAX_PARTS];
    int count;
    long width;  /* of the joined tensor */
    double work; /* of keys and values, per position */
    int equations;
    bool fits;
} Absorb;

/* The joined cache of some parts. */
typedef struct Join {
    Absorb of;
    const Block *block;
    Expr *joined;
} Join;

static Program *program_of(const Absorb *absorb) {
    return absorb->decode->program;
}

/* ---- cached tensors ---- */

static const CacheColumns *find_cache_part(const Absorb *absorb, const Tensor *tensor) {
    for (int i = 0; i < absorb->count; i++)
        if (absorb->parts[i].tensor == tensor) return &absorb->parts[i];
    return NULL;
}

static void add_part(Absorb *absorb, Tensor *tensor) {
    const Expr *query = absorb->query;
    CacheColumns part = {tensor, -1, -1, absorb->width, 1};
    int position = dimension_of(tensor, absorb->decode->step);
    absorb->fits &= position == query->count - 3 && absorb->count < MAX_PARTS;
    for (int i = 0; i < position; i++) absorb->fits &= tensor->axes[i] == query->tensor->axes[i];
    for (int i = position + 1; i < tensor->rank; i++) {
        if (i == position + 1 && i == tensor->rank - 2 && tensor->axes[i] == absorb->heads) {
            part.heads = i;
            continue;
        }
        if (tensor->axes[i]->size == 1) continue;
        absorb->fits &= part.dimension < 0;
        part.dimension = i;
        part.size = tensor->axes[i]->size;
    }
    if (!absorb->fits || find_cache_part(absorb, tensor)) return;
    absorb->parts[absorb->count++] = part;
    absorb->width += part.size;
}

static void collect_columns(Absorb *absorb, Tensor *tensor);

static void collect_reads(Expr *expr, void *data) {
    Absorb *absorb = data;
    if (expr->kind == EXPR_READ && dimension_of(expr->tensor, absorb->decode->step) >= 0)
        collect_columns(absorb, expr->tensor);
}

/* Collects the parts from which a tensor is computed. */
static void collect_columns(Absorb *absorb, Tensor *tensor) {
    if (!absorb->fits) return;
    if (tensor->cached) {
        add_part(absorb, tensor);
        return;
    }
    const Statement *writer = only_writer(absorb->region->block, tensor);
    absorb->fits &= writer != NULL && ++absorb->equations <= MAX_EQUATIONS;
    if (!absorb->fits) return;
    double work = 2;
    for (int i = 0; i < writer->loop_count; i++)
        if (writer->loops[i]->axis->kind == AXIS_PLAIN)
            work *= (double)writer->loops[i]->axis->size;
    absorb->work += work;
    expr_walk(writer->value, collect_reads, absorb);
}

/* ---- derivatives by the parts ---- */

typedef struct Slope {
    const Absorb *absorb;
    const CacheColumns *part;
    Expr *column;       /* of the part */
    const Expr *target; /* of the equation; NULL: the operand of attention itself */
} Slope;

/* True if the part has no heads, or if the read is of the head of the target. */
static bool same_head(const Slope *slope, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    if (slope->part->heads < 0 || !slope->target) return true;
    const Expr *head = slope->target->args[slope->target->count - 2],
               *sub = read->args[read->count - 2];
    return sub->kind == EXPR_INDEX && head->kind == EXPR_INDEX && sub->index == head->index;
}

static void find_position(Expr *expr, void *data) {
    void **search = data;
    const Axis *step = search[0];
    if (expr->kind == EXPR_INDEX && expr->index->axis == step) *(bool *)search[1] = true;
}

static bool uses_position(const Slope *slope, Expr *expr) {
    bool found = false;
    expr_walk(expr, find_position, (void *[]){slope->absorb->decode->step, &found});
    return found;
}

static Expr *slope_of(const Slope *slope, Expr *expr);

/* The derivative of sum[r] x[s,r] * factor[r] by x[s,u] is factor[u]. */
static Expr *slope_of_sum(const Slope *slope, const Statement *writer, Expr *value) {
    MUST(writer->kind == STATEMENT_LOOP);
    Program *program = program_of(slope->absorb);
    if (value->kind != EXPR_APPLY || value->op != OP_MUL) return NULL;
    int side = uses_position(slope, value->args[1]);
    Expr *read = value->args[side], *factor = value->args[1 - side];
    if (read->kind != EXPR_READ || uses_position(slope, factor)) return NULL;
    const CacheColumns *part = find_cache_part(slope->absorb, read->tensor);
    if (!part || part->dimension < 0 || !same_head(slope, read)) return NULL;
    Expr *sub = read->args[part->dimension];
    int reduced = 0;
    for (int i = 0; i < writer->loop_count; i++)
        reduced += !expr_uses_index(writer->target, writer->loops[i]);
    if (sub->kind != EXPR_INDEX || reduced != 1 || expr_uses_index(writer->target, sub->index))
        return NULL;
    if (part != slope->part) return expr_number(program, 0);
    return expr_substitute(program, factor, &sub->index, (Expr *const[]){slope->column}, 1);
}

/* The derivative of the equation of a tensor at a read. */
static Expr *slope_of_read(const Slope *slope, const Expr *read) {
    Program *program = program_of(slope->absorb);
    const CacheColumns *part = find_cache_part(slope->absorb, read->tensor);
    if (part && part != slope->part) return expr_number(program, 0);
    if (!same_head(slope, read)) return NULL;
    if (part)
        return part->dimension < 0
                   ? expr_number(program, 1)
                   : expr_apply(program, OP_EQ, read->args[part->dimension], slope->column, NULL);
    const Statement *writer = only_writer(slope->absorb->region->block, read->tensor);
    if (!writer || (writer->reduction != REDUCE_NONE && writer->reduction != REDUCE_SUM))
        return NULL;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = 0; i < read->count; i++) {
        const Expr *at = writer->target->args[i];
        if (at->kind != EXPR_INDEX) return NULL;
        if (at->index->of_repeat) continue;
        from[count] = at->index;
        to[count++] = read->args[i];
    }
    const Slope inner = {slope->absorb, slope->part, slope->column, writer->target};
    MUST(count <= MAX_RANK);
    Expr *value = writer->value;
    if (writer->reduction == REDUCE_SUM)
        value = slope_of_sum(&inner, writer, value);
    else
        value = slope_of(&inner, value);
    return value ? expr_substitute(program, value, from, to, count) : NULL;
}

/* The derivative of the expression by one column of the part, if it does not depend on the
 * position. NULL if it does, or if the expression is not linear in the part. */
static Expr *slope_of(const Slope *slope, Expr *expr) {
    Program *program = program_of(slope->absorb);
    if (expr->kind == EXPR_READ && uses_position(slope, expr)) return slope_of_read(slope, expr);
    if (!uses_position(slope, expr)) return expr_is_number(expr, 0) ? expr : NULL;
    if (expr->kind != EXPR_APPLY) return NULL;
    Expr *a = expr->args[0], *b = expr->args[1], *c = expr->args[2];
    if (expr->op == OP_WHERE && !uses_position(slope, a)) {
        b = slope_of(slope, b), c = slope_of(slope, c);
        return b && c ? expr_apply(program, OP_WHERE, a, b, c) : NULL;
    }
    if (expr->op == OP_ADD || expr->op == OP_SUB) {
        a = slope_of(slope, a), b = slope_of(slope, b);
        return a && b ? expr_apply(program, expr->op, a, b, NULL) : NULL;
    }
    bool left = expr->op == OP_MUL && !uses_position(slope, a);
    if (!left && ((expr->op != OP_MUL && expr->op != OP_DIV) || uses_position(slope, b)))
        return NULL;
    Expr *grown = slope_of(slope, left ? b : a);
    return grown ? expr_apply(program, expr->op, left ? a : grown, left ? grown : b, NULL) : NULL;
}

/* The derivative of an operand of attention, whose last two subscripts are a head and a width. */
static Expr *operand_slope(const Absorb *absorb, const CacheColumns *part, const Expr *operand,
                           Expr *head, Expr *width, Expr *column) {
    MUST(operand->kind == EXPR_READ);
    Program *program = program_of(absorb);
    Expr *subs[MAX_RANK];
    for (int i = 0; i < operand->count; i++) subs[i] = operand->args[i];
    long heads = operand->tensor->axes[operand->count - 2]->size;
    long share = head->index->axis->size / heads;
    if (share > 1)
        head =
            expr_apply(program, OP_FLOOR,
                       expr_apply(program, OP_DIV, head, expr_number(program, (double)share), NULL),
                       NULL, NULL);
    subs[operand->count - 2] = head;
    subs[operand->count - 1] = width;
    const Slope slope = {absorb, part, column, NULL};
    return slope_of(&slope, expr_read(program, operand->tensor, subs));
}

/* ---- the statements ---- */

/* expr as a subscript of an axis of that size, clamped to it. */
static Expr *inside(Program *program, Expr *expr, long size) {
    expr = expr_apply(program, OP_MIN, expr, expr_number(program, (double)size - 1), NULL);
    return expr_apply(program, OP_MAX, expr, expr_number(program, 0), NULL);
}

static Expr *absorbed_column(const Absorb *absorb, const CacheColumns *part, Index *u) {
    Program *program = program_of(absorb);
    Expr *first = expr_number(program, (double)part->first);
    return inside(program, expr_apply(program, OP_SUB, expr_index(program, u), first, NULL),
                  part->size);
}

/* where(u is before the second part, values[0], where(before the third, values[1], ...)). */
static Expr *side_by_side(const Absorb *absorb, Index *u, Expr *const *values) {
    Program *program = program_of(absorb);
    Expr *all = values[absorb->count - 1];
    for (int i = absorb->count - 2; i >= 0; i--) {
        Expr *next = expr_number(program, (double)absorb->parts[i + 1].first);
        Expr *before = expr_apply(program, OP_LT, expr_index(program, u), next, NULL);
        all = expr_apply(program, OP_WHERE, before, values[i], all);
    }
    return all;
}

/* A tensor like the one read, with other sizes of its last dimensions. */
static Expr *like(const Absorb *absorb, const Expr *read, const char *name, Index *const *last,
                  int count) {
    MUST(read->kind == EXPR_READ);
    Program *program = program_of(absorb);
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK];
    for (int i = 0; i < read->count; i++) {
        int own = i - (read->count - count);
        axes[i] = own < 0 ? read->tensor->axes[i] : last[own]->axis;
        subs[i] = own < 0 ? read->args[i] : expr_index(program, last[own]);
    }
    Tensor *tensor =
        tensor_new(program, name, ROLE_TEMP, TYPE_REAL, read->count, axes, read->tensor->span);
    return expr_read(program, tensor, subs);
}

static void put_column(const Absorb *absorb, const Statement *attend, int behind, Expr *target,
                       Expr *value, Index *reduced) {
    Block made = {{NULL, 0, 0}}, *block = absorb->region->block;
    int at = 0;
    while (block->statements.items[at] != attend) at++;
    insert(absorb->decode, block, at + behind,
           statement_loop(program_of(absorb), &made, target, false,
                          reduced ? REDUCE_SUM : REDUCE_NONE, &reduced, reduced != NULL, value,
                          attend->span));
}

static bool same_parts(const Absorb *a, const Absorb *b) {
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++) same = a->parts[i].tensor == b->parts[i].tensor;
    return same;
}

/* All cached parts, concatenated, as one head; shared by all attention in a block. */
static Expr *join_cache_columns(const Absorb *absorb, const Statement *attend, Axis *wide) {
    LIST_EACH(const Join, join, &absorb->decode->joins)
        if (join->block == absorb->region->block && same_parts(&join->of, absorb))
            return join->joined;
    Program *program = program_of(absorb);
    const Expr *query = attend->inputs.items[0];
    Index *last[] = {index_new(program, "all", axis_new(program, "all", 1, AXIS_PLAIN, (Span){0})),
                     index_new(program, "u", wide)};
    Expr *joined = like(absorb, query, "joined", last, 2), *values[MAX_PARTS];
    for (int i = 0; i < absorb->count; i++) {
        const CacheColumns *part = &absorb->parts[i];
        Expr *subs[MAX_RANK];
        for (int j = 0; j < part->tensor->rank; j++)
            subs[j] = j == part->dimension   ? absorbed_column(absorb, part, last[1])
                      : j < query->count - 2 ? query->args[j]
                                             : expr_number(program, 0);
        values[i] = expr_read(program, part->tensor, subs);
    }
    put_column(absorb, attend, 0, joined, side_by_side(absorb, last[1], values), NULL);
    joined->tensor->cached = true;
    Join *join = arena_alloc(program->arena, sizeof *join);
    *join = (Join){*absorb, absorb->region->block, joined};
    list_push(program->arena, &absorb->decode->joins, join);
    return joined;
}

/* min(e, N - 1) is e. */
static void drop_bound(Expr *expr, void *data) {
    const Index *e = data;
    if (expr->kind != EXPR_APPLY || expr->op != OP_MIN) return;
    const Expr *index = expr->args[0], *most = expr->args[1];
    if (index->kind == EXPR_INDEX && index->index == e && most->kind == EXPR_NUMBER &&
        most->number >= (double)e->axis->size - 1)
        *expr = *index;
}

/* sum[w] q[w] * where(w < N, f[min(w, N - 1)], 0) is the product sum[e] q[e] * f[e] with an index
 * of size N. The derivative becomes f, and the query read its first columns. */
static Expr *narrowed(const Absorb *absorb, const Statement *attend, Expr *query, Expr **slope) {
    MUST(query->kind == EXPR_READ);
    Program *program = program_of(absorb);
    Expr *width = query->args[query->count - 1], *head = query->args[query->count - 2];
    const Expr *where = *slope, *below = where->kind == EXPR_APPLY ? where->args[0] : NULL;
    if (!below || where->op != OP_WHERE || !expr_is_number(where->args[2], 0) ||
        below->kind != EXPR_APPLY || below->op != OP_LT || below->args[0]->kind != EXPR_INDEX ||
        below->args[0]->index != width->index || below->args[1]->kind != EXPR_NUMBER)
        return query;
    long size = (long)below->args[1]->number;
    if (size < 1 || size >= width->index->axis->size) return query;
    Index *e = index_new(program, "e", axis_new(program, "e", size, AXIS_PLAIN, (Span){0}));
    Expr *first = like(absorb, query, "query_part", (Index *[]){head->index, e}, 2);
    Expr *subs[MAX_RANK], *to = expr_index(program, e);
    for (int i = 0; i < query->count; i++) subs[i] = query->args[i];
    subs[query->count - 1] = inside(program, to, width->index->axis->size);
    put_column(absorb, attend, 0, first, expr_read(program, query->tensor, subs), NULL);
    *slope = expr_substitute(program, where->args[1], &width->index, &to, 1);
    expr_walk(*slope, drop_bound, e);
    return first;
}

/* The query for one part, read at the column of the part among all. */
static Expr *query_for(const Absorb *absorb, const Statement *attend, const CacheColumns *part,
                       Index *column, Expr *slope, Index *u) {
    Program *program = program_of(absorb);
    Expr *query = attend->inputs.items[0], *subs[MAX_RANK];
    if (expr_is_number(slope, 0)) return slope;
    Expr *own = like(absorb, query, "joined_query_part",
                     (Index *[]){query->args[query->count - 2]->index, column}, 2);
    Expr *from = narrowed(absorb, attend, query, &slope);
    put_column(absorb, attend, 0, own, expr_apply(program, OP_MUL, from, slope, NULL),
               from->args[from->count - 1]->index);
    for (int i = 0; i < own->count; i++) subs[i] = own->args[i];
    subs[own->count - 1] = absorbed_column(absorb, part, u);
    return expr_read(program, own->tensor, subs);
}

/* Queries for the joined cache; false if keys are not linear in it. */
static bool join_query(const Absorb *absorb, Statement *attend, Axis *wide) {
    Program *program = program_of(absorb);
    Expr *query = attend->inputs.items[0], *values[MAX_PARTS], *slopes[MAX_PARTS];
    Expr *head = query->args[query->count - 2], *width = query->args[query->count - 1];
    Index *columns[MAX_PARTS], *u = index_new(program, "u", wide);
    for (int i = 0; i < absorb->count; i++) {
        const CacheColumns *part = &absorb->parts[i];
        columns[i] =
            index_new(program, "r", axis_new(program, "r", part->size, AXIS_PLAIN, (Span){0}));
        slopes[i] = operand_slope(absorb, part, attend->inputs.items[1], head, width,
                                  expr_index(program, columns[i]));
        if (!slopes[i]) return false;
    }
    for (int i = 0; i < absorb->count; i++)
        values[i] = query_for(absorb, attend, &absorb->parts[i], columns[i], slopes[i], u);
    Expr *target = like(absorb, query, "joined_query", (Index *[]){head->index, u}, 2);
    put_column(absorb, attend, 0, target, side_by_side(absorb, u, values), NULL);
    attend->inputs.items[0] = target;
    return true;
}

/* The single part from which values are computed, and their derivative by one of its columns; NULL
 * if there are several. */
static const CacheColumns *part_of_values(const Absorb *absorb, const Statement *attend,
                                          Index **column, Expr **slope) {
    Program *program = program_of(absorb);
    const Expr *value = attend->inputs.items[2], *o = attend->outputs.items[0];
    Expr *head = o->args[o->count - 2], *width = o->args[o->count - 1];
    const CacheColumns *found = NULL;
    for (int i = 0; i < absorb->count; i++) {
        const CacheColumns *part = &absorb->parts[i];
        Index *own =
            index_new(program, "r", axis_new(program, "r", part->size, AXIS_PLAIN, (Span){0}));
        Expr *grown = operand_slope(absorb, part, value, head, width, expr_index(program, own));
        if (!grown || (found && !expr_is_number(grown, 0))) return NULL;
        if (expr_is_number(grown, 0)) continue;
        found = part, *slope = grown, *column = own;
    }
    return found;
}

/* Attention returns sums of cached columns; o is computed from those of the values. */
static void take_values(const Absorb *absorb, Statement *attend, const CacheColumns *part,
                        Index *column, Expr *slope, Axis *wide) {
    Program *program = program_of(absorb);
    Expr *o = attend->outputs.items[0], *head = o->args[o->count - 2], *subs[MAX_RANK];
    Expr *inner = like(absorb, o, "joined_attended",
                       (Index *[]){head->index, index_new(program, "u", wide)}, 2);
    Expr *own = like(absorb, o, "own_attended", (Index *[]){head->index, column}, 2);
    for (int i = 0; i < o->count; i++) subs[i] = inner->args[i];
    Expr *position = expr_apply(program, OP_ADD, expr_index(program, column),
                                expr_number(program, (double)part->first), NULL);
    subs[o->count - 1] = inside(program, position, absorb->width);
    attend->outputs.items[0] = inner;
    put_column(absorb, attend, 1, o, expr_apply(program, OP_MUL, own, slope, NULL), column);
    put_column(absorb, attend, 1, own, expr_read(program, inner->tensor, subs), NULL);
}

/* True if this reduces the work of a step: per earlier position, without recomputation. */
static bool is_less(const Absorb *absorb, const Statement *attend) {
    const Expr *query = attend->inputs.items[0], *value = attend->inputs.items[2];
    double heads = (double)query->tensor->axes[query->count - 2]->size;
    double width = (double)query->tensor->axes[query->count - 1]->size,
           value_width = (double)value->tensor->axes[value->count - 1]->size;
    return 4 * heads * (double)absorb->width < absorb->work + 2 * heads * (width + value_width);
}

static Absorb absorb_of(Decode *decode, const Statement *attend, const Region *region) {
    Absorb found = {
        .decode = decode, .region = region, .query = attend->inputs.items[0], .fits = true};
    for (int i = 1; i <= 2 && found.fits; i++) {
        Tensor *tensor = ((Expr *)attend->inputs.items[i])->tensor;
        found.fits = !tensor->cached && follows(decode, tensor, region);
        collect_columns(&found, tensor);
    }
    found.fits &= found.count > 0 && is_less(&found, attend);
    return found;
}

/* Keys that are linear in one cached tensor with their heads: attention reads this tensor. The
 * work of a step is smaller if it is narrower than the keys. */
static void absorb_keys(Decode *decode, Statement *attend, const Region *region) {
    const Expr *query = attend->inputs.items[0], *key = attend->inputs.items[1];
    Absorb found = {.decode = decode,
                    .region = region,
                    .query = query,
                    .heads = key->tensor->axes[key->count - 2],
                    .fits = !key->tensor->cached && follows(decode, key->tensor, region)};
    collect_columns(&found, key->tensor);
    const CacheColumns *part = found.parts;
    if (!found.fits || found.count != 1 || part->heads < 0 || part->dimension < 0 ||
        part->size > key->tensor->axes[key->count - 1]->size)
        return;
    Program *program = decode->program;
    Index *column = index_new(program, "j", part->tensor->axes[part->dimension]);
    Expr *head = query->args[query->count - 2], *width = query->args[query->count - 1];
    Expr *slope = operand_slope(&found, part, key, head, width, expr_index(program, column));
    if (!slope) return;
    Expr *narrow = like(&found, query, "narrow_query", (Index *[]){head->index, column}, 2);
    Expr *subs[MAX_RANK];
    for (int i = 0; i < key->count; i++) subs[i] = key->args[i];
    subs[key->count - 1] = expr_index(program, column);
    put_column(&found, attend, 0, narrow,
               expr_apply(program, OP_MUL, attend->inputs.items[0], slope, NULL), width->index);
    attend->inputs.items[0] = narrow;
    attend->inputs.items[1] = expr_read(program, part->tensor, subs);
    program->has[HAS_ABSORBED] = true;
}

/* absorb: see decode.h. */
void absorb(Decode *decode, Statement *attend, const Region *region) {
    Program *program = decode->program;
    const Absorb found = absorb_of(decode, attend, region);
    if (!found.fits) {
        absorb_keys(decode, attend, region);
        return;
    }
    Axis *wide = axis_new(program, "joined", found.width, AXIS_PLAIN, (Span){0});
    Expr *slope = NULL;
    Index *column = NULL;
    const CacheColumns *part = part_of_values(&found, attend, &column, &slope);
    if (!part || !join_query(&found, attend, wide)) return;
    program->has[HAS_ABSORBED] = true;
    take_values(&found, attend, part, column, slope, wide);
    Expr *joined = join_cache_columns(&found, attend, wide);
    Index *here = joined->args[joined->count - 3]->index;
    Expr *position = expr_index(program, index_new(program, "t", decode->step));
    for (int i = 1; i <= 2; i++)
        attend->inputs.items[i] = expr_substitute(program, joined, &here, &position, 1);
}

/* sub_chunks: pairs of positions of a chunk if the decay differs along a summed dimension.
 *
 *     scores[i,j] = sum[e] q[i,e] * (a[j+1,e] * ... * a[i,e]) * k[j,e]
 *
 * is a product of two matrices without quotients if the decays are factors of q and k. Positions
 * are grouped in blocks; decays before a block border between i and j belong to k, those after it
 * to q.
 *
 *     rows[I,r,e] = start[I,r,e] * q[I,r,e]
 *     brought[I,J,c,e] = between[I,J,e] * rest[J,c,e] * k[J,c,e]              J < I, else 0
 *     far[I,r,J,c] = sum[e] rows[I,r,e] * brought[I,J,c,e]
 *     near[I,r,c] = sum[e] q[I,r,e] * since[I,r,c,e] * k[I,c,e]               within a block
 *
 * Chunks of 64 positions have 8 blocks of 8, those of 32 have 4.
 */
#include "transform/scan/scan.h"

static Expr *number_of(const Chunks *chunks, double number) {
    return expr_number(chunks->program, number);
}

static Expr *sub_chunk_apply(const Chunks *chunks, OpCode op, Expr *a, Expr *b) {
    return expr_apply(chunks->program, op, a, b, NULL);
}

static Expr *where(const Chunks *chunks, Expr *condition, Expr *yes, Expr *no) {
    return expr_apply(chunks->program, OP_WHERE, condition, yes, no);
}

/* Positions per block: tensors of pairs of blocks are larger than those of positions within one. */
static long block_width(long positions) {
    long width = 1;
    while (width * width < positions || positions % width) width++;
    return width;
}

/* ---- positions ---- */

static double width_of(const Chunks *chunks) {
    return (double)chunks->blocks.within->size;
}

/* The position in the chunk of a row of a block. */
static Expr *position_in(const Chunks *chunks, Expr *block, Expr *row) {
    return sub_chunk_apply(
        chunks, OP_ADD, sub_chunk_apply(chunks, OP_MUL, block, number_of(chunks, width_of(chunks))),
        row);
}

static Spot block_spot(const Chunks *chunks, Dims before, Index *block, Index *row, Dims behind) {
    Spot spot = chunk_spot(chunks, before, row, NULL, behind);
    if (block) spot.block = expr_index(chunks->program, block);
    return spot;
}

/* An expression over a position of the chunk, for a row of a block. */
static Expr *in_block(const Chunks *chunks, Expr *expr, Index *position, Index *block, Index *row) {
    Program *program = chunks->program;
    Expr *to = position_in(chunks, expr_index(program, block), expr_index(program, row));
    return expr_substitute(program, expr, &position, &to, 1);
}

/* ---- decays ---- */

static Expr *sub_chunk_row(const Chunks *chunks, Tensor *tensor, Spot at, OpCode op) {
    at.row = sub_chunk_apply(chunks, op, at.row, number_of(chunks, 1));
    return chunk_read(chunks, tensor, at);
}

static Expr *decay_at(const Chunks *chunks, const Spot *spot, Expr *row) {
    Spot at = chunk_spot(chunks, chunks->faded, NULL, NULL, chunks->element);
    at.row = position_in(chunks, spot->block, row);
    return chunk_read(chunks, chunks->decay, at);
}

static Expr *from_start(const Chunks *chunks, Spot at, Tensor *own) {
    Expr *first = sub_chunk_apply(chunks, OP_EQ, at.row, number_of(chunks, 0));
    Expr *before =
        where(chunks, first, number_of(chunks, 1), sub_chunk_row(chunks, own, at, OP_SUB));
    return multiply(chunks, before, decay_at(chunks, &at, at.row));
}

static Expr *to_end(const Chunks *chunks, Spot at, Tensor *own) {
    Expr *next = sub_chunk_apply(chunks, OP_ADD, at.row, number_of(chunks, 1));
    Expr *behind =
        multiply(chunks, sub_chunk_row(chunks, own, at, OP_ADD), decay_at(chunks, &at, next));
    Expr *last = number_of(chunks, width_of(chunks) - 1);
    return where(chunks, sub_chunk_apply(chunks, OP_LT, at.row, last), behind,
                 number_of(chunks, 1));
}

static Expr *within_block(const Chunks *chunks, Spot at, Tensor *own) {
    Expr *longer =
        multiply(chunks, sub_chunk_row(chunks, own, at, OP_SUB), decay_at(chunks, &at, at.row));
    return where(chunks, sub_chunk_apply(chunks, OP_LT, at.column, at.row), longer,
                 sub_chunk_apply(chunks, OP_EQ, at.column, at.row));
}

/* The products of the decays of all blocks after `other` and before the current one. */
static Expr *between_blocks(const Chunks *chunks, Spot at, Tensor *own) {
    Spot last = at;
    at.block = sub_chunk_apply(chunks, OP_SUB, at.block, number_of(chunks, 1));
    last.block = at.block;
    last.other_block = NULL;
    last.row = number_of(chunks, width_of(chunks) - 1);
    Expr *longer = multiply(chunks, chunk_read(chunks, own, at),
                            chunk_read(chunks, chunks->blocks.start, last));
    return where(chunks, sub_chunk_apply(chunks, OP_LT, at.other_block, at.block), longer,
                 sub_chunk_apply(chunks, OP_EQ, at.other_block, at.block));
}

void make_blocks(Chunks *chunks) {
    Program *program = chunks->program;
    const Recurrence *recurrence = chunks->recurrence;
    Blocks *blocks = &chunks->blocks;
    long width = block_width(chunks->positions->size);
    program->has[HAS_SUB_CHUNKS] = true;
    const char *axis = recurrence->scan->index->axis->name;
    Span span = recurrence->scan->span;
    blocks->blocks = axis_new(program, arena_format(program->arena, "%s_block", axis),
                              chunks->positions->size / width, AXIS_PLAIN, span);
    blocks->within = axis_new(program, arena_format(program->arena, "%s_in_block", axis), width,
                              AXIS_PLAIN, span);
    blocks->block = index_new(program, "block", blocks->blocks);
    blocks->other = index_new(program, "other", blocks->blocks);
    blocks->row = index_new(program, "r", blocks->within);
    blocks->column = index_new(program, "c", blocks->within);
    Index *position = index_new(program, "r", blocks->within);
    Spot at = block_spot(chunks, chunks->faded, blocks->block, position, chunks->element);
    blocks->start = chunk_recur(chunks, "start", at, position, false, from_start);
    position = index_new(program, "r", blocks->within);
    at.row = expr_index(program, position);
    blocks->rest = chunk_recur(chunks, "rest", at, position, true, to_end);
    position = index_new(program, "r", blocks->within);
    at.row = expr_index(program, position);
    at.column = expr_index(program, blocks->column);
    blocks->since = chunk_recur(chunks, "since", at, position, false, within_block);
    position = index_new(program, "block", blocks->blocks);
    at = block_spot(chunks, chunks->faded, position, NULL, chunks->element);
    at.other_block = expr_index(program, blocks->other);
    blocks->between = chunk_recur(chunks, "between", at, position, false, between_blocks);
}

/* ---- pairs ---- */

Tensor *block_keys(const Chunks *chunks, const Parts *parts) {
    const Blocks *blocks = &chunks->blocks;
    Spot at = block_spot(chunks, chunks->faded, blocks->other, blocks->column, chunks->element);
    Expr *key =
        in_block(chunks, chunk_key(chunks, parts), chunks->column, blocks->other, blocks->column);
    Expr *rest = multiply(chunks, key, chunk_read(chunks, blocks->rest, at));
    at = block_spot(chunks, chunks->faded, blocks->block, NULL, chunks->element);
    at.other_block = expr_index(chunks->program, blocks->other);
    Expr *value = multiply(chunks, rest, chunk_read(chunks, blocks->between, at));
    at.before = parts->left_heads;
    at.column = expr_index(chunks->program, blocks->column);
    at.behind = chunks->recurrence->summed;
    return chunk_make(chunks, "brought", at, 0, NULL, value);
}

/* Pairs of different blocks; those of the same block and of later ones are 0. */
static Expr *far_pairs(const Chunks *chunks, Expr *query, Dims query_heads, const Parts *parts,
                       bool past, Dims heads) {
    const Blocks *blocks = &chunks->blocks;
    Dims summed = chunks->recurrence->summed;
    Spot at = block_spot(chunks, chunks->faded, blocks->block, blocks->row, chunks->element);
    Expr *start = past ? sub_chunk_row(chunks, blocks->start, at, OP_SUB)
                       : chunk_read(chunks, blocks->start, at);
    if (past)
        start = where(chunks, sub_chunk_apply(chunks, OP_EQ, at.row, number_of(chunks, 0)),
                      number_of(chunks, 1), start);
    at = block_spot(chunks, query_heads | chunks->faded, blocks->block, blocks->row, summed);
    Tensor *rows = chunk_make(chunks, "rows", at, 0, NULL, multiply(chunks, query, start));
    Spot brought = block_spot(chunks, parts->left_heads, blocks->block, blocks->column, summed);
    brought.column = brought.row;
    brought.row = NULL;
    brought.other_block = expr_index(chunks->program, blocks->other);
    Expr *product =
        multiply(chunks, chunk_read(chunks, rows, at), chunk_read(chunks, parts->brought, brought));
    at.before = heads;
    at.behind = 0;
    at.other_block = brought.other_block;
    at.column = brought.column;
    return chunk_read(chunks, chunk_make(chunks, "far", at, summed, NULL, product), at);
}

static Expr *near_pairs(const Chunks *chunks, Expr *query, const Parts *parts, bool past,
                        Dims heads) {
    const Blocks *blocks = &chunks->blocks;
    Expr *key =
        in_block(chunks, chunk_key(chunks, parts), chunks->column, blocks->block, blocks->column);
    Spot at = block_spot(chunks, chunks->faded, blocks->block, blocks->row, chunks->element);
    at.column = expr_index(chunks->program, blocks->column);
    Expr *since = past ? sub_chunk_row(chunks, blocks->since, at, OP_SUB)
                       : chunk_read(chunks, blocks->since, at);
    Expr *product = multiply(chunks, multiply(chunks, query, since), key);
    if (past)
        product = where(chunks, sub_chunk_apply(chunks, OP_LT, at.column, at.row), product,
                        number_of(chunks, 0));
    at.before = heads;
    at.behind = 0;
    Tensor *near = chunk_make(chunks, "near", at, chunks->recurrence->summed, NULL, product);
    return chunk_read(chunks, near, at);
}

Tensor *block_pairs(const Chunks *chunks, const char *name, Expr *query, Dims query_heads,
                    const Parts *parts, bool past, Dims heads) {
    const Blocks *blocks = &chunks->blocks;
    Program *program = chunks->program;
    query = in_block(chunks, query, chunks->row, blocks->block, blocks->row);
    Expr *far = far_pairs(chunks, query, query_heads, parts, past, heads);
    Expr *near = near_pairs(chunks, query, parts, past, heads);
    Spot at = chunk_spot(chunks, heads, chunks->row, chunks->column, 0);
    Expr *width = number_of(chunks, width_of(chunks));
    Expr *block = expr_apply(program, OP_FLOOR, sub_chunk_apply(chunks, OP_DIV, at.row, width),
                             NULL, NULL),
         *other = expr_apply(program, OP_FLOOR, sub_chunk_apply(chunks, OP_DIV, at.column, width),
                             NULL, NULL);
    Index *from[] = {blocks->block, blocks->row, blocks->other, blocks->column};
    Expr *to[] = {block, sub_chunk_apply(chunks, OP_MOD, at.row, width), other,
                  sub_chunk_apply(chunks, OP_MOD, at.column, width)};
    Expr *value = where(chunks, sub_chunk_apply(chunks, OP_EQ, block, other),
                        expr_substitute(program, near, from, to, 4),
                        expr_substitute(program, far, from, to, 4));
    return chunk_make(chunks, name, at, 0, NULL, value);
}

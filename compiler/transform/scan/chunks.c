/* chunks: the tensors of the chunked form.
 *
 * Position s of the axis is row i of chunk n, s = C * n + i, counted from the end if the scan is
 * reversed. The last chunk may extend beyond the axis: inputs are 0 there and decays 1.
 *
 * Products of decays are computed by multiplication, as in the recurrence. Nothing is divided, and
 * a decay of 0 is valid:
 *
 *     since[n,i,j] = a[j+1] * ... * a[i]        1 where j == i, 0 where j > i
 *     whole[n,i]   = a[0] * ... * a[i]
 */
#include "transform/scan/scan.h"
#include "base/must.h"

static Expr *chunk_number(const Chunks *chunks, double number) {
    return expr_number(chunks->program, number);
}

static Expr *apply(const Chunks *chunks, OpCode op, Expr *a, Expr *b) {
    return expr_apply(chunks->program, op, a, b, NULL);
}

Expr *multiply(const Chunks *chunks, Expr *a, Expr *b) {
    return apply(chunks, OP_MUL, a, b);
}

Chunks chunks_of(const Recurrence *recurrence, Block *block, long chunk_size) {
    Program *program = recurrence->program;
    const Axis *axis = recurrence->scan->index->axis;
    Span span = recurrence->scan->span;
    Chunks chunks = {.recurrence = recurrence, .program = program, .block = block};
    MUST(chunk_size > 0);
    long count = (axis->size + chunk_size - 1) / chunk_size;
    const char *name = arena_format(program->arena, "%s_chunk", axis->name);
    chunks.chunk = axis_new(program, name, count, AXIS_PLAIN, span);
    name = arena_format(program->arena, "%s_in_chunk", axis->name);
    chunks.positions = axis_new(program, name, chunk_size, AXIS_PLAIN, span);
    chunks.number = index_new(program, "chunk", chunks.chunk);
    chunks.row = index_new(program, "i", chunks.positions);
    chunks.column = index_new(program, "j", chunks.positions);
    for (int i = 0; i < recurrence->target->count; i++) {
        const Index *own = recurrence->target->args[i]->index;
        Axis *own_axis = recurrence->target->tensor->axes[i];
        if (i == recurrence->position) continue;
        chunks.dims[i] = index_new(program, own->name, own_axis);
        chunks.other[i] = index_new(program, own->name, own_axis);
    }
    return chunks;
}

Spot chunk_spot(const Chunks *chunks, Dims before, Index *row, Index *column, Dims behind) {
    Program *program = chunks->program;
    Spot spot = {.before = before, .behind = behind};
    spot.number = expr_index(program, chunks->number);
    if (row) spot.row = expr_index(program, row);
    if (column) spot.column = expr_index(program, column);
    return spot;
}

static int add_dims(const Chunks *chunks, Dims dims, Index *const *indices, Expr **subs,
                    int count) {
    for (int i = 0; i < chunks->recurrence->target->count; i++)
        if (dims >> i & 1) subs[count++] = expr_index(chunks->program, indices[i]);
    return count;
}

static int subs_of(const Chunks *chunks, const Spot *spot, Expr **subs) {
    int count = add_dims(chunks, spot->before, chunks->dims, subs, 0);
    subs[count++] = spot->number;
    if (spot->block) subs[count++] = spot->block;
    if (spot->row) subs[count++] = spot->row;
    if (spot->other_block) subs[count++] = spot->other_block;
    if (spot->column) subs[count++] = spot->column;
    count = add_dims(chunks, spot->behind, chunks->dims, subs, count);
    count = add_dims(chunks, spot->other, chunks->other, subs, count);
    MUST(count <= MAX_RANK);
    return count;
}

Tensor *chunk_tensor(const Chunks *chunks, const char *name, const Spot *spot) {
    const Recurrence *recurrence = chunks->recurrence;
    Expr *subs[MAX_RANK];
    Axis *axes[MAX_RANK];
    int rank = subs_of(chunks, spot, subs);
    for (int i = 0; i < rank; i++) {
        MUST(subs[i]->kind == EXPR_INDEX);
        axes[i] = subs[i]->index->axis;
    }
    const char *whole =
        arena_format(chunks->program->arena, "%s_%s", recurrence->target->tensor->name, name);
    return tensor_new(chunks->program, whole, ROLE_TEMP, TYPE_REAL, rank, axes,
                      recurrence->scan->span);
}

Expr *chunk_read(const Chunks *chunks, Tensor *tensor, Spot spot) {
    Expr *subs[MAX_RANK];
    const int rank = subs_of(chunks, &spot, subs);
    MUST(rank == tensor->rank);
    return expr_read(chunks->program, tensor, subs);
}

Tensor *chunk_make(const Chunks *chunks, const char *name, Spot spot, Dims summed, Index *reduced,
                   Expr *value) {
    Tensor *tensor = chunk_tensor(chunks, name, &spot);
    Index *over[MAX_RANK];
    int count = 0;
    for (int i = 0; i < chunks->recurrence->target->count; i++)
        if (summed >> i & 1) over[count++] = chunks->dims[i];
    if (reduced) over[count++] = reduced;
    MUST(count <= MAX_RANK);
    statement_loop(chunks->program, chunks->block, chunk_read(chunks, tensor, spot), false,
                   count ? REDUCE_SUM : REDUCE_NONE, over, count, value,
                   chunks->recurrence->scan->span)
        ->again = true;
    return tensor;
}

/* ---- positions ---- */

static Expr *position_number(const Chunks *chunks, Index *row) {
    Expr *first = apply(chunks, OP_MUL, expr_index(chunks->program, chunks->number),
                        chunk_number(chunks, (double)chunks->positions->size));
    return apply(chunks, OP_ADD, first, expr_index(chunks->program, row));
}

static Expr *chunk_position(const Chunks *chunks, Index *row) {
    const Statement *scan = chunks->recurrence->scan;
    Expr *number = position_number(chunks, row);
    if (!scan->reverse) return number;
    return apply(chunks, OP_SUB, chunk_number(chunks, (double)scan->index->axis->size - 1), number);
}

static Expr *moved(const Chunks *chunks, Expr *expr, Expr *position) {
    const Recurrence *recurrence = chunks->recurrence;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = 0; i < recurrence->target->count; i++) {
        if (i == recurrence->position && !position) continue;
        from[count] = recurrence->target->args[i]->index;
        to[count++] =
            i == recurrence->position ? position : expr_index(chunks->program, chunks->dims[i]);
    }
    MUST(count <= MAX_RANK);
    return expr_substitute(chunks->program, expr, from, to, count);
}

Expr *at_dims(const Chunks *chunks, Expr *expr) {
    return moved(chunks, expr, NULL);
}

/* An expression over position and indices of the state, for a position of a chunk; `outside` after
 * the end of the axis. */
static Expr *value_at_row(const Chunks *chunks, Expr *expr, Index *row, double outside) {
    long size = chunks->recurrence->scan->index->axis->size;
    Expr *value = moved(chunks, expr, chunk_position(chunks, row));
    if (size == chunks->chunk->size * chunks->positions->size) return value;
    Expr *there =
        apply(chunks, OP_LT, position_number(chunks, row), chunk_number(chunks, (double)size));
    return expr_apply(chunks->program, OP_WHERE, there, value, chunk_number(chunks, outside));
}

Tensor *chunk_part(const Chunks *chunks, const char *name, const List *factors, double number,
                   Index *row, Dims behind, Dims *heads) {
    *heads = dims_of_list(chunks->recurrence, factors) & ~behind;
    if (!factors->count && number == 1) return NULL;
    Expr *value =
        multiply(chunks, chunk_number(chunks, number), product_of(chunks->program, factors));
    return chunk_make(chunks, name, chunk_spot(chunks, *heads, row, NULL, behind), 0, NULL,
                      value_at_row(chunks, value, row, 0));
}

/* Keys times the decays up to the end of the chunk, if decays differ along them. */
static void leave(const Chunks *chunks, Parts *parts) {
    Expr *key = chunk_key(chunks, parts);
    Spot at = chunk_spot(chunks, chunks->faded, chunks->column, NULL, chunks->element);
    Expr *rest = chunk_read(chunks, chunks->rest, at);
    at.before = parts->left_heads = parts->summed_heads | chunks->faded;
    at.behind = chunks->recurrence->summed;
    parts->left = chunk_make(chunks, "key_left", at, 0, NULL, multiply(chunks, key, rest));
    parts->brought = block_keys(chunks, parts);
}

Parts parts_of(const Chunks *chunks, const Input *input) {
    const Recurrence *recurrence = chunks->recurrence;
    Parts parts = {.columns = dims_of_list(recurrence, &input->column) & recurrence->columns};
    parts.summed = chunk_part(chunks, "key", &input->summed, 1, chunks->column, recurrence->summed,
                              &parts.summed_heads);
    parts.left = parts.summed;
    parts.left_heads = parts.summed_heads;
    if (chunks->element) leave(chunks, &parts);
    parts.value = chunk_part(chunks, "value", &input->column, 1, chunks->column, parts.columns,
                             &parts.value_heads);
    parts.scale = chunk_part(chunks, "scale", &input->scale, input->number, chunks->column, 0,
                             &parts.scale_heads);
    return parts;
}

/* ---- decays ---- */

Tensor *chunk_recur(const Chunks *chunks, const char *name, Spot at, Index *position, bool reverse,
                    Expr *(*value)(const Chunks *chunks, Spot at, Tensor *own)) {
    Program *program = chunks->program;
    Span span = chunks->recurrence->scan->span;
    Statement *scan = statement_scan(program, chunks->block, position, reverse, span);
    scan->again = true;
    Tensor *tensor = chunk_tensor(chunks, name, &at);
    statement_assign(program, &scan->body, chunk_read(chunks, tensor, at),
                     value(chunks, at, tensor), span);
    scan_operands(program, scan);
    return tensor;
}

/* The value at a row further by `rows`. */
static Expr *row_by(const Chunks *chunks, Tensor *tensor, Spot at, double rows) {
    at.row = apply(chunks, OP_ADD, at.row, chunk_number(chunks, rows));
    if (rows < 0) at.row = apply(chunks, OP_SUB, at.row->args[0], chunk_number(chunks, -rows));
    return chunk_read(chunks, tensor, at);
}

static Expr *since_column(const Chunks *chunks, Spot at, Tensor *own) {
    Spot there = at;
    there.column = NULL;
    Expr *longer =
        multiply(chunks, row_by(chunks, own, at, -1), chunk_read(chunks, chunks->decay, there));
    return expr_apply(chunks->program, OP_WHERE, apply(chunks, OP_LT, at.column, at.row), longer,
                      apply(chunks, OP_EQ, at.column, at.row));
}

static Expr *since_border(const Chunks *chunks, Spot at, Tensor *own) {
    Expr *first = apply(chunks, OP_EQ, at.row, chunk_number(chunks, 0));
    Expr *before = expr_apply(chunks->program, OP_WHERE, first, chunk_number(chunks, 1),
                              row_by(chunks, own, at, -1));
    return multiply(chunks, before, chunk_read(chunks, chunks->decay, at));
}

static Expr *to_border(const Chunks *chunks, Spot at, Tensor *own) {
    Expr *behind =
        multiply(chunks, row_by(chunks, own, at, 1), row_by(chunks, chunks->decay, at, 1));
    return expr_apply(chunks->program, OP_WHERE, apply(chunks, OP_LT, at.row, chunk_last(chunks)),
                      behind, chunk_number(chunks, 1));
}

static Tensor *along_rows(const Chunks *chunks, const char *name, bool column, bool reverse,
                          Expr *(*value)(const Chunks *chunks, Spot at, Tensor *own)) {
    Index *position = index_new(chunks->program, chunks->row->name, chunks->positions);
    Spot at = chunk_spot(chunks, chunks->faded, position, column ? chunks->column : NULL,
                         chunks->element);
    return chunk_recur(chunks, name, at, position, reverse, value);
}

void make_decays(Chunks *chunks) {
    const Recurrence *recurrence = chunks->recurrence;
    if (!recurrence->decay) return;
    Dims dims = dims_of(recurrence, recurrence->decay);
    chunks->element = dims & recurrence->summed;
    chunks->faded = dims & ~recurrence->summed;
    Spot at = chunk_spot(chunks, chunks->faded, chunks->row, NULL, chunks->element);
    chunks->decay = chunk_make(chunks, "decay", at, 0, NULL,
                               value_at_row(chunks, recurrence->decay, chunks->row, 1));
    if (!chunks->element) chunks->since = along_rows(chunks, "since", true, false, since_column);
    chunks->whole = along_rows(chunks, "whole", false, false, since_border);
    if (!chunks->element) return;
    chunks->rest = along_rows(chunks, "rest", false, true, to_border);
    make_blocks(chunks);
}

/* The product of decays after position `column` up to `row`, 0 if that is earlier. */
static Expr *decay_since(const Chunks *chunks, Expr *row, Expr *column) {
    if (!chunks->decay) return apply(chunks, OP_LE, column, row);
    Spot at = chunk_spot(chunks, chunks->faded, NULL, NULL, 0);
    at.row = row;
    at.column = column;
    return chunk_read(chunks, chunks->since, at);
}

Expr *decay_whole(const Chunks *chunks, Expr *row) {
    if (!chunks->decay) return chunk_number(chunks, 1);
    Spot at = chunk_spot(chunks, chunks->faded, NULL, NULL, chunks->element);
    at.row = row;
    return chunk_read(chunks, chunks->whole, at);
}

/* ---- pairs of positions ---- */

Expr *chunk_pairs(const Chunks *chunks, const char *name, Expr *query, Dims query_heads,
                  const Parts *parts, bool past, Dims *heads) {
    Dims both = query_heads | parts->summed_heads;
    Spot at = chunk_spot(chunks, both, chunks->row, chunks->column, 0);
    *heads = both | chunks->faded;
    if (chunks->element) {
        at.before = *heads;
        return chunk_read(chunks,
                          block_pairs(chunks, name, query, query_heads, parts, past, *heads), at);
    }
    Tensor *pairs = chunk_make(chunks, name, at, chunks->recurrence->summed, NULL,
                               multiply(chunks, query, chunk_key(chunks, parts)));
    Expr *row = at.row;
    if (past) row = apply(chunks, OP_SUB, row, chunk_number(chunks, 1));
    return multiply(chunks, decay_since(chunks, row, at.column), chunk_read(chunks, pairs, at));
}

/* ---- inputs ---- */

Expr *chunk_last(const Chunks *chunks) {
    return chunk_number(chunks, (double)chunks->positions->size - 1);
}

Expr *chunk_scaled(const Chunks *chunks, const Parts *parts, Expr *value) {
    if (!parts->scale) return value;
    Spot at = chunk_spot(chunks, parts->scale_heads, chunks->column, NULL, 0);
    return multiply(chunks, value, chunk_read(chunks, parts->scale, at));
}

Expr *chunk_key(const Chunks *chunks, const Parts *parts) {
    Dims summed = chunks->recurrence->summed;
    return chunk_read(chunks, parts->summed,
                      chunk_spot(chunks, parts->summed_heads, chunks->column, NULL, summed));
}

Expr *chunk_value(const Chunks *chunks, const Parts *parts) {
    if (!parts->value) return expr_number(chunks->program, 1);
    return chunk_read(chunks, parts->value,
                      chunk_spot(chunks, parts->value_heads, chunks->column, NULL, parts->columns));
}

Expr *chunk_key_left(const Chunks *chunks, const Parts *parts) {
    Spot at =
        chunk_spot(chunks, parts->left_heads, chunks->column, NULL, chunks->recurrence->summed);
    return chunk_read(chunks, parts->left, at);
}

/* Values of positions times the decays up to the end of the chunk, over dimensions `behind`. */
Expr *chunk_left(const Chunks *chunks, const Parts *parts, const char *name, Expr *value,
                 Dims heads, Spot *at) {
    Expr *since = chunk_number(chunks, 1);
    at->before = heads | parts->scale_heads;
    if (!chunks->element) {
        since = decay_since(chunks, chunk_last(chunks), at->row);
        at->before |= chunks->faded;
    }
    Tensor *left = chunk_make(chunks, name, *at, 0, NULL,
                              multiply(chunks, chunk_scaled(chunks, parts, since), value));
    return chunk_read(chunks, left, *at);
}

/* chunks: the parts of the chunked form.
 *
 * Place s of the axis is row i of chunk n, s = C * n + i, from the end when the scan goes down. The
 * last chunk may be longer than what is left of the axis: inputs are 0 there and decays 1.
 *
 * Products of decays are made by multiplying, as the recurrence does, so that nothing is divided
 * and a decay of 0 is one:
 *
 *     since[n,i,j] = a[j+1] * ... * a[i]        1 where j == i, 0 where j > i
 *     whole[n,i]   = a[0] * ... * a[i]
 */
#include "transform/scan/scan.h"

static Expr *number_of(const Chunks *chunks, double number) {
    return expr_number(chunks->program, number);
}

static Expr *apply(const Chunks *chunks, OpCode op, Expr *a, Expr *b) {
    return expr_apply(chunks->program, op, a, b, NULL);
}

Expr *multiply(const Chunks *chunks, Expr *a, Expr *b) {
    return apply(chunks, OP_MUL, a, b);
}

Chunks chunks_of(const Recurrence *recurrence, Block *block, long places) {
    Program *program = recurrence->program;
    const Axis *axis = recurrence->scan->index->axis;
    Span span = recurrence->scan->span;
    Chunks chunks = {.recurrence = recurrence, .program = program, .block = block};
    long count = (axis->size + places - 1) / places;
    const char *name = arena_format(program->arena, "%s_chunk", axis->name);
    chunks.chunk = axis_new(program, name, count, AXIS_PLAIN, span);
    name = arena_format(program->arena, "%s_in_chunk", axis->name);
    chunks.places = axis_new(program, name, places, AXIS_PLAIN, span);
    chunks.number = index_new(program, "chunk", chunks.chunk);
    chunks.row = index_new(program, "i", chunks.places);
    chunks.column = index_new(program, "j", chunks.places);
    for (int i = 0; i < recurrence->target->count; i++) {
        const Index *own = recurrence->target->args[i]->index;
        Axis *own_axis = recurrence->target->tensor->axes[i];
        if (i == recurrence->place) continue;
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
    if (spot->row) subs[count++] = spot->row;
    if (spot->column) subs[count++] = spot->column;
    count = add_dims(chunks, spot->behind, chunks->dims, subs, count);
    return add_dims(chunks, spot->other, chunks->other, subs, count);
}

Tensor *chunk_tensor(const Chunks *chunks, const char *name, const Spot *spot) {
    const Recurrence *recurrence = chunks->recurrence;
    Expr *subs[MAX_RANK];
    Axis *axes[MAX_RANK];
    int rank = subs_of(chunks, spot, subs);
    for (int i = 0; i < rank; i++) axes[i] = subs[i]->index->axis;
    const char *whole =
        arena_format(chunks->program->arena, "%s_%s", recurrence->target->tensor->name, name);
    return tensor_new(chunks->program, whole, ROLE_TEMP, TYPE_REAL, rank, axes,
                      recurrence->scan->span);
}

Expr *chunk_read(const Chunks *chunks, Tensor *tensor, Spot spot) {
    Expr *subs[MAX_RANK];
    subs_of(chunks, &spot, subs);
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
    statement_loop(chunks->program, chunks->block, chunk_read(chunks, tensor, spot), false,
                   count ? REDUCE_SUM : REDUCE_NONE, over, count, value,
                   chunks->recurrence->scan->span);
    return tensor;
}

/* ---- places ---- */

static Expr *place_number(const Chunks *chunks, Index *row) {
    Expr *first = apply(chunks, OP_MUL, expr_index(chunks->program, chunks->number),
                        number_of(chunks, (double)chunks->places->size));
    return apply(chunks, OP_ADD, first, expr_index(chunks->program, row));
}

static Expr *place_of(const Chunks *chunks, Index *row) {
    const Statement *scan = chunks->recurrence->scan;
    Expr *number = place_number(chunks, row);
    if (!scan->reverse) return number;
    return apply(chunks, OP_SUB, number_of(chunks, (double)scan->index->axis->size - 1), number);
}

static Expr *moved(const Chunks *chunks, Expr *expr, Expr *place) {
    const Recurrence *recurrence = chunks->recurrence;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = 0; i < recurrence->target->count; i++) {
        if (i == recurrence->place && !place) continue;
        from[count] = recurrence->target->args[i]->index;
        to[count++] = i == recurrence->place ? place : expr_index(chunks->program, chunks->dims[i]);
    }
    return expr_substitute(chunks->program, expr, from, to, count);
}

Expr *at_dims(const Chunks *chunks, Expr *expr) {
    return moved(chunks, expr, NULL);
}

Expr *at_place(const Chunks *chunks, Expr *expr, Index *row, double outside) {
    long size = chunks->recurrence->scan->index->axis->size;
    Expr *value = moved(chunks, expr, place_of(chunks, row));
    if (size == chunks->chunk->size * chunks->places->size) return value;
    Expr *there = apply(chunks, OP_LT, place_number(chunks, row), number_of(chunks, (double)size));
    return expr_apply(chunks->program, OP_WHERE, there, value, number_of(chunks, outside));
}

Tensor *chunk_part(const Chunks *chunks, const char *name, const List *factors, double number,
                   Index *row, Dims behind, Dims *heads) {
    *heads = dims_of_list(chunks->recurrence, factors) & ~behind;
    if (!factors->count && number == 1) return NULL;
    Expr *value = multiply(chunks, number_of(chunks, number), product_of(chunks->program, factors));
    return chunk_make(chunks, name, chunk_spot(chunks, *heads, row, NULL, behind), 0, NULL,
                      at_place(chunks, value, row, 0));
}

Parts parts_of(const Chunks *chunks, const Input *input) {
    const Recurrence *recurrence = chunks->recurrence;
    Parts parts = {.columns = dims_of_list(recurrence, &input->column) & recurrence->columns};
    parts.summed = chunk_part(chunks, "key", &input->summed, 1, chunks->column, recurrence->summed,
                              &parts.summed_heads);
    parts.value = chunk_part(chunks, "value", &input->column, 1, chunks->column, parts.columns,
                             &parts.value_heads);
    parts.scale = chunk_part(chunks, "scale", &input->scale, input->number, chunks->column, 0,
                             &parts.scale_heads);
    return parts;
}

/* ---- decays ---- */

/* A scan over the places of each chunk: tensor[i] = value, where value reads tensor[i-1]. */
static Tensor *recur(Chunks *chunks, const char *name, bool column,
                     Expr *(*value)(Chunks *chunks, Expr *place, Expr *before, Expr *decay)) {
    Program *program = chunks->program;
    Index *place = index_new(program, chunks->row->name, chunks->places);
    Statement *scan =
        statement_scan(program, chunks->block, place, false, chunks->recurrence->scan->span);
    Spot at = chunk_spot(chunks, chunks->faded, place, column ? chunks->column : NULL, 0),
         past = at, decay = chunk_spot(chunks, chunks->faded, place, NULL, 0);
    Tensor *tensor = chunk_tensor(chunks, name, &at);
    past.row = apply(chunks, OP_SUB, at.row, number_of(chunks, 1));
    Expr *made = value(chunks, at.row, chunk_read(chunks, tensor, past),
                       chunk_read(chunks, chunks->decay, decay));
    statement_loop(program, &scan->body, chunk_read(chunks, tensor, at), false, REDUCE_NONE, NULL,
                   0, made, chunks->recurrence->scan->span);
    scan_operands(program, scan);
    return tensor;
}

static Expr *since_column(Chunks *chunks, Expr *place, Expr *before, Expr *decay) {
    Expr *column = expr_index(chunks->program, chunks->column);
    return expr_apply(chunks->program, OP_WHERE, apply(chunks, OP_LT, column, place),
                      apply(chunks, OP_MUL, before, decay), apply(chunks, OP_EQ, column, place));
}

static Expr *since_border(Chunks *chunks, Expr *place, Expr *before, Expr *decay) {
    Expr *first = apply(chunks, OP_EQ, place, number_of(chunks, 0));
    return apply(chunks, OP_MUL,
                 expr_apply(chunks->program, OP_WHERE, first, number_of(chunks, 1), before), decay);
}

void make_decays(Chunks *chunks) {
    const Recurrence *recurrence = chunks->recurrence;
    if (!recurrence->decay) return;
    chunks->faded = dims_of(recurrence, recurrence->decay);
    Spot at = chunk_spot(chunks, chunks->faded, chunks->row, NULL, 0);
    chunks->decay = chunk_make(chunks, "decay", at, 0, NULL,
                               at_place(chunks, recurrence->decay, chunks->row, 1));
    chunks->since = recur(chunks, "since", true, since_column);
    chunks->whole = recur(chunks, "whole", false, since_border);
}

Expr *decay_since(const Chunks *chunks, Expr *row, Expr *column) {
    if (!chunks->decay) return apply(chunks, OP_LE, column, row);
    Spot at = chunk_spot(chunks, chunks->faded, NULL, NULL, 0);
    at.row = row;
    at.column = column;
    return chunk_read(chunks, chunks->since, at);
}

Expr *decay_whole(const Chunks *chunks, Expr *row) {
    if (!chunks->decay) return number_of(chunks, 1);
    Spot at = chunk_spot(chunks, chunks->faded, NULL, NULL, 0);
    at.row = row;
    return chunk_read(chunks, chunks->whole, at);
}

/* ---- inputs ---- */

Expr *chunk_last(const Chunks *chunks) {
    return number_of(chunks, (double)chunks->places->size - 1);
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

/* What is left at the end of a chunk of the values of its places, over dimensions `behind`. */
Expr *chunk_left(const Chunks *chunks, const Parts *parts, const char *name, Expr *value,
                 Dims heads, Spot *at) {
    Expr *since =
        decay_since(chunks, chunk_last(chunks), expr_index(chunks->program, chunks->column));
    at->before = heads | parts->scale_heads | chunks->faded;
    Tensor *left = chunk_make(chunks, name, *at, 0, NULL,
                              multiply(chunks, chunk_scaled(chunks, parts, since), value));
    return chunk_read(chunks, left, *at);
}

/* ring_cache: the last few positions of tensors that are read at a bounded distance.
 *
 *     y[b,s,d] = x[b,s - 1,d] + x[b,s - 3,d]
 *
 * keeps three positions. Each replaces the one three before it, after all reads of the step:
 *
 *     y[b,s,d] = where(position + s - 1 >= 0, ring_x[b,(position + s - 1) % 3,d], 0) + ...
 *     ring_x[b,(position + s) % 3,d] = x[b,s,d]
 *
 * With several new positions, those among them are read directly. The size of the ring buffer does
 * not depend on the number of new positions, because a prompt and the steps after it share it.
 */
#include "analysis/range.h"
#include "base/must.h"
#include "transform/decode/decode.h"

/* ---- maximum distance ---- */

typedef struct Looking {
    Decode *decode;
    const Statement *repeat, *scan;
} Looking;

/* The distance of a subscript from the current position `s`, as in s - 2 * w; NULL for others. */
static const Expr *distance_back(const Decode *decode, const Expr *sub) {
    if (sub->kind != EXPR_APPLY || sub->op != OP_SUB || sub->args[0]->kind != EXPR_INDEX ||
        sub->args[0]->index->axis != decode->step)
        return NULL;
    const Expr *back = sub->args[1];
    return back->kind == EXPR_INDEX || expr_counts(back) ? back : NULL;
}

static void find_step(Expr *expr, void *data) {
    const Decode *decode = ((void **)data)[0];
    bool *found = ((void **)data)[1];
    if (expr->kind == EXPR_INDEX &&
        (expr->index->axis == decode->step || expr->index->axis == decode->past))
        *found = true;
    if (expr->kind == EXPR_READ) *found = true;
}

/* The maximum distance, or -1: unbounded. */
static long most_back(const Decode *decode, const Expr *sub) {
    const Expr *back = distance_back(decode, sub);
    bool moves = false;
    if (!back) return -1;
    expr_walk((Expr *)back, find_step, (void *[]){(void *)decode, &moves});
    Range range = range_of(decode->program, back);
    return moves || range.low < 0 || range.high >= decode->past->size ? -1 : (long)range.high;
}

static void look_for_rings(Expr *expr, void *data) {
    const Looking *looking = data;
    Decode *decode = looking->decode;
    if (expr->kind != EXPR_READ || expr->tensor->id >= decode->count) return;
    int dimension = dimension_of(expr->tensor, decode->step);
    if (dimension < 0 || is_scanned(looking->scan, expr->tensor)) return;
    const Expr *sub = expr->args[dimension];
    if (sub->kind == EXPR_INDEX && sub->index->axis == decode->step) return;
    Back *back = &decode->back[expr->tensor->id];
    long places = most_back(decode, sub);
    if (places > back->places) back->places = places;
    /* the block that writes the tensor stores the ring buffer at its end, after all readers */
    const Statement *writer = looking->repeat;
    bool outside = back->block == &decode->program->body;
    if (places < 0 || (!outside && (!writer || back->block != &writer->body))) back->any = true;
}

static void look_in(Looking *looking, Block *block) {
    LIST_EACH(Statement, statement, &block->statements) {
        Looking inner = *looking;
        if (statement->kind == STATEMENT_REPEAT) inner.repeat = statement;
        if (statement_is_scan(statement)) inner.scan = statement;
        if (statement->kind == STATEMENT_LOOP) expr_walk(statement->value, look_for_rings, looking);
        if (inner.repeat != looking->repeat || inner.scan != looking->scan)
            look_in(&inner, &statement->body);
    }
}

/* Finds the block that writes each tensor. */
static void find_blocks(Decode *decode, Block *block) {
    LIST_EACH(Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_REPEAT) find_blocks(decode, &statement->body);
        for (int j = 0; j < decode->count && statement->kind != STATEMENT_REPEAT; j++)
            if (written(statement, decode->program->tensors.items[j])) {
                Back *back = &decode->back[j];
                back->any |= back->written && back->block != block;
                back->written = true;
                back->block = block;
            }
    }
}

void find_back(Decode *decode) {
    Program *program = decode->program;
    Looking looking = {.decode = decode};
    decode->count = program->tensors.count;
    decode->back = arena_alloc(program->arena, (size_t)decode->count * sizeof *decode->back);
    for (int i = 0; i < decode->count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        decode->back[i].block = &program->body;
        for (int j = 0; j < tensor->rank; j++)
            decode->back[i].any |= tensor->axes[j]->kind == AXIS_REPEAT;
        decode->back[i].any |= tensor->rank == MAX_RANK;
    }
    for (int i = 0; i < decode->kept.count; i++) /* attention reads all positions */
        decode->back[((Kept *)decode->kept.items[i])->tensor->id].any = true;
    find_blocks(decode, &program->body);
    look_in(&looking, &program->body);
}

/* ---- the ring buffer ---- */

static Tensor *new_ring(Decode *decode, Tensor *tensor, const Back *back, const Statement *repeat) {
    Program *program = decode->program;
    MUST(back->places > 0);
    Axis *places = axis_new(program, "back", back->places, AXIS_PLAIN, (Span){0});
    program->has[HAS_RING_CACHE] = true;
    const char *name = arena_format(program->arena, "ring_%s", tensor->name);
    Tensor *ring = cache_new(decode, name, tensor, places, repeat);
    bool both = find_kept(&decode->states, tensor); /* its last position is a state as well */
    ring->spec_name = both ? NULL : tensor->spec_name;
    ring->path = both ? arena_format(program->arena, "%s_places", tensor->name) : tensor->name;
    return ring;
}

static Expr *slot(Decode *decode, const Back *back, Expr *position) {
    Program *program = decode->program;
    return expr_apply(program, OP_MOD, position, expr_number(program, (double)back->places), NULL);
}

/* `ring[(position + s) % places] = tensor[s]` for the last new positions that fit. */
static void store_last(Decode *decode, Tensor *tensor, const Back *back, const Statement *repeat) {
    Program *program = decode->program;
    long fresh = decode->step->size, kept = fresh < back->places ? fresh : back->places;
    Axis *last = axis_new(program, "last", kept, AXIS_PLAIN, (Span){0});
    Expr *subs[MAX_RANK], *position = NULL;
    Index *loops[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) {
        Axis *axis = tensor->axes[i];
        loops[i] = index_new(program, axis->name, axis == decode->step ? last : axis);
        subs[i] = expr_index(program, loops[i]);
        if (axis != decode->step) continue;
        Expr *first = expr_number(program, (double)(fresh - kept));
        subs[i] = position =
            sub_over(program, expr_apply(program, OP_ADD, subs[i], first, NULL), axis);
    }
    MUST(position);
    Expr *value = expr_read(program, tensor, subs);
    Expr *at = slot(decode, back, absolute_position(decode, position));
    statement_loop(program, back->block, history_read(decode, value, back->cache, at, repeat),
                   false, REDUCE_NONE, loops, tensor->rank, value, tensor->span);
}

Expr *ring_read(Decode *decode, const Expr *raw, Expr *read, const Region *region) {
    Program *program = decode->program;
    Tensor *tensor = raw->tensor;
    Back *back = tensor->id < decode->count ? &decode->back[tensor->id] : NULL;
    if (!back || back->any || !back->places) return NULL;
    const Statement *repeat = back->block == &program->body ? NULL : region->repeat;
    if (!back->cache) {
        back->cache = new_ring(decode, tensor, back, repeat);
        store_last(decode, tensor, back, repeat);
    }
    int dimension = dimension_of(tensor, decode->step);
    MUST(dimension >= 0);
    Expr *zero = expr_number(program, 0), *position = read->args[dimension], *subs[MAX_RANK];
    Expr *before = history_read(decode, read, back->cache, slot(decode, back, position), repeat);
    before = expr_apply(program, OP_WHERE, expr_apply(program, OP_GE, position, zero, NULL), before,
                        zero);
    for (int i = 0; i < read->count; i++) subs[i] = i == dimension ? raw->args[i] : read->args[i];
    Range range = range_of(program, raw->args[dimension]);
    if (range.high < 0) return before;
    return expr_apply(program, OP_WHERE,
                      expr_apply(program, OP_GE, raw->args[dimension], zero, NULL),
                      expr_read(program, tensor, subs), before);
}

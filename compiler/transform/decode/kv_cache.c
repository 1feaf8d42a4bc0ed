/* kv_cache: tensors over all positions so far, for reads of earlier positions.
 *
 * A tensor that is read at earlier positions is written to a cache at position+s, directly after
 * its computation. If the layer has `cache t` for tensors from which it is computed position by
 * position, these are cached instead, and it is recomputed for all positions:
 *
 *     k[b,s,h,e] = sum[r] t[b,s,r] * up[r,h,e]
 *     o = attend(q, k, v)
 *   -->
 *     cache_t[b,position + s,r] = t[b,s,r]
 *     k_past[b,t,h,e] = sum[r] cache_t[b,t,r] * up[r,h,e]
 *     o = attend(q, k_past, v_past, position)
 *
 * Keys and values of sliding-window attention are kept in ring buffers, with room for the window
 * and the new positions of a step:
 *
 *     window_k[b,(position + s) % places,h,e] = k[b,s,h,e]
 *     o = attend(q, window_k, window_v, position; window)
 */
#include "transform/decode/decode.h"
#include "analysis/access.h"
#include "base/must.h"

#include "passes.h"

Expr *absolute_position(Decode *decode, Expr *position) {
    Program *program = decode->program;
    return expr_apply(program, OP_ADD, expr_read(program, decode->position, NULL), position, NULL);
}

Tensor *find_kept(const List *list, const Tensor *tensor) {
    const Kept *kept = list_find_by(list, offsetof(Kept, tensor), tensor);
    return kept ? kept->past : NULL;
}

void keep(Program *program, List *list, Tensor *tensor, Tensor *past) {
    Kept *kept = arena_alloc(program->arena, sizeof *kept);
    MUST(tensor != past && !find_kept(list, tensor));
    *kept = (Kept){.tensor = tensor, .past = past};
    list_push(program->arena, list, kept);
}

const Expr *written(const Statement *statement, const Tensor *tensor) {
    if (statement->kind == STATEMENT_LOOP)
        return statement->target->tensor == tensor ? statement->target : NULL;
    return list_find_by(&statement->outputs, offsetof(Expr, tensor), tensor);
}

void insert(Decode *decode, Block *block, int position, Statement *statement) {
    void *item = statement;
    list_insert(decode->program->arena, &block->statements, position, &(List){&item, 1, 1});
}

/* True if a dimension of the tensor already runs over a repeat: one slice per iteration. */
static bool is_stacked(const Tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->axes[i]->kind == AXIS_REPEAT) return true;
    return false;
}

Expr *history_read(Decode *decode, const Expr *read, Tensor *past, Expr *sub,
                   const Statement *repeat) {
    Expr *subs[MAX_RANK];
    int rank = 0, dimension = dimension_of(read->tensor, decode->step);
    MUST(dimension >= 0 && past->rank <= read->tensor->rank + (repeat != NULL));
    if (past->rank > read->tensor->rank) subs[rank++] = expr_index(decode->program, repeat->index);
    for (int i = 0; i < read->count; i++) subs[rank++] = i == dimension ? sub : read->args[i];
    MUST(rank <= MAX_RANK);
    return expr_read(decode->program, past, subs);
}

/* ---- caches ---- */

/* The row of a position in the cache; in a ring buffer it replaces an earlier one. */
static Expr *cache_row(Decode *decode, const Axis *rows, Expr *position) {
    Program *program = decode->program;
    Expr *row = absolute_position(decode, position);
    if (rows == decode->past) return row;
    return expr_apply(program, OP_MOD, row, expr_number(program, (double)rows->size), NULL);
}

/* cache[..., position + s, ...] = tensor[..., s, ...] over all elements that the statement
 * wrote. */
static Statement *store_rows(Decode *decode, Tensor *tensor, Tensor *past, const Expr *wrote,
                             const Statement *repeat) {
    Program *program = decode->program;
    Block made = {{NULL, 0, 0}};
    Expr *subs[MAX_RANK];
    Index *loops[MAX_RANK];
    int count = 0, dimension = dimension_of(tensor, decode->step);
    for (int i = 0; i < tensor->rank; i++) {
        bool fixed = wrote && tensor->axes[i]->kind == AXIS_REPEAT;
        if (!fixed) loops[count++] = index_over(program, tensor->axes[i]);
        subs[i] = fixed ? wrote->args[i] : expr_index(program, loops[count - 1]);
    }
    MUST(count <= MAX_RANK);
    Expr *read = expr_read(program, tensor, subs);
    MUST(dimension >= 0);
    const Axis *rows = past->axes[dimension + past->rank - tensor->rank];
    Expr *target =
        history_read(decode, read, past, cache_row(decode, rows, subs[dimension]), repeat);
    return statement_loop(program, &made, target, false, REDUCE_NONE, loops, count, read,
                          tensor->span);
}

/* The repeat whose body writes the tensor, NULL outside of any; *found: a statement writes it. */
static const Statement *find_writer(Block *block, const Tensor *tensor, const Statement *repeat,
                                    bool *found) {
    const Statement *result = NULL;
    LIST_EACH(Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_REPEAT) {
            const Statement *inner = find_writer(&statement->body, tensor, statement, found);
            if (inner) result = inner;
        } else if (written(statement, tensor)) {
            *found = true;
            result = repeat;
        }
    }
    return result;
}

/* Inserts a store after the last statement of each block that writes the tensor. */
static void add_stores(Decode *decode, Block *block, Tensor *tensor, Tensor *past,
                       const Statement *repeat) {
    int last = -1;
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_REPEAT)
            add_stores(decode, &statement->body, tensor, past, statement);
        if (written(statement, tensor)) last = i;
    }
    if (last < 0) return;
    const Expr *wrote = written(block->statements.items[last], tensor);
    insert(decode, block, last + 1, store_rows(decode, tensor, past, wrote, repeat));
}

Tensor *cache_new(Decode *decode, const char *name, const Tensor *tensor, Axis *rows,
                  const Statement *repeat) {
    Axis *axes[MAX_RANK];
    int rank = 0;
    if (repeat) axes[rank++] = repeat->index->axis;
    for (int i = 0; i < tensor->rank; i++) {
        Axis *axis = tensor->axes[i] == decode->step ? rows : tensor->axes[i];
        if (axis) axes[rank++] = axis;
    }
    MUST(rank <= MAX_RANK);
    return tensor_new(decode->program, name, ROLE_CACHE, tensor->type, rank, axes, tensor->span);
}

/* A cache with `rows` rows for a tensor over the new positions, stored after its computation. A
 * tensor that each iteration of a repeat computes gets the axis of the repeat as first
 * dimension. */
static Tensor *new_cache(Decode *decode, const char *name, Tensor *tensor, Axis *rows) {
    Program *program = decode->program;
    bool found = false;
    const Statement *repeat = find_writer(&program->body, tensor, NULL, &found);
    Tensor *past = cache_new(decode, name, tensor, rows, is_stacked(tensor) ? NULL : repeat);
    past->spec_name = tensor->spec_name;
    if (found)
        add_stores(decode, &program->body, tensor, past, NULL);
    else
        insert(decode, &program->body, 0,
               store_rows(decode, tensor, past, NULL, NULL)); /* an input */
    return past;
}

/* The cache over all positions so far; created at its first use. */
Tensor *cache(Decode *decode, Tensor *tensor) {
    Program *program = decode->program;
    Tensor *past = find_kept(&decode->kept, tensor);
    if (past) return past;
    const char *name = arena_format(program->arena, "cache_%s", tensor->name);
    past = new_cache(decode, name, tensor, decode->past);
    program->has[HAS_KV_CACHE] = true;
    bool both = find_kept(&decode->states, tensor); /* its last position is a state as well */
    past->path = both ? arena_format(program->arena, "%s_places", tensor->name) : tensor->name;
    keep(program, &decode->kept, tensor, past);
    return past;
}

/* ---- recomputation ---- */

/* The only statement of the block that writes the tensor, a plain equation; else NULL. */
Statement *only_writer(const Block *block, const Tensor *tensor) {
    Statement *writer = NULL;
    LIST_EACH(Statement, statement, &block->statements) {
        if (!written(statement, tensor)) continue;
        if (writer || statement->kind != STATEMENT_LOOP || statement->accumulate) return NULL;
        writer = statement;
    }
    return writer && !statement_is_scatter(writer) ? writer : NULL;
}

typedef enum Known { UNKNOWN, FOLLOWS, DOES_NOT } Known;

typedef struct Follow {
    Decode *decode;
    const Region *region;
    Known *known; /* by tensor->id: a residual stream is read twice in each layer */
    bool all;
} Follow;

static bool tensor_follows(Follow *follow, const Tensor *tensor);

static void check_follows(Expr *expr, void *data) {
    Follow *follow = data;
    if (expr->kind != EXPR_READ || !follow->all) return;
    int dimension = dimension_of(expr->tensor, follow->decode->step);
    if (dimension < 0) {
        /* weights, and values of the step that do not run over positions, are available */
        return;
    }
    if (expr->args[dimension]->kind != EXPR_INDEX || !tensor_follows(follow, expr->tensor))
        follow->all = false;
}

static bool value_follows(const Follow *follow, const Tensor *tensor) {
    if (tensor->cached) return true;
    if (tensor->role != ROLE_TEMP || is_stacked(tensor)) return false;
    const Statement *writer = only_writer(follow->region->block, tensor);
    if (!writer || runs_over(writer, follow->decode->past)) return false;
    Follow inner = *follow;
    inner.all = true;
    expr_walk(writer->value, check_follows, &inner);
    return inner.all; /* also a value that depends on the number of the position only */
}

static bool tensor_follows(Follow *follow, const Tensor *tensor) {
    Known *known = &follow->known[tensor->id];
    if (*known == UNKNOWN) *known = value_follows(follow, tensor) ? FOLLOWS : DOES_NOT;
    return *known == FOLLOWS;
}

/* True if the tensor can be recomputed from tensors named by `cache`. */
bool follows(Decode *decode, const Tensor *tensor, const Region *region) {
    size_t count = (size_t)decode->program->tensors.count;
    Follow follow = {.decode = decode, .region = region};
    follow.known = arena_alloc(decode->program->arena, count * sizeof *follow.known);
    return tensor_follows(&follow, tensor);
}

typedef struct Again {
    Decode *decode;
    const Region *region;
    const Statement *user;
    Index *position, *past;
} Again;

static Expr *again_expr(Again *again, Expr *expr) {
    Program *program = again->decode->program;
    if (expr->kind == EXPR_INDEX && expr->index == again->position)
        return expr_index(program, again->past);
    if (!expr->count) return expr;
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = again_expr(again, expr->args[i]);
    Expr *read = expr_with_args(program, expr, args);
    if (expr->kind == EXPR_APPLY) return read;
    int dimension = dimension_of(expr->tensor, again->decode->step);
    if (dimension < 0) return read;
    Tensor *past = kv_cache(again->decode, expr->tensor, again->region, again->user);
    return history_read(again->decode, read, past, args[dimension], again->region->repeat);
}

static Index *place_index(const Decode *decode, const Statement *statement) {
    const Expr *target = statement->target;
    MUST(dimension_of(target->tensor, decode->step) >= 0);
    return target->args[dimension_of(target->tensor, decode->step)]->index;
}

bool looks_elsewhere(const Decode *decode, const Expr *read) {
    MUST(read->kind == EXPR_READ);
    int dimension = dimension_of(read->tensor, decode->step);
    if (dimension < 0) return false;
    const Expr *sub = read->args[dimension];
    return sub->kind != EXPR_INDEX || sub->index->axis != decode->step;
}

static bool reads_earlier(const Decode *decode, const Statement *statement, const Tensor *tensor) {
    List reads = {0};
    bool found = false;
    reads_of(decode->program->arena, statement, &reads);
    for (int i = 0; i < reads.count && !found; i++) {
        const Expr *read = reads.items[i];
        found = read->tensor == tensor && looks_elsewhere(decode, read);
    }
    for (int i = 0; i < statement->body.statements.count && !found; i++)
        found = reads_earlier(decode, statement->body.statements.items[i], tensor);
    return found;
}

/* The first statement that reads earlier positions of the tensor, at most `user`: calls are visited
 * before equations. */
static const Statement *first_user(const Decode *decode, const Block *block, const Tensor *tensor,
                                   const Statement *user) {
    LIST_EACH(const Statement, statement, &block->statements)
        if (statement == user || reads_earlier(decode, statement, tensor)) return statement;
    return user;
}

/* Copies the equation of the tensor, over all positions, directly before the first statement that
 * reads earlier positions. */
static Tensor *compute_again(Decode *decode, Tensor *tensor, const Region *region,
                             const Statement *user) {
    Program *program = decode->program;
    const Statement *writer = only_writer(region->block, tensor);
    MUST(writer);
    user = first_user(decode, region->block, tensor, user);
    Again again = {decode, region, user, place_index(decode, writer),
                   index_new(program, "t", decode->past)};
    Axis *axes[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++)
        axes[i] = tensor->axes[i] == decode->step ? decode->past : tensor->axes[i];
    const char *name = arena_format(program->arena, "%s_past", tensor->name);
    Tensor *past =
        tensor_new(program, name, ROLE_TEMP, tensor->type, tensor->rank, axes, tensor->span);
    keep(program, &decode->kept, tensor, past);
    program->has[HAS_PAST_RECOMPUTED] = true;
    Expr *value = again_expr(&again, writer->value), *subs[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) subs[i] = again_expr(&again, writer->target->args[i]);
    Block made = {{NULL, 0, 0}};
    Statement *statement =
        statement_loop(program, &made, expr_read(program, past, subs), false, writer->reduction,
                       writer->loops, writer->loop_count, value, writer->span);
    int kept = 0; /* the position of the writer is not one of the new statement */
    for (int i = 0; i < statement->loop_count; i++)
        if (statement->loops[i] != again.position) statement->loops[kept++] = statement->loops[i];
    statement->loop_count = kept;
    int position = 0;
    while (region->block->statements.items[position] != user) position++;
    MUST(position < region->block->statements.count);
    insert(decode, region->block, position, statement);
    return past;
}

/* kv_cache: see decode.h. */
Tensor *kv_cache(Decode *decode, Tensor *tensor, const Region *region, const Statement *user) {
    Tensor *past = find_kept(&decode->kept, tensor);
    if (past) return past;
    if (tensor->cached || !follows(decode, tensor, region)) return cache(decode, tensor);
    return compute_again(decode, tensor, region, user);
}

/* ---- windows ---- */

enum { ROWS = 16 }; /* a GPU reads this number of cache rows at once */

/* True if ring buffers are sufficient for the attention: not if all positions are cached anyway, or
 * are recomputed. */
static bool sees_rings(Decode *decode, const Statement *attend, const Region *region) {
    MUST(attend->kind == STATEMENT_CALL);
    bool kept = true;
    for (int i = 1; i <= 2; i++) {
        const Tensor *tensor = ((const Expr *)attend->inputs.items[i])->tensor;
        if (!tensor->cached && follows(decode, tensor, region)) return false;
        kept &= find_kept(&decode->kept, tensor) != NULL;
    }
    return attend->attention.mask == MASK_WINDOW && !kept;
}

/* window_rows: see decode.h. The window before the first new query and the key of the last new
 * position are present at the same time. Steps of one token and of many have the same size, because
 * they share caches. */
Axis *window_rows(Decode *decode, const Statement *attend, const Region *region) {
    MUST(attend->kind == STATEMENT_CALL);
    long tokens = decode->step->size;
    if (tokens < MOEC_STEP_TOKENS) tokens = MOEC_STEP_TOKENS;
    long rows = (attend->attention.window + tokens - 1 + ROWS - 1) / ROWS * ROWS;
    if (rows >= decode->past->size || !sees_rings(decode, attend, region)) return NULL;
    for (int i = 0; i < decode->windows.count; i++)
        if (((Axis *)decode->windows.items[i])->size == rows) return decode->windows.items[i];
    Axis *axis = axis_new(decode->program, "window", rows, AXIS_PLAIN, (Span){0});
    list_push(decode->program->arena, &decode->windows, axis);
    return axis;
}

/* window_cache: see decode.h. */
Tensor *window_cache(Decode *decode, Tensor *tensor, Axis *rows) {
    Program *program = decode->program;
    LIST_EACH(const Kept, ring, &decode->rings)
        if (ring->tensor == tensor && dimension_of(ring->past, rows) >= 0) return ring->past;
    const char *name = arena_format(program->arena, "window_%s", tensor->name);
    Tensor *past = new_cache(decode, name, tensor, rows);
    program->has[HAS_WINDOW_CACHE] = true;
    past->path = past->name;
    keep(program, &decode->rings, tensor, past);
    return past;
}

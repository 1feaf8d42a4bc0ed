/* store_caches: stores caches in fewer bytes.
 *
 * Needs:   the program of a step with its caches as f32, and program->caches
 *          (inference.kv_cache_dtype).
 * Leaves:  keys, values and tensors named by `cache` with that type.
 *
 * bf16 changes only the type. For int8, each row of the last axis is integers in -127 .. 127 times
 * a scale: its largest absolute value divided by 127, computed when the row is stored. Attention
 * reads both: it sums products with the integers in f32 and multiplies by the scale once per row:
 *
 *     cache_k[b,position + s,h,e] = k[b,s,h,e]
 *     o = attend(q, cache_k, v, position)
 *   -->
 *     most[b,s,h] = max[e] abs(k[b,s,h,e])
 *     cache_k_scale[b,position + s,h] = most[b,s,h] / 127
 *     cache_k[b,position + s,h,e] = floor(where(most > 0, k[b,s,h,e] / most, 0) * 127 + 0.5)
 *     o = attend(q, cache_k, v, cache_k_scale, position; k scaled)
 *
 * Any other equation reads cache_k[...] * cache_k_scale[...]. The state of a recurrence stays f32:
 * its size does not grow with the positions, and each position would round it again.
 */
#include "transform/decode/decode.h"

#include "base/must.h"
#include "ir/call.h"
#include "passes.h"

#include <string.h>

enum { LARGEST = 127 };

/* True if the cache has rows: document ids have none, and a row of one number would need more
 * memory. */
static bool fits(const Tensor *cache) {
    if (cache->role != ROLE_CACHE || cache->type != TYPE_REAL) return false;
    const Axis *row = cache->rank ? cache->axes[cache->rank - 1] : NULL;
    return row && row->kind == AXIS_PLAIN && row->size > 1;
}

void store_cache(Decode *decode, Tensor *cache) {
    Program *program = decode->program;
    if (!fits(cache)) return;
    cache->type = program->caches;
    program->has[program->caches == TYPE_BYTE ? HAS_CACHE_INT8 : HAS_CACHE_BF16] = true;
    if (program->caches != TYPE_BYTE) return;
    Tensor *scale = tensor_new(program, arena_format(program->arena, "%s_scale", cache->name),
                               ROLE_CACHE, TYPE_REAL, cache->rank - 1, cache->axes, cache->span);
    scale->path = arena_format(program->arena, "%s_scale", cache->path);
    keep(program, &decode->scales, cache, scale);
}

static void choose_operands(Statement *statement, void *data) {
    if (statement->row && statement->row->store_caches)
        statement->row->store_caches(data, statement);
}

/* ---- stores ---- */

/* The statements before the store of a cache: most and the scale; the stored value becomes
 * integers. */
static void store_bytes(Decode *decode, Block *block, int position, Tensor *scale) {
    Program *program = decode->program;
    Statement *store = block->statements.items[position];
    Block made = {{NULL, 0, 0}};
    Index *loops[MAX_LOOPS], *row = store->target->args[scale->rank]->index;
    int count = 0;
    for (int i = 0; i < store->loop_count; i++)
        if (store->loops[i] != row) loops[count++] = store->loops[i];
    MUST(count <= MAX_LOOPS);
    const char *name = arena_format(program->arena, "%s_most", store->target->tensor->name);
    Expr *most = expr_read_indices(
        program, tensor_over(program, name, ROLE_TEMP, TYPE_REAL, loops, count, store->span),
        loops);
    Expr *size = expr_apply(program, OP_ABS, store->value, NULL, NULL);
    insert(decode, block, position,
           statement_loop(program, &made, most, false, REDUCE_MAX, &row, 1, size, store->span));
    Expr *steps = expr_number(program, LARGEST), *zero = expr_number(program, 0);
    insert(decode, block, position + 1,
           statement_loop(program, &made, expr_read(program, scale, store->target->args), false,
                          REDUCE_NONE, loops, count, expr_apply(program, OP_DIV, most, steps, NULL),
                          store->span));
    Expr *share = expr_apply(program, OP_WHERE, expr_apply(program, OP_GT, most, zero, NULL),
                             expr_apply(program, OP_DIV, store->value, most, NULL), zero);
    Expr *value = expr_apply(program, OP_MUL, share, steps, NULL);
    store->value =
        expr_apply(program, OP_FLOOR,
                   expr_apply(program, OP_ADD, value, expr_number(program, 0.5), NULL), NULL, NULL);
}

/* ---- reads ---- */

static void find_bytes(Expr *expr, void *data) {
    if (expr->kind == EXPR_READ && expr->tensor->type == TYPE_BYTE) *(bool *)data = true;
}

static bool reads_bytes(Expr *expr) {
    bool found = false;
    expr_walk(expr, find_bytes, &found);
    return found;
}

/* The expression with the scales of rows as factors. */
static Expr *times_scales(Decode *decode, Expr *expr) {
    Program *program = decode->program;
    if (!reads_bytes(expr)) return expr;
    Expr *args[MAX_RANK] = {NULL};
    for (int i = 0; i < expr->count; i++) args[i] = times_scales(decode, expr->args[i]);
    Expr *read = expr_with_args(program, expr, args);
    if (expr->kind == EXPR_APPLY) return read;
    Tensor *scale = find_kept(&decode->scales, expr->tensor);
    return scale ? expr_apply(program, OP_MUL, read, expr_read(program, scale, args), NULL) : read;
}

static void store_cache_of(Decode *decode, Block *block) {
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        bool loop = statement->kind == STATEMENT_LOOP;
        Tensor *scale = loop ? find_kept(&decode->scales, statement->target->tensor) : NULL;
        store_cache_of(decode, &statement->body);
        if (statement_is_scan(statement)) scan_operands(decode->program, statement);
        if (scale) {
            store_bytes(decode, block, i, scale);
            i += 2;
        } else if (loop) {
            statement->value = times_scales(decode, statement->value);
        }
    }
}

/* ---- the pass ---- */

/* Reports states, which keep their type. */
static void tell_states(const Decode *decode) {
    for (int i = 0; i < decode->states.count; i++) {
        const Tensor *state = ((const Kept *)decode->states.items[i])->tensor;
        report_warning(decode->program->reports, state->span,
                       "'%s' is the state of a recurrence and stays f32", state->name);
        report_help(decode->program->reports,
                    "inference.kv_cache_dtype applies to tensors that are cached for every "
                    "position");
    }
}

/* store_caches: see decode.h. */
void store_caches(Decode *decode) {
    Program *program = decode->program;
    if (program->caches == TYPE_REAL) return;
    block_walk(&program->body, choose_operands, decode);
    LIST_EACH(const Kept, kept, &decode->kept)
        if (kept->tensor->cached) store_cache(decode, kept->past);
    tell_states(decode);
    if (program->caches == TYPE_BYTE) store_cache_of(decode, &program->body);
}

void choose_caches(Program *program, const char *type) {
    if (!type || program->graph != GRAPH_DECODE) return;
    if (!strcmp(type, "int8")) program->caches = TYPE_BYTE;
    if (!strcmp(type, "bf16") && !program->rounded) program->caches = TYPE_BF16;
}

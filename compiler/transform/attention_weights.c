/* attention_weights: the weights of attention calls as tensors. A call returns the weighted sum of
 * the values and does not store the weights.
 *
 * Needs:   an elaborated program.
 * Leaves:  after each call, named after its result:
 *
 *     attended[b,s,h,c], attended_lse[b,s,h] = attend(q[b,s,h,e], k[b,t,g,e], v[b,t,g,c])
 * --> attended_score[b,h,s,t]   = sum[e] q[b,s,h,e] * k[b,t,floor(h*|g|/|h|),e]
 *     attended_weights[b,h,s,t] = where(t <= s, exp(scale * attended_score[b,h,s,t] -
 *                                                   attended_lse[b,s,h]), 0)
 */
#include "ir/call.h"
#include "passes.h"

#include <string.h>

typedef struct AttentionMap {
    Program *program;
    const Statement *call;
    Block made;
    Index *query, *key, *head, *width;
    Index *indices[MAX_RANK]; /* of the weights: leading ones, head, query, key */
    int rank;
} AttentionMap;

static Expr *with_last(const AttentionMap *map, const Expr *read, Expr *const *last, int count) {
    Expr *subs[MAX_RANK];
    for (int i = 0; i < read->count; i++) {
        const int from_end = read->count - i;
        subs[i] = from_end <= count ? last[count - from_end] : read->args[i];
    }
    return expr_read(map->program, read->tensor, subs);
}

static Expr *apply_two(const AttentionMap *map, OpCode op, Expr *a, Expr *b) {
    return expr_apply(map->program, op, a, b, NULL);
}

/* floor(h * |g| / |h|) */
static Expr *key_head_of(const AttentionMap *map, const Axis *heads) {
    Program *program = map->program;
    Expr *head = expr_index(program, map->head);
    if (heads->size == map->head->axis->size) return head;
    Expr *part = apply_two(map, OP_DIV,
                           apply_two(map, OP_MUL, head, expr_number(program, (double)heads->size)),
                           expr_number(program, (double)map->head->axis->size));
    return expr_apply(program, OP_FLOOR, part, NULL, NULL);
}

static Tensor *map_tensor(const AttentionMap *map, const char *what) {
    const Tensor *result = call_output(map->call, 0)->tensor;
    Arena *arena = map->program->arena;
    Tensor *tensor = tensor_over(map->program, arena_format(arena, "%s_%s", result->stem, what),
                                 ROLE_TEMP, TYPE_REAL, map->indices, map->rank, result->span);
    tensor->spec_name = arena_format(arena, "%s_%s", result->spec_name, what);
    return tensor;
}

static Expr *map_scores(AttentionMap *map) {
    Program *program = map->program;
    const Expr *q = call_input(map->call, 0), *k = call_input(map->call, 1);
    Expr *width = expr_index(program, map->width),
         *of_query[] = {expr_index(program, map->query), expr_index(program, map->head), width},
         *of_key[] = {expr_index(program, map->key),
                      key_head_of(map, k->tensor->axes[k->count - 2]), width};
    Expr *target = expr_read_indices(program, map_tensor(map, "score"), map->indices);
    statement_loop(
        program, &map->made, target, false, REDUCE_SUM, &map->width, 1,
        apply_two(map, OP_MUL, with_last(map, q, of_query, 3), with_last(map, k, of_key, 3)),
        map->call->span);
    return target;
}

/* Whether the key is visible to the query; NULL: always. */
static Expr *visible(const AttentionMap *map) {
    Program *program = map->program;
    const AttendOptions *options = &map->call->attention;
    Expr *query = expr_index(program, map->query), *key = expr_index(program, map->key),
         *seen = NULL;
    if (options->mask != MASK_NONE) seen = apply_two(map, OP_LE, key, query);
    if (options->mask == MASK_WINDOW)
        seen = apply_two(map, OP_AND, seen,
                         apply_two(map, OP_LT, apply_two(map, OP_SUB, query, key),
                                   expr_number(program, (double)options->window)));
    if (!options->documents) return seen;
    const Expr *document = call_input(map->call, attend_document(options));
    Expr *same = apply_two(map, OP_EQ, with_last(map, document, &query, 1),
                           with_last(map, document, &key, 1));
    return seen ? apply_two(map, OP_AND, seen, same) : same;
}

/* Its element outside of the table is not visible. */
static Expr *map_bias(const AttentionMap *map) {
    Program *program = map->program;
    const AttendOptions *options = &map->call->attention;
    Expr *distance =
        apply_two(map, OP_SUB, expr_index(program, map->query), expr_index(program, map->key));
    if (options->mask == MASK_NONE)
        distance = apply_two(map, OP_ADD, distance,
                             expr_number(program, (double)(map->key->axis->size - 1)));
    Expr *subs[] = {expr_index(program, map->head), distance};
    return with_last(map, call_input(map->call, attend_bias(options)), subs, 2);
}

static Expr *weight(const AttentionMap *map, Expr *score) {
    Program *program = map->program;
    const AttendOptions *options = &map->call->attention;
    Expr *of_query[] = {expr_index(program, map->query), expr_index(program, map->head)},
         *lse = with_last(map, call_output(map->call, 1), of_query, 2),
         *value = apply_two(map, OP_MUL, score, expr_number(program, options->scale));
    if (options->cap != 0) {
        Expr *cap = expr_number(program, options->cap);
        value =
            apply_two(map, OP_MUL, cap,
                      expr_apply(program, OP_TANH, apply_two(map, OP_DIV, value, cap), NULL, NULL));
    }
    if (options->bias) value = apply_two(map, OP_ADD, value, map_bias(map));
    value = expr_apply(program, OP_EXP, apply_two(map, OP_SUB, value, lse), NULL, NULL);
    Expr *seen = visible(map);
    return seen ? expr_apply(program, OP_WHERE, seen, value, expr_number(program, 0)) : value;
}

/* The statements of one call; none if the weights have too many dimensions. */
static Block weights_of(Program *program, const Statement *call) {
    const Expr *result = call_output(call, 0), *k = call_input(call, 1);
    const int count = result->count;
    AttentionMap map = {.program = program, .call = call};
    map.query = index_new(program, "s", result->tensor->axes[count - 3]);
    map.head = index_new(program, "h", result->tensor->axes[count - 2]);
    map.key = index_new(program, "t", k->tensor->axes[k->count - 3]);
    map.width = index_new(program, "e", k->tensor->axes[k->count - 1]);
    for (int i = 0; i < count - 3; i++)
        if (result->args[i]->kind == EXPR_INDEX && !result->args[i]->index->of_repeat)
            map.indices[map.rank++] = result->args[i]->index;
    if (map.rank + 3 > MAX_DIMENSIONS) return map.made;
    map.indices[map.rank++] = map.head;
    map.indices[map.rank++] = map.query;
    map.indices[map.rank++] = map.key;
    Expr *score = map_scores(&map),
         *target = expr_read_indices(program, map_tensor(&map, "weights"), map.indices);
    statement_assign(program, &map.made, target, weight(&map, score), call->span);
    return map.made;
}

static bool is_named(const Statement *call, const List *names) {
    const char *name = call_output(call, 0)->tensor->spec_name;
    const size_t length = name ? strlen(name) : 0;
    for (int i = 0; names && name && i < names->count; i++) {
        const char *wanted = names->items[i];
        if (strncmp(wanted, name, length)) continue;
        if (!strcmp(wanted + length, "_weights") || !strcmp(wanted + length, "_score")) return true;
    }
    return name && !names;
}

/* Attention is the call that reads caches of keys and values. */
static bool is_attention(const Statement *statement) {
    return statement->kind == STATEMENT_CALL && statement->row->store_caches;
}

static void map_block(Program *program, Block *block, const List *names) {
    List all = {0};
    LIST_EACH(Statement, statement, &block->statements) {
        list_push(program->arena, &all, statement);
        if (statement->kind == STATEMENT_REPEAT) map_block(program, &statement->body, names);
        if (!is_attention(statement) || !is_named(statement, names)) continue;
        const Block made = weights_of(program, statement);
        list_insert(program->arena, &all, all.count, &made.statements);
    }
    block->statements = all;
}

void attention_weights(Program *program, const List *names) {
    map_block(program, &program->body, names);
}

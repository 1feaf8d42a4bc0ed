/* attend_decode: attention to the caches of a decoding step. */
#include "calls/attend/attend_row.h"
#include "transform/decode/decode.h"

/* Chosen pairs of blocks of queries become those of the new queries:
 *
 *     now[b,s,h,t] = chosen[b,floor((position + s) / 8),h,t]
 *
 * Where only the key decides, chosen[b,0,h,t], t is the new position; those of earlier ones are
 * cached. */
static void spread_chosen(Decode *decode, Statement *attend, const Region *region) {
    Program *program = decode->program;
    AttendOptions *options = &attend->attention;
    if (!options->chosen || options->block[0] == 1) return;
    Block made = {{NULL, 0, 0}};
    Expr **operand = (Expr **)&attend->inputs.items[attend_chosen(options)];
    const Expr *chosen = *operand;
    const int rows = chosen->count - 3, last = chosen->count - 1;
    const bool by_key = chosen->tensor->axes[last] == decode->step;
    Index *loops[MAX_RANK], *query = index_new(program, decode->step->name, decode->step);
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < chosen->count; i++) {
        subs[i] = chosen->args[i];
        if (subs[i]->kind != EXPR_INDEX || subs[i]->index->of_repeat) continue;
        loops[rank] = i == rows ? query : subs[i]->index;
        if (i == last && by_key) {
            loops[rank] = index_new(program, subs[i]->index->name, decode->past);
            subs[i] = expr_index(program, loops[rank]);
        }
        axes[rank] = loops[rank]->axis;
        rank++;
    }
    Expr *size = expr_number(program, (double)options->block[0]),
         *at = absolute_position(decode, expr_index(program, query));
    subs[rows] =
        expr_apply(program, OP_FLOOR, expr_apply(program, OP_DIV, at, size, NULL), NULL, NULL);
    Tensor *now = tensor_new(program, arena_format(program->arena, "%s_now", chosen->tensor->name),
                             ROLE_TEMP, TYPE_REAL, rank, axes, attend->span);
    Expr *target = expr_read_indices(program, now, loops);
    Expr *value = expr_read(program, chosen->tensor, subs);
    if (by_key)
        value =
            history_read(decode, value, cache(decode, chosen->tensor), subs[last], region->repeat);
    Statement *spread =
        statement_loop(program, &made, target, false, REDUCE_NONE, NULL, 0, value, attend->span);
    list_push(program->arena, &decode->spread, now);
    insert(decode, region->block, list_find(&region->block->statements, attend), spread);
    *operand = target;
    options->block[0] = 1;
}

void attend_decode(Decode *decode, Statement *attend, const Region *region) {
    Program *program = decode->program;
    const Expr *query = attend->inputs.items[0];
    const Expr *key = attend->inputs.items[1];
    if (query->tensor->axes[query->count - 3] != decode->step ||
        key->tensor->axes[key->count - 3] != decode->step)
        return;
    spread_chosen(decode, attend, region);
    absorb(decode, attend, region);
    Axis *rows = window_rows(decode, attend, region);
    int document = attend->attention.documents ? attend_document(&attend->attention) : 0;
    for (int i = 1; i < attend_operands(&attend->attention); i++) {
        if (i > 2 && i != document) continue; /* a sink */
        bool ring = rows && i != document;
        const Expr *operand = attend->inputs.items[i];
        Tensor *past = ring ? window_cache(decode, operand->tensor, rows)
                            : kv_cache(decode, operand->tensor, region, attend);
        Index *place = index_new(program, "t", ring ? rows : decode->past);
        attend->inputs.items[i] =
            history_read(decode, operand, past, expr_index(program, place), region->repeat);
    }
    list_push(program->arena, &attend->inputs, expr_read(program, decode->position, NULL));
    attend->attention.position = true;
    program->by_decoding |= attend->attention.best > 0;
}

/* Keys and values of bytes have a scale per row. */
void attend_store_caches(Decode *decode, Statement *attend) {
    Program *program = decode->program;
    AttendOptions *options = &attend->attention;
    for (int i = 0; i < 2; i++) store_cache(decode, call_input(attend, 1 + i)->tensor);
    for (int i = 0; i < 2; i++) {
        const Expr *rows = attend->inputs.items[1 + i];
        Tensor *scale = find_kept(&decode->scales, rows->tensor);
        if (!scale) continue;
        void *read = expr_read(program, scale, rows->args);
        options->scaled[i] = true;
        list_insert(program->arena, &attend->inputs, attend_scale(options, i),
                    &(List){&read, 1, 1});
    }
}

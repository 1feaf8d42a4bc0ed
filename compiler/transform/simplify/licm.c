/* licm: moves a loop-invariant statement before its repeat.
 *
 *     repeat i < 6                                    angle[s,e] = s * rate[e]
 *         angle[s,e] = s * rate[e]            -->     repeat i < 6
 *         q[s,e] = x[i,s,e] * cos(angle[s,e])             q[s,e] = x[i,s,e] * cos(angle[s,e])
 */
#include "transform/simplify/simplify.h"

typedef struct Invariance {
    const DefUse *def_use;
    const Statement *repeat;
    bool varies;
} Invariance;

static void find_variation(Expr *expr, void *data) {
    Invariance *invariance = data;
    const DefUse *def_use = invariance->def_use;
    if (expr->kind == EXPR_INDEX && expr->index == invariance->repeat->index)
        invariance->varies = true;
    if (expr->kind != EXPR_READ) return;
    const List *writes = &def_use->facts[expr->tensor->id].writes;
    for (int i = 0; i < writes->count; i++)
        if (def_use->places[((Write *)writes->items[i])->position].repeat == invariance->repeat)
            invariance->varies = true;
}

static bool is_invariant(const DefUse *def_use, const Statement *repeat,
                         const Statement *statement) {
    Invariance invariance = {def_use, repeat, false};
    if (statement->kind == STATEMENT_REPEAT || statement->once || statement->accumulate)
        return false;
    if (statement->kind == STATEMENT_LOOP) {
        if (!def_use_is_plain(def_use, statement->target->tensor)) return false;
        invariance.varies = expr_uses_index(statement->target, repeat->index);
        expr_walk(statement->value, find_variation, &invariance);
    }
    for (int i = 0; i < statement->outputs.count; i++) {
        const Expr *output = statement->outputs.items[i];
        if (!def_use_is_plain(def_use, output->tensor) || expr_uses_index(output, repeat->index))
            return false;
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], find_variation, &invariance);
    return !invariance.varies;
}

/* For later statements, a moved statement is outside of the repeat. */
static void note_move(DefUse *def_use, const Statement *statement) {
    const List *outputs = &statement->outputs;
    for (int i = statement->kind == STATEMENT_LOOP ? -1 : 0; i < outputs->count; i++) {
        const Expr *target = i < 0 ? statement->target : outputs->items[i];
        const Write *write = def_use->facts[target->tensor->id].writes.items[0];
        def_use->places[write->position].repeat = NULL;
    }
}

/* Moves invariant statements of a repeat to the end of `outer`. */
static bool move_invariants(Arena *arena, DefUse *def_use, Statement *repeat, List *outer) {
    List *body = &repeat->body.statements, kept = {0};
    for (int i = 0; i < body->count; i++) {
        Statement *statement = body->items[i];
        bool moves = is_invariant(def_use, repeat, statement);
        list_push(arena, moves ? outer : &kept, statement);
        if (moves) note_move(def_use, statement);
    }
    bool changed = kept.count < body->count;
    *body = kept;
    return changed;
}

bool licm(Program *program) {
    DefUse *def_use = def_use_new(program);
    List outer = {0};
    bool changed = false;
    for (int i = 0; i < program->body.statements.count; i++) {
        Statement *statement = program->body.statements.items[i];
        if (statement->kind == STATEMENT_REPEAT)
            changed |= move_invariants(program->arena, def_use, statement, &outer);
        list_push(program->arena, &outer, statement);
    }
    program->body.statements = outer;
    return changed;
}

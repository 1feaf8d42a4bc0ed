/* licm: moves a loop-invariant statement before its repeat.
 *
 *     repeat i < 6                                    angle[s,e] = s * rate[e]
 *         angle[s,e] = s * rate[e]            -->     repeat i < 6
 *         q[s,e] = x[i,s,e] * cos(angle[s,e])             q[s,e] = x[i,s,e] * cos(angle[s,e])
 */
#include "transform/simplify/simplify.h"
#include "base/must.h"

/* Where statements are: those that moved are outside of the repeats. */
typedef struct Motion {
    const DefUse *def_use;
    bool *moved; /* by position */
} Motion;

typedef struct Invariance {
    const Motion *motion;
    const Statement *repeat;
    bool varies;
} Invariance;

static void find_variation(Expr *expr, void *data) {
    Invariance *invariance = data;
    const Motion *motion = invariance->motion;
    if (expr->kind == EXPR_INDEX && expr->index == invariance->repeat->index)
        invariance->varies = true;
    if (expr->kind != EXPR_READ) return;
    const List *writes = &motion->def_use->writes[expr->tensor->id];
    for (int i = 0; i < writes->count; i++) {
        const int position = ((TensorAccess *)writes->items[i])->position;
        invariance->varies |= !motion->moved[position] &&
                              motion->def_use->points[position].repeat == invariance->repeat;
    }
}

static bool is_invariant(const Motion *motion, const Statement *repeat,
                         const Statement *statement) {
    MUST(repeat->kind == STATEMENT_REPEAT);
    Invariance invariance = {motion, repeat, false};
    const DefUse *def_use = motion->def_use;
    if (statement->kind == STATEMENT_REPEAT || statement->once || statement->accumulate)
        return false;
    if (statement->kind == STATEMENT_LOOP) {
        if (!def_use_is_plain(def_use, statement->target->tensor)) return false;
        invariance.varies = expr_uses_index(statement->target, repeat->index);
        expr_walk(statement->value, find_variation, &invariance);
    }
    LIST_EACH(const Expr, output, &statement->outputs)
        if (!def_use_is_plain(def_use, output->tensor) || expr_uses_index(output, repeat->index))
            return false;
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], find_variation, &invariance);
    return !invariance.varies;
}

static void note_move(Motion *motion, const Statement *statement) {
    const Expr *target =
        statement->kind == STATEMENT_LOOP ? statement->target : statement->outputs.items[0];
    const TensorAccess *write = motion->def_use->writes[target->tensor->id].items[0];
    MUST(!motion->moved[write->position]);
    motion->moved[write->position] = true;
}

/* Moves invariant statements of a repeat to the end of `outer`. */
static bool move_invariants(Motion *motion, Statement *repeat, List *outer) {
    MUST(repeat->kind == STATEMENT_REPEAT);
    Arena *arena = motion->def_use->program->arena;
    List *body = &repeat->body.statements, kept = {0};
    LIST_EACH(Statement, statement, body) {
        bool moves = is_invariant(motion, repeat, statement);
        list_push(arena, moves ? outer : &kept, statement);
        if (moves) note_move(motion, statement);
    }
    bool changed = kept.count < body->count;
    *body = kept;
    return changed;
}

bool licm(Program *program) {
    const DefUse *def_use = def_use_new(program);
    Motion motion = {def_use, arena_alloc(program->arena, (size_t)def_use->count + 1)};
    List outer = {0};
    bool changed = false;
    LIST_EACH(Statement, statement, &program->body.statements) {
        if (statement->kind == STATEMENT_REPEAT)
            changed |= move_invariants(&motion, statement, &outer);
        list_push(program->arena, &outer, statement);
    }
    program->body.statements = outer;
    return changed;
}

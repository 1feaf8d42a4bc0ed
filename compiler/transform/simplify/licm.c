/* licm: a statement that says the same in every turn of a repeat is moved before the repeat.
 *
 *     repeat i < 6                                    angle[s,e] = s * rate[e]
 *         angle[s,e] = s * rate[e]            -->     repeat i < 6
 *         q[s,e] = x[i,s,e] * cos(angle[s,e])             q[s,e] = x[i,s,e] * cos(angle[s,e])
 */
#include "transform/simplify/simplify.h"

#include <string.h>

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

static void move(Arena *arena, List *from, int index, List *to, int place) {
    Statement *statement = from->items[index];
    memmove(&from->items[index], &from->items[index + 1],
            (size_t)(from->count - index - 1) * sizeof *from->items);
    from->count--;
    list_push(arena, to, NULL);
    memmove(&to->items[place + 1], &to->items[place],
            (size_t)(to->count - 1 - place) * sizeof *to->items);
    to->items[place] = statement;
}

bool licm(Program *program) {
    const DefUse *def_use = def_use_new(program);
    List *outer = &program->body.statements;
    bool changed = false;
    for (int i = 0; i < outer->count; i++) {
        Statement *repeat = outer->items[i];
        for (int j = 0; repeat->kind == STATEMENT_REPEAT && j < repeat->body.statements.count;) {
            if (!is_invariant(def_use, repeat, repeat->body.statements.items[j])) {
                j++;
                continue;
            }
            move(program->arena, &repeat->body.statements, j, outer, i++);
            def_use = def_use_new(program);
            changed = true;
        }
    }
    return changed;
}

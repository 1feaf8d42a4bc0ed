/* keyed_rows: facts about rows and the parameters that their keys select, for mesh_rows.c. */
#include "transform/mesh/keyed_rows.h"
#include "analysis/access.h"

/* ---- rows ---- */

/* The dimension of the mask, without that of a repeat, which is key number `number`; -1: none. */
static int key_dimension(const Relation *relation, int number) {
    int dimension = 0;
    for (int i = 0; i < relation->mask->rank; i++) {
        if (relation->mask->axes[i]->kind == AXIS_REPEAT) continue;
        if (relation->key[dimension] && number-- == 0) return dimension;
        dimension++;
    }
    return -1;
}

const Axis *key_axis(const Relation *relation, int number) {
    const int wanted = key_dimension(relation, number);
    int dimension = 0;
    for (int i = 0; i < relation->mask->rank && wanted >= 0; i++)
        if (relation->mask->axes[i]->kind != AXIS_REPEAT && dimension++ == wanted)
            return relation->mask->axes[i];
    return NULL;
}

bool has_own_keys(const Relation *relation) {
    int keys = 0;
    while (key_dimension(relation, keys) >= 0) keys++;
    return keys && relation->group_of_count == keys && !relation->outer;
}

RowSides *sides_of(const Keyed *keyed, const Axis *rows) {
    LIST_EACH(RowSides, sides, &keyed->sides)
        if (sides->rows == rows || sides->received == rows) return sides;
    return NULL;
}

int rows_dimension_of(const Keyed *keyed, const Tensor *tensor, RowSides **sides) {
    for (int i = 0; i < tensor->rank; i++)
        if ((*sides = sides_of(keyed, tensor->axes[i]))) return i;
    return -1;
}

bool is_keyed(const Tensor *tensor) {
    return tensor->placed[MESH_EXPERT].kind == PLACED_DIVIDED;
}

int key_number(const Keyed *keyed, const Expr *sub) {
    if (sub->kind != EXPR_READ || sub->count != 1 || sub->args[0]->kind != EXPR_INDEX) return -1;
    const Tensor *outer = outer_tensor(keyed, sub->tensor), *tensor = outer ? outer : sub->tensor;
    LIST_EACH(const Relation, relation, &keyed->program->relations) {
        if (!has_own_keys(relation) || !sides_of(keyed, relation->rows)) continue;
        for (int key = 0; key_dimension(relation, key) >= 0; key++)
            if (tensor == relation->coordinate[key_dimension(relation, key)]) return key;
    }
    return -1;
}

bool draws_numbers(const Keyed *keyed, const Expr *expr) {
    return keyed->apart && expr->kind == EXPR_APPLY && op_is_random(expr->op);
}

bool is_of_sender(const Keyed *keyed, const Tensor *tensor) {
    RowSides *sides;
    const bool apart = tensor->id < keyed->count && keyed->apart && keyed->varies[tensor->id],
               over = !keyed->apart && over_processes(tensor);
    return (apart || over) && rows_dimension_of(keyed, tensor, &sides) < 0 &&
           !has_nested_rows(keyed, tensor);
}

bool reads_keyed(const Keyed *keyed, const Expr *expr) {
    RowSides *sides;
    if (expr->kind == EXPR_READ &&
        (is_keyed(expr->tensor) || has_nested_rows(keyed, expr->tensor) ||
         (rows_dimension_of(keyed, expr->tensor, &sides) >= 0 && on_key_side(keyed, expr->tensor))))
        return true;
    for (int i = 0; i < expr->count; i++)
        if (reads_keyed(keyed, expr->args[i])) return true;
    return false;
}

bool on_key_side(const Keyed *keyed, const Tensor *tensor) {
    return tensor->id < keyed->count && keyed->key_side[tensor->id];
}

bool runs_on_key_side(const Keyed *keyed, const Statement *statement) {
    const Tensor *target = statement->target->tensor;
    RowSides *sides;
    for (int i = 0; i < statement->loop_count; i++)
        if (nested_of(keyed, statement->loops[i]->axis)) return true;
    if (is_keyed(target)) return true;
    if (rows_dimension_of(keyed, target, &sides) >= 0) return on_key_side(keyed, target);
    return !keyed->apart && !over_processes(target) && reads_keyed(keyed, statement->value);
}

/* ---- nested rows ---- */

/* A tensor over nested rows with a value of their outer rows: n_r[r] = n[c[r]]. */
typedef struct OuterValue {
    Tensor *own, *outer;
} OuterValue;

NestedRows *nested_of(const Keyed *keyed, const Axis *rows) {
    return list_find_by(&keyed->nested, offsetof(NestedRows, rows), rows);
}

bool has_nested_rows(const Keyed *keyed, const Tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++)
        if (nested_of(keyed, tensor->axes[i])) return true;
    return false;
}

const Tensor *outer_tensor(const Keyed *keyed, const Tensor *own) {
    LIST_EACH(const OuterValue, value, &keyed->outer_values)
        if (value->own == own) return value->outer;
    return NULL;
}

Tensor *outer_row(const Relation *relation) {
    const int dimension = rows_dimension(relation->mask);
    return dimension < 0 ? NULL : relation->coordinate[dimension];
}

static bool is_outer_row(const Keyed *keyed, const Tensor *tensor) {
    LIST_EACH(const Relation, relation, &keyed->program->relations)
        if (relation->outer && outer_row(relation) == tensor) return true;
    return false;
}

static void note_outer_value(Statement *statement, void *data) {
    Keyed *keyed = data;
    if (statement->kind != STATEMENT_LOOP || statement->accumulate) return;
    const Expr *value = statement->value, *target = statement->target;
    if (target->count != 1 || !nested_of(keyed, target->tensor->axes[0]) ||
        value->kind != EXPR_READ || value->count != 1 || value->args[0]->kind != EXPR_READ ||
        value->tensor->type != TYPE_INT || !is_outer_row(keyed, value->args[0]->tensor))
        return;
    const OuterValue found = {target->tensor, value->tensor};
    list_copy(keyed->program->arena, &keyed->outer_values, &found, sizeof found);
}

void find_nested_rows(Keyed *keyed) {
    Program *program = keyed->program;
    LIST_EACH(const Relation, relation, &program->relations) {
        RowSides *outer = relation->outer ? sides_of(keyed, relation->outer->rows) : NULL;
        if (!outer || nested_of(keyed, relation->rows)) continue;
        const NestedRows nested = {.rows = relation->rows, .outer = outer};
        list_copy(program->arena, &keyed->nested, &nested, sizeof nested);
    }
    block_walk(&program->body, note_outer_value, keyed);
}

/* ---- sizes ---- */

/* The tables of a relation for as many outer rows as a process can receive. */
static void widen_tables(const Keyed *keyed, Relation *relation) {
    Flat *flat = relation->flats.items[0];
    const long size = keyed->size;
    outer_row(relation)->vocabulary *= size;
    relation->flats.count = 1; /* the others find tokens */
    flat->table->vocabulary *= size;
    relation->start->axes[0]->size = (relation->start->axes[0]->size - 1) * size + 1;
}

void widen_nested_rows(Keyed *keyed) {
    const Program *program = keyed->program;
    int kept = 0;
    LIST_EACH(NestedRows, nested, &keyed->nested) {
        if (!sides_of(keyed, nested->outer->rows)) continue;
        nested->rows->expected = axis_expected(nested->rows);
        nested->rows->size *= keyed->size;
        keyed->nested.items[kept++] = nested;
    }
    keyed->nested.count = kept;
    for (int i = 0; i < program->relations.count && !keyed->failed; i++) {
        Relation *relation = program->relations.items[i];
        if (nested_of(keyed, relation->rows)) widen_tables(keyed, relation);
        if (!relation->outer || !nested_of(keyed, relation->outer->rows)) continue;
        const Axis *key = key_axis(relation, 0);
        report_caused(program->reports, key ? key->asked : (Span){0}, relation->mask->span,
                      "chosen here", "rows of rows of rows cannot be divided over %s",
                      mesh_axis_name(MESH_EXPERT));
        report_help(program->reports, "omit %s in --mesh", mesh_axis_name(MESH_EXPERT));
        keyed->failed = true;
    }
}

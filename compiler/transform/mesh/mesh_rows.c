/* mesh_rows: divides parameters that are selected by the key of a row.
 *
 * Needs:   mesh, route, gather_fusion.
 * Leaves:  of parameters that are read only by the key of dispatched rows, up[n[r],d,f], a process
 *          reads those of its keys. Statements that read them run on the rows that the process
 *          receives; statements that read or add to tokens, on its own rows. Collectives copy rows
 *          between the two. A gradient of these parameters has a slot for each own key and each
 *          process of the group: the sums over the rows of each process, which its micro-batch
 *          contributes. Together they are as many as all keys.
 *
 *     s[r], n[r], group[g] = pack(chosen[s,n]; key = [n])
 *     h[r,f] = sum[d] x[s[r],d] * up[n[r],d,f]            r: rows of the tokens of this process
 *     y[s[r],f] += h[r,f]
 *
 *                              |
 *                              v
 *
 *     table[p,g], n_here[q], slots[n], slot[q] = collective(group[g]; counts)
 *     x_rows[r,d] = x[s[r],d]
 *     x_here[q,d] = collective(x_rows[r,d], table[p,g]; dispatch)
 *     h[q,f] = sum[d] x_here[q,d] * up[n_here[q],d,f]     q: rows with the keys of this process
 *     h_back[r,f] = collective(h[q,f], table[p,g]; combine)
 *     y[s[r],f] += h_back[r,f]
 *     d_up[slot[q],d,f] += x_here[q,d] * d_h_here[q,f]
 */
#include "transform/mesh/keyed_rows.h"

#include "analysis/access.h"
#include "ir/call.h"
#include "passes.h"

/* ---- divided parameters ---- */

/* By tensor id: the dimension along which every access has the first key of its rows; -1: none. */
typedef struct KeyedSearch {
    const Keyed *keyed;
    int *dimension; /* UNSEEN, or as above */
} KeyedSearch;
enum { UNSEEN = -2 };

static void visit_access(Expr *expr, void *data) {
    const KeyedSearch *search = data;
    if (expr->kind != EXPR_READ) return;
    int *known = &search->dimension[expr->tensor->id], found = -1;
    for (int i = 0; i < expr->count; i++)
        if (key_number(search->keyed, expr->args[i]) == 0) found = i;
    *known = *known == UNSEEN || *known == found ? found : -1;
}

static void visit_accesses(Statement *statement, void *data) {
    statement_walk(statement, visit_access, data);
    for (int i = 0; i < statement->outputs.count; i++)
        expr_walk(statement->outputs.items[i], visit_access, data);
}

static bool divisible(Keyed *keyed, const Axis *axis) {
    const long size = keyed->size;
    if (axis->size % size == 0) return true;
    Reports *reports = keyed->program->reports;
    report_caused(reports, axis->asked, axis->span, "declared here",
                  "axis %s of size %ld cannot be divided over %s = %ld", axis->name, axis->size,
                  mesh_axis_name(MESH_EXPERT), size);
    help_with_size(
        reports, MESH_EXPERT, axis->size, size, 1,
        arena_format(reports->arena, "%s of size %ld", axis->name, (axis->size / size + 1) * size));
    keyed->failed = true;
    return false;
}

/* A parameter and its gradient are divided together. */
static void divide_parameters(Keyed *keyed) {
    Program *program = keyed->program;
    const int count = program->tensors.count;
    KeyedSearch search = {keyed, arena_alloc(program->arena, ((size_t)count + 1) * sizeof(int))};
    for (int i = 0; i < count; i++) search.dimension[i] = UNSEEN;
    block_walk(&program->body, visit_accesses, &search);
    for (int i = 0; i < count; i++) {
        const Tensor *gradient = program->tensors.items[i];
        if (gradient->role != ROLE_GRADIENT || !gradient->of) continue;
        int *own = &search.dimension[i], *of = &search.dimension[gradient->of->id];
        if (*own == UNSEEN) *own = *of;
        if (*own != *of) *own = *of = -1;
    }
    for (int i = 0; i < count && !keyed->failed; i++) {
        Tensor *tensor = program->tensors.items[i];
        const int dimension = search.dimension[i];
        if (dimension < 0 || (tensor->role != ROLE_PARAMETER && tensor->role != ROLE_GRADIENT))
            continue;
        if (!divisible(keyed, tensor->axes[dimension])) return;
        tensor->placed[MESH_EXPERT] = (Placement){PLACED_DIVIDED, dimension, keyed->size};
        if (list_find(&keyed->axes, tensor->axes[dimension]) < 0)
            list_push(program->arena, &keyed->axes, tensor->axes[dimension]);
    }
}

/* ---- values of one process ---- */

static bool value_varies(const Keyed *keyed, const Expr *expr) {
    if (draws_numbers(keyed, expr)) return true;
    if (expr->kind == EXPR_READ && keyed->varies[expr->tensor->id]) return true;
    for (int i = 0; i < expr->count; i++)
        if (value_varies(keyed, expr->args[i])) return true;
    return false;
}

static void set_varies(Keyed *keyed, const Expr *target) {
    bool *varies = &keyed->varies[target->tensor->id];
    keyed->changed |= !*varies;
    *varies = true;
}

static void visit_varying(Statement *statement, void *data) {
    Keyed *keyed = data;
    bool varies = false;
    if (statement->kind == STATEMENT_LOOP) {
        varies = value_varies(keyed, statement->value) || value_varies(keyed, statement->target);
        if (varies) set_varies(keyed, statement->target);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        varies |= value_varies(keyed, statement->inputs.items[i]);
    for (int i = 0; i < statement->outputs.count && varies; i++)
        set_varies(keyed, statement->outputs.items[i]);
}

/* Everything that depends on the micro-batch or on random numbers. */
static void find_varying(Keyed *keyed) {
    Program *program = keyed->program;
    keyed->varies = arena_alloc(program->arena, ((size_t)keyed->count + 1) * sizeof(bool));
    for (int i = 0; i < keyed->count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        keyed->varies[i] = tensor->role == ROLE_INPUT && tensor->input != MOEC_INPUT_SCALAR;
    }
    do {
        keyed->changed = false;
        block_walk(&program->body, visit_varying, keyed);
    } while (keyed->changed);
}

/* ---- the sides of row tensors ---- */

static void put_on_key_side(Keyed *keyed, const Tensor *tensor) {
    RowSides *sides;
    if (rows_dimension_of(keyed, tensor, &sides) < 0 || keyed->key_side[tensor->id]) return;
    keyed->key_side[tensor->id] = keyed->changed = true;
}

static void visit_sides(Statement *statement, void *data) {
    Keyed *keyed = data;
    bool keys = false;
    if (statement->kind == STATEMENT_LOOP &&
        (reads_keyed(keyed, statement->value) || runs_on_key_side(keyed, statement)))
        put_on_key_side(keyed, statement->target->tensor);
    for (int i = 0; i < statement->inputs.count; i++)
        keys |= reads_keyed(keyed, statement->inputs.items[i]);
    for (int i = 0; i < statement->outputs.count; i++)
        keys |= reads_keyed(keyed, statement->outputs.items[i]); /* or nested rows: a pack */
    for (int i = 0; i < statement->outputs.count && keys; i++)
        put_on_key_side(keyed, call_output(statement, i)->tensor);
}

static void find_sides(Keyed *keyed) {
    Program *program = keyed->program;
    keyed->key_side = arena_alloc(program->arena, ((size_t)keyed->count + 1) * sizeof(bool));
    do {
        keyed->changed = false;
        block_walk(&program->body, visit_sides, keyed);
    } while (keyed->changed);
    for (int i = 0; i < keyed->count; i++) {
        Tensor *tensor = program->tensors.items[i];
        RowSides *sides;
        const int dimension = rows_dimension_of(keyed, tensor, &sides);
        if (dimension >= 0 && keyed->key_side[i]) tensor->axes[dimension] = sides->received;
    }
}

static void visit_selection(Statement *statement, void *data) {
    const Keyed *keyed = data;
    if (statement->kind != STATEMENT_CALL || !statement->row->selects) return;
    const Expr *mask = call_output(statement, 0);
    keyed->selected_along[mask->tensor->id] =
        call_shape(mask).index[statement->top.dimension]->axis;
}

/* ---- the pass ---- */

static void find_row_sides(Keyed *keyed) {
    Program *program = keyed->program;
    LIST_EACH(Relation, relation, &program->relations) {
        if (!has_own_keys(relation) || sides_of(keyed, relation->rows)) continue;
        const Axis *rows = relation->rows;
        RowSides sides = {.rows = relation->rows};
        sides.received =
            axis_new(program, rows->name, rows->size * keyed->size, AXIS_ROWS, rows->span);
        sides.received->expected = axis_expected(rows);
        list_copy(program->arena, &keyed->sides, &sides, sizeof sides);
    }
}

/* Rows whose key divides no parameter stay with their tokens. */
static void drop_unused_rows(Keyed *keyed) {
    const Program *program = keyed->program;
    int kept = 0;
    for (int i = 0; i < keyed->sides.count; i++) {
        const RowSides *sides = keyed->sides.items[i];
        bool used = false;
        LIST_EACH(const Relation, relation, &program->relations)
            used |= relation->rows == sides->rows && key_axis(relation, 0) &&
                    list_find(&keyed->axes, key_axis(relation, 0)) >= 0;
        if (used) keyed->sides.items[kept++] = keyed->sides.items[i];
    }
    keyed->sides.count = kept;
}

/* Nothing is divided. */
static void report_no_keys(const Program *program, const MeshSizes *sizes) {
    Reports *reports = program->reports;
    const List *relations = &program->relations;
    report_error(reports, sizes->span[MESH_EXPERT], "no parameters can be divided over %s = %ld",
                 mesh_axis_name(MESH_EXPERT), sizes->size[MESH_EXPERT]);
    for (int i = 0; i < relations->count; i++) {
        const Relation *relation = relations->items[i];
        const Tensor *mask = relation->mask;
        bool known = false;
        for (int j = 0; j < i; j++) known |= ((const Relation *)relations->items[j])->mask == mask;
        if (!known)
            report_note(reports, mask->span,
                        "the rows of '%s' have no key, or keys that do not select parameters alone",
                        mask->stem);
    }
    report_help(reports,
                relations->count
                    ? "omit %s in --mesh: the first key of rows has to select parameters"
                    : "omit %s in --mesh: no token selects parameters in this model",
                mesh_axis_name(MESH_EXPERT));
}

void mesh_rows(Program *program, const MeshSizes *sizes) {
    Keyed keyed = {
        .program = program, .size = program->mesh[MESH_EXPERT], .count = program->tensors.count};
    if (keyed.size <= 1) return;
    keyed.apart = program->mesh[MESH_DATA] % keyed.size != 0;
    if (keyed.apart) find_varying(&keyed);
    find_row_sides(&keyed);
    find_nested_rows(&keyed);
    divide_parameters(&keyed);
    drop_unused_rows(&keyed);
    widen_nested_rows(&keyed);
    if (keyed.failed) return;
    if (!keyed.sides.count) { /* statistics of one layer need none */
        if (program->graph != GRAPH_GATHER) report_no_keys(program, sizes);
        return;
    }
    find_sides(&keyed);
    keyed.selected_along =
        arena_alloc(program->arena, ((size_t)keyed.count + 1) * sizeof(const Axis *));
    block_walk(&program->body, visit_selection, &keyed);
    move_rows(&keyed, &program->body);
}

/* mesh_rows: divides experts over the processes of a group.
 *
 * Needs:   mesh, route, gather_fusion.
 * Leaves:  parameters that are read only by the key of dispatched rows, up[n[r],d,f], have the
 *          experts of the process. Statements that read them run on the rows that the process
 *          receives; statements that read or add to tokens, on its own rows. Collectives copy rows
 *          between the two.
 *
 *     s[r], n[r], group[g] = pack(chosen[s,n]; key = [n])
 *     h[r,f] = sum[d] x[s[r],d] * up[n[r],d,f]            r: rows of the tokens of this process
 *     y[s[r],f] += h[r,f]
 *
 *                              |
 *                              v
 *
 *     group_here[g], n_here[q] = collective(group[g]; expert: counts)
 *     x_rows[r,d] = x[s[r],d]
 *     x_here[q,d] = collective(x_rows[r,d], group[g]; expert: dispatch)
 *     h[q,f] = sum[d] x_here[q,d] * up[n_here[q],d,f]     q: rows of the experts of this process
 *     h_back[r,f] = collective(h[q,f], group[g]; expert: combine)
 *     y[s[r],f] += h_back[r,f] */
#include "transform/mesh/rows.h"

#include "base/must.h"
#include "ir/call.h"
#include "passes.h"

/* ---- facts ---- */

int key_dimension(const Relation *relation) {
    int key = -1, dimension = 0;
    for (int i = 0; i < relation->mask->rank; i++) {
        if (relation->mask->axes[i]->kind == AXIS_REPEAT) continue;
        if (relation->key[dimension]) key = key < 0 ? dimension : MAX_RANK;
        dimension++;
    }
    return key < MAX_RANK ? key : -1;
}

static Axis *key_axis(const Relation *relation) {
    int dimension = 0;
    for (int i = 0; i < relation->mask->rank; i++)
        if (relation->mask->axes[i]->kind != AXIS_REPEAT &&
            dimension++ == key_dimension(relation))
            return relation->mask->axes[i];
    return NULL;
}

/* Rows of tokens whose only key is an axis of experts. */
static bool is_simple(const Program *program, const Relation *relation) {
    if (key_dimension(relation) < 0 || relation->outer || relation->group_of_count != 1)
        return false;
    for (int i = 0; i < program->relations.count; i++)
        if (((const Relation *)program->relations.items[i])->outer == relation) return false;
    return true;
}

RowSides *sides_of(const Experts *experts, const Axis *rows) {
    for (int i = 0; i < experts->sides.count; i++) {
        RowSides *sides = experts->sides.items[i];
        if (sides->rows == rows || sides->received == rows) return sides;
    }
    return NULL;
}

int rows_dimension_of(const Experts *experts, const Tensor *tensor, RowSides **sides) {
    for (int i = 0; i < tensor->rank; i++)
        if ((*sides = sides_of(experts, tensor->axes[i]))) return i;
    return -1;
}

bool is_of_experts(const Tensor *tensor) {
    return tensor->placed[MESH_EXPERT].kind == PLACED_DIVIDED;
}

/* The number of an expert: the key of the rows of a statement. */
static bool is_key(const Experts *experts, const Expr *sub) {
    if (sub->kind != EXPR_READ || sub->count != 1 || sub->args[0]->kind != EXPR_INDEX) return false;
    for (int i = 0; i < experts->program->relations.count; i++) {
        const Relation *relation = experts->program->relations.items[i];
        if (is_simple(experts->program, relation) &&
            sub->tensor == relation->coordinate[key_dimension(relation)])
            return sides_of(experts, relation->rows) != NULL;
    }
    return false;
}

bool reads_key(const Experts *experts, const Expr *sub) {
    return is_key(experts, sub);
}

/* ---- divided parameters ---- */

/* By tensor id: the dimension along which every access has the key of its rows; -1: none. */
typedef struct KeySearch {
    const Experts *experts;
    int *dimension; /* UNSEEN, or as above */
} KeySearch;
enum { UNSEEN = -2 };

static void visit_access(Expr *expr, void *data) {
    const KeySearch *search = data;
    if (expr->kind != EXPR_READ) return;
    int *known = &search->dimension[expr->tensor->id], found = -1;
    for (int i = 0; i < expr->count; i++)
        if (is_key(search->experts, expr->args[i])) found = i;
    *known = *known == UNSEEN || *known == found ? found : -1;
}

static void visit_accesses(Statement *statement, void *data) {
    if (statement->kind == STATEMENT_LOOP) {
        expr_walk(statement->target, visit_access, data);
        expr_walk(statement->value, visit_access, data);
    }
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], visit_access, data);
    for (int i = 0; i < statement->outputs.count; i++)
        expr_walk(statement->outputs.items[i], visit_access, data);
}

static Axis *part_axis(Experts *experts, Axis *axis) {
    for (int i = 0; i < experts->axes.count; i++) {
        const LocalAxis *local = experts->axes.items[i];
        if (local->whole == axis) return local->part;
    }
    LocalAxis local = {axis, axis_new(experts->program, axis->name, axis->size / experts->size,
                                      axis->kind, axis->span)};
    list_copy(experts->program->arena, &experts->axes, &local, sizeof local);
    return local.part;
}

static bool divisible(Experts *experts, const Axis *axis) {
    const long size = experts->size;
    if (axis->size % size == 0) return true;
    Reports *reports = experts->program->reports;
    report_error(reports, axis->span, "%ld experts (axis %s) cannot be divided over expert = %ld",
                 axis->size, axis->name, size);
    help_with_size(reports, MESH_EXPERT, axis->size, size,
                   arena_format(reports->arena, "%ld experts", (axis->size / size + 1) * size));
    experts->failed = true;
    return false;
}

/* A parameter and its gradient are divided together. */
static void divide_parameters(Experts *experts) {
    Program *program = experts->program;
    const int count = program->tensors.count;
    KeySearch search = {experts, arena_alloc(program->arena, ((size_t)count + 1) * sizeof(int))};
    for (int i = 0; i < count; i++) search.dimension[i] = UNSEEN;
    block_walk(&program->body, visit_accesses, &search);
    for (int i = 0; i < count; i++) {
        const Tensor *gradient = program->tensors.items[i];
        if (gradient->role != ROLE_GRADIENT || !gradient->of) continue;
        int *own = &search.dimension[i], *of = &search.dimension[gradient->of->id];
        if (*own == UNSEEN) *own = *of;
        if (*own != *of) *own = *of = -1;
    }
    for (int i = 0; i < count && !experts->failed; i++) {
        Tensor *tensor = program->tensors.items[i];
        const int dimension = search.dimension[i];
        if (dimension < 0 || (tensor->role != ROLE_PARAMETER && tensor->role != ROLE_GRADIENT))
            continue;
        if (!divisible(experts, tensor->axes[dimension])) return;
        tensor->placed[MESH_EXPERT] = (Placement){PLACED_DIVIDED, dimension};
        tensor->axes[dimension] = part_axis(experts, tensor->axes[dimension]);
    }
}

/* ---- the sides of row tensors ---- */

bool reads_experts(const Experts *experts, const Expr *expr) {
    RowSides *sides;
    if (expr->kind == EXPR_READ &&
        (is_of_experts(expr->tensor) ||
         (rows_dimension_of(experts, expr->tensor, &sides) >= 0 && on_expert_side(experts, expr->tensor))))
        return true;
    for (int i = 0; i < expr->count; i++)
        if (reads_experts(experts, expr->args[i])) return true;
    return false;
}

bool on_expert_side(const Experts *experts, const Tensor *tensor) {
    return tensor->id < experts->count && experts->expert_side[tensor->id];
}

bool runs_on_expert_side(const Experts *experts, const Statement *statement) {
    const Tensor *target = statement->target->tensor;
    RowSides *sides;
    if (is_of_experts(target)) return true;
    if (rows_dimension_of(experts, target, &sides) >= 0) return on_expert_side(experts, target);
    return !is_divided(target) && reads_experts(experts, statement->value);
}

static void put_on_expert_side(Experts *experts, const Tensor *tensor) {
    RowSides *sides;
    if (rows_dimension_of(experts, tensor, &sides) < 0 || experts->expert_side[tensor->id]) return;
    experts->expert_side[tensor->id] = experts->changed = true;
}

static void visit_sides(Statement *statement, void *data) {
    Experts *experts = data;
    bool expert = false;
    if (statement->kind == STATEMENT_LOOP && (reads_experts(experts, statement->value) ||
                                              runs_on_expert_side(experts, statement)))
        put_on_expert_side(experts, statement->target->tensor);
    for (int i = 0; i < statement->inputs.count; i++)
        expert |= reads_experts(experts, statement->inputs.items[i]);
    for (int i = 0; i < statement->outputs.count; i++)
        expert |= reads_experts(experts, statement->outputs.items[i]);
    for (int i = 0; i < statement->outputs.count && expert; i++)
        put_on_expert_side(experts, call_output(statement, i)->tensor);
}

static void find_sides(Experts *experts) {
    Program *program = experts->program;
    experts->count = program->tensors.count;
    experts->expert_side =
        arena_alloc(program->arena, ((size_t)experts->count + 1) * sizeof(bool));
    do {
        experts->changed = false;
        block_walk(&program->body, visit_sides, experts);
    } while (experts->changed);
    for (int i = 0; i < experts->count; i++) {
        Tensor *tensor = program->tensors.items[i];
        RowSides *sides;
        const int dimension = rows_dimension_of(experts, tensor, &sides);
        if (dimension >= 0 && experts->expert_side[i]) tensor->axes[dimension] = sides->received;
    }
}

/* ---- the pass ---- */

static void add_rows(Experts *experts) {
    Program *program = experts->program;
    for (int i = 0; i < program->relations.count; i++) {
        Relation *relation = program->relations.items[i];
        if (!is_simple(program, relation) || sides_of(experts, relation->rows)) continue;
        const Axis *rows = relation->rows;
        RowSides sides = {.rows = relation->rows};
        sides.received = axis_new(program, rows->name, rows->size * experts->size, AXIS_ROWS,
                                  rows->span);
        sides.received->expected = rows->expected > 0 ? rows->expected : (double)rows->size;
        list_copy(program->arena, &experts->sides, &sides, sizeof sides);
    }
}

/* Rows whose key divides no parameter stay with their tokens. */
static void drop_unused(Experts *experts) {
    const Program *program = experts->program;
    int kept = 0;
    for (int i = 0; i < experts->sides.count; i++) {
        const RowSides *sides = experts->sides.items[i];
        bool used = false;
        for (int j = 0; j < program->relations.count; j++) {
            const Relation *relation = program->relations.items[j];
            for (int k = 0; k < experts->axes.count && relation->rows == sides->rows; k++)
                used |= ((const LocalAxis *)experts->axes.items[k])->whole == key_axis(relation);
        }
        if (used) experts->sides.items[kept++] = experts->sides.items[i];
    }
    experts->sides.count = kept;
}

/* Nothing is divided. */
static void report_no_experts(const Program *program, const MeshSizes *sizes) {
    Reports *reports = program->reports;
    const List *relations = &program->relations;
    report_error(reports, sizes->span[MESH_EXPERT],
                 "no parameters can be divided over expert = %ld", sizes->size[MESH_EXPERT]);
    for (int i = 0; i < relations->count; i++) {
        const Tensor *mask = ((const Relation *)relations->items[i])->mask;
        bool known = false;
        for (int j = 0; j < i; j++) known |= ((const Relation *)relations->items[j])->mask == mask;
        if (!known)
            report_note(reports, mask->span,
                        "the rows of '%s' have no key, several keys, or keys that do not select "
                        "parameters alone",
                        mask->stem);
    }
    report_help(reports,
                relations->count ? "use --mesh data=%ld: experts are divided along one axis"
                                 : "use --mesh data=%ld: no token selects experts in this model",
                sizes->size[MESH_DATA]);
}

void mesh_rows(Program *program, const MeshSizes *sizes) {
    Experts experts = {.program = program, .size = program->mesh[MESH_EXPERT]};
    if (experts.size <= 1) return;
    add_rows(&experts);
    divide_parameters(&experts);
    drop_unused(&experts);
    if (experts.failed) return;
    if (!experts.sides.count) {
        report_no_experts(program, sizes);
        return;
    }
    find_sides(&experts);
    move_rows(&experts, &program->body);
}

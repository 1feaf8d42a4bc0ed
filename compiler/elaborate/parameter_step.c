/* parameter_step: read an optimizer for one parameter whose properties it uses.
 *
 *     optimizer muon {
 *       if not product { by = other }                 delegated to another optimizer
 *       state m[rows, columns] = 0
 *       update m = memory * m + clip * grad
 *       gram[rows, j] = sum[columns] m[rows, columns] * m[j, columns]
 *
 * A parameter is a matrix here. `rows` are the axes that its product sums over, or the axes of its
 * lookup; `columns` are the other axes; neighboring axes count as one. Indices that its layer is
 * applied under, and indices on both sides of its product, are leading axes: there is one matrix
 * per value. A vector is a matrix with one column. The memory layout is unchanged, also of its
 * gradient and of states with its shape. A parameter of a repeat is processed layer by layer.
 *
 * Updates are stored after the whole body is read. A read of a state after its update reads the new
 * value directly.
 */
#include "elaborate/elaborate.h"

#include "analysis/parameter_facts.h"
#include "analysis/parameter_flow.h"

#include <string.h>

/* Neighboring axes of a parameter on one side, as one axis. */
typedef struct AxisGroup {
    MatrixSide side;
    double size;
    const char *name;
    AxisKind kind;
} AxisGroup;

/* The parameter, or one of its states. */
typedef struct KeptValue {
    const char *name;
    Value *value; /* before the step */
} KeptValue;

struct ParameterMatrix {
    const Tensor *parameter; /* of the model */
    Axis *axes[MAX_RANK], *rows, *columns;
    Index *indices[MAX_RANK];
    int rank;
    List kept, stores;  /* KeptValue *; Expr *, Expr *: target, value */
    const Value *other; /* the optimizer that the parameter is delegated to, or NULL */
    int errors;         /* reported before: after an error, the rest is not read */
};

/* ---- which optimizers ---- */

static bool has_subscripts(const Node *node) {
    if (!node) return false;
    if (node->kind == NODE_SUBS || node->kind == NODE_REDUCE) return true;
    for (int i = 0; i < node->count; i++)
        if (has_subscripts(node->kids[i])) return true;
    return false;
}

static bool hands_on(const Node *node) {
    if (!node) return false;
    if (node->kind == NODE_EQUATION && !strcmp(node->name, "by")) return true;
    for (int i = 0; i < node->count; i++)
        if (hands_on(node->kids[i])) return true;
    return false;
}

bool sees_parameters(const Node *optimizer) {
    static const char *const facts[] = {"rows",  "columns", "matmul",   "embedding", "residual",
                                        "first", "last",    "repeated", "uniform",   "normal"};
    const Node *body = layer_body(optimizer);
    for (int i = 0; i < 10; i++)
        if (node_mentions(body, facts[i])) return true;
    return has_subscripts(body) || hands_on(body);
}

/* ---- a parameter as a matrix ---- */

static int split_into_parts(const Tensor *parameter, AxisGroup *parts) {
    int count = 0;
    for (int i = 0; i < parameter->rank; i++) {
        const Axis *axis = parameter->axes[i];
        const MatrixSide side = matrix_side_of(parameter, i);
        if (count && side != SIDE_AHEAD && parts[count - 1].side == side)
            parts[count - 1].size *= (double)axis->size;
        else
            parts[count++] = (AxisGroup){side, (double)axis->size, axis->name, axis->kind};
    }
    return count;
}

/* If a side has several separate parts, the largest one is selected. */
static void choose_part(AxisGroup *parts, int count, MatrixSide side) {
    int largest = -1;
    for (int i = 0; i < count; i++)
        if (parts[i].side == side && (largest < 0 || parts[i].size > parts[largest].size))
            largest = i;
    for (int i = 0; i < count; i++)
        if (parts[i].side == side && i != largest) parts[i].side = SIDE_AHEAD;
}

static void add_matrix_axis(Elaborator *e, ParameterMatrix *matrix, const AxisGroup *part) {
    static const char *const names[] = {NULL, "rows", "columns"};
    const char *name = part->side == SIDE_AHEAD ? part->name : names[part->side];
    Axis *axis = axis_new(e->program, name, (long)part->size, part->kind, matrix->parameter->span);
    if (part->side == SIDE_ROWS) matrix->rows = axis;
    if (part->side == SIDE_COLUMNS) matrix->columns = axis;
    matrix->indices[matrix->rank] = index_new(e->program, name, axis);
    matrix->axes[matrix->rank++] = axis;
}

/* False after a report. */
static bool view_as_matrix(Elaborator *e, ParameterMatrix *matrix) {
    const Tensor *parameter = matrix->parameter;
    AxisGroup parts[MAX_RANK];
    int count = split_into_parts(parameter, parts);
    choose_part(parts, count, SIDE_ROWS);
    choose_part(parts, count, SIDE_COLUMNS);
    for (int i = 0; i < count; i++) add_matrix_axis(e, matrix, &parts[i]);
    if (!fits_rank(e, parameter->path, matrix->rank + 2, parameter->span)) return false;
    if (!matrix->rows) add_matrix_axis(e, matrix, &(AxisGroup){SIDE_ROWS, 1, NULL, AXIS_PLAIN});
    if (!matrix->columns)
        add_matrix_axis(e, matrix, &(AxisGroup){SIDE_COLUMNS, 1, NULL, AXIS_PLAIN});
    return true;
}

static bool is_ahead(const ParameterMatrix *matrix, int axis) {
    return matrix->axes[axis] != matrix->rows && matrix->axes[axis] != matrix->columns;
}

/* The value of a tensor; its dimensions exclude the leading axes. */
static Value *tensor_read_value(Elaborator *e, Tensor *tensor, Index *const *indices,
                                Index *const *dims, int rank, Span span) {
    return value_tensor(e, expr_read_indices(e->program, tensor, indices), dims, rank, span);
}

static Tensor *like_weight(Elaborator *e, ParameterMatrix *matrix, const char *name, Role role) {
    Tensor *tensor = tensor_new(e->program, name, role, TYPE_REAL, matrix->rank, matrix->axes,
                                matrix->parameter->span);
    Index *dims[2] = {NULL, NULL};
    for (int i = 0; i < matrix->rank; i++) {
        if (matrix->axes[i] == matrix->rows) dims[0] = matrix->indices[i];
        if (matrix->axes[i] == matrix->columns) dims[1] = matrix->indices[i];
    }
    const char *word = role == ROLE_GRADIENT ? "grad" : "weight";
    if (role == ROLE_STATE) return tensor;
    scope_bind(e, e->scope, word, tensor_read_value(e, tensor, matrix->indices, dims, 2, (Span){0}),
               (Span){0});
    return tensor;
}

static void keep_bound_value(Elaborator *e, ParameterMatrix *matrix, const char *name) {
    KeptValue *kept = arena_alloc(e->arena, sizeof *kept);
    *kept = (KeptValue){name, scope_find(e->scope, name)->value};
    list_push(e->arena, &matrix->kept, kept);
}

/* ---- properties of a parameter ---- */

static void bind_fact(Elaborator *e, const char *name, bool holds) {
    Value *value = value_new(e, KIND_FLAG, (Span){0});
    value->number = holds;
    scope_bind(e, e->scope, name, value, (Span){0});
}

static const ParameterFlow *flow_of(Elaborator *e, const Tensor *parameter) {
    List *flows = &e->unit->flows;
    if (!flows->count) *flows = parameter_flow(e->unit->parameters);
    for (int i = 0; i < flows->count; i++)
        if (((ParameterFlow *)flows->items[i])->tensor == parameter) return flows->items[i];
    return NULL;
}

static void bind_parameter_facts(Elaborator *e, const ParameterMatrix *matrix) {
    const Tensor *parameter = matrix->parameter;
    const ParameterFlow *flow = flow_of(e, parameter);
    bind_fact(e, "matmul", parameter->facts->product);
    bind_fact(e, "embedding", parameter->facts->lookup);
    bind_fact(e, "matrix", is_matrix(parameter));
    bind_fact(e, "residual", flow && flow->joins);
    bind_fact(e, "first", flow && flow->first);
    bind_fact(e, "last", flow && flow->last);
    bind_fact(e, "repeated", parameter->repeats > 0);
    Axis *const axes[] = {matrix->rows, matrix->columns};
    for (int i = 0; i < 2; i++) {
        Value *value = value_new(e, KIND_AXIS, parameter->span);
        value->axis = axes[i];
        scope_bind(e, e->scope, axes[i]->name, value, parameter->span);
    }
}

/* Applies the learning-rate factor of the parameter. */
static void scale_rate(Elaborator *e, const Tensor *parameter) {
    const OwnNumber *own = tensor_own(parameter, "lr");
    Value *rate = scope_find(e->scope, "lr")->value;
    if (own)
        rate->expr =
            expr_apply(e->program, OP_MUL, rate->expr, expr_number(e->program, own->value), NULL);
}

/* ---- the body ---- */

static void state_of(Elaborator *e, ParameterMatrix *matrix, const Node *node) {
    double start = 0;
    Index *indices[MAX_RANK], **dims;
    int rank = 0;
    if (!evaluate_number(e, node->kids[1], "the start of a state", &start)) return;
    for (int i = 0; i < matrix->rank; i++)
        if (is_ahead(matrix, i)) indices[rank++] = matrix->indices[i];
    dims = indices + rank;
    int own = 0;
    Tensor *tensor;
    if (node->kids[0]) {
        if (!declared_dims(e, node->name, node->kids[0], dims, &own)) return;
        if (!fits_rank(e, node->name, rank + own, node->span)) return;
        tensor = tensor_over(e->program, node->name, ROLE_STATE, TYPE_REAL, indices, rank + own,
                             node->span);
        scope_bind(e, e->scope, node->name,
                   tensor_read_value(e, tensor, indices, dims, own, node->span), node->name_span);
    } else {
        const Value *weight = ((KeptValue *)matrix->kept.items[0])->value;
        tensor = like_weight(e, matrix, node->name, ROLE_STATE);
        scope_bind(e, e->scope, node->name,
                   tensor_read_value(e, tensor, matrix->indices, weight->dims, 2, node->span),
                   node->name_span);
    }
    const char *name = name_of_its_own(e, &e->frame->declared, node), *around = e->frame->stored;
    tensor->path = arena_format(e->arena, "optimizer.%s%s%s:%s", around, *around ? "." : "", name,
                                matrix->parameter->path);
    tensor->init = (Init){MOEC_INIT_CONSTANT, start, 0};
    keep_bound_value(e, matrix, node->name);
}

static const KeptValue *kept_as(Elaborator *e, const ParameterMatrix *matrix, const Node *node) {
    for (int i = matrix->kept.count - 1; i >= 0; i--) {
        const KeptValue *kept = matrix->kept.items[i];
        if (!strcmp(kept->name, node->name)) return kept;
    }
    report_error(e->reports, node->name_span,
                 "'%s' is neither 'weight' nor a state of the optimizer", node->name);
    report_help(e->reports, "declare it as state %s = 0", node->name);
    return NULL;
}

static bool fits_kept(Elaborator *e, const Node *node, const Value *assigned, Expr *expr) {
    Index *used[MAX_LOOPS];
    int count = free_indices(e, expr, used);
    for (int i = 0; i < count; i++) {
        if (expr_uses_index(assigned->expr, used[i])) continue;
        report_error(e->reports, node->kids[1]->span,
                     "the new value of '%s' depends on index '%s', but the old value does not",
                     node->name, used[i]->name);
        return report_help(e->reports, "reduce it with mean[%s] or sum[%s]", used[i]->name,
                           used[i]->name);
    }
    return true;
}

static void update_kept(Elaborator *e, ParameterMatrix *matrix, const Node *node) {
    const KeptValue *kept = kept_as(e, matrix, node);
    Equation own = {0}, *outer = e->equation;
    if (!kept) return;
    e->equation = &own;
    Value *assigned = node->kids[0] ? subscript(e, kept->value, node->kids[0], node->span)
                                    : read_value(e, kept->value, node->span);
    Value *value = assigned->kind == KIND_ERROR ? assigned : evaluate(e, node->kids[1]);
    Expr *expr = value->kind == KIND_ERROR ? NULL : value_expr(e, value);
    e->equation = outer;
    if (!expr || !fits_kept(e, node, assigned, expr)) return;
    Value *next = define(e, arena_format(e->arena, "%s_next", node->name), assigned->dims,
                         assigned->rank, REDUCE_NONE, NULL, 0, expr, node->span);
    if (next->kind == KIND_ERROR) return;
    scope_find(e->scope, node->name)->value = next;
    list_push(e->arena, &matrix->stores, assigned->expr);
    list_push(e->arena, &matrix->stores, next->expr);
}

static const Value *other_optimizer(Elaborator *e, const Node *node) {
    const Value *value = evaluate(e, node->kids[1]);
    if (value->kind == KIND_LAYER && value->layer->kind == NODE_OPTIMIZER) return value;
    if (value->kind != KIND_ERROR)
        report_invalid(e->reports, node->kids[1]->span,
                       "declare an option such as option other: layer = adamw",
                       "expected an optimizer, got %s", value_shown(e, value));
    return NULL;
}

/* The option, or the setting of the parameter for it. */
static void bind_own(Elaborator *e, const ParameterMatrix *matrix, const Node *option) {
    const OwnNumber *own = tensor_own(matrix->parameter, option->name);
    bind_option(e, option, scope_find(e->scope, "(options)")->value->record, NULL);
    Binding *binding = own ? scope_find(e->scope, option->name) : NULL;
    if (binding && binding->value->kind == KIND_NUMBER)
        binding->value = value_number(e, own->value, option->span);
}

static bool matrix_statement(Elaborator *e, const Node *node) {
    ParameterMatrix *matrix = e->matrix;
    if (e->frame->layer->kind != NODE_OPTIMIZER) return false;
    if (matrix->other || e->reports->errors > matrix->errors) return true;
    switch (node->kind) {
    case NODE_STATE:
        state_of(e, matrix, node);
        return true;
    case NODE_UPDATE:
        update_kept(e, matrix, node);
        return true;
    case NODE_OPTION:
        bind_own(e, matrix, node);
        return true;
    case NODE_EQUATION:
        if (strcmp(node->name, "by") != 0) return false;
        matrix->other = other_optimizer(e, node);
        return true;
    case NODE_IF:
    case NODE_REQUIRE:
    case NODE_FOR:
    case NODE_MATCH:
    case NODE_REPEAT:
        return false;
    default:
        report_invalid(e->reports, node->span,
                       "write option, state, require, if, for, match, repeat, an equation, "
                       "or update weight = ...",
                       "this statement is not allowed in an optimizer");
        return true;
    }
}

/* The EMA of the weights, as in the elementwise program. */
static void update_average(Elaborator *e, ParameterMatrix *matrix) {
    Program *program = e->program;
    const Value *weight = scope_find(e->scope, "weight")->value;
    Tensor *tensor = like_weight(e, matrix, "average", ROLE_STATE);
    tensor->path = arena_format(e->arena, "optimizer.average:%s", matrix->parameter->path);
    const KeptValue *kept = matrix->kept.items[0];
    Value *average = tensor_read_value(e, tensor, matrix->indices, kept->value->dims, 2,
                                       matrix->parameter->span);
    Expr *change = expr_apply(program, OP_SUB,
                              expr_substitute(program, weight->expr, weight->dims,
                                              (Expr *[]){expr_index(program, average->dims[0]),
                                                         expr_index(program, average->dims[1])},
                                              2),
                              average->expr, NULL);
    Expr *value =
        expr_apply(program, OP_ADD, average->expr,
                   expr_apply(program, OP_MUL, newest_share(e, e->scope), change, NULL), NULL);
    list_push(e->arena, &matrix->stores, average->expr);
    list_push(e->arena, &matrix->stores, value);
}

static void store_all(Elaborator *e, const ParameterMatrix *matrix) {
    for (int i = 0; i < matrix->stores.count; i += 2) {
        Expr *target = matrix->stores.items[i];
        statement_assign(e->program, e->block, target, matrix->stores.items[i + 1],
                         target->tensor->span);
    }
}

/* Binds the names of weight, gradient, properties and scalars. */
static void bind_parameter(Elaborator *e, ParameterMatrix *matrix) {
    const Tensor *parameter = matrix->parameter;
    Tensor *weight = like_weight(e, matrix, parameter->name, ROLE_PARAMETER);
    weight->path = parameter->path;
    weight->init = parameter->init;
    weight->facts = parameter->facts;
    weight->whole = true;
    const char *name = arena_format(e->arena, "%s_gradient", parameter->name);
    like_weight(e, matrix, name, ROLE_GRADIENT)->of = weight;
    keep_bound_value(e, matrix, "weight");
    bind_parameter_facts(e, matrix);
    step_scalars(e, e->scope, parameter);
    scale_rate(e, parameter);
}

/* The frame of the body: it is mapped over the leading axes; of a repeat it is one iteration. */
static void map_over(Elaborator *e, const ParameterMatrix *matrix, Frame *frame,
                     RepeatBuild *region) {
    for (int i = 0; i < matrix->rank; i++) {
        Index *index = matrix->indices[i];
        if (!is_ahead(matrix, i)) continue;
        if (index->axis->kind != AXIS_REPEAT) {
            frame->ambient[frame->ambient_count++] = index;
            continue;
        }
        Statement *repeat =
            statement_repeat(e->program, e->block, index, false, matrix->parameter->span);
        e->block = &repeat->body;
        region->index = index;
    }
}

const Value *parameter_step(Elaborator *e, const Tensor *parameter, const Value *optimizer) {
    const int errors = e->reports->errors, tensors = e->program->tensors.count;
    ParameterMatrix matrix = {.parameter = parameter, .errors = errors};
    Scope scope = {0}, *outer_scope = e->scope;
    Frame frame, *outer_frame = e->frame;
    Block *outer = e->block, block = {{0}};
    e->block = &block;
    enter_body(e, &frame, &scope, optimizer->layer, optimizer->record);
    Index unrolled = {.of_repeat = true}; /* a repeat in the source is unrolled */
    RepeatBuild region = {.index = &unrolled, .steps = 1}, *outer_region = e->region;
    if (view_as_matrix(e, &matrix)) {
        map_over(e, &matrix, &frame, &region);
        e->region = &region;
        bind_parameter(e, &matrix);
        e->matrix = &matrix;
        e->own_statement = matrix_statement;
        block_statements(e, layer_body(optimizer->layer));
        e->own_statement = NULL;
        if (!matrix.other && keeps_average(e, &scope, optimizer->layer)) update_average(e, &matrix);
        store_all(e, &matrix);
    }
    e->region = outer_region;
    e->block = outer;
    e->scope = outer_scope;
    e->frame = outer_frame;
    if (e->reports->errors > errors)
        report_note(e->reports, parameter->span, "optimizer '%s' is applied to parameter '%s'",
                    optimizer->layer->name, parameter->path);
    if (matrix.other) e->program->tensors.count = tensors; /* the other one creates its own */
    if (matrix.other || e->reports->errors > errors) return matrix.other;
    list_append(e->arena, &outer->statements, &block.statements);
    return NULL;
}

/* parameter_layer: a layer that is applied to a parameter.
 *
 *     parameters = [{ of = "block.*", apply = lora { rank = 8 } }]
 *
 *     y[b,s,f] = sum[d] x[b,s,d] * up[d,f]
 * -->
 *     ... the equations of the layer, which read up; it has parameters such as up.lora.a[d,r]
 *     up_applied[d,f] = y[d,f]                      the result of the layer
 *     y[b,s,f] = sum[d] x[b,s,d] * up_applied[d,f]
 *
 * The equations precede the first that reads the parameter, and belong to its layer. The options
 * `rows` and `columns` of the layer are the axes of the parameter as a matrix, and the layer is
 * mapped over all other axes: see parameter_step.c. The rows come first in the argument.
 */
#include "elaborate/elaborate.h"

#include "analysis/parameter_facts.h"

#include <string.h>

typedef struct AppliedLayer {
    Elaborator *e;
    Tensor *parameter, *result;
    Index *indices[MAX_RANK]; /* of the parameter */
    Index *dims[MAX_RANK];    /* those that the layer is not mapped over */
    int rank;
    Statement *repeat; /* of the parameter, or NULL */
    List *statements;  /* of the repeat or of the program */
    int first;         /* the first of them that reads the parameter */
    bool read;         /* of the last search */
    Value *sides[SIDE_COLUMNS + 1];
} AppliedLayer;

static bool needs_matrix(const Node *layer) {
    return option_called(layer, "rows") || option_called(layer, "columns");
}

bool fits_parameter(const Tensor *parameter, const Value *layer) {
    const ParameterFacts *facts = parameter->facts;
    return !needs_matrix(layer->layer) || facts->product || facts->lookup;
}

static bool has_applied(const Program *program, const Tensor *parameter) {
    for (int i = 0; i < program->applied.count; i += 2)
        if (program->applied.items[i] == parameter) return true;
    return false;
}

static void find_repeat_of(Statement *statement, void *data) {
    AppliedLayer *applied = data;
    if (statement->kind == STATEMENT_REPEAT &&
        statement->index->axis == applied->parameter->axes[0])
        applied->repeat = statement;
}

static void find_parameter_read(Statement *statement, void *data) {
    AppliedLayer *applied = data;
    applied->read |= statement->value && expr_reads(statement->value, applied->parameter);
    for (int i = 0; i < statement->inputs.count; i++)
        applied->read |= expr_reads(statement->inputs.items[i], applied->parameter);
}

static bool is_applied_in(const Application *inner, const Application *layer) {
    while (inner && inner != layer) inner = inner->caller;
    return inner != NULL;
}

static const Application *application_at(const AppliedLayer *applied, int i) {
    return ((Statement *)applied->statements->items[i])->application;
}

/* Finds the first reader; returns the innermost layer of all readers that the parameter is in. */
static Application *find_readers(AppliedLayer *applied) {
    Application *layer = NULL;
    int first = -1;
    for (int i = 0; i < applied->statements->count; i++) {
        Statement *statement = applied->statements->items[i];
        applied->read = false;
        find_parameter_read(statement, applied);
        block_walk(&statement->body, find_parameter_read, applied);
        if (!applied->read) continue;
        if (first < 0) layer = statement->application;
        if (first < 0) first = i;
        while (layer && !is_applied_in(statement->application, layer)) layer = layer->caller;
    }
    while (layer && !path_is_within(applied->parameter->path, layer->path)) layer = layer->caller;
    if (!layer) return applied->e->frame->application;
    /* Not between the equations of a layer inside. */
    const Application *inner = application_at(applied, first);
    while (inner != layer && inner->caller != layer) inner = inner->caller;
    while (inner != layer && first && is_applied_in(application_at(applied, first - 1), inner))
        first--;
    applied->first = first;
    return layer;
}

/* A separate axis for the second of two dimensions with one axis: it is not the same dimension. */
static Axis *separate_axis(Elaborator *e, const Tensor *parameter, int number) {
    Axis *axis = parameter->axes[number];
    for (int i = 0; i < number; i++)
        if (parameter->axes[i] == axis)
            return axis_new(e->program, axis->name, axis->size, axis->kind, axis->span);
    return axis;
}

/* Adds the dimensions of one side. */
static void add_side(AppliedLayer *applied, MatrixSide side, Span span) {
    Elaborator *e = applied->e;
    const Tensor *parameter = applied->parameter;
    applied->sides[side] = value_new(e, KIND_LIST, span);
    for (int i = applied->repeat != NULL; i < parameter->rank; i++) {
        if (matrix_side_of(parameter, i) != side) continue;
        Value *axis = value_new(e, KIND_AXIS, span);
        axis->axis = applied->indices[i]->axis;
        list_push(e->arena, &applied->sides[side]->list, axis);
        applied->dims[applied->rank++] = applied->indices[i];
    }
}

static void index_parameter(AppliedLayer *applied, Frame *frame) {
    const Tensor *parameter = applied->parameter;
    for (int i = 0; i < parameter->rank; i++) {
        Index **index = &applied->indices[i];
        const bool stacked = i == 0 && applied->repeat;
        *index = stacked ? applied->repeat->index
                         : index_over(applied->e->program, separate_axis(applied->e, parameter, i));
        if (!stacked && matrix_side_of(parameter, i) == SIDE_AHEAD)
            frame->ambient[frame->ambient_count++] = *index;
    }
    add_side(applied, SIDE_ROWS, frame->call);
    add_side(applied, SIDE_COLUMNS, frame->call);
}

/* Its options, with the axes. */
static Record *layer_options(const AppliedLayer *applied, const Value *layer) {
    static const char *const names[] = {[SIDE_ROWS] = "rows", [SIDE_COLUMNS] = "columns"};
    Elaborator *e = applied->e;
    Record *options = record_new(e);
    for (int i = SIDE_ROWS; i <= SIDE_COLUMNS; i++)
        if (option_called(layer->layer, names[i]))
            record_set(e, options, names[i], applied->sides[i], layer->span);
    return options;
}

/* Whether the result has the dimensions of the parameter; false after a report. */
static bool has_its_shape(const AppliedLayer *applied, const Value *result, const Value *layer) {
    bool same = result->kind == KIND_TENSOR && result->rank == applied->rank;
    for (int i = 0; same && i < applied->rank; i++)
        same = indices_have(result->dims, result->rank, applied->dims[i]);
    if (same || result->kind == KIND_ERROR) return same;
    report_error(applied->e->reports, layer->span,
                 "the result of layer '%s' has other axes than parameter '%s'", layer->layer->name,
                 applied->parameter->path);
    report_note(applied->e->reports, layer->layer->name_span, "declared here");
    return report_help(applied->e->reports,
                       "a layer that is applied to a parameter returns a tensor with its axes");
}

/* Outputs, metrics, and updates of states: those of the layers are complete. */
static int effects_of(const Elaborator *e) {
    return e->named.count + e->probed.count + e->once.count + e->terms.count +
           e->region->terms.count + (e->loss != NULL);
}

/* Appends the equations of the layer to the current block. */
static void applied_equations(AppliedLayer *applied, Value *layer) {
    Elaborator *e = applied->e;
    Tensor *parameter = applied->parameter;
    Equation own = {0};
    e->equation = &own;
    Value *stored = value_tensor(e, expr_read_indices(e->program, parameter, applied->indices),
                                 applied->dims, applied->rank, layer->span);
    const int effects = effects_of(e);
    const Value *result = apply_layer(e, layer, layer->layer->name, false, NULL, 0, &stored, 1,
                                      layer_options(applied, layer), layer->span);
    if (!has_its_shape(applied, result, layer)) return;
    if (effects_of(e) > effects) {
        report_invalid(e->reports, layer->span, "keep its parameters and its equations",
                       "layer '%s' of a parameter has a loss, an output, a metric or an update",
                       layer->layer->name);
        return;
    }
    const int stacked = applied->repeat != NULL;
    Index *const *indices = applied->indices + stacked;
    applied->result =
        tensor_over(e->program, arena_format(e->arena, "%s_applied", parameter->name), ROLE_TEMP,
                    TYPE_REAL, indices, parameter->rank - stacked, layer->span);
    applied->result->spec_name = parameter->path;
    statement_assign(e->program, e->block, expr_read_indices(e->program, applied->result, indices),
                     result->expr, layer->span)
        ->application = e->frame->application;
}

static Expr *read_applied(Program *program, Expr *read, void *data) {
    const AppliedLayer *applied = data;
    if (read->tensor != applied->parameter) return NULL;
    return expr_read(program, applied->result, read->args + (applied->repeat != NULL));
}

static void update_scan_reads(Statement *statement, void *program) {
    if (statement_is_scan(statement)) scan_operands(program, statement);
}

static void rewrite_all(const AppliedLayer *applied, const List *statements) {
    for (int i = 0; i < statements->count; i++)
        rewrite_statement(applied->e->program, statements->items[i], false, read_applied,
                          (void *)(uintptr_t)applied);
}

/* Replaces the parameter in the program, and adds the block of the layer. */
static void replace_parameter(const AppliedLayer *applied, Block *block) {
    Elaborator *e = applied->e;
    Program *program = e->program;
    rewrite_all(applied, &program->body.statements);
    rewrite_all(applied, &e->once);
    block_walk(&program->body, update_scan_reads, program);
    list_insert(e->arena, applied->statements, applied->first, &block->statements);
    list_push(e->arena, &program->applied, applied->parameter);
    list_push(e->arena, &program->applied, applied->result);
}

bool apply_to_parameter(Elaborator *e, Tensor *parameter, Value *layer) {
    const Elaborator saved = *e;
    const int errors = e->reports->errors;
    if (has_applied(e->program, parameter))
        return report_invalid(e->reports, layer->span, "apply one layer that applies both",
                              "two layers are applied to parameter '%s'", parameter->path);
    AppliedLayer applied = {.e = e, .parameter = parameter};
    Block block = {{0}};
    Scope scope = {0};
    Frame frame = {.layer = e->frame->layer,
                   .path = parameter->path,
                   .stored = parameter->path,
                   .caller = e->frame,
                   .call = layer->span,
                   .repeats = parameter->repeats};
    block_walk(&e->program->body, find_repeat_of, &applied);
    applied.statements =
        applied.repeat ? &applied.repeat->body.statements : &e->program->body.statements;
    frame.application = find_readers(&applied);
    RepeatBuild region = {.index = applied.repeat ? applied.repeat->index : NULL, .steps = 1};
    index_parameter(&applied, &frame);
    e->block = &block;
    e->scope = &scope;
    e->frame = &frame;
    e->region = &region;
    applied_equations(&applied, layer);
    e->block = saved.block;
    e->scope = saved.scope;
    e->frame = saved.frame;
    e->region = saved.region;
    e->equation = saved.equation;
    if (e->reports->errors > errors) {
        report_note(e->reports, parameter->span, "layer '%s' is applied to parameter '%s'",
                    layer->layer->name, parameter->path);
        return false;
    }
    replace_parameter(&applied, &block);
    return true;
}

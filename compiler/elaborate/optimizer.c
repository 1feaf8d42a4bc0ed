/* optimizer: the program of one optimizer step, GRAPH_UPDATE and GRAPH_STEP.
 *
 * Most optimizers are elementwise: their program has one parameter of unknown length, `weight[i]`.
 * An optimizer that reads properties of a parameter, or its rows and columns, is read for each of
 * its parameters (parameter_step.c). Parameters that it delegates, `by = other`, are treated the
 * same way or belong to the elementwise program.
 */
#include "elaborate/elaborate.h"

#include "analysis/parameter_facts.h"

#include <string.h>

static Value *scalar_input(Elaborator *e, Scope *scope, const char *name, MoecScalar kind) {
    Tensor *tensor = scalar_tensor(e, name, kind);
    Value *value = value_tensor(e, expr_read(e->program, tensor, NULL), NULL, 0, (Span){0});
    scope_bind(e, scope, name, value, (Span){0});
    return value;
}

static Tensor *element_tensor(Elaborator *e, Scope *scope, const char *name, Role role,
                              Index *index, Span span) {
    Tensor *tensor = tensor_new(e->program, name, role, TYPE_REAL, 1, &index->axis, span);
    tensor->path = name;
    scope_bind(e, scope, name,
               value_tensor(e, expr_read_indices(e->program, tensor, &index), &index, 1, span),
               span);
    return tensor;
}

static void element_update(Elaborator *e, const Node *node, Index *index) {
    Binding *binding = scope_find(e->scope, node->name);
    Tensor *tensor =
        binding && binding->value->kind == KIND_TENSOR && binding->value->expr->kind == EXPR_READ
            ? binding->value->expr->tensor
            : NULL;
    if (!tensor || (tensor->role != ROLE_STATE && tensor->role != ROLE_PARAMETER)) {
        report_error(e->reports, node->name_span,
                     "'%s' is neither 'weight' nor a state of the optimizer", node->name);
        report_help(e->reports, "declare it as state %s = 0", node->name);
        return;
    }
    Equation own = {0};
    EquationIndex entry = {.name = index->name, .index = index};
    list_push(e->arena, &own.indices, &entry);
    e->equation = &own;
    Value *value = evaluate(e, node->kids[1]);
    Expr *expr = value->kind == KIND_ERROR ? NULL : value_expr(e, value);
    e->equation = NULL;
    if (!expr) return;
    Expr *target = expr_read_indices(e->program, tensor, &index);
    statement_assign(e->program, e->block, target, expr, node->span);
}

/* An option that is an attribute of some parameters is an input of the program. Its initial value
 * applies to the other parameters. */
static void set_own_option(Elaborator *e, const char *name) {
    bool own = false;
    for (int i = 0; i < e->unit->own.count; i++) own |= !strcmp(e->unit->own.items[i], name);
    Binding *binding = own ? scope_find(e->scope, name) : NULL;
    if (!binding || binding->value->kind != KIND_NUMBER) return;
    double number = binding->value->number;
    Scope scope = {0};
    binding->value = scalar_input(e, &scope, name, MOEC_SCALAR_OPTION);
    binding->value->expr->tensor->init = (Init){MOEC_INIT_CONSTANT, number, 0};
}

static void optimizer_body(Elaborator *e, const Node *body, Index *index) {
    for (int i = 0; i < body->count; i++) {
        const Node *node = body->kids[i];
        if (node->kind == NODE_STATE) {
            double start = 0;
            if (!evaluate_number(e, node->kids[1], "the start of a state", &start)) continue;
            element_tensor(e, e->scope, node->name, ROLE_STATE, index, node->name_span)->init =
                (Init){MOEC_INIT_CONSTANT, start, 0};
        } else if (node->kind == NODE_UPDATE)
            element_update(e, node, index);
        else if (node->kind == NODE_EQUATION || node->kind == NODE_OPTION ||
                 node->kind == NODE_REQUIRE) {
            Node wrapper = {.kind = NODE_BLOCK, .kids = (Node **)&body->kids[i], .count = 1};
            block_statements(e, &wrapper);
            if (node->kind == NODE_OPTION) set_own_option(e, node->name);
        } else if (node->kind == NODE_IF) {
            bool yes;
            if (!evaluate_flag(e, node->kids[0], &yes)) continue;
            const Node *branch = yes ? node->kids[1] : node->kids[2];
            const Node otherwise = {.kind = NODE_BLOCK, .kids = (Node **)&branch, .count = 1};
            if (!branch) continue;
            scope_push(e)->transparent = true;
            optimizer_body(e, branch->kind == NODE_IF ? &otherwise : branch, index);
            scope_pop(e);
        } else
            report_invalid(e->reports, node->span,
                           "write option, state, require, if, an equation, or update weight = ...",
                           "this statement is not allowed in an optimizer");
    }
}

void enter_body(Elaborator *e, Frame *frame, Scope *scope, const Node *layer, Record *given) {
    static Frame root = {.path = "", .stored = ""};
    *frame = (Frame){
        .layer = layer, .path = "", .stored = "", .call = layer->name_span, .caller = &root};
    e->frame = frame;
    e->scope = scope;
    Value *options = value_new(e, KIND_RECORD, layer->span);
    options->record = given;
    scope_bind(e, scope, "(options)", options, layer->span);
    check_unknown_options(e, layer, given);
}

static void schedule_program(Elaborator *e, const Value *schedule) {
    Scope scope = {0};
    Frame frame;
    scalar_input(e, &scope, "schedule_step", MOEC_SCALAR_SCHEDULE_STEP);
    ((Binding *)scope.bindings.items[0])->name = "step";
    scalar_input(e, &scope, "steps", MOEC_SCALAR_SCHEDULE_STEPS);
    enter_body(e, &frame, &scope, schedule->layer, schedule->record);
    block_statements(e, layer_body(schedule->layer));
    Binding *rate = scope_find(&scope, "rate");
    Expr *expr = rate ? value_expr(e, rate->value) : NULL;
    if (!rate)
        report_invalid(e->reports, schedule->layer->name_span, "add rate = ...",
                       "schedule '%s' never defines 'rate'", schedule->layer->name);
    if (expr) output_scalar(e, "rate", expr, rate->span);
}

/* (1 - decay) / (1 - decay^step): the average needs no initialization with the weights. */
Expr *newest_share(Elaborator *e, const Scope *scope) {
    Program *program = e->program;
    Expr *step = scope_find(scope, "step")->value->expr, *one = expr_number(program, 1);
    Expr *old = expr_apply(program, OP_POW, expr_number(program, e->average), step, NULL);
    return expr_apply(program, OP_DIV, expr_number(program, 1 - e->average),
                      expr_apply(program, OP_SUB, one, old, NULL), NULL);
}

bool keeps_average(Elaborator *e, const Scope *scope, const Node *optimizer) {
    if (e->average <= 0) return false;
    const Binding *own = scope_own(scope, "average");
    if (!own) return true;
    return report_invalid(e->reports, optimizer->name_span, "set train.ema_decay = 0",
                          "optimizer '%s' already defines 'average'", optimizer->name);
}

/* average = average + share * (weight - average), after the update of the weight. */
static void average_elements(Elaborator *e, Scope *scope, Index *index) {
    Program *program = e->program;
    Expr *weight = scope_find(scope, "weight")->value->expr;
    Tensor *tensor = element_tensor(e, scope, "average", ROLE_STATE, index, weight->span);
    Expr *average = expr_read_indices(program, tensor, &index);
    Expr *change = expr_apply(program, OP_SUB, weight, average, NULL);
    Expr *value =
        expr_apply(program, OP_ADD, average,
                   expr_apply(program, OP_MUL, newest_share(e, scope), change, NULL), NULL);
    statement_assign(program, e->block, average, value, weight->span);
}

/* The elementwise program of an optimizer; NULL: no elementwise optimizer. */
static void element_program(Elaborator *e, const Value *optimizer, Span span) {
    Scope scope = {0};
    Frame frame;
    Axis *axis = axis_new(e->program, "elements", 1, AXIS_ELEMENTS, span);
    Index *index = index_new(e->program, "i", axis);
    step_scalars(e, &scope, NULL);
    element_tensor(e, &scope, "weight", ROLE_PARAMETER, index, span);
    element_tensor(e, &scope, "grad", ROLE_INPUT, index, span)->input = MOEC_INPUT_REAL;
    if (!optimizer) return;
    enter_body(e, &frame, &scope, optimizer->layer, optimizer->record);
    optimizer_body(e, layer_body(optimizer->layer), index);
    if (keeps_average(e, &scope, optimizer->layer)) average_elements(e, &scope, index);
}

void step_scalars(Elaborator *e, Scope *scope, const Tensor *parameter) {
    scalar_input(e, scope, "lr", MOEC_SCALAR_RATE);
    scalar_input(e, scope, "step", MOEC_SCALAR_STEP);
    scalar_input(e, scope, "steps", MOEC_SCALAR_STEPS);
    if (!parameter) scalar_input(e, scope, "matrix", MOEC_SCALAR_MATRIX);
    const int group = parameter ? parameter->clip_group : 0;
    const char *name = group ? arena_format(e->arena, "clip_%d", group) : "clip";
    Value *clip = scalar_input(e, scope, name, MOEC_SCALAR_CLIP);
    clip->expr->tensor->clip_group = group;
    if (group) scope_bind(e, scope, "clip", clip, (Span){0});
}

static bool is_same_layer(Elaborator *e, const Value *a, const Value *b) {
    return a->layer == b->layer && !strcmp(value_text(e, a), value_text(e, b));
}

/* Finds the parameters that are read one by one. Returns the optimizer of all others, the first
 * elementwise one, or NULL. The statements created here are discarded. */
static const Value *choose_optimizers(Elaborator *e, const Value *optimizer) {
    Elaborator saved = *e;
    const List *all = &e->unit->parameters->tensors;
    const Value *others = NULL;
    e->program = program_new(e->arena, e->reports, "step", GRAPH_STEP, e->unit->calls);
    e->block = &e->program->body;
    e->unit->whole = (List){0};
    const int errors = e->reports->errors;
    for (int i = 0; i < all->count && e->reports->errors == errors; i++) {
        Tensor *tensor = all->items[i];
        if (tensor->role != ROLE_PARAMETER || !is_trained(tensor)) continue;
        const Value *mine = optimizer;
        while (mine && sees_parameters(mine->layer) && e->reports->errors == errors)
            mine = parameter_step(e, tensor, mine);
        if (mine && !others) others = mine;
        if (!mine || !is_same_layer(e, mine, others))
            list_push(e->arena, &e->unit->whole, (void *)(uintptr_t)tensor->path);
    }
    saved.watches = e->watches;
    saved.steps = e->steps;
    *e = saved;
    return others;
}

static Value *train_layer(Elaborator *e, const Node *layer, Record *record) {
    Value *train = train_group(e, layer, record);
    if (train && train->kind == KIND_LAYER) {
        e->average = group_number(e, train, "ema_decay", 0, NULL);
        return train;
    }
    if (!e->reports->errors)
        report_invalid(e->reports, layer->name_span, "add option train: layer = train",
                       "layer '%s' has no option 'train' and cannot be trained", layer->name);
    return NULL;
}

void update_program(Elaborator *e, const Node *layer, Record *record) {
    Value *train = train_layer(e, layer, record);
    if (!train) return;
    Value *schedule = group_layer(e, train, "schedule");
    const Value *optimizer = group_layer(e, train, "optimizer");
    if (e->reports->errors || !optimizer) return;
    if (schedule) schedule_program(e, schedule);
    int errors = e->reports->errors;
    if (sees_parameters(optimizer->layer)) optimizer = choose_optimizers(e, optimizer);
    if (e->reports->errors == errors) element_program(e, optimizer, layer->span);
}

void step_program(Elaborator *e, const Node *layer, Record *record) {
    Value *train = train_layer(e, layer, record);
    const Value *optimizer = train ? group_layer(e, train, "optimizer") : NULL;
    const List *all = &e->unit->parameters->tensors;
    for (int i = 0; optimizer && i < all->count && !e->reports->errors; i++) {
        Tensor *tensor = all->items[i];
        if (tensor->role != ROLE_PARAMETER || !list_has_text(&e->unit->whole, tensor->path))
            continue;
        const Value *mine = optimizer;
        while (mine && !e->reports->errors) mine = parameter_step(e, tensor, mine);
    }
}

/* statement: read the statements of a layer into the current block: axes, parameters and states,
 * inputs, names, losses, metrics, updates and nested bodies.
 */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

static bool declare_once(Elaborator *e, const Node *node) {
    Binding *before = scope_find(e->scope, node->name);
    if (!before) return true;
    report_error(e->reports, node->name_span, "duplicate declaration of '%s'", node->name);
    report_note(e->reports, before->span, "first declared here");
    return report_help(e->reports, "rename one of them");
}

bool axis_can_have(Elaborator *e, const char *name, double size, Span span) {
    if (size == floor(size) && size >= 1 && size <= MAX_SIZE) return true;
    return report_invalid(e->reports, span, "write an integer from 1, such as 64",
                          "axis '%s' expects an integer size from 1 to %d, got %.9g", name,
                          MAX_SIZE, size);
}

static const char *path_here(Elaborator *e, const Node *node) {
    const char *path = e->frame->stored;
    const char *name = name_of_its_own(e, &e->frame->declared, node);
    return *path ? arena_format(e->arena, "%s.%s", path, name) : name;
}

/* The axis that a shared layer declared in its first application. Reports another size. */
static Axis *shared_axis(Elaborator *e, const Node *node, const char *path, double size) {
    for (int i = 0; e->frame->shared && i < e->axes.count; i++) {
        const Binding *binding = e->axes.items[i];
        if (strcmp(binding->name, path)) continue;
        Axis *axis = binding->value->axis;
        if ((double)axis->size == size) return axis;
        report_error(e->reports, e->frame->call,
                     "'%s' is shared, but axis '%s' has size %.9g here and size %ld before",
                     e->frame->path, node->name, size, axis->size);
        report_note(e->reports, node->span, "declared here");
        report_help(e->reports, "use the same options in both applications, or two labels");
        return NULL;
    }
    return NULL;
}

static Value *new_axis(Elaborator *e, const Node *node, double size) {
    bool sequence = node->kind == NODE_SEQUENCE;
    int errors = e->reports->errors;
    const char *path = path_here(e, node);
    Value *value = value_new(e, KIND_AXIS, node->span);
    value->axis = shared_axis(e, node, path, size);
    if (e->reports->errors > errors) return value_error(e, node->span);
    if (value->axis) return value;
    value->axis = axis_new(e->program, node->name, (long)size,
                           sequence ? AXIS_SEQUENCE : AXIS_PLAIN, node->span);
    if (sequence) e->program->sequence = value->axis;
    Binding *declared = arena_alloc(e->arena, sizeof *declared);
    *declared = (Binding){path, value, node->span};
    list_push(e->arena, &e->axes, declared);
    return value;
}

/* The size of an axis of the outermost layer, or its size in the model `shape` if that is set. */
static double shaped(Elaborator *e, const char *name, double size) {
    const Program *shape = e->unit->shape;
    for (int i = 0; shape && !e->frame->caller && i < shape->axes.count; i++) {
        const Axis *axis = shape->axes.items[i];
        if (axis->kind == AXIS_PLAIN && !strcmp(axis->name, name)) return (double)axis->size;
    }
    return size;
}

static void axis_statement(Elaborator *e, const Node *node) {
    double size;
    Value *value = value_error(e, node->span);
    if (!declare_once(e, node)) return;
    if (node->kind == NODE_SEQUENCE && e->program->sequence) {
        report_error(e->reports, node->span, "duplicate sequence: a model has one");
        report_note(e->reports, e->program->sequence->span, "first declared here");
        report_help(e->reports, "declare this one with 'axis'");
        return;
    }
    if (evaluate_number(e, node->kids[0], "the size of an axis", &size)) {
        size = shaped(e, node->name, size);
        const Span blamed = blamed_here(e, node->kids[0]);
        if (axis_can_have(e, node->name, size, blamed.source ? blamed : node->kids[0]->span))
            value = new_axis(e, node, size);
        if (value->kind == KIND_AXIS) value->axis->asked = blamed.source ? blamed : asked_here(e);
    }
    scope_bind(e, e->scope, node->name, value, node->name_span);
}

bool declared_dims(Elaborator *e, const char *name, const Node *subs, Index **dims, int *rank) {
    for (int i = 0; subs && i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        Binding *binding = sub->kind == NODE_NAME ? scope_find(e->scope, sub->name) : NULL;
        Value *value = binding ? binding->value : NULL;
        bool fine = true;
        const List *list = axis_list(e, sub, &fine);
        if (!fine || (value && value->kind == KIND_ERROR)) return false;
        if (!fits_rank(e, name, *rank + (list ? list->count : 1), sub->span)) return false;
        for (int j = 0; list && j < list->count; j++) {
            Axis *axis = ((Value *)list->items[j])->axis;
            dims[(*rank)++] = index_over(e->program, axis);
        }
        if (list) continue;
        if (!value || value->kind != KIND_AXIS) {
            report_error(e->reports, sub->span, "expected the name of an axis%s",
                         sub->kind == NODE_NAME ? arena_format(e->arena, ", got '%s'", sub->name)
                                                : "");
            if (sub->kind == NODE_NAME) report_help(e->reports, "declare axis %s = ...", sub->name);
            if (sub->kind == NODE_NUMBER)
                report_help(e->reports,
                            "declare an axis with this size, such as axis f = %.*s, and "
                            "write its name",
                            sub->span.end - sub->span.start,
                            sub->span.source->text + sub->span.start);
            return false;
        }
        dims[(*rank)++] = index_over(e->program, value->axis);
    }
    return true;
}

static const char *identifier(Elaborator *e, const char *path) {
    char *text = arena_copy(e->arena, path, strlen(path));
    char *to = text;
    for (const char *from = path; *from; from++) {
        if (*from == '{') {
            while (*from && *from != '}') from++;
            continue;
        }
        *to++ = *from == '.' ? '_' : *from;
    }
    *to = 0;
    char *squeezed = text, *write = text;
    for (; *squeezed; squeezed++)
        if (*squeezed != '_' || write == text || write[-1] != '_') *write++ = *squeezed;
    *write = 0;
    return text;
}

/* Finds the tensor of a layer that is applied again under its label. False after a report if it has
 * another shape. */
static bool shared_tensor(Elaborator *e, const Node *node, const char *path, Axis *const *axes,
                          int rank, Tensor **found) {
    for (int i = 0; e->frame->shared && i < e->program->tensors.count; i++) {
        Tensor *tensor = e->program->tensors.items[i];
        bool stored = tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE;
        if (!stored || strcmp(tensor->path, path)) continue;
        bool same = tensor->rank == rank;
        for (int j = 0; same && j < rank; j++) same = tensor->axes[j]->size == axes[j]->size;
        *found = tensor;
        if (same) return true;
        report_error(e->reports, e->frame->call,
                     "'%s' is shared, but its '%s' has another shape here", e->frame->path,
                     node->name);
        report_note(e->reports, node->span, "declared here");
        return report_help(e->reports,
                           "apply it to arguments with the same axes, or use two labels");
    }
    return true;
}

/* A parameter or state. Its dimensions are the iteration of the repeat, the indices that the layer
 * is mapped over except batch, and its own dimensions. */
static Value *declare_stored(Elaborator *e, const Node *node, Role role, Stored *stored) {
    Index *own[MAX_RANK], *all[MAX_RANK * 3];
    Axis *axes[MAX_RANK * 3];
    int rank = 0, count = 0;
    if (!declared_dims(e, node->name, node->kids[0], own, &rank)) return value_error(e, node->span);
    bool stacked = e->region && e->region->index && !e->region->shared;
    if (stacked) all[count++] = e->region->index;
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (e->frame->ambient[i] != e->batch && e->frame->ambient[i] != e->scanned &&
            e->frame->ambient[i]->axis->kind != AXIS_SEQUENCE)
            all[count++] = e->frame->ambient[i];
    int lead = count;
    for (int i = 0; i < rank; i++) all[count++] = own[i];
    if (!fits_rank(e, node->name, count - stacked, node->span)) return value_error(e, node->span);
    for (int i = 0; i < count; i++) axes[i] = all[i]->axis;
    Tensor *tensor = NULL;
    const char *path = path_here(e, node);
    if (!shared_tensor(e, node, path, axes, count, &tensor)) return value_error(e, node->span);
    stored->known = tensor != NULL;
    if (!tensor) {
        tensor = tensor_new(e->program, identifier(e, path), role, TYPE_REAL, count, axes,
                            node->name_span);
        tensor->path = path;
        tensor->lead = lead;
        tensor->repeats = e->frame->repeats;
    }
    stored->tensor = tensor;
    stored->scope = e->scope;
    return value_tensor(e, expr_read_indices(e->program, tensor, all), own, rank, node->name_span);
}

static bool init_call(Elaborator *e, const Node *node, Init *init) {
    const Node *callee = node->kids[0], *args = node->kids[1];
    double numbers[2] = {0, 0};
    bool normal = callee->kind == NODE_NAME && !strcmp(callee->name, "normal");
    bool uniform = callee->kind == NODE_NAME && !strcmp(callee->name, "uniform");
    if ((!normal && !uniform) || args->count < 1 || args->count > 2) return false;
    for (int i = 0; i < args->count; i++)
        if (!evaluate_number(e, args->kids[i], "an initial value", &numbers[i])) return true;
    init->kind = normal ? MOEC_INIT_NORMAL : MOEC_INIT_UNIFORM;
    init->a = normal && args->count == 1    ? 0
              : uniform && args->count == 1 ? -numbers[0]
                                            : numbers[0];
    init->b = args->count == 1 ? numbers[0] : numbers[1];
    return true;
}

/* ~ normal(std), normal(mean, std), uniform(limit), uniform(low, high), zeros, ones, a number. */
bool evaluate_init(Elaborator *e, const Stored *stored, double fan_in, double fan_out, Init *init) {
    const Node *node = stored->init;
    *init = (Init){MOEC_INIT_NORMAL, 0, 1 / sqrt(fan_in)};
    if (!node) return true;
    Scope scope = {.parent = stored->scope}, *outer = e->scope;
    scope_bind(e, &scope, "fan_in", value_number(e, fan_in, node->span), node->span);
    scope_bind(e, &scope, "fan_out", value_number(e, fan_out, node->span), node->span);
    e->scope = &scope;
    int errors = e->reports->errors;
    bool zeros = node->kind == NODE_NAME && !strcmp(node->name, "zeros"),
         ones = node->kind == NODE_NAME && !strcmp(node->name, "ones");
    bool fine = true;
    if (zeros || ones)
        *init = (Init){MOEC_INIT_CONSTANT, ones, 0};
    else if (node->kind != NODE_CALL || !init_call(e, node, init)) {
        double number = 0;
        const Node *name = node->kind == NODE_CALL ? node->kids[0] : node;
        bool called = node->kind == NODE_CALL && name->kind == NODE_NAME;
        if ((called && op_find(name->name, 1) < 0) ||
            (name->kind == NODE_NAME && !called && !scope_find(e->scope, name->name))) {
            report_invalid(e->reports, node->span,
                           "use normal(std), uniform(limit), zeros, ones or a number",
                           "unknown initialization '%s'", name->name);
            fine = false;
        } else
            fine = evaluate_number(e, node, "an initial value", &number);
        *init = (Init){MOEC_INIT_CONSTANT, number, 0};
    }
    e->scope = outer;
    return fine && e->reports->errors == errors;
}

static void stored_statement(Elaborator *e, const Node *node, Role role) {
    if (!declare_once(e, node)) return;
    if (e->program->graph == GRAPH_UPDATE || e->program->graph == GRAPH_STEP) {
        report_error(e->reports, e->frame->call,
                     "an optimizer cannot apply a layer with parameters or states");
        report_note(e->reports, node->span, "'%s' is declared here", node->name);
        report_help(e->reports,
                    "write the equations in the optimizer, and declare its states there");
        scope_bind(e, e->scope, node->name, value_error(e, node->span), node->name_span);
        return;
    }
    Stored *stored = arena_alloc(e->arena, sizeof *stored);
    stored->init = node->kids[1];
    Value *value = declare_stored(e, node, role, stored);
    if (value->kind != KIND_ERROR && !stored->known) {
        list_push(e->arena, &e->stored, stored);
        if (!evaluate_init(e, stored, 1, 1, &stored->tensor->init)) stored->init = NULL;
        if (role == ROLE_PARAMETER) declared_attributes(e, node->kids[2], stored->tensor);
    }
    scope_bind(e, e->scope, node->name, value, node->name_span);
}

static const char *const input_kinds[] = {"token", "next_token", "float", "class"};

/* Whether the input is a sequence of tokens: the only input of its kind, over the sequence axis. */
static bool is_of_text(const Program *program, const Tensor *input) {
    LIST_EACH(const Tensor, other, &program->tensors)
        if (other->role == ROLE_INPUT && other != input && other->input == input->input)
            return false;
    return (input->input == MOEC_INPUT_TOKEN || input->input == MOEC_INPUT_NEXT) &&
           input->rank == 2 && input->axes[1]->kind == AXIS_SEQUENCE;
}

/* A token or next input must be a sequence if it is the only input of a model. */
static void report_shape(Elaborator *e, const Tensor *input) {
    const Axis *sequence = e->program->sequence;
    const char *kind = input_kinds[input->input];
    report_error(e->reports, input->span,
                 "'%s' must have one dimension, the sequence: a %s input is a sequence of tokens",
                 input->name, kind);
    report_help(e->reports,
                sequence ? "write input %s[%s]: %s"
                         : "add 'sequence s = ...' and write input %s[%s]: %s",
                input->name, sequence ? sequence->name : "s", kind);
}

void decide_inputs(Elaborator *e) {
    List inputs = {0};
    bool text = true, alone = true;
    if (is_refining(e)) return; /* the command that refines sets each input by its name */
    LIST_EACH(Tensor, input, &e->program->tensors) {
        if (input->role != ROLE_INPUT) continue;
        for (int j = 0; j < inputs.count; j++)
            alone &= ((const Tensor *)inputs.items[j])->input != input->input;
        alone &= input->input == MOEC_INPUT_TOKEN || input->input == MOEC_INPUT_NEXT;
        text &= is_of_text(e->program, input);
        list_push(e->arena, &inputs, input);
    }
    for (int i = 0; !text && i < inputs.count && !e->reports->errors; i++) {
        Tensor *input = inputs.items[i];
        if (alone && !is_of_text(e->program, input)) report_shape(e, input);
        bool token = input->input == MOEC_INPUT_TOKEN || input->input == MOEC_INPUT_NEXT;
        if (!alone && token) input->input = MOEC_INPUT_CLASS;
    }
}

static void input_statement(Elaborator *e, const Node *node) {
    const char *kind = node->kids[1]->name;
    const int which = text_find(input_kinds, 4, kind);
    if (!declare_once(e, node)) return;
    if (which < 0) {
        report_error(e->reports, node->kids[1]->span, "unknown input kind '%s'", kind);
        report_help(e->reports, "use one of %s", names_text(e->arena, input_kinds, 4));
        return;
    }
    if (e->frame->caller) {
        report_invalid(e->reports, node->span, "move the input to the layer of the model",
                       "inputs are allowed only in the outermost layer of a model");
        return;
    }
    Index *dims[MAX_RANK], *all[MAX_RANK + 1];
    int rank = 0;
    Value *value = value_error(e, node->span);
    if (declared_dims(e, node->name, node->kids[0], dims, &rank) &&
        fits_rank(e, node->name, rank + 1, node->span)) {
        all[0] = e->batch;
        for (int i = 0; i < rank; i++) all[i + 1] = dims[i];
        Tensor *tensor =
            tensor_over(e->program, node->name, ROLE_INPUT, which == 2 ? TYPE_REAL : TYPE_INT, all,
                        rank + 1, node->name_span);
        tensor->path = node->name;
        tensor->input = tensor->declared = (MoecInput)which;
        value = value_tensor(e, expr_read_indices(e->program, tensor, all), dims, rank,
                             node->name_span);
        if (node->kids[2]) value = starting_input(e, node, value);
    }
    scope_bind(e, e->scope, node->name, value, node->name_span);
}

/* A state is the same for all tokens of a batch; its new value must be the same, too. */
static bool fits_state(Elaborator *e, const Value *assigned, Expr *expr, const Node *node) {
    Index *used[MAX_LOOPS * 2];
    int count = free_indices(e, expr, used);
    count += ambient_used(e, expr, used + count);
    for (int i = 0; i < count; i++) {
        if (expr_uses_index(assigned->expr, used[i])) continue;
        const char *name = used[i] == e->batch ? "batch" : used[i]->name;
        report_error(e->reports, node->kids[1]->span,
                     "the new value of '%s' depends on index '%s', but the state does not",
                     node->name, name);
        return report_help(e->reports, "reduce it with mean[%s] or sum[%s]", name, name);
    }
    return true;
}

/* A state has one update per step, also in shared layers. */
static bool is_updated(Elaborator *e, const Node *node, const Tensor *state) {
    LIST_EACH(const Statement, store, &e->once) {
        if (store->target->tensor != state) continue;
        report_error(e->reports, node->span, "duplicate update of '%s'", state->path);
        report_note(e->reports, store->span, "first updated here");
        report_help(e->reports, e->frame->shared
                                    ? "use two labels: a shared layer cannot update a state"
                                    : "write one update with both terms");
        return true;
    }
    return false;
}

/* The argument of step_mean(...), or NULL for another expression. */
static const Node *gathered(const Node *value) {
    bool call = value->kind == NODE_CALL && value->kids[0]->kind == NODE_NAME;
    if (!call || strcmp(value->kids[0]->name, "step_mean") || value->kids[1]->count != 1)
        return NULL;
    return value->kids[1]->kids[0];
}

/* Once per step: the new value is computed here and stored at the end of the step. */
static void store_later(Elaborator *e, const Node *node, Tensor *tensor, const Expr *assigned,
                        Expr *expr) {
    Tensor *next = tensor_new(e->program, arena_format(e->arena, "%s_next", tensor->name),
                              ROLE_TEMP, TYPE_REAL, tensor->rank, tensor->axes, node->span);
    Expr *target = expr_read(e->program, next, assigned->args);
    statement_assign(e->program, e->block, target, expr, node->span);
    Index *all[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) all[i] = index_over(e->program, tensor->axes[i]);
    Block later = {{0}};
    Statement *store =
        statement_assign(e->program, &later, expr_read_indices(e->program, tensor, all),
                         expr_read_indices(e->program, next, all), node->span);
    store->once = true;
    list_push(e->arena, &e->once, store);
}

/* The contribution of this micro-batch to a step_mean, as an output with the name of the state. */
static void gather_output(Elaborator *e, const Node *node, const Tensor *tensor,
                          const Expr *assigned, Expr *expr) {
    Tensor *out = tensor_new(e->program, tensor->name, ROLE_OUTPUT, TYPE_REAL, tensor->rank,
                             tensor->axes, node->span);
    out->path = tensor->path;
    Expr *target = expr_read(e->program, out, assigned->args);
    statement_assign(e->program, e->block, target, expr, node->span);
    list_push(e->arena, &e->probed, out);
}

/* update bias[n] = expr, or = step_mean(expr). */
static void update_statement(Elaborator *e, const Node *node) {
    Binding *binding = scope_find(e->scope, node->name);
    bool state = binding && binding->value->kind == KIND_TENSOR &&
                 binding->value->expr->kind == EXPR_READ &&
                 binding->value->expr->tensor->role == ROLE_STATE;
    if (!state) {
        if (!binding || binding->value->kind != KIND_ERROR)
            report_invalid(e->reports, node->name_span, "declare it: state NAME = 0",
                           "'%s' is not a state and cannot be updated", node->name);
        return;
    }
    if (e->region && e->region->shared) {
        report_invalid(e->reports, node->span,
                       "remove 'shared', or declare and update the state outside of it",
                       "a shared repeat cannot update a state");
        return;
    }
    Value *kept = binding->value;
    Tensor *tensor = kept->expr->tensor;
    if (is_updated(e, node, tensor)) return;
    const Node *mean = gathered(node->kids[1]);
    Equation own = {0}, *outer = e->equation;
    e->equation = &own;
    Value *assigned = node->kids[0] ? subscript(e, kept, node->kids[0], node->span)
                                    : read_value(e, kept, node->span);
    Value *value =
        assigned->kind == KIND_ERROR ? assigned : evaluate(e, mean ? mean : node->kids[1]);
    Expr *expr = value->kind == KIND_ERROR ? NULL : value_expr(e, value);
    e->equation = outer;
    if (!expr || !fits_state(e, assigned, expr, node)) return;
    bool gathers = e->program->graph == GRAPH_GATHER;
    if (mean) e->program->gathers = true;
    if (mean && gathers) gather_output(e, node, tensor, assigned->expr, expr);
    if (!mean && !gathers) store_later(e, node, tensor, assigned->expr, expr);
}

static void name_statement(Elaborator *e, const Node *node) {
    Binding *binding = scope_find(e->scope, node->name);
    if (!binding || (binding->value->kind != KIND_TENSOR && binding->value->kind != KIND_ERROR)) {
        report_error(e->reports, node->span, "undefined tensor '%s'", node->name);
        report_help(e->reports, "define %s[...] = ... before this statement", node->name);
        return;
    }
    if (binding->value->kind == KIND_ERROR) return;
    if (node->kind == NODE_CACHE) {
        if (binding->value->expr->kind == EXPR_READ) binding->value->expr->tensor->cached = true;
        return;
    }
    Binding *named = arena_alloc(e->arena, sizeof *named);
    *named = (Binding){node->name, binding->value, node->span};
    if (e->frame->caller) {
        report_invalid(e->reports, node->span, "move the output to the layer of the model",
                       "outputs are allowed only in the outermost layer of a model");
    } else
        list_push(e->arena, &e->named, named);
}

static void inner_block(Elaborator *e, const Node *block, bool transparent) {
    Scope *scope = scope_push(e);
    scope->transparent = transparent;
    block_statements(e, block);
    scope_pop(e);
}

/* After an error in a condition: binds the names that its branches define, without further
 * messages. */
static void names_unknown(Elaborator *e, const Node *node) {
    for (int i = 0; node && i < node->count; i++) {
        const Node *kid = node->kids[i];
        if (!kid) continue;
        bool within = kid->kind == NODE_BLOCK || kid->kind == NODE_CASE || kid->kind == NODE_LIST ||
                      kid->kind == NODE_IF || kid->kind == NODE_MATCH;
        bool defines = kid->kind == NODE_EQUATION || kid->kind == NODE_AXIS ||
                       kid->kind == NODE_PARAM || kid->kind == NODE_STATE;
        if (within) names_unknown(e, kid);
        if (defines && !scope_find(e->scope, kid->name))
            scope_bind(e, e->scope, kid->name, value_error(e, kid->span), kid->name_span);
    }
}

static void if_statement(Elaborator *e, const Node *node) {
    bool yes;
    if (!evaluate_flag(e, node->kids[0], &yes)) {
        names_unknown(e, node);
        return;
    }
    const Node *branch = yes ? node->kids[1] : node->kids[2];
    if (!branch) return;
    if (branch->kind == NODE_IF)
        if_statement(e, branch);
    else
        inner_block(e, branch, true);
}

static void match_statement(Elaborator *e, const Node *node) {
    Value *value = evaluate(e, node->kids[0]);
    if (value->kind == KIND_ERROR) {
        names_unknown(e, node);
        return;
    }
    for (int i = 1; i < node->count; i++) {
        const Node *branch = node->kids[i], *patterns = branch->kids[0];
        bool matches = patterns->count == 0;
        for (int j = 0; j < patterns->count && !matches; j++) {
            const Node *pattern = patterns->kids[j];
            Value *wanted = value_new(e, KIND_WORD, pattern->span);
            wanted->word = pattern->name;
            bool literal = pattern->kind != NODE_NAME || !strcmp(pattern->name, "none") ||
                           !strcmp(pattern->name, "true") || !strcmp(pattern->name, "false");
            if (literal) wanted = evaluate(e, pattern);
            matches = value_equal(value, wanted);
        }
        if (!matches) continue;
        inner_block(e, branch->kids[1], true);
        return;
    }
    report_invalid(e->reports, node->kids[0]->span,
                   "add 'else => { ... }', or restrict the option with 'in [...]'",
                   "no case of this match equals %s", value_text(e, value));
}

static void for_statement(Elaborator *e, const Node *node) {
    Value *list = evaluate(e, node->kids[0]);
    if (list->kind == KIND_ERROR) return;
    if (list->kind != KIND_LIST) {
        report_error(e->reports, node->kids[0]->span, "'for' expects a list or a range, got %s",
                     value_shown(e, list));
        report_help(e->reports, "write for %s in [a, b] or for %s in 0..n", node->name, node->name);
        return;
    }
    int errors = e->reports->errors;
    for (int i = 0; i < list->list.count && e->reports->errors == errors; i++) {
        Scope *scope = scope_push(e);
        scope_bind(e, scope, node->name, list->list.items[i], node->name_span);
        block_statements(e, node->kids[1]);
        scope_pop(e);
    }
}

static void require_statement(Elaborator *e, const Node *node) {
    bool holds;
    if (!evaluate_flag(e, node->kids[0], &holds) || holds) return;
    bool called = e->frame->caller != NULL;
    e->frame->refused = true;
    Span blamed = blamed_here(e, node->kids[0]);
    if (!blamed.source) blamed = called ? asked_here(e) : node->span;
    report_error(e->reports, blamed, "layer '%s': %s", e->frame->layer->name, node->kids[1]->name);
    if (blamed.start != node->span.start || blamed.source != node->span.source)
        report_note(e->reports, node->span, "required here");
}

static void option_statement(Elaborator *e, const Node *node) {
    Binding *options = scope_find(e->scope, "(options)");
    const char *prefix = e->frame->caller ? e->frame->option : "";
    bind_option(e, node, options ? options->value->record : NULL, prefix);
}

void count_step(Elaborator *e, Span span) {
    bool many = ++e->steps > MAX_STEPS;
    e->reports->at = span;
    if (!many && e->program->tensors.count <= MAX_TENSORS) return;
    if (many)
        report_error(e->reports, span,
                     "the model is too large: it expands to more than %d expressions", MAX_STEPS);
    else
        report_error(e->reports, span, "the model is too large: it has more than %d tensors",
                     MAX_TENSORS);
    if (e->frame && e->frame->caller)
        report_note(e->reports, e->frame->call, "layer '%s' is applied here",
                    e->frame->layer->name);
    report_help(e->reports, "use a repeat with equal iterations outside of other repeats, and end "
                            "the recursion of layers that apply themselves");
    report_give_up(e->reports);
}

static void param_statement(Elaborator *e, const Node *node) {
    stored_statement(e, node, ROLE_PARAMETER);
}

static void state_statement(Elaborator *e, const Node *node) {
    stored_statement(e, node, ROLE_STATE);
}

static void (*const statements[NODE_KIND_COUNT])(Elaborator *e, const Node *node) = {
    [NODE_OPTION] = option_statement,    [NODE_AXIS] = axis_statement,
    [NODE_SEQUENCE] = axis_statement,    [NODE_PARAM] = param_statement,
    [NODE_STATE] = state_statement,      [NODE_INPUT] = input_statement,
    [NODE_EQUATION] = equation,          [NODE_UPDATE] = update_statement,
    [NODE_LOSS] = loss_statement,        [NODE_AUX] = metric_statement,
    [NODE_PROBE] = metric_statement,     [NODE_OUTPUT] = name_statement,
    [NODE_CACHE] = name_statement,       [NODE_PROVIDE] = provided_statement,
    [NODE_REQUEST] = provided_statement, [NODE_REPEAT] = repeat_statement,
    [NODE_SCAN] = scan_statement,        [NODE_IF] = if_statement,
    [NODE_MATCH] = match_statement,      [NODE_FOR] = for_statement,
    [NODE_REQUIRE] = require_statement,  [NODE_EXTERN] = extern_statement,
    [NODE_REFINE] = refine_statement,
};

static void one_statement(Elaborator *e, const Node *node) {
    if (e->own_statement && e->own_statement(e, node)) return;
    if (statements[node->kind]) {
        statements[node->kind](e, node);
        return;
    }
    report_invalid(e->reports, node->span, "write it outside of the layer, or remove it",
                   "this statement is not allowed in a layer");
}

/* Marks the new statements of the block with the application of the current layer, unless an inner
 * layer has marked them. */
static void mark_statements(Elaborator *e, int first) {
    bool written = is_written(e->frame->layer->span);
    for (int i = first; i < e->block->statements.count; i++) {
        Statement *made = e->block->statements.items[i];
        if (!made->application) made->application = e->frame->application;
        if (written) continue;
        if (!made->asked.source && !is_written(made->span)) made->asked = asked_here(e);
    }
}

static void checked_statement(Elaborator *e, const Node *node) {
    count_step(e, node->span);
    if (e->scanned && !may_stand_in_scan(e, node)) return;
    int first = e->block->statements.count;
    one_statement(e, node);
    mark_statements(e, first);
}

void block_statements(Elaborator *e, const Node *block) {
    for (int i = 0; i < block->count; i++) {
        bool choice = block->kids[i]->kind == NODE_OPTION || block->kids[i]->kind == NODE_REQUIRE;
        if (choice || !is_abandoned(e)) checked_statement(e, block->kids[i]);
    }
}

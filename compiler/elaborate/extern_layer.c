/* extern_layer: the call of a hand-written kernel that replaces the equations of a layer.
 *
 *     layer norm(x[s, d]) -> y[s, d] {
 *       param gain[d] ~ ones
 *       y[s, d] = ...
 *       extern c "norm.c:norm"
 *     }
 *
 * The equations are read as always. If the program is for a target with a kernel, a call follows
 * them, and the caller reads its results:
 *
 *     y = ...                                      y = ...
 *                                            -->   y_2 = extern c norm.c:norm(x, gain, (y))
 *     h = ... y ...                                h = ... y_2 ...
 *
 * The call reads the results of the equations until the pass externs, so that their gradient is
 * the gradient of the call. */
#include "elaborate/elaborate.h"
#include "analysis/access.h"

#include <string.h>

/* An `extern` statement of the current layer. */
typedef struct ExternChoice {
    const ExternFunction *function;
    const Node *blocks, *workspace; /* or NULL */
    bool gradient;
    long threads, shared;
} ExternChoice;

enum { DEFAULT_THREADS = 256, MAX_THREADS = 1024, MAX_SHARED = 48 << 10, MAX_PRODUCT = 1 << 24 };

/* ---- the statement ---- */

/* Sets one attribute; false after a report. */
static bool set_extern_attribute(Elaborator *e, ExternChoice *choice, const Node *entry) {
    const char *name = entry->name;
    const Node *value = entry->kids[0];
    const bool cuda = !strcmp(choice->function->target, "cuda");
    const bool threads = !strcmp(name, "threads"), shared = !strcmp(name, "shared");
    if (!strcmp(name, "gradient") && !value) {
        choice->gradient = true;
        return true;
    }
    if (value && !strcmp(name, "workspace")) {
        choice->workspace = value;
        return true;
    }
    if (cuda && value && !strcmp(name, "blocks")) {
        choice->blocks = value;
        return true;
    }
    if (!cuda || !value || !(threads || shared)) {
        report_error(e->reports, entry->name_span, "unknown attribute '%s' of extern %s", name,
                     choice->function->target);
        return report_help(e->reports,
                           cuda ? "write { gradient, workspace = d, blocks = s, threads = 256, "
                                  "shared = 0 }"
                                : "write { gradient, workspace = d }, or no attributes");
    }
    double number = 0;
    if (!evaluate_number(e, value, name, &number)) return false;
    const long least = threads, most = threads ? MAX_THREADS : MAX_SHARED;
    if (number < (double)least || number > (double)most || number != (double)(long)number) {
        report_error(e->reports, value->span, "'%s' must be an integer from %ld to %ld, got %.9g",
                     name, least, most, number);
        return report_help(e->reports, threads ? "write threads = 256" : "write shared = 4096");
    }
    *(threads ? &choice->threads : &choice->shared) = (long)number;
    return true;
}

void extern_statement(Elaborator *e, const Node *node) {
    ExternChoice choice = {.function = extern_function(e->unit, node), .threads = DEFAULT_THREADS};
    if (!choice.function) return;
    if (!e->frame->caller) {
        report_invalid(e->reports, node->span,
                       "move the equations and extern to a layer with a result",
                       "extern is not allowed in the layer of a model");
        return;
    }
    for (int i = 0; node->kids[1] && i < node->kids[1]->count; i++)
        if (!set_extern_attribute(e, &choice, node->kids[1]->kids[i])) return;
    LIST_EACH(const ExternChoice, other, &e->frame->externs) {
        if (strcmp(other->function->target, choice.function->target) ||
            other->gradient != choice.gradient)
            continue;
        report_error(e->reports, node->span, "layer '%s' has two kernels for target %s",
                     e->frame->layer->name, choice.function->target);
        report_note(e->reports, other->function->span, "the first one");
        report_help(e->reports, "remove one, or add { gradient } to the kernel of the gradients");
        return;
    }
    list_copy(e->arena, &e->frame->externs, &choice, sizeof choice);
}

/* ---- the call ---- */

/* A call in progress. */
typedef struct ExternBuild {
    Elaborator *e;
    const ExternChoice *choice;
    ExternCall *call;
    Statement *statement;
    const Node *layer;
    int first;                   /* statement of the equations in the block */
    const Axis *axes[MAX_LOOPS]; /* named dimensions of the layer, with their names */
    const char *names[MAX_LOOPS];
    int axis_count;
    const char *reason; /* why the equations stay, or NULL */
} ExternBuild;

static const ExternChoice *chosen_extern(Elaborator *e, bool gradient) {
    LIST_EACH(const ExternChoice, choice, &e->frame->externs)
        if (choice->gradient == gradient &&
            !strcmp(choice->function->target, e->unit->extern_target) &&
            list_find(&e->unit->refused, choice->function) < 0)
            return choice;
    return NULL;
}

/* The last dimensions that are named: by subscripts, or else those of the arguments before. */
static int named_dimensions(const ExternBuild *build, const Node *formal, const Value *value) {
    const Node *subs = formal->kids[0];
    if (subs) return subs->count - (subs->count && subs->kids[0]->kind == NODE_ELLIPSIS);
    if (!build->axis_count) return value->rank;
    int named = 0;
    for (bool known = true; known && named < value->rank; named += known) {
        known = false;
        for (int i = 0; i < build->axis_count; i++)
            known |= build->axes[i] == value->dims[value->rank - 1 - named]->axis;
    }
    return named;
}

static void note_extern_axis(ExternBuild *build, const Axis *axis, const char *name) {
    for (int i = 0; i < build->axis_count; i++)
        if (build->axes[i] == axis) return;
    if (build->axis_count == MAX_LOOPS) {
        build->reason = "it has too many axes";
        return;
    }
    build->axes[build->axis_count] = axis;
    build->names[build->axis_count++] = name;
}

/* The last dimensions of an operand: the first dimension of each axis is its size. */
static void add_extern_sizes(ExternBuild *build, const Expr *operand, int named, int number) {
    ExternCall *call = build->call;
    for (int back = named - 1; back >= 0; back--) {
        const Axis *axis = operand->tensor->axes[operand->count - 1 - back];
        const char *name = axis->name;
        bool known = false;
        for (int i = 0; i < build->axis_count; i++)
            if (build->axes[i] == axis) name = build->names[i];
        for (int i = 0; i < call->size_count; i++) known |= !strcmp(call->sizes[i].name, name);
        if (!known) call->sizes[call->size_count++] = (ExternSize){name, number, back};
    }
}

/* A subscript that does not iterate: of repeats and numbers. */
static bool stays_fixed(Elaborator *e, Expr *sub) {
    Index *used[MAX_LOOPS];
    return free_indices(e, sub, used) == 0 && ambient_used(e, sub, used) == 0;
}

/* Whether a read is a whole array [ambient..., dims...] after fixed subscripts. */
static bool is_whole_array(Elaborator *e, const Expr *read, Index *const *wanted, int count) {
    int at = 0;
    for (int i = 0; i < read->count; i++) {
        Expr *sub = read->args[i];
        if (at < count && sub->kind == EXPR_INDEX && sub->index == wanted[at])
            at++;
        else if (at || !stays_fixed(e, sub))
            return false;
    }
    return at == count;
}

static int wanted_indices(const Elaborator *e, const Value *value, Index **wanted) {
    int count = 0;
    for (int i = 0; i < e->frame->ambient_count; i++) wanted[count++] = e->frame->ambient[i];
    for (int i = 0; i < value->rank && count < MAX_RANK; i++) wanted[count++] = value->dims[i];
    return count;
}

/* The operand of an argument; a copy if its elements are not an array in this order. */
static Expr *extern_argument(ExternBuild *build, const char *name, const Value *value) {
    Elaborator *e = build->e;
    Index *wanted[2 * MAX_RANK];
    if (e->frame->ambient_count + value->rank > MAX_RANK) {
        build->reason = "an argument has too many dimensions";
        return NULL;
    }
    const int count = wanted_indices(e, value, wanted);
    Expr *read = value->expr;
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (!expr_uses_index(read, wanted[i])) {
            build->reason = arena_format(e->arena, "argument '%s' does not depend on index '%s'",
                                         name, wanted[i]->name);
            return NULL;
        }
    if (is_whole_array(e, read, wanted, count)) return read;
    Tensor *copy = tensor_over(e->program, temporary_name(e, name), ROLE_TEMP, read->tensor->type,
                               wanted, count, value->span);
    Expr *target = expr_read_indices(e->program, copy, wanted);
    statement_assign(e->program, e->block, target, read, value->span);
    return target;
}

static void add_extern_operand(ExternBuild *build, List *operands, List *names, Expr *operand,
                               const char *name) {
    list_push(build->e->arena, operands, operand);
    list_push(build->e->arena, names, (void *)(uintptr_t)name);
}

static void add_extern_arguments(ExternBuild *build, Value *const *arguments) {
    const Node *formals = build->layer->kids[0];
    for (int i = 0; formals && i < formals->count && !build->reason; i++) {
        const Node *formal = formals->kids[i];
        const Value *value = arguments[i];
        if (value->kind != KIND_TENSOR || value->expr->kind != EXPR_READ) {
            build->reason =
                arena_format(build->e->arena, "argument '%s' is not a tensor", formal->name);
            return;
        }
        const int named = named_dimensions(build, formal, value);
        for (int j = 0; j < named; j++) {
            const Axis *axis = value->dims[value->rank - named + j]->axis;
            const Node *subs = formal->kids[0];
            note_extern_axis(build, axis,
                             subs ? subs->kids[subs->count - named + j]->name : axis->name);
        }
        Expr *operand = extern_argument(build, formal->name, value);
        if (!operand) return;
        if (!i) build->call->named = named;
        add_extern_sizes(build, operand, named, build->statement->inputs.count);
        add_extern_operand(build, &build->statement->inputs, &build->call->inputs, operand,
                           formal->name);
    }
    if (!build->statement->inputs.count && !build->reason) build->reason = "it has no argument";
}

/* ---- operands of the equations ---- */

static bool is_input_of(const ExternBuild *build, const Tensor *tensor) {
    return list_find_by(&build->statement->inputs, offsetof(Expr, tensor), tensor) != NULL;
}

static void find_random_draw(Expr *expr, void *data) {
    if (expr->kind == EXPR_APPLY && op_is_random(expr->op))
        ((ExternBuild *)data)->reason = "its equations draw random numbers";
}

static const char *path_end(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* A parameter or a state, at the step of the repeat around the layer. */
static void add_extern_parameter(ExternBuild *build, const Expr *read) {
    Elaborator *e = build->e;
    Tensor *tensor = read->tensor;
    Expr *subs[MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) {
        const bool leads = i < tensor->lead;
        if (leads && !stays_fixed(e, read->args[i]))
            build->reason = arena_format(e->arena, "'%s' depends on an index around the layer",
                                         path_end(tensor->path));
        subs[i] =
            leads ? read->args[i] : expr_index(e->program, index_over(e->program, tensor->axes[i]));
    }
    const size_t prefix = strlen(e->frame->path);
    const bool own = !strncmp(tensor->path, e->frame->path, prefix) && tensor->path[prefix] == '.';
    Expr *operand = expr_read(e->program, tensor, subs);
    add_extern_sizes(build, operand, tensor->rank - tensor->lead, build->statement->inputs.count);
    add_extern_operand(build, &build->statement->inputs, &build->call->inputs, operand,
                       own ? tensor->path + prefix + 1 : tensor->path);
}

/* The tensors that the equations define, by id. */
static bool *defined_by(const ExternBuild *build, const List *statements) {
    Elaborator *e = build->e;
    const size_t count = (size_t)e->program->tensors.count + 1;
    bool *defined = arena_alloc(e->arena, count * sizeof *defined);
    for (int i = build->first; i < statements->count; i++) {
        List writes = {0};
        writes_of(e->arena, statements->items[i], &writes);
        for (int j = 0; j < writes.count; j++)
            defined[((const Expr *)writes.items[j])->tensor->id] = true;
    }
    return defined;
}

/* Parameters and states in the order of their declaration. */
static void add_extern_parameters(ExternBuild *build, const List *statements) {
    Elaborator *e = build->e;
    const bool *defined = defined_by(build, statements);
    const int count = e->program->tensors.count;
    const Expr **stored = arena_alloc(e->arena, ((size_t)count + 1) * sizeof *stored);
    for (int i = build->first; i < statements->count; i++) {
        Statement *one = statements->items[i];
        List reads = {0};
        if (one->kind == STATEMENT_REPEAT) build->reason = "it contains a repeat";
        if (build->reason) return;
        if (one->kind == STATEMENT_LOOP) expr_walk(one->value, find_random_draw, build);
        reads_of(e->arena, one, &reads);
        LIST_EACH(const Expr, read, &reads) {
            const Role role = read->tensor->role;
            if (role == ROLE_PARAMETER || role == ROLE_STATE)
                stored[read->tensor->id] = read;
            else if (!defined[read->tensor->id] && !is_input_of(build, read->tensor))
                build->reason = arena_format(e->arena, "it reads '%s', which is no argument",
                                             read->tensor->stem);
        }
        build->call->flops += statement_flops(e->program, one);
    }
    for (int i = 0; i < count && !build->reason; i++)
        if (stored[i]) add_extern_parameter(build, stored[i]);
}

/* ---- decoding ---- */

static bool is_sequence_axis(const Elaborator *e, const Axis *axis) {
    return axis == e->program->sequence;
}

static void find_other_position(Expr *expr, void *data) {
    ExternBuild *build = data;
    if (expr->kind == EXPR_READ)
        for (int i = 0; i < expr->count; i++)
            if (is_sequence_axis(build->e, expr->tensor->axes[i]) &&
                expr->args[i]->kind != EXPR_INDEX)
                build->reason = "its equations relate positions of the sequence to each other";
    if (expr->kind == EXPR_APPLY)
        for (int i = 0; i < expr->count; i++)
            if (expr->args[i]->kind == EXPR_INDEX &&
                is_sequence_axis(build->e, expr->args[i]->index->axis))
                build->reason = "its equations read the position";
}

/* A decoding step has the new positions alone: each result must depend on its own position. */
static void check_extern_positions(ExternBuild *build, const List *statements) {
    for (int i = build->first; i < statements->count && !build->reason; i++) {
        const Statement *one = statements->items[i];
        int positions = 0;
        if (one->kind != STATEMENT_LOOP) {
            build->reason = "its equations relate positions of the sequence to each other";
            return;
        }
        for (int j = 0; j < one->loop_count; j++) {
            const Index *loop = one->loops[j];
            if (!is_sequence_axis(build->e, loop->axis)) continue;
            positions++;
            if (!expr_uses_index(one->target, loop)) positions = 2;
        }
        if (positions > 1)
            build->reason = "its equations relate positions of the sequence to each other";
        expr_walk(one->value, find_other_position, build);
        expr_walk(one->target, find_other_position, build);
    }
}

/* ---- results ---- */

/* Replaces the result of the equations by a result of the call. */
static void add_extern_result(ExternBuild *build, const Node *formal, Value *value) {
    Elaborator *e = build->e;
    Index *wanted[2 * MAX_RANK];
    if (value->kind != KIND_TENSOR || !is_plain_read(e, value->expr) ||
        value->expr->tensor->role != ROLE_TEMP || value->expr->tensor->type != TYPE_REAL ||
        e->frame->ambient_count + value->rank > MAX_RANK) {
        build->reason =
            arena_format(e->arena, "its result '%s' has no equation of its own", formal->name);
        return;
    }
    const int count = wanted_indices(e, value, wanted);
    Tensor *equation = value->expr->tensor;
    Tensor *tensor = tensor_over(e->program, temporary_name(e, formal->name), ROLE_TEMP, TYPE_REAL,
                                 wanted, count, equation->span);
    Expr *operand = expr_read_indices(e->program, tensor, wanted);
    add_extern_sizes(build, operand, named_dimensions(build, formal, value),
                     build->statement->inputs.count + build->statement->outputs.count);
    add_extern_operand(build, &build->statement->outputs, &build->call->outputs, operand,
                       formal->name);
    if (!build->call->result.source) build->call->result = equation->span;
}

static void add_extern_results(ExternBuild *build, Value *result) {
    const Node *formal = build->layer->kids[1];
    add_extern_result(build, formal, result);
    for (int i = 0; i < result->results.count && !build->reason; i++) {
        Binding *other = result->results.items[i];
        add_extern_result(build, formal->kids[i + 1], other->value);
    }
}

/* The results of the equations as inputs; the caller reads those of the call. */
static void replace_results(ExternBuild *build, Value *result) {
    Elaborator *e = build->e;
    for (int i = 0; i < build->statement->outputs.count; i++) {
        Value *value = i ? ((Binding *)result->results.items[i - 1])->value : result;
        Expr *operand = build->statement->outputs.items[i];
        list_push(e->arena, &build->statement->inputs, value->expr);
        operand->tensor->spec_name = value->expr->tensor->spec_name;
        value->expr->tensor->spec_name = NULL;
        value->expr = operand;
    }
    build->call->equations = build->statement->outputs.count;
}

/* blocks = s * h: names of axes and numbers. */
static void add_extern_product(ExternBuild *build, ExternProduct *product, const Node *node,
                               const char *attribute) {
    Elaborator *e = build->e;
    const ExternCall *call = build->call;
    if (!node) return;
    if (node->kind == NODE_BINARY && !strcmp(node->name, "*")) {
        add_extern_product(build, product, node->kids[0], attribute);
        add_extern_product(build, product, node->kids[1], attribute);
        return;
    }
    const Binding *binding = node->kind == NODE_NAME ? scope_find(e->scope, node->name) : NULL;
    double number = 0;
    if (!binding || binding->value->kind != KIND_AXIS) {
        if (!evaluate_number(e, node, attribute, &number)) return;
        if (number >= 1 && number <= MAX_PRODUCT && number == (double)(long)number) {
            product->factor *= (long)number;
            return;
        }
        report_error(e->reports, node->span, "'%s' must be an integer from 1 to %d, got %.9g",
                     attribute, MAX_PRODUCT, number);
        report_help(e->reports, "write a product of axes and integers: %s = 4", attribute);
        return;
    }
    for (int i = 0; i < call->size_count; i++)
        if (!strcmp(call->sizes[i].name, node->name) && product->count < MAX_RANK) {
            product->sizes[product->count++] = i;
            return;
        }
    report_error(e->reports, node->span, "no argument or result of layer '%s' has an axis '%s'",
                 build->layer->name, node->name);
    report_help(e->reports, "write a product of its axes and integers: %s = 4", attribute);
}

/* The loops over the rows: those of the first input before its named dimensions. */
static int extern_row_loops(const ExternBuild *build, Index **loops) {
    const Expr *first = build->statement->inputs.items[0];
    int count = 0;
    for (int i = 0; i < first->count; i++)
        if (first->args[i]->kind == EXPR_INDEX && !first->args[i]->index->of_repeat)
            loops[count++] = first->args[i]->index;
    return count - build->call->named;
}

/* A tensor [rows..., sizes..., factor] that only the function writes and reads. */
static Expr *workspace_of(ExternBuild *build, const ExternCall *call, const Node *node) {
    Elaborator *e = build->e;
    const ExternProduct *product = &call->space;
    Index *loops[MAX_RANK];
    int rank = extern_row_loops(build, loops);
    if (rank + product->count + 1 > MAX_RANK) {
        report_invalid(e->reports, node->span, "write fewer axes, and their size as a number",
                       "the workspace has more than %d dimensions", MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < product->count; i++) {
        const ExternSize *size = &call->sizes[product->sizes[i]];
        const int inputs = call->inputs.count;
        const Expr *operand = size->operand < inputs
                                  ? build->statement->inputs.items[size->operand]
                                  : build->statement->outputs.items[size->operand - inputs];
        Axis *axis = operand->tensor->axes[operand->count - 1 - size->back];
        loops[rank++] = index_new(e->program, size->name, axis);
    }
    if (product->factor > 1) {
        Axis *axis = axis_new(e->program, "workspace", product->factor, AXIS_PLAIN, node->span);
        loops[rank++] = index_over(e->program, axis);
    }
    Tensor *tensor = tensor_over(e->program, temporary_name(e, "workspace"), ROLE_TEMP, TYPE_REAL,
                                 loops, rank, node->span);
    return expr_read_indices(e->program, tensor, loops);
}

static void set_extern_launch(ExternBuild *build, ExternCall *call, const ExternChoice *choice) {
    call->function = choice->function;
    call->threads = choice->threads;
    call->shared = choice->shared;
    call->blocks = (ExternProduct){.factor = 1};
    call->space = (ExternProduct){.factor = choice->workspace != NULL};
    add_extern_product(build, &call->blocks, choice->blocks, "blocks");
    add_extern_product(build, &call->space, choice->workspace, "workspace");
    call->workspace = choice->workspace ? workspace_of(build, call, choice->workspace) : NULL;
}

/* "eps = 1e-06": the options of the application. */
static void add_options_text(ExternBuild *build) {
    Elaborator *e = build->e;
    const List *entries = &e->frame->given->entries;
    LIST_EACH(const RecordField, entry, entries) {
        if (entry->value->kind == KIND_ERROR) continue;
        const char *text =
            arena_format(e->arena, "%s=%s", entry->name, value_text(e, entry->value));
        list_push(e->arena, &build->call->options, (void *)(uintptr_t)text);
    }
}

static void note_unused_extern(ExternBuild *build, const ExternFunction *function) {
    Elaborator *e = build->e;
    for (int i = 0; i < e->unit->unused.count; i++)
        if (((const ExternUnused *)e->unit->unused.items[i])->function == function) return;
    const ExternUnused unused = {function, build->reason};
    list_copy(e->arena, &e->unit->unused, &unused, sizeof unused);
}

/* "long rows, long d, const float *x, float *y": parameters for operands with these names. */
static void add_pointers(ExternBuild *build, Text *types, Text *parameters, const List *operands,
                         const List *names, const char *before, bool written) {
    for (int i = 0; i < names->count; i++) {
        const bool integer =
            operands && ((const Expr *)operands->items[i])->tensor->type == TYPE_INT;
        if (integer && *before) continue;
        const char *type = arena_format(build->e->arena, ", %s%s *", written ? "" : "const ",
                                        integer ? "int" : "float");
        text_add(types, "%s", type);
        text_add(parameters, "%s%s%s", type, before, (const char *)names->items[i]);
    }
}

static void set_prototype(ExternBuild *build, ExternCall *call) {
    Arena *arena = build->e->arena;
    Text types = {.arena = arena}, parameters = {.arena = arena};
    text_add(&types, "long");
    text_add(&parameters, "long rows");
    for (int i = 0; i < call->size_count; i++) {
        text_add(&types, ", long");
        text_add(&parameters, ", long %s", call->sizes[i].name);
    }
    const List *inputs = &build->statement->inputs;
    add_pointers(build, &types, &parameters, inputs, &call->inputs, "", false);
    add_pointers(build, &types, &parameters, NULL, &call->outputs, call->backward ? "d_" : "",
                 !call->backward);
    if (call->backward) add_pointers(build, &types, &parameters, inputs, &call->inputs, "d_", true);
    if (call->workspace) {
        text_add(&types, ", float *");
        text_add(&parameters, ", float *workspace");
    }
    call->types = types.text;
    call->parameters = parameters.text;
}

void extern_result(Elaborator *e, Value *const *arguments, Value *result, int first) {
    const ExternChoice *choice = e->unit->extern_target ? chosen_extern(e, false) : NULL;
    if (!choice || result->kind == KIND_ERROR || e->reports->errors) return;
    ExternCall *call = arena_alloc(e->arena, sizeof *call);
    *call = (ExternCall){.layer = e->frame->layer->name, .span = e->frame->layer->span};
    ExternBuild build = {
        .e = e, .choice = choice, .call = call, .layer = e->frame->layer, .first = first};
    const List statements = e->block->statements;
    Statement parts = {0};
    build.statement = &parts;
    if (e->scanned) build.reason = "it is applied in a scan";
    if (!build.reason) add_extern_arguments(&build, arguments);
    if (!build.reason) add_extern_parameters(&build, &statements);
    if (!build.reason && e->program->graph == GRAPH_DECODE)
        check_extern_positions(&build, &statements);
    if (!build.reason) add_extern_results(&build, result);
    if (build.reason) {
        note_unused_extern(&build, choice->function);
        return;
    }
    set_extern_launch(&build, call, choice);
    add_options_text(&build);
    set_prototype(&build, call);
    replace_results(&build, result);
    const ExternChoice *gradient = chosen_extern(e, true);
    if (gradient) {
        ExternCall *own = arena_alloc(e->arena, sizeof *own);
        *own = *call;
        own->backward = true;
        own->equations = 0;
        set_extern_launch(&build, own, gradient);
        set_prototype(&build, own);
        call->gradient = own;
    }
    if (call->workspace) list_push(e->arena, &parts.outputs, call->workspace);
    Statement *statement = statement_call(e->program, e->block, CALL_EXTERN, e->frame->call);
    statement->inputs = parts.inputs;
    statement->outputs = parts.outputs;
    statement->external = call;
    statement->application = e->frame->application;
}

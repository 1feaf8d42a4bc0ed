/* elaborate: translate a model to a program.
 *
 * Needs:   a unit without syntax errors.
 * Leaves:  statements in index notation with at most one reduction each; tensors for parameters,
 *          states, inputs, outputs; the loss.
 *
 *     model tiny = decoder { dim = 64, ... }    -->    embedding[v,d] ...
 *                                                      logits[b,s,v] = sum[d] ...
 *                                                      loss[] = ...
 */
#include "elaborate/elaborate.h"

#include <string.h>

/* The model of that name; without a name, the last one in the file itself. */
const Node *find_model(Unit *unit, const char *name) {
    for (int i = unit->models.count - 1; i >= 0; i--) {
        const Node *model = unit->models.items[i];
        if (name ? !strcmp(model->name, name) : model->span.source == unit->sources.items[0])
            return model;
    }
    return NULL;
}

static void report_no_model(Unit *unit) {
    const Source *file = unit->sources.count ? unit->sources.items[0] : NULL;
    report_error(unit->reports, (Span){0}, "%s contains no model", file ? file->path : "the file");
    if (!unit->models.count) {
        report_help(unit->reports, "add model NAME = decoder { ... }");
        return;
    }
    const Node *used = unit->models.items[unit->models.count - 1];
    report_note(unit->reports, used->name_span, "'%s' is in a file that it uses", used->name);
    report_help(unit->reports, "write %s:%s to select it", file->path, used->name);
}

void report_unknown_model(Unit *unit, Span span, const char *name) {
    const char *names[256];
    int count = 0;
    for (int i = 0; i < unit->models.count && count < 256; i++)
        names[count++] = ((Node *)unit->models.items[i])->name;
    report_error(unit->reports, span, "unknown model or layer '%s'", name);
    if (!help_with_use(unit->reports, name))
        report_choices(unit->reports, name, names, count, "models");
}

const Node *model_options(Elaborator *e, const Node *model, Record *record, int depth) {
    const Node *base = model->kids[0], *layer = NULL;
    const Node *other = find_model(e->unit, base->name);
    if (other && other != model && depth <= MAX_APPLICATIONS)
        layer = model_options(e, other, record, depth + 1);
    else
        layer = find_layer(e, base->name);
    if (!layer && other && !e->reports->errors)
        report_invalid(e->reports, model->name_span,
                       "base it on a layer, such as decoder, or on a model with another name",
                       "model '%s' is based on itself", model->name);
    if (!layer && !e->reports->errors) report_unknown_model(e->unit, base->span, base->name);
    if (!layer) return NULL;
    e->order++;
    record_merge(e, record, record_evaluate(e, model->kids[1]));
    return layer;
}

static void override(Elaborator *e, Record *record, const char *path, double number) {
    if (number > 0) record_set(e, record, path, value_number(e, number, (Span){0}), (Span){0});
}

Value *train_group(Elaborator *e, const Node *layer, Record *record) {
    const Node *body = layer_body(layer);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION || strcmp(option->name, "train")) continue;
        Scope scope = {0}, *outer = e->scope;
        e->scope = &scope;
        bind_option(e, option, record, NULL);
        e->scope = outer;
        return scope.bindings.count ? ((Binding *)scope.bindings.items[0])->value : NULL;
    }
    return NULL;
}

/* Outputs have unique names. */
static void check_output_name(Elaborator *e, const char *name, Span span) {
    LIST_EACH(const Tensor, other, &e->program->outputs) {
        if (strcmp(other->path, name) != 0) continue;
        report_error(e->reports, span, "duplicate output '%s'", name);
        report_note(e->reports, other->span, "first defined here");
        report_help(e->reports, "rename one of the outputs");
        return;
    }
}
Tensor *output_scalar(Elaborator *e, const char *name, Expr *value, Span span) {
    check_output_name(e, name, span);
    Tensor *tensor = tensor_new(e->program, name, ROLE_OUTPUT, TYPE_REAL, 0, NULL, span);
    tensor->path = name;
    statement_assign(e->program, e->block, expr_read(e->program, tensor, NULL), value, span);
    list_push(e->arena, &e->program->outputs, tensor);
    return tensor;
}

static void output_tensor(Elaborator *e, const Binding *named) {
    const Value *value = named->value;
    check_output_name(e, named->name, named->span);
    Index *all[MAX_RANK];
    int rank = ambient_used(e, value->expr, all);
    for (int i = 0; i < value->rank && rank < MAX_RANK; i++) all[rank++] = value->dims[i];
    Expr *read = value->expr;
    bool whole = read->kind == EXPR_READ && read->tensor->role == ROLE_TEMP && read->count == rank;
    for (int i = 0; whole && i < rank; i++)
        if (read->args[i]->kind != EXPR_INDEX || read->args[i]->index != all[i]) whole = false;
    if (whole) {
        read->tensor->role = ROLE_OUTPUT;
        read->tensor->path = named->name;
        list_push(e->arena, &e->program->outputs, read->tensor);
        return;
    }
    Tensor *tensor =
        tensor_over(e->program, named->name, ROLE_OUTPUT, TYPE_REAL, all, rank, named->span);
    tensor->path = named->name;
    statement_assign(e->program, e->block, expr_read_indices(e->program, tensor, all), value->expr,
                     named->span);
    list_push(e->arena, &e->program->outputs, tensor);
}

const char *short_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The rank without the iteration of a repeat. */
static int probe_dims(const Tensor *tensor) {
    return tensor->rank - (strchr(tensor->path, '{') ? 1 : 0);
}

/* The log identifies probes by their names. */
static void output_probe(Elaborator *e, Tensor *tensor) {
    const char *name = short_name(tensor->path);
    check_output_name(e, name, tensor->span);
    for (int i = 0; i < e->probed.count && e->probed.items[i] != tensor; i++) {
        const Tensor *other = e->probed.items[i];
        bool alike = (probe_dims(other) > 0) == (probe_dims(tensor) > 0);
        if (alike || strcmp(short_name(other->path), name)) continue;
        report_error(e->reports, tensor->span,
                     "probe '%s' has axes in one layer, but none in another", name);
        report_note(e->reports, other->span, "the other probe is here");
        report_help(e->reports, "rename one of the probes");
        return;
    }
    list_push(e->arena, &e->program->outputs, tensor);
}

static void output_loss(Elaborator *e) {
    Expr *total = e->loss->expr;
    e->program->loss = output_scalar(e, "loss", total, e->loss->span);
    LIST_EACH(const LossTerm, part, &e->terms) {
        Tensor *term = output_scalar(e, part->name, part->sum, part->span);
        total = expr_apply(e->program, OP_ADD, total, expr_read(e->program, term, NULL), NULL);
    }
    if (e->terms.count) e->program->loss = output_scalar(e, "total", total, e->loss->span);
}

/* The order of abi.h: named outputs, loss, aux terms and their total with the loss, probes. */
static void outputs(Elaborator *e) {
    Program *program = e->program;
    if (program->graph == GRAPH_GATHER) {
        program->outputs = e->probed;
        return;
    }
    if (is_refining(e)) {
        program->outputs = e->refinements;
        return;
    }
    if (program->graph != GRAPH_TRAIN || e->unit->cotangent)
        for (int i = 0; i < e->named.count; i++) output_tensor(e, e->named.items[i]);
    if (program->graph == GRAPH_DECODE) return;
    if (e->loss) output_loss(e);
    for (int i = 0; i < e->probed.count; i++) output_probe(e, e->probed.items[i]);
}

/* Rejects tensors beyond any memory before later passes count bytes. The limit leaves a margin for
 * larger tensors of repeats, gradients and caches. Each process has a part of the tensors of
 * sequences; the others do not grow with their number. */
static void check_sizes(Elaborator *e) {
    const double most =
        (double)(1ull << 42) * (double)(e->unit->processes > 1 ? e->unit->processes : 1);
    LIST_EACH(const Tensor, tensor, &e->program->tensors) {
        Text sizes = {.arena = e->arena};
        double elements = 1;
        for (int j = 0; j < tensor->rank; j++) elements *= (double)tensor->axes[j]->size;
        if (elements <= most) continue;
        for (int j = 0; j < tensor->rank; j++)
            text_add(&sizes, "%s%s = %ld", j ? ", " : "", tensor->axes[j]->name,
                     tensor->axes[j]->size);
        report_error(e->reports, tensor->span, "'%s' has %.3g elements, the maximum is %.3g",
                     tensor->name, elements, most);
        report_help(e->reports, "reduce one of its axes: %s", sizes.text);
        return;
    }
}

static void model_program(Elaborator *e, const Node *model, const Node *layer, Record *record) {
    if (layer->kids[0] && layer->kids[0]->count) {
        report_invalid(e->reports, layer->name_span,
                       "base the model on a layer that declares its inputs, such as decoder",
                       "layer '%s' has arguments and cannot be the base of a model", layer->name);
        return;
    }
    Value *train = train_group(e, layer, record);
    Span written = layer->span;
    double sequences = group_number(e, train, "batch_size", 1, &written);
    if (!axis_can_have(e, "batch", sequences, written)) return;
    e->program->batch = axis_new(e->program, "batch", (long)sequences, AXIS_BATCH, layer->span);
    e->batch = index_new(e->program, "b", e->program->batch);
    Frame frame = {.layer = layer,
                   .path = "",
                   .stored = "",
                   .given = record,
                   .application = application_new(e, layer->name, "", layer->span),
                   .call = model->kids[0]->span,
                   .ambient_count = 1,
                   .ambient = {e->batch}};
    Scope scope = {0};
    e->frame = &frame;
    e->scope = &scope;
    Value *options = value_new(e, KIND_RECORD, layer->span);
    options->record = record;
    scope_bind(e, &scope, "(options)", options, layer->span);
    check_unknown_options(e, layer, record);
    block_statements(e, layer_body(layer));
    if (!e->loss && !e->named.count && !is_refining(e) && !e->reports->errors)
        report_invalid(
            e->reports, layer->name_span,
            "add 'loss = ...' or 'output NAME', or base the model on another layer",
            "layer '%s' has neither a loss nor an output and cannot be the base of a model",
            layer->name);
    decide_inputs(e);
    check_refined(e);
    if (e->reports->errors) return;
    outputs(e);
    initialise(e, 0);
    outside_attributes(e, e->attributes);
    check_sizes(e);
    if (e->settings) training_stages(e, train);
    list_append(e->arena, &e->program->body.statements, &e->once);
    if (!e->reports->errors) keep_integers(e->program);
}

Value *group_layer(Elaborator *e, const Value *train, const char *name) {
    Value *value =
        train && train->kind == KIND_LAYER ? layer_option(e, train, name, train->span) : NULL;
    return value && value->kind == KIND_LAYER ? value : NULL;
}

Elaborator *elaborator_new(Unit *unit) {
    Elaborator *e = arena_alloc(unit->arena, sizeof *e);
    e->arena = unit->arena;
    e->reports = unit->reports;
    e->unit = unit;
    return e;
}

void override_options(Elaborator *e, Record *record) {
    for (int i = 0; i < e->unit->overrides.count; i++) {
        e->order++;
        const Node *entry = e->unit->overrides.items[i];
        Value *value = evaluate(e, entry->kids[0]);
        warn_rounded(e, entry->kids[0]);
        if (value->kind != KIND_ERROR) record_set(e, record, entry->name, value, entry->name_span);
    }
}

/* elaborate: returns the program of the model for a graph. */
/* The tensors in the order of their last definitions, repeatedly. */
static void list_definitions(Arena *arena, const Block *block, List *list) {
    LIST_EACH(const Statement, statement, &block->statements) {
        list_definitions(arena, &statement->body, list);
        if (statement->kind == STATEMENT_LOOP) list_push(arena, list, statement->target->tensor);
        for (int j = 0; j < statement->outputs.count; j++)
            list_push(arena, list, ((Expr *)statement->outputs.items[j])->tensor);
    }
}

/* A layer can define a name again, x = x + f(x). The name alone means the last tensor; earlier ones
 * have a number, from the last to the first: x.2, x.3. It means an output of that name before: a
 * loss, a term or a probe. */
static void number_spec_names(Program *program) {
    Arena *arena = program->arena;
    Table names = {0};
    List definitions = {0};
    bool *seen = arena_alloc(arena, ((size_t)program->tensors.count + 1) * sizeof *seen);
    LIST_EACH(Tensor, output, &program->outputs)
        if (!output->spec_name || strcmp(output->spec_name, output->path) != 0)
            table_add(arena, &names, hash_text(HASH_START, output->path), output);
    list_definitions(arena, &program->body, &definitions);
    for (int i = definitions.count - 1; i >= 0; i--) {
        Tensor *tensor = definitions.items[i];
        if (seen[tensor->id] || !tensor->spec_name) continue;
        seen[tensor->id] = true;
        const char *name = tensor->spec_name;
        const List *same = table_find(&names, hash_text(HASH_START, name));
        if (same->count) tensor->spec_name = arena_format(arena, "%s.%d", name, same->count + 1);
        table_add(arena, &names, hash_text(HASH_START, name), tensor);
    }
    for (int i = 0; i < program->tensors.count; i++)
        if (!seen[i]) ((Tensor *)program->tensors.items[i])->spec_name = NULL;
}

static Program *elaborate_graph(Elaborator *e, const char *model_name, Graph graph, long batch,
                                long context, List *settings) {
    Unit *unit = e->unit;
    e->settings = settings;
    const Node *model = find_model(unit, model_name);
    if (!model) {
        if (model_name)
            report_unknown_model(unit, (Span){0}, model_name);
        else
            report_no_model(unit);
        return NULL;
    }
    e->program = program_new(unit->arena, unit->reports, model->name, graph, unit->calls);
    if (unit->target) e->program->target = unit->target;
    e->block = &e->program->body;
    unit->reports->at = model->name_span;
    Scope scope = {0};
    e->scope = &scope;
    Record *record = record_new(e);
    const Node *layer = model_options(e, model, record, 0);
    if (!layer) return NULL;
    override_options(e, record);
    e->attributes = take_attributes(layer, record);
    override(e, record, "train.batch_size", (double)batch);
    override(e, record, "train.context_length", (double)context);
    adopt_names(e, layer, record);
    adopt_moves(e, layer, record);
    standard_group(e, layer, record, "inference");
    if (graph == GRAPH_UPDATE)
        update_program(e, layer, record);
    else if (graph == GRAPH_STEP)
        step_program(e, layer, record);
    else
        model_program(e, model, layer, record);
    number_spec_names(e->program);
    unit->reports->at = model->name_span;
    if (settings && !unit->reports->errors) mark_unread(e);
    if (settings && !unit->reports->errors) warn_unused(unit);
    if (settings && !unit->reports->errors) warn_of_functions(unit);
    if ((settings || graph == GRAPH_UPDATE) && !unit->reports->errors) warn_idle(e);
    return unit->reports->errors ? NULL : e->program;
}

Program *elaborate(Unit *unit, const char *model_name, Graph graph, long batch, long context,
                   List *settings) {
    Elaborator *e = elaborator_new(unit);
    unit->reports->cause = cause_of_error;
    unit->reports->cause_data = e;
    Program *program = elaborate_graph(e, model_name, graph, batch, context, settings);
    unit->reports->cause = NULL;
    return program;
}

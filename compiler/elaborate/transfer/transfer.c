/* transfer: derive the settings of the parameters of a model from a tuned model.
 *
 *     model large = proxy { dim = 1024 } transfer complete_mue { alpha = 0.5 } from proxy
 *
 * The facts about a parameter and its growth are derived from the equations of both models
 * (parameter_flow, match). A parametrization maps these facts to settings:
 *
 *     parametrization simple {
 *       option alpha: real = 1
 *       pace = (batch / data)^0.5               # facts are ratios of this model to the base
 *       lr = lr * pace                          # for all parameters
 *       kind matrix if product {                # the first kind with a true condition
 *         lr   = lr / fan_in
 *         init = init / fan_in^0.5
 *       }
 *     }
 *
 * The initial settings are those without the transfer: `lr` and the options of the optimizer from
 * the model, `init` from `parameters` of the model or from the standard deviation of the
 * counterpart, `forward` = 1.
 */
#include "elaborate/transfer/transfer.h"

#include "analysis/parameter_facts.h"

#include <math.h>
#include <string.h>

/* The properties of a model that a transfer reads. */
typedef struct TransferModel {
    const char *name;
    Program *program;
    List flows; /* ParameterFlow * */
    double batch, steps, lr;
    double tokens;   /* of the run */
    double depth;    /* the longest repeat */
    Program *shaped; /* the same model with the outermost axes of the base, or NULL */
    List options;    /* TunedNumber *: real options of the optimizer */
} TransferModel;

typedef struct Derivation {
    Elaborator *e;
    const Node *rule; /* NODE_PARAMETRIZATION */
    Record *given;    /* its options */
    TransferModel base, model;
    const ParameterFlow *flow, *counterpart;
    Tuned *row;
    bool checked;
} Derivation;

static const char *const first_settings[] = {"lr", "init", "multiplier"};
enum { FIRST_SETTINGS = 3 };

/* ---- both models ---- */

static void note_options(Elaborator *e, TransferModel *side, const Value *optimizer) {
    const Node *body = layer_body(optimizer->layer);
    for (int i = 0; i < body->count; i++) {
        const Node *option = body->kids[i];
        if (option->kind != NODE_OPTION || strcmp(option->kids[0]->name, "float")) continue;
        Value *value = layer_option(e, optimizer, option->name, optimizer->span);
        if (value->kind != KIND_NUMBER) continue;
        TunedNumber *number = arena_alloc(e->arena, sizeof *number);
        *number = (TunedNumber){.name = option->name, .plain = value->number};
        list_push(e->arena, &side->options, number);
    }
}

static bool note_training(Elaborator *e, const Node *model, bool overridden, TransferModel *side) {
    Scope scope = {0}, *outer = e->scope;
    Record *record = record_new(e);
    e->scope = &scope;
    const Node *layer = model_options(e, model, record, 0);
    if (layer && overridden) override_options(e, record);
    if (layer) adopt_names(e, layer, record);
    if (layer) adopt_moves(e, layer, record);
    if (layer) take_attributes(layer, record);
    Value *train = layer ? train_group(e, layer, record) : NULL;
    Value *optimizer = group_layer(e, train, "optimizer");
    if (train && train->kind == KIND_LAYER) {
        side->lr = group_number(e, train, "lr", 1, NULL);
        side->steps = group_number(e, train, "steps", 1, NULL);
        side->batch = group_number(e, train, "batch_size", 1, NULL) *
                      group_number(e, train, "gradient_accumulation_steps", 1, NULL) *
                      group_number(e, train, "context_length", 1, NULL);
        side->tokens = training_tokens(e, train, side->steps);
    }
    if (optimizer) note_options(e, side, optimizer);
    e->scope = outer;
    return layer != NULL && side->steps > 0;
}

static void note_flows(TransferModel *side) {
    parameter_facts(side->program);
    side->flows = parameter_flow(side->program);
    side->depth = 0;
    LIST_EACH(const ParameterFlow, flow, &side->flows)
        if (flow->tensor->repeats > side->depth) side->depth = flow->tensor->repeats;
}

/* ---- facts ---- */

static Axis *axis_called(const Program *program, const char *name) {
    LIST_EACH(Axis, axis, &program->axes)
        if (axis->kind == AXIS_PLAIN && !strcmp(axis->name, name)) return axis;
    return NULL;
}

/* The growth of the axes of one use; for a parameter without counterpart, of those axes that also
 * the base has. */
static double growth(const Derivation *d, unsigned use) {
    const Tensor *tensor = d->flow->tensor;
    double ratio = 1;
    for (int j = tensor->lead; j < tensor->rank; j++) {
        if (!(tensor->facts->axes[j] & use)) continue;
        const Axis *axis = axis_called(d->base.program, tensor->axes[j]->name);
        if (axis) ratio *= (double)tensor->axes[j]->size / (double)axis->size;
    }
    return ratio;
}

static double ratio_of(double mine, double its) {
    return mine > 0 && its > 0 ? mine / its : 1;
}

static void bind_number(Derivation *d, Scope *scope, const char *name, double number) {
    Span span = d->rule->name_span;
    scope_bind(d->e, scope, name, value_number(d->e, number, span), span);
}

static void bind_flag(Derivation *d, Scope *scope, const char *name, bool flag) {
    Value *value = value_new(d->e, KIND_FLAG, d->rule->name_span);
    value->number = flag;
    scope_bind(d->e, scope, name, value, d->rule->name_span);
}

static void bind_transfer_facts(Derivation *d, Scope *scope) {
    const ParameterFlow *flow = d->flow, *its = d->counterpart;
    bool scored = its && its->product && flow->product;
    double in = scored ? ratio_of(flow->fan_in, its->fan_in) : growth(d, AXIS_SUMMED);
    double out = scored ? ratio_of(flow->fan_out, its->fan_out) : growth(d, AXIS_KEPT);
    double depth = its ? ratio_of(flow->tensor->repeats, its->tensor->repeats)
                       : ratio_of(d->model.depth, d->base.depth);
    bind_flag(d, scope, "matmul", flow->product);
    bind_flag(d, scope, "embedding", flow->lookup);
    bind_flag(d, scope, "residual", flow->joins);
    bind_flag(d, scope, "first", flow->first);
    bind_flag(d, scope, "last", flow->last);
    bind_flag(d, scope, "repeated", flow->tensor->repeats > 0);
    bind_number(d, scope, "fan_in", in);
    bind_number(d, scope, "fan_out", out);
    bind_number(d, scope, "summed_fan_in", scored ? ratio_of(flow->meets, its->meets) : in);
    bool known = !flow->uneven && !(scored && its->uneven);
    bind_number(d, scope, "route_weight", known ? flow->share / (scored ? its->share : 1) : 1);
    bind_number(d, scope, "depth", flow->tensor->repeats > 0 ? depth : 1);
    bind_number(d, scope, "batch", ratio_of(d->model.batch, d->base.batch));
    bind_number(d, scope, "data", ratio_of(d->model.tokens, d->base.tokens));
}

/* ---- settings ---- */

static TunedNumber *find_tuned_number(const Tuned *row, const char *name) {
    return list_named(&row->numbers, offsetof(TunedNumber, name), name);
}

/* The attribute of the parameter without a transfer; for "lr" a factor. */
static double own_number_or(const Tensor *tensor, const char *name, double otherwise) {
    const OwnNumber *own = tensor_own(tensor, name);
    return own ? own->value : otherwise;
}

static void add_tuned_number(Derivation *d, Scope *scope, const char *name, double plain,
                             double value) {
    TunedNumber *number = arena_alloc(d->e->arena, sizeof *number);
    *number = (TunedNumber){name, plain, value, value, NULL};
    list_push(d->e->arena, &d->row->numbers, number);
    bind_number(d, scope, name, value);
}

static double init_std_of(const Init *init) {
    return init->kind == MOEC_INIT_NORMAL ? init->b : (init->b - init->a) / 2;
}

/* The standard deviation that `parameters` of the model sets; otherwise that of the counterpart if
 * both are random. Without a counterpart, the deviation that the model declares, evaluated at the
 * width of the base. */
static double first_spread(const Derivation *d) {
    const Tensor *own = d->flow->tensor, *its = d->counterpart ? d->counterpart->tensor : NULL;
    if (own->init.kind == MOEC_INIT_CONSTANT) return 0;
    if (!its && d->model.shaped) its = parameter_called(d->model.shaped, own->path);
    return own_number_or(
        own, ".init",
        init_std_of(its && its->init.kind == own->init.kind ? &its->init : &own->init));
}

static void bind_settings(Derivation *d, Scope *scope) {
    const Tensor *tensor = d->flow->tensor;
    add_tuned_number(d, scope, "lr", d->model.lr, d->model.lr * own_number_or(tensor, "lr", 1));
    add_tuned_number(d, scope, "init", first_spread(d), first_spread(d));
    add_tuned_number(d, scope, "multiplier", 1, 1);
    LIST_EACH(const TunedNumber, option, &d->model.options) {
        if (find_tuned_number(d->row, option->name)) continue;
        add_tuned_number(d, scope, option->name, option->plain,
                         own_number_or(tensor, option->name, option->plain));
    }
}

static bool is_setting(const Derivation *d, const char *name) {
    const List *optimizers = &d->e->unit->optimizers;
    for (int i = 0; i < optimizers->count; i++)
        if (option_called(optimizers->items[i], name)) return true;
    return text_find(first_settings, FIRST_SETTINGS, name) >= 0;
}

/* ---- the text ---- */

static void run_rule_body(Derivation *d, const Node *body);

static const char *span_text(Arena *arena, Span span) {
    return arena_copy(arena, span.source->text + span.start, (size_t)(span.end - span.start));
}

/* Reports a name that is neither a setting nor read: it has no effect and is likely a mistake. */
static void check_name(Derivation *d, const Node *node) {
    if (d->checked || is_setting(d, node->name) || node_mentions(d->rule->kids[0], node->name))
        return;
    const char *names[64];
    int count = 0;
    for (int i = 0; i < FIRST_SETTINGS; i++) names[count++] = first_settings[i];
    for (int i = 0; i < d->model.options.count && count < 64; i++)
        names[count++] = ((TunedNumber *)d->model.options.items[i])->name;

    report_error(d->e->reports, node->name_span,
                 "'%s' is not a setting, and nothing in parametrization '%s' reads it", node->name,
                 d->rule->name);
    report_choices(d->e->reports, node->name, names, count, "settings");
}

static void run_equation(Derivation *d, const Node *node) {
    Elaborator *e = d->e;
    TunedNumber *number = find_tuned_number(d->row, node->name);
    double value;
    check_name(d, node);
    if (!number && is_setting(d, node->name)) return; /* of another optimizer */
    if (node->kids[0]) {
        report_error(e->reports, node->kids[0]->span,
                     "a setting is one number and has no subscripts");
        report_help(e->reports, "write %s = ...", node->name);
        return;
    }
    if (!evaluate_number(e, node->kids[1], number ? "a setting" : "this", &value)) return;
    Binding *binding = scope_find(e->scope, node->name);
    if (binding && !number && !node_mentions(node->kids[1], node->name)) {
        report_error(e->reports, node->name_span, "'%s' is already defined", node->name);
        report_note(e->reports, binding->span, "first defined here");
        report_help(e->reports, "choose another name");
        return;
    }
    if (binding)
        binding->value = value_number(e, value, node->span);
    else
        scope_bind(e, e->scope, node->name, value_number(e, value, node->span), node->name_span);
    if (!number) return;
    const char *text = span_text(e->arena, node->kids[1]->span);
    number->clause = number->clause ? arena_format(e->arena, "%s, %s", number->clause, text) : text;
    number->after = value;
}

static void run_kind(Derivation *d, const Node *node) {
    bool holds = true;
    if (d->row->kind) return;
    if (node->kids[0] && !evaluate_flag(d->e, node->kids[0], &holds)) return;
    if (!holds) return;
    d->row->kind = node->name;
    d->row->span = node->name_span;
    run_rule_body(d, node->kids[1]);
}

static void run_rule_statement(Derivation *d, const Node *node) {
    Elaborator *e = d->e;
    bool yes;
    if (node->kind == NODE_OPTION)
        bind_option(e, node, d->given, NULL);
    else if (node->kind == NODE_EQUATION)
        run_equation(d, node);
    else if (node->kind == NODE_KIND)
        run_kind(d, node);
    else if (node->kind == NODE_REQUIRE) {
        Node wrapper = {.kind = NODE_BLOCK, .kids = (Node **)&node, .count = 1};
        block_statements(e, &wrapper);
    } else if (node->kind == NODE_IF) {
        if (!evaluate_flag(e, node->kids[0], &yes)) return;
        const Node *branch = yes ? node->kids[1] : node->kids[2];
        if (branch && branch->kind == NODE_IF)
            run_rule_statement(d, branch);
        else if (branch)
            run_rule_body(d, branch);
    } else
        report_invalid(e->reports, node->span,
                       "write option, kind, require, if, or an equation, such as lr = ...",
                       "this statement is not allowed in a parametrization");
}

static void run_rule_body(Derivation *d, const Node *body) {
    int errors = d->e->reports->errors;
    for (int i = 0; i < body->count && d->e->reports->errors == errors; i++)
        run_rule_statement(d, body->kids[i]);
}

/* Checks the names in equations of all kinds, also of kinds without a parameter. */
static void check_rule_names(Derivation *d, const Node *body) {
    for (int i = 0; i < body->count; i++) {
        const Node *node = body->kids[i];
        if (node->kind == NODE_EQUATION) check_name(d, node);
        if (node->kind == NODE_KIND) check_rule_names(d, node->kids[1]);
        for (int j = 1; node->kind == NODE_IF && j < 3; j++)
            if (node->kids[j] && node->kids[j]->kind == NODE_BLOCK)
                check_rule_names(d, node->kids[j]);
    }
}

static bool finite_numbers(Derivation *d) {
    LIST_EACH(const TunedNumber, number, &d->row->numbers) {
        if (isfinite(number->after)) continue;
        report_error(d->e->reports, d->rule->name_span,
                     "parametrization '%s' results in %s = %g for '%s'", d->rule->name,
                     number->name, number->after, d->flow->tensor->path);
        return report_help(d->e->reports, "change the equation of %s, or set it in the tuned model",
                           number->name);
    }
    return true;
}

static Init scaled_init(const Init *own, double spread) {
    Init init = *own;
    double middle = (own->a + own->b) / 2;
    if (own->kind == MOEC_INIT_NORMAL) init.b = spread;
    if (own->kind == MOEC_INIT_UNIFORM) {
        init.a = middle - spread;
        init.b = middle + spread;
    }
    return init;
}

static Tuned *derive_row(Derivation *d) {
    Elaborator *e = d->e;
    Scope scope = {0};
    Frame frame = {.layer = d->rule, .path = "", .stored = "", .call = d->rule->name_span};
    d->row = arena_alloc(e->arena, sizeof *d->row);
    *d->row = (Tuned){.flow = d->flow, .base = d->counterpart};
    e->scope = &scope;
    e->frame = &frame;
    bind_transfer_facts(d, &scope);
    bind_settings(d, &scope);
    run_rule_body(d, d->rule->kids[0]);
    if (!finite_numbers(d)) return NULL;
    d->row->init = scaled_init(&d->flow->tensor->init, find_tuned_number(d->row, "init")->after);
    return d->row;
}

/* ---- the transfer clause of a model ---- */

static void report_unknown_rule(Elaborator *e, const Node *name) {
    const List *all = &e->unit->parametrizations;
    const char *names[128];
    int count = 0;
    for (int i = 0; i < all->count && count < 128; i++)
        names[count++] = ((Node *)all->items[i])->name;
    report_error(e->reports, name->name_span, "unknown parametrization '%s'", name->name);
    if (help_with_use(e->reports, name->name)) return;
    report_choices(e->reports, name->name, names, count, "parametrizations");
    if (!count) report_help(e->reports, "add 'use parametrizations' at the beginning of the file");
}

static const Node *find_rule(Elaborator *e, const Node *name) {
    const Node *rule = list_named(&e->unit->parametrizations, offsetof(Node, name), name->name);
    if (rule) return rule;
    report_unknown_rule(e, name);
    return NULL;
}

/* The model in the chain `a = b { ... }` with a transfer clause, or NULL. */
static const Node *derived_model(Unit *unit, const Node *model) {
    for (int depth = 0; model && depth < MAX_APPLICATIONS; depth++) {
        if (model->count > 2) return model;
        const Node *base = find_model(unit, model->kids[0]->name);
        model = base == model ? NULL : base;
    }
    return NULL;
}

static const Node *find_base(Elaborator *e, const Node *model) {
    const Node *name = model->kids[3], *base = find_model(e->unit, name->name);
    if (!base) {
        report_unknown_model(e->unit, name->name_span, name->name);
        return NULL;
    }
    const Node *derived = derived_model(e->unit, base);
    if (!derived) return base;
    if (derived == model) {
        report_invalid(e->reports, name->name_span, "transfer from the model that was tuned",
                       "model '%s' is derived from itself", model->name);
        return NULL;
    }
    report_error(e->reports, name->name_span, "'%s' is itself derived by a transfer", name->name);
    report_note(e->reports, derived->kids[3]->name_span, "it is derived from '%s' here",
                derived->kids[3]->name);
    report_help(e->reports, "transfer from the model that was tuned: from %s",
                derived->kids[3]->name);
    return NULL;
}

static bool any_counterpart(Derivation *d, const ParameterFlow *const *counterparts,
                            const Node *model) {
    for (int i = 0; i < d->model.flows.count; i++)
        if (counterparts[i] && counterparts[i]->product) return true;
    return report_invalid(
        d->e->reports, model->kids[3]->name_span,
        "transfer from a model with matrices over the same axes, such as the base of the model",
        "no matrix of '%s' has a counterpart in '%s'", d->model.name, d->base.name);
}

/* An invalid model at that width is not an error: `shaped` is NULL then. */
static void shape_model(Derivation *d) {
    Unit *unit = d->e->unit;
    Reports *reports = unit->reports, quiet = {.arena = unit->arena};
    unit->reports = &quiet;
    unit->shape = d->base.program;
    d->model.shaped = elaborate(unit, d->model.name, GRAPH_FORWARD, 0, 0, NULL);
    unit->shape = NULL;
    unit->reports = reports;
}

/* A base is elaborated without the overrides of the command line. */
static Program *without_overrides(Unit *unit, const Node *base) {
    List overrides = unit->overrides;
    unit->overrides = (List){0};
    Program *program = elaborate(unit, base->name, GRAPH_FORWARD, 0, 0, NULL);
    unit->overrides = overrides;
    return program;
}

static bool open_sides(Derivation *d, const Node *model, const Node *base) {
    Elaborator *e = d->e;
    Unit *unit = e->unit;
    d->base.name = base->name;
    if (!note_training(e, model, true, &d->model) || !note_training(e, base, false, &d->base))
        return false;
    d->base.program = without_overrides(unit, base);
    if (!d->base.program) return false;
    shape_model(d);
    note_flows(&d->base);
    note_flows(&d->model);
    return true;
}

/* ---- models that change without one ---- */

/* The first model of the unit that is derived from this one, or NULL. */
static const Node *transferred_from(const Unit *unit, const Node *base) {
    LIST_EACH(const Node, model, &unit->models)
        if (model->count > 2 && !strcmp(model->kids[3]->name, base->name)) return model;
    return NULL;
}

/* The tuned base that this model changes without a transfer, or NULL. A model that is such a base
 * itself was tuned itself. */
static const Node *tuned_ancestor(Unit *unit, const Node *model) {
    if (transferred_from(unit, model)) return NULL;
    for (int depth = 0; model && depth < MAX_APPLICATIONS; depth++) {
        const Node *base = find_model(unit, model->kids[0]->name);
        if (base == model) return NULL;
        if (base && transferred_from(unit, base)) return base;
        model = base;
    }
    return NULL;
}

static void add_change(Text *text, const char *what, double before, double after) {
    if (before == after) return;
    text_add(text, "%s%s %.9g -> %.9g", text->length ? ", " : "", what, before, after);
}

static bool has_pattern(Arena *arena, const TransferModel *side, const char *pattern) {
    LIST_EACH(const ParameterFlow, flow, &side->flows)
        if (!strcmp(pattern_of(arena, flow->tensor->path), pattern)) return true;
    return false;
}

/* The differences in axes of parameters, batch and steps: "d 128 -> 1024, steps 10 -> 40". */
static const char *changes_of(Arena *arena, const TransferModel *model, const TransferModel *base) {
    Text text = text_new(arena);
    LIST_EACH(const Axis, before, &base->program->axes) {
        const Axis *after = axis_called(model->program, before->name);
        if (before->kind == AXIS_PLAIN && after)
            add_change(&text, before->name, (double)before->size, (double)after->size);
    }
    for (int i = 0; i < model->flows.count; i++) {
        const Tensor *own = ((ParameterFlow *)model->flows.items[i])->tensor;
        const char *pattern = pattern_of(arena, own->path);
        if (has_pattern(arena, base, pattern)) continue;
        text_add(&text, "%s'%s' is new", text.length ? ", " : "", pattern);
        break;
    }
    add_change(&text, "layers", base->depth, model->depth);
    add_change(&text, "tokens per step", base->batch, model->batch);
    add_change(&text, "steps", base->steps, model->steps);
    return text.text;
}

static void warn_of_departure(Elaborator *e, const Node *asked, Program *program) {
    Unit *unit = e->unit;
    const Node *base = tuned_ancestor(unit, asked);
    TransferModel mine = {.program = program}, its = {0};
    if (!base || !note_training(e, asked, true, &mine) || !note_training(e, base, false, &its))
        return;
    its.program = without_overrides(unit, base);
    if (!its.program) return;
    note_flows(&mine);
    note_flows(&its);
    const char *changes = changes_of(unit->arena, &mine, &its);
    if (!*changes) return;
    const Node *other = transferred_from(unit, base);
    report_warning(unit->reports, asked->name_span,
                   "'%s' uses the settings of '%s' unchanged, but differs from it: %s", asked->name,
                   base->name, changes);
    report_note(unit->reports, other->kids[3]->name_span, "'%s' is the base of a transfer here",
                base->name);
    report_help(unit->reports, "add 'transfer %s from %s' to derive its settings",
                other->kids[2]->name, base->name);
}

/* ---- attention ---- */

typedef struct AttentionCalls {
    Arena *arena;
    List found; /* Statement *, in program order */
} AttentionCalls;

static void note_attention(Statement *statement, void *data) {
    AttentionCalls *calls = data;
    if (statement->kind == STATEMENT_CALL && statement->attention.scale != 0)
        list_push(calls->arena, &calls->found, statement);
}

static List attention_calls(Arena *arena, const Program *program) {
    AttentionCalls calls = {.arena = arena};
    block_walk((Block *)&program->body, note_attention, &calls);
    return calls.found;
}

static double head_dim_of(const Statement *attend) {
    const Tensor *queries = ((const Expr *)attend->inputs.items[0])->tensor;
    return (double)queries->axes[queries->rank - 1]->size;
}

/* The scores of trained heads grow with their width, not with its square root: the rules of width
 * assume a factor of 1 / width. */
static void warn_of_scores(const Derivation *d, const Node *asked) {
    Arena *arena = d->e->unit->arena;
    const List own = attention_calls(arena, d->model.program),
               base = attention_calls(arena, d->base.program);
    for (int i = 0; i < own.count && i < base.count; i++) {
        const Statement *large = own.items[i], *small = base.items[i];
        const double from = head_dim_of(small), to = head_dim_of(large),
                     wanted = small->attention.scale * from / to;
        if (to == from || fabs(large->attention.scale / wanted - 1) < 1e-6) continue;
        report_warning(d->e->unit->reports, asked->name_span,
                       "the head dimension changes from %g to %g, and the factor of the scores of "
                       "attention from %.4g to %.4g; %s assumes that it changes to %.4g",
                       from, to, small->attention.scale, large->attention.scale, d->rule->name,
                       wanted);
        report_help(
            d->e->unit->reports,
            "keep the head dimension and change the number of heads, or set the scale to %.9g",
            wanted);
        return;
    }
}

Tuning *transfer(Unit *unit, Program *program) {
    Elaborator *e = elaborator_new(unit);
    const Node *asked = find_model(unit, program->name);
    const Node *model = derived_model(unit, asked);
    if (!model) {
        e->program = program;
        warn_of_departure(e, asked, program);
        return NULL;
    }
    const Node *base = find_base(e, model), *rule = find_rule(e, model->kids[2]);
    if (!base || !rule) return NULL;
    e->program = program_new(unit->arena, unit->reports, rule->name, GRAPH_FORWARD, unit->calls);
    Derivation d = {.e = e, .rule = rule};
    d.model.name = program->name;
    d.model.program = program;
    Scope scope = {0};
    e->scope = &scope;
    d.given = record_evaluate(e, model->kids[2]->kids[0]);
    check_unknown_options(e, rule, d.given);
    if (unit->reports->errors || !open_sides(&d, asked, base)) return NULL;
    check_rule_names(&d, rule->kids[0]);
    d.checked = true;
    if (strcmp(rule->name, "standard") != 0) warn_of_scores(&d, asked);
    Tuning *tuning = arena_alloc(unit->arena, sizeof *tuning);
    *tuning = (Tuning){rule->name, base->name, d.base.program, program, {0}};
    const ParameterFlow **counterparts =
        match_parameters(unit->arena, &d.model.flows, &d.base.flows);
    if (!any_counterpart(&d, counterparts, model)) return NULL;
    for (int i = 0; i < d.model.flows.count && !unit->reports->errors; i++) {
        d.flow = d.model.flows.items[i];
        d.counterpart = counterparts[i];
        Tuned *row = derive_row(&d);
        if (!row) break;
        list_push(unit->arena, &tuning->rows, row);
    }
    return unit->reports->errors ? NULL : tuning;
}

/* repeat: a body that is repeated over depth.
 *
 *     repeat block[i < 48] { x = x + attention(norm(x)) }
 *
 * becomes one repeat statement. A tensor that the body changes (x) is stacked, read at iteration i
 * and written at i+1. Declarations of the body (weights) have the iteration as their first
 * dimension. A body that depends on i (`if i % 4 == 3`) is read once per iteration to find its
 * period. The repeat statement contains one period; iterations before it and remaining ones are
 * separate. The size of the program depends on the differences, not on the depth.
 *
 * A repeat inside a repeat is unrolled, as is a repeat that changes a number or has outputs.
 */
#include "elaborate/elaborate.h"
#include "ir/ir.h"
#include "base/must.h"

#include <math.h>
#include <string.h>

enum { MAX_CARRIED = 32, MAX_PERIOD = 16, MAX_TIMES = 4096 };

typedef struct Carried {
    Binding *binding;
    Tensor *stack;
    Value *before;
    Index *ambient[MAX_RANK];
    int ambient_count;
} Carried;

typedef struct RepeatPlan {
    long count, prefix, period, steps;
    List carried; /* const char *: provided values that an iteration reads and replaces */
} RepeatPlan;

static int find_carried(Elaborator *e, const Node *node, Carried *carried, int count) {
    if (!node) return count;
    if (node->kind == NODE_EQUATION) {
        Binding *binding = scope_find(e->scope, node->name);
        if (!binding || binding->value->kind != KIND_TENSOR) return count;
        for (int i = 0; i < count; i++)
            if (carried[i].binding == binding) return count;
        if (count == MAX_CARRIED) {
            report_invalid(e->reports, node->name_span, "split the repeat into two",
                           "a repeat changes too many names: the maximum is %d", (int)MAX_CARRIED);
            return count;
        }
        carried[count++] = (Carried){.binding = binding, .before = binding->value};
        return count;
    }
    /* The names of a scan are local. */
    bool block = node_holds_statements(node) && node->kind != NODE_SCAN;
    for (int i = 0; block && i < node->count; i++)
        count = find_carried(e, node->kids[i], carried, count);
    return count;
}

/* Only tensors are carried between iterations; an output exists in each iteration. */
static bool steps_stand_alone(Elaborator *e, const Node *node) {
    if (!node) return false;
    if (node->kind == NODE_OUTPUT) return true;
    if (node->kind == NODE_EQUATION) {
        const Binding *binding = scope_find(e->scope, node->name);
        return binding && binding->value->kind != KIND_TENSOR;
    }
    bool found = false;
    for (int i = 0; node_holds_statements(node) && i < node->count && !found; i++)
        found = steps_stand_alone(e, node->kids[i]);
    return found;
}

/* Equality of numbers, words and layers. Messages contain the location where a layer was selected,
 * which must be equal, too. */
static bool same_constant(const Value *a, const Value *b) {
    if (a->kind == KIND_TENSOR || a->kind == KIND_AXIS || a->kind == KIND_LIST) return false;
    if (a->kind != b->kind || a->record != b->record || !value_equal(a, b)) return false;
    return a->kind != KIND_LAYER || (a->option == b->option && a->span.source == b->span.source &&
                                     a->span.start == b->span.start);
}

/* An iteration reads its index in expressions of numbers, words and layers, such as a condition.
 * Iterations with equal values of these expressions are equal. After any other read, the index
 * remains marked as read. */
void compare_steps(Elaborator *e, const Node *node, const Value *value) {
    Alike *alike = e->alike;
    if (!same_constant(value, value)) return;
    Reports told = *e->reports;
    e->alike = NULL;
    for (long i = alike->first + 1; i < alike->count; i++) {
        if (!alike->same[i]) continue;
        alike->index->number = (double)i;
        const Value *other = evaluate(e, node);
        alike->same[i] = e->reports->errors == told.errors && same_constant(value, other);
        *e->reports = told;
    }
    e->alike = alike;
    alike->index->number = (double)alike->first;
    alike->index->watch->read = false;
}

static Value *repeat_number(Elaborator *e, const Node *node, long i) {
    return value_number(e, (double)i, node->kids[0]->span);
}

static const char *step_path(Elaborator *e, const char *path, const char *name,
                             const char *segment) {
    return arena_format(e->arena, "%s%s%s%s%s", path, *path ? "." : "", name, segment ? "." : "",
                        segment ? segment : "");
}

/* Reads one iteration into the current block. `segment` is part of the public path of its
 * definitions. again: an iteration of a shared repeat whose parameters exist. */
static void repeat_step(Elaborator *e, const Node *node, Value *index, const char *segment,
                        bool again) {
    Frame frame = *e->frame, *outer = e->frame;
    frame.path = step_path(e, outer->path, outer->repeat, segment);
    frame.stored = step_path(e, outer->stored, outer->repeat, node->number == 1 ? NULL : segment);
    frame.shared = outer->shared || (node->number == 1 && again);
    frame.looped = outer->looped || node->number == 1;
    frame.application = application_new(e, node->name, frame.path, node->span);
    frame.instances = frame.repeated = frame.declared = (Table){0};
    e->frame = &frame;
    Scope *scope = scope_push(e);
    scope_bind(e, scope, node->kids[0]->name, index, index->span);
    block_statements(e, node->kids[2]);
    scope_pop(e);
    e->frame = outer;
}

/* Numbers that are rounded in the text of a program. */
static void add_literal_text(Expr *expr, void *text) {
    if (expr->kind != EXPR_NUMBER) return;
    bool exact = expr->number == floor(expr->number) && fabs(expr->number) < 1e9;
    if (!exact) text_add(text, "%.17g\n", expr->number);
}

static void add_statement_literals(Statement *statement, void *text) {
    if (statement->kind != STATEMENT_LOOP) return;
    expr_walk(statement->target, add_literal_text, text);
    expr_walk(statement->value, add_literal_text, text);
}

/* Facts about a tensor that the text of a program does not contain, or rounds. */
static void add_facts(Text *text, const Tensor *tensor) {
    text_add(text, "%d", tensor->cached);
    LIST_EACH(const OwnNumber, own, &tensor->own)
        text_add(text, " %s = %.17g", own->name, own->value);
    text_add(text, "\n");
}

/* The result of an iteration in a graph as text: iterations with the same text are equal.
 * `provided` are the values that it can request, then those that the next one can. tested: it
 * depends on the graph. */
static char *graph_signature(Elaborator *e, const Node *node, Graph graph, Alike *alike,
                             const Carried *carried, int count, List *provided, Effects *effects,
                             bool *tested) {
    Elaborator saved = *e;
    e->provided = *provided;
    e->effects = effects;
    Program *program = program_new(e->arena, e->reports, "step", graph, e->unit->calls);
    program->batch = saved.program->batch;
    program->sequence = saved.program->sequence;
    e->program = program;
    e->block = &program->body;
    e->terms = e->probed = e->once = e->stored = e->named = e->axes = (List){0};
    e->settings = NULL;
    e->alike = alike;
    repeat_step(e, node, alike->index, "step", false);
    Text text = {.arena = e->arena};
    const char *made = print_program(e->arena, program);
    text_add_bytes(&text, made, strlen(made));
    block_walk(&program->body, add_statement_literals, &text);
    for (int j = 0; j < program->tensors.count; j++) add_facts(&text, program->tensors.items[j]);
    LIST_EACH(const Stored, stored, &e->stored) {
        const Init *init = &stored->tensor->init;
        text_add(&text, "init %d %.17g %.17g\n", (int)init->kind, init->a, init->b);
    }
    LIST_EACH(const LossTerm, term, &e->terms)
        text_add(&text, "aux %s %s\n", term->name, print_expr(e->arena, term->sum));
    for (int j = 0; j < count; j++) {
        const Value *value = carried[j].binding->value;
        if (value->kind == KIND_TENSOR)
            text_add(&text, "carried %s\n", print_expr(e->arena, value->expr));
    }
    for (int j = 0; j < effects->made.count; j++) {
        const Provided *entry = provided_find(&e->provided, effects->made.items[j]);
        const Value *value = entry ? entry->binding.value : NULL;
        text_add(&text, "provide %s %s\n", (const char *)effects->made.items[j],
                 value && value->kind == KIND_TENSOR ? print_expr(e->arena, value->expr) : "");
    }
    saved.aliases = e->aliases;
    saved.steps = e->steps;
    *provided = e->provided;
    *tested = program->by_training || program->by_decoding;
    *e = saved;
    for (int j = 0; j < count; j++) carried[j].binding->value = carried[j].before;
    return text.text;
}

/* The same in all graphs: they have the same iterations, so that they share parameters. */
static char *signature(Elaborator *e, const Node *node, Alike *alike, const Carried *carried,
                       int count, List *provided, Effects *effects) {
    static const Graph graphs[] = {GRAPH_FORWARD, GRAPH_TRAIN, GRAPH_DECODE};
    const Graph present = e->program->graph;
    bool *read = &alike->index->watch->read, tested;
    List before = {0};
    list_append(e->arena, &before, provided);
    char *text =
        graph_signature(e, node, present, alike, carried, count, provided, effects, &tested);
    bool reads = *read;
    const Reports told = *e->reports;
    for (size_t i = 0; tested && i < sizeof graphs / sizeof *graphs; i++) {
        if (graphs[i] == present) continue;
        List given = {0};
        Effects unused = {0};
        bool again;
        list_append(e->arena, &given, &before);
        *read = false;
        text = arena_format(
            e->arena, "%s%s", text,
            graph_signature(e, node, graphs[i], alike, carried, count, &given, &unused, &again));
        reads |= *read || !provided_alike(&before, &given);
        *e->reports = told;
    }
    *read = reads;
    return text;
}

/* The signatures of all iterations; equal texts are shared. False after an error. */
static bool signatures(Elaborator *e, const Node *node, char **texts, long count,
                       const Carried *carried, int carried_count, Effects *effects) {
    List provided = e->provided;
    for (long i = 0; i < count; i++) {
        if (texts[i]) continue;
        Alike alike = {.index = repeat_number(e, node, i), .first = i, .count = count};
        alike.index->watch = arena_alloc(e->arena, sizeof *alike.index->watch);
        alike.same = arena_alloc(e->arena, (size_t)count * sizeof *alike.same);
        memset(alike.same + i, true, (size_t)(count - i));
        int errors = e->reports->errors;
        List before = provided;
        char *text = signature(e, node, &alike, carried, carried_count, &provided, &effects[i]);
        if (e->reports->errors > errors) return false;
        for (long j = 0; j < i; j++)
            if (!strcmp(texts[j], text)) text = texts[j];
        texts[i] = text;
        if (!provided_alike(&before, &provided)) continue; /* the next one can request more */
        for (long j = i + 1; j < count && !alike.index->watch->read; j++)
            if (alike.same[j]) texts[j] = text, effects[j] = effects[i];
    }
    return true;
}

/* The provided values that the iterations of one period read and replace. */
static void find_carried_values(Elaborator *e, const Effects *effects, RepeatPlan *plan) {
    List made = {0}, needed = {0};
    for (long i = plan->prefix; i < plan->prefix + plan->period; i++) {
        for (int j = 0; j < effects[i].needed.count; j++)
            if (!list_has_text(&made, effects[i].needed.items[j]))
                list_push(e->arena, &needed, effects[i].needed.items[j]);
        list_append(e->arena, &made, &effects[i].made);
    }
    for (int j = 0; j < needed.count; j++) {
        const char *name = needed.items[j];
        if (list_has_text(&made, name) && !list_has_text(&plan->carried, name))
            list_push(e->arena, &plan->carried, needed.items[j]);
    }
}

static bool provides(const Node *node) {
    bool found = node && node->kind == NODE_PROVIDE;
    for (int i = 0; node && i < node->count && !found; i++) found = provides(node->kids[i]);
    return found;
}

/* Whether the body, or a layer that it may apply, provides a value. */
static bool may_provide(const Elaborator *e, const Node *body) {
    bool found = provides(body);
    for (int i = 0; i < e->unit->layers.count && !found; i++) {
        const Node *layer = e->unit->layers.items[i];
        found = layer->kids[0] && layer->kids[0]->count && provides(layer);
    }
    return found;
}

/* The plan with the fewest bodies. */
static RepeatPlan find_plan(char **texts, long count) {
    RepeatPlan best = {count, count, 1, 0, {0}};
    long best_bodies = count;
    for (long period = 1; period <= MAX_PERIOD && 2 * period <= count; period++) {
        /* the longest periodic run, over all starting points */
        for (long prefix = 0; prefix + 2 * period <= count && prefix < best_bodies; prefix++) {
            long end = prefix + period;
            while (end < count && texts[end] == texts[end - period]) end++;
            long steps = (end - prefix) / period;
            long bodies = prefix + period + (count - prefix - steps * period);
            if (steps < 2 || bodies >= best_bodies) continue;
            best = (RepeatPlan){count, prefix, period, steps, {0}};
            best_bodies = bodies;
        }
    }
    return best;
}

static bool plan_steps(Elaborator *e, const Node *node, long count, const Carried *carried,
                       int carried_count, RepeatPlan *plan) {
    bool inner = e->frame->looped;
    for (const RepeatBuild *region = e->region; region; region = region->outer)
        if (region->index) inner = true;
    *plan = (RepeatPlan){count, 0, 1, count, {0}};
    if (inner || count < 2 || steps_stand_alone(e, node->kids[2])) {
        *plan = (RepeatPlan){count, count, 1, 0, {0}};
        return true;
    }
    const Node *body = node->kids[2];
    bool mentioned = node_mentions(body, node->kids[0]->name);
    if (!mentioned && !may_provide(e, body)) return true;
    Span spans[MAX_CARRIED]; /* the location of a definition is that before the repeat */
    for (int i = 0; i < carried_count; i++) spans[i] = carried[i].binding->span;
    char **texts = arena_alloc(e->arena, (size_t)count * sizeof *texts);
    Effects *effects = arena_alloc(e->arena, (size_t)count * sizeof *effects);
    if (!signatures(e, node, texts, count, carried, carried_count, effects)) return false;
    for (int i = 0; i < carried_count && !mentioned; i++) carried[i].binding->span = spans[i];
    *plan = find_plan(texts, count);
    if (plan->steps) find_carried_values(e, effects, plan);
    return true;
}

/* x before the repeat becomes stack[0]; inside, x is stack[i], which is returned. */
static Value *carry_in(Elaborator *e, Carried *carried, Index *index, Axis *stacked) {
    Value *value = carried->before;
    Axis *axes[MAX_RANK];
    Expr *subs[MAX_RANK], *inside[MAX_RANK];
    Index *dims[MAX_RANK];
    int rank = 0;
    axes[rank] = stacked;
    subs[rank] = expr_number(e->program, 0);
    inside[rank++] = expr_index(e->program, index);
    for (int i = 0; i < e->frame->ambient_count; i++) {
        carried->ambient[carried->ambient_count++] = e->frame->ambient[i];
        axes[rank] = e->frame->ambient[i]->axis;
        subs[rank] = inside[rank] = expr_index(e->program, e->frame->ambient[i]);
        rank++;
    }
    for (int i = 0; i < value->rank; i++) {
        dims[i] = index_new(e->program, value->dims[i]->name, value->dims[i]->axis);
        axes[rank] = value->dims[i]->axis;
        subs[rank] = expr_index(e->program, value->dims[i]);
        inside[rank++] = expr_index(e->program, dims[i]);
    }
    const char *name = carried->binding->name;
    carried->stack =
        tensor_new(e->program, name, ROLE_TEMP, TYPE_REAL, rank, axes, carried->binding->span);
    name_in_spec(e, carried->stack, arena_format(e->arena, "%s.{i}.%s", e->frame->repeat, name));
    carried->stack->carried = true;
    Expr *target = expr_read(e->program, carried->stack, subs);
    statement_assign(e->program, e->block, target, value->expr, carried->binding->span);
    return value_tensor(e, expr_read(e->program, carried->stack, inside), dims, value->rank,
                        value->span);
}

static Expr *stack_read(Elaborator *e, const Carried *carried, Expr *iteration,
                        Index *const *dims) {
    Expr *subs[MAX_RANK];
    int rank = 0;
    subs[rank++] = iteration;
    for (int i = 0; i < carried->ambient_count; i++)
        subs[rank++] = expr_index(e->program, carried->ambient[i]);
    for (int i = 0; i < carried->before->rank; i++) subs[rank++] = expr_index(e->program, dims[i]);
    return expr_read(e->program, carried->stack, subs);
}

typedef struct TensorRenaming {
    const Expr *from; /* the target that defined it */
    Expr *to;
} TensorRenaming;

static Expr *rename_repeat_read(Program *program, Expr *read, void *data) {
    MUST(read->kind == EXPR_READ);
    const TensorRenaming *renaming = data;
    if (read->tensor != renaming->from->tensor) return NULL;
    Index *from[MAX_RANK];
    for (int i = 0; i < read->count; i++) from[i] = renaming->from->args[i]->index;
    return expr_substitute(program, renaming->to, from, read->args, read->count);
}

/* The statement that defines the last value of x writes stack[i+1] directly if its loops are
 * exactly those dimensions. */
static bool write_through(Elaborator *e, Block *body, Expr *value, Expr *target) {
    MUST(value->kind == EXPR_READ);
    if (!is_plain_read(e, value) || value->tensor->role != ROLE_TEMP) return false;
    Statement *definition = NULL;
    LIST_EACH(Statement, statement, &body->statements) {
        if (statement->kind != STATEMENT_LOOP || statement->target->tensor != value->tensor)
            continue;
        if (definition) return false;
        definition = statement;
    }
    if (!definition || definition->accumulate || value->count != definition->target->count)
        return false;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    for (int i = 0; i < value->count; i++) {
        if (value->args[i]->kind != EXPR_INDEX || definition->target->args[i]->kind != EXPR_INDEX)
            return false;
        from[i] = value->args[i]->index;
        to[i] = definition->target->args[i];
    }
    if (value->count + 1 != target->count) return false;
    Expr *renamed = expr_substitute(e->program, target, from, to, value->count);
    TensorRenaming renaming = {definition->target, renamed};
    for (int i = 0; i < body->statements.count; i++)
        rewrite_statement(e->program, body->statements.items[i], false, rename_repeat_read,
                          &renaming);
    for (int i = 0; i < e->provided.count; i++) {
        Value **provided = &((Provided *)e->provided.items[i])->binding.value, *old = *provided;
        Expr *read = old->kind == KIND_TENSOR && old->expr->kind == EXPR_READ
                         ? rename_repeat_read(e->program, old->expr, &renaming)
                         : NULL;
        if (read) *provided = value_tensor(e, read, old->dims, old->rank, old->span);
    }
    /* reduced indices follow those of the target, as before */
    Index *loops[MAX_LOOPS];
    int count = 0;
    for (int i = 0; i < renamed->count; i++)
        if (renamed->args[i]->kind == EXPR_INDEX) loops[count++] = renamed->args[i]->index;
    for (int i = definition->target->count; i < definition->loop_count; i++)
        loops[count++] = definition->loops[i];
    memcpy(definition->loops, loops, sizeof loops);
    definition->loop_count = count;
    definition->target = renamed;
    return true;
}

static void carry_out(Elaborator *e, Carried *carried, Block *body, Index *index, Value *value,
                      bool by_size) {
    if (!value || value->kind != KIND_TENSOR) {
        if (!value || value->kind == KIND_ERROR) return;
        report_invalid(e->reports, carried->binding->span,
                       "choose another name for the value of the iteration",
                       "'%s' is a tensor before the repeat, but %s after an iteration",
                       carried->binding->name, value_shown(e, value));
        return;
    }
    Index *dims[MAX_RANK];
    bool same = value->rank == carried->before->rank, taken[MAX_RANK] = {false};
    for (int i = 0; same && i < value->rank; i++) {
        int j = 0;
        const Axis *axis = carried->before->dims[i]->axis;
        while (j < value->rank && !by_size &&
               (taken[j] || !axes_match(e, value->dims[j]->axis, carried->before->dims[i]->axis)))
            j++;
        if (by_size) j = value->dims[i]->axis->size == axis->size ? i : value->rank;
        same = j < value->rank;
        if (same) dims[i] = value->dims[j], taken[j] = true;
    }
    if (!same) {
        report_error(e->reports, value->span, "'%s' changes its axes in an iteration of the repeat",
                     carried->binding->name);
        report_note(e->reports, carried->before->span, "its value before the repeat");
        report_help(e->reports, "choose another name for the value with other axes");
        return;
    }
    Expr *next = expr_apply(e->program, OP_ADD, expr_index(e->program, index),
                            expr_number(e->program, 1), NULL);
    Expr *target = stack_read(e, carried, next, dims);
    if (write_through(e, body, value->expr, target)) return;
    statement_assign(e->program, body, target, value->expr, value->span);
}

/* A term inside the repeat is summed over the iterations. */
static void carry_term(Elaborator *e, LossTerm *term, Block *outer, Block *body, Index *index,
                       Axis *stacked) {
    Tensor *stack =
        tensor_new(e->program, term->name, ROLE_TEMP, TYPE_REAL, 1, &stacked, term->span);
    Expr *zero = expr_number(e->program, 0), *step_index = expr_index(e->program, index);
    Expr *next = expr_apply(e->program, OP_ADD, step_index, expr_number(e->program, 1), NULL);
    Expr *start = expr_read(e->program, stack, &zero);
    statement_assign(e->program, outer, start, zero, term->span);
    Expr *sum =
        expr_apply(e->program, OP_ADD, expr_read(e->program, stack, &step_index), term->sum, NULL);
    statement_assign(e->program, body, expr_read(e->program, stack, &next), sum, term->span);
    term->carried = stack;
}

void add_term(Elaborator *e, const char *name, Expr *value, Span span) {
    List *list = e->region ? &e->region->terms : &e->terms;
    LIST_EACH(LossTerm, before, list) {
        if (strcmp(before->name, name)) continue;
        before->sum = expr_apply(e->program, OP_ADD, before->sum, value, NULL);
        return;
    }
    LossTerm *term = arena_alloc(e->arena, sizeof *term);
    *term = (LossTerm){.name = name, .sum = value, .span = span};
    list_push(e->arena, list, term);
}

static const char *segment(Elaborator *e, const RepeatPlan *plan, long offset) {
    if (plan->period == 1 && offset == 0) return "{i}";
    if (plan->period == 1) return arena_format(e->arena, "{i+%ld}", offset);
    return offset ? arena_format(e->arena, "{%ld*i+%ld}", plan->period, offset)
                  : arena_format(e->arena, "{%ld*i}", plan->period);
}

/* The provided tensors that the iterations replace. Returns their number. */
static int carry_provided(Elaborator *e, const RepeatPlan *plan, Carried *carried, Index *index,
                          Axis *stacked) {
    int count = 0;
    for (int i = 0; i < plan->carried.count && count < MAX_CARRIED; i++) {
        Provided *entry = provided_find(&e->provided, plan->carried.items[i]);
        if (!entry || entry->binding.value->kind != KIND_TENSOR) continue;
        if (entry->ended) keep_provided(e, entry);
        Carried *own = &carried[count++];
        *own = (Carried){.binding = &entry->binding, .before = entry->binding.value};
        Value *seen = carry_in(e, own, index, stacked);
        provided_set(e, entry->binding.name, seen, entry->binding.span);
    }
    return count;
}

/* The values after the last iteration. */
static Value *carried_last(Elaborator *e, const Carried *carried, long steps) {
    const Value *before = carried->before;
    Expr *read =
        stack_read(e, carried, expr_number(e->program, (double)steps), carried->before->dims);
    return value_tensor(e, read, before->dims, before->rank, before->span);
}

/* The periodic iterations of the plan as one repeat statement. */
static void region(Elaborator *e, const Node *node, const RepeatPlan *plan, Carried *carried,
                   int count) {
    Axis *axis = axis_new(e->program, node->name, plan->steps, AXIS_REPEAT, node->span);
    Axis *stacked = axis_new(e->program, node->name, plan->steps + 1, AXIS_REPEAT, node->span);
    Index *index = index_new(e->program, node->kids[0]->name, axis);
    index->of_repeat = true;
    RepeatBuild inner = {
        .index = index, .steps = plan->steps, .shared = node->number == 1, .outer = e->region};
    Block *outer = e->block, body = {{0}};
    Scope *scope = scope_push(e);
    for (int i = 0; i < count; i++) {
        Binding *binding = carried[i].binding;
        carried[i].before = binding->value;
        scope_bind(e, scope, binding->name, carry_in(e, &carried[i], index, stacked),
                   binding->span);
    }
    Carried provided[MAX_CARRIED] = {{0}};
    int provided_count = carry_provided(e, plan, provided, index, stacked);
    int errors = e->reports->errors;
    e->region = &inner;
    e->block = &body;
    for (long j = 0; j < plan->period && e->reports->errors == errors; j++)
        repeat_step(e, node, repeat_number(e, node, plan->prefix + j),
                    segment(e, plan, plan->prefix + j), plan->prefix + j > 0);
    for (int i = 0; i < count && e->reports->errors == errors; i++) {
        const Binding *binding = scope_own(scope, carried[i].binding->name);
        carry_out(e, &carried[i], &body, index, binding ? binding->value : NULL, false);
    }
    for (int i = 0; i < provided_count && e->reports->errors == errors; i++)
        carry_out(e, &provided[i], &body, index,
                  provided_find(&e->provided, provided[i].binding->name)->binding.value, true);
    e->region = inner.outer;
    e->block = outer;
    for (int i = 0; i < inner.terms.count; i++)
        carry_term(e, inner.terms.items[i], outer, &body, index, stacked);
    scope_pop(e);
    Statement *statement = statement_repeat(e->program, outer, index, false, node->span);
    statement->body = body;
    BuiltRepeat *built = arena_alloc(e->arena, sizeof *built);
    *built = (BuiltRepeat){statement, outer, stacked, plan->steps};
    provided_end(e, &inner, built);
    Expr *last = expr_number(e->program, (double)plan->steps);
    LIST_EACH(const LossTerm, term, &inner.terms)
        add_term(e, term->name, expr_read(e->program, term->carried, &last), term->span);
    for (int i = 0; i < count; i++)
        carried[i].binding->value = carried_last(e, &carried[i], plan->steps);
    for (int i = 0; i < provided_count; i++)
        provided_set(e, provided[i].binding->name, carried_last(e, &provided[i], plan->steps),
                     provided[i].binding->span);
}

/* The iterations before the periodic ones, the periodic ones, and the remaining ones. */
static void all_steps(Elaborator *e, const Node *node, long number) {
    Carried carried[MAX_CARRIED] = {{0}};
    int count = find_carried(e, node->kids[2], carried, 0);
    RepeatPlan plan;
    for (int i = 0; i < count; i++)
        if (!fits_rank(e, carried[i].binding->name,
                       e->frame->ambient_count + carried[i].before->rank, node->span))
            return;
    if (!plan_steps(e, node, number, carried, count, &plan)) return;
    long after = plan.prefix + plan.period * plan.steps;
    int errors = e->reports->errors;
    for (long i = 0; i < plan.count && e->reports->errors == errors; i++) {
        if (plan.steps && i == plan.prefix) {
            region(e, node, &plan, carried, count);
            i = after - 1;
            continue;
        }
        repeat_step(e, node, repeat_number(e, node, i), arena_format(e->arena, "%ld", i), i > 0);
    }
}

/* repeat NAME[i < count] { }. */
void repeat_statement(Elaborator *e, const Node *node) {
    double number;
    if (!evaluate_number(e, node->kids[1], "the count of a repeat", &number)) return;
    if (number != floor(number) || number < 0 || number > MAX_TIMES) {
        report_invalid(e->reports, node->kids[1]->span,
                       "use an integer, such as an option of type int",
                       "the count of a repeat expects an integer from 0 to %d, got %.9g",
                       (int)MAX_TIMES, number);
        return;
    }
    int around = e->frame->repeats;
    const char *outer = e->frame->repeat;
    e->frame->repeats = (around ? around : 1) * (int)number;
    Table *names = node->number == 1 ? &e->frame->instances : &e->frame->repeated;
    e->frame->repeat = name_of_its_own(e, names, node);
    all_steps(e, node, (long)number);
    e->frame->repeats = around;
    e->frame->repeat = outer;
}

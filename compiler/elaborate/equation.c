/* equation: the indices of one equation, and the tensors it defines.
 *
 *     y[s,j] = t[s,j] * act(sum[d] x[s,d] * w[d,j])
 *
 * An index is known by name while its equation is read. An index with the name of an axis runs over
 * that axis. Any other index has the axis of the first dimension that it subscripts.
 */
#include "elaborate/elaborate.h"

#include <string.h>

/* The axis of an alias. */
static Axis *axis_root(Elaborator *e, Axis *axis) {
    for (int i = 0; i + 1 < e->aliases.count; i += 2)
        if (e->aliases.items[i] == axis) return axis_root(e, e->aliases.items[i + 1]);
    return axis;
}

bool axes_match(Elaborator *e, Axis *a, Axis *b) {
    return a == b || axis_root(e, a) == axis_root(e, b);
}

EquationIndex *equation_find(Elaborator *e, const char *name) {
    if (!e->equation) return NULL;
    for (int i = e->equation->indices.count - 1; i >= 0; i--) {
        EquationIndex *index = e->equation->indices.items[i];
        if (index->name && !strcmp(index->name, name)) return index;
    }
    return NULL;
}

static EquationIndex *add_index(Elaborator *e, const char *name, Axis *axis, Span span) {
    EquationIndex *entry = arena_alloc(e->arena, sizeof *entry);
    entry->name = name;
    entry->index = index_new(e->program, name, axis);
    entry->span = span;
    list_push(e->arena, &e->equation->indices, entry);
    return entry;
}

static void report_axis_conflict(Elaborator *e, const EquationIndex *entry, const char *name,
                                 Axis *axis, Span span) {
    report_error(
        e->reports, span,
        "index '%s' runs over axis '%s' (size %ld), but this dimension is axis '%s' (size %ld)",
        name, entry->index->axis->name, entry->index->axis->size, axis->name, axis->size);
    report_note(e->reports, entry->span, "'%s' gets axis '%s' here", name,
                entry->index->axis->name);
    if (entry->index->axis->size > axis->size && entry->index->axis->size % axis->size == 0)
        report_help(e->reports, "write %s %% %ld to repeat the dimension %ld times", name,
                    axis->size, entry->index->axis->size / axis->size);
}

static Index *batch_index(Elaborator *e, const Axis *axis, Span span) {
    if (!e->batch) {
        report_invalid(e->reports, span, "remove the index 'batch'",
                       "'batch' is not available here: 'grad' is the gradient of the whole step");
        return NULL;
    }
    if (!axis || axis == e->batch->axis) return e->batch;
    report_invalid(e->reports, span, "write mean[batch, ...] or sum[batch, ...]",
                   "'batch' is the axis of the sequences of a micro-batch (size %ld), but this "
                   "dimension is axis '%s' (size %ld)",
                   e->batch->axis->size, axis->name, axis->size);
    return NULL;
}

void report_no_index(Elaborator *e, const Binding *binding, Span span) {
    report_error(e->reports, span, "'%s' is %s, not an index", binding->name,
                 value_kind_text(binding->value));
    report_note(e->reports, binding->span, "declared here");
    report_help(e->reports, "use another name for the index");
}

bool needs_equation(Elaborator *e, Span span, const char *construct) {
    if (e->equation) return true;
    return report_invalid(e->reports, span, "write it on the right side of an equation: y = ...",
                          "%s is allowed only in an equation", construct);
}

void report_position(Elaborator *e, const char *name, Span span) {
    report_invalid(e->reports, span,
                   "use another name, such as 't', for an index over all positions",
                   "'%s' is the current position of the scan, not an index", name);
}

bool names_position(const Elaborator *e, const Binding *binding) {
    return binding && e->scanned && binding->value->kind == KIND_TENSOR &&
           binding->value->expr->kind == EXPR_INDEX && binding->value->expr->index == e->scanned;
}

/* The index with this name, over `axis` unless it is NULL. */
Index *equation_index(Elaborator *e, const char *name, Axis *axis, Span span) {
    EquationIndex *entry = equation_find(e, name);
    Binding *binding = scope_find(e->scope, name);
    if (!entry && !strcmp(name, "batch") && !binding) return batch_index(e, axis, span);
    if (!entry) {
        Axis *own = binding && binding->value->kind == KIND_AXIS ? binding->value->axis : NULL;
        if (!axis && names_position(e, binding)) {
            report_position(e, name, span);
            return NULL;
        }
        if (binding && !own && binding->value->kind != KIND_ERROR && !axis) {
            report_no_index(e, binding, span);
            return NULL;
        }
        entry = add_index(e, name, own ? own : axis, span);
    }
    if (!axis) return entry->index;
    if (!entry->index->axis) {
        entry->index->axis = axis;
        entry->span = span;
    }
    if (axes_match(e, entry->index->axis, axis)) return entry->index;
    report_axis_conflict(e, entry, name, axis, span);
    if (binding && binding->value->kind == KIND_AXIS)
        report_note(e->reports, binding->span, "axis '%s' is declared here", name);
    return NULL;
}

/* The name of an axis in the current layer, whose formals can rename the axes of the arguments. */
static const char *name_here(const Elaborator *e, const Axis *axis) {
    const Binding *own = scope_find(e->scope, axis->name);
    if (own && own->value->kind == KIND_AXIS && own->value->axis == axis) return axis->name;
    for (const Scope *scope = e->scope; scope; scope = scope->parent)
        LIST_EACH(const Binding, binding, &scope->bindings)
            if (binding->value->kind == KIND_AXIS && binding->value->axis == axis)
                return binding->name;
    return axis->name;
}

Index *equation_canonical(Elaborator *e, Axis *axis, Span span) {
    if (e->scanned && axes_match(e, e->scanned->axis, axis)) return e->scanned;
    for (int pass = 0; pass < 3; pass++)
        for (int i = e->equation->indices.count - 1; i >= 0; i--) {
            EquationIndex *entry = e->equation->indices.items[i];
            if (!entry->index->axis) continue;
            bool same = entry->index->axis == axis,
                 named = entry->name && !strcmp(entry->name, axis->name);
            if (pass == 0 && same && named) return entry->index;
            if (pass == 1 && same) return entry->index;
            if (pass == 2 && axes_match(e, entry->index->axis, axis)) return entry->index;
        }
    return add_index(e, name_here(e, axis), axis, span)->index;
}

const List *axis_list(Elaborator *e, const Node *sub, bool *fine) {
    Binding *binding = sub->kind == NODE_NAME ? scope_find(e->scope, sub->name) : NULL;
    if (!binding || binding->value->kind != KIND_LIST || equation_find(e, sub->name)) return NULL;
    const List *list = &binding->value->list;
    LIST_EACH(const Value, item, list) {
        if (item->kind == KIND_AXIS) continue;
        report_error(e->reports, sub->span, "'%s' contains %s: expected a list of axes", sub->name,
                     value_shown(e, item));
        report_note(e->reports, binding->span, "declared here");
        report_help(e->reports, "write the names of axes only, such as [h, d]");
        *fine = false;
        return NULL;
    }
    return list;
}

bool fits_rank(Elaborator *e, const char *name, int rank, Span span) {
    if (rank <= MAX_DIMENSIONS) return true;
    return report_invalid(
        e->reports, span,
        "merge two axes into one (i = floor(n / 4), j = n % 4), or reduce earlier",
        "%s has %d dimensions, including those that it is mapped over; the maximum is %d",
        name ? arena_format(e->arena, "'%s'", name) : "this", rank, MAX_DIMENSIONS);
}

typedef struct UsedIndices {
    Elaborator *e;
    Index **indices;
    int count;
    bool ambient;
} UsedIndices;

static bool is_ambient(const Elaborator *e, const Index *index) {
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (e->frame->ambient[i] == index) return true;
    return false;
}

static bool is_repeat_index(const Elaborator *e, const Index *index) {
    for (const RepeatBuild *region = e->region; region; region = region->outer)
        if (region->index == index) return true;
    return false;
}

static void find_used_index(Expr *expr, void *data) {
    UsedIndices *found = data;
    if (expr->kind != EXPR_INDEX || is_repeat_index(found->e, expr->index)) return;
    if (is_ambient(found->e, expr->index) != found->ambient) return;
    for (int i = 0; i < found->count; i++)
        if (found->indices[i] == expr->index) return;
    if (found->count < MAX_LOOPS) {
        found->indices[found->count++] = expr->index;
        return;
    }
    report_invalid(found->e->reports, found->e->frame->call,
                   "split the expression into two equations",
                   "an expression depends on more than %d indices", MAX_LOOPS);
}

void report_no_axis(Elaborator *e, Span span, const char *index) {
    report_error(e->reports, span, "the axis of index '%s' is unknown", index);
    report_help(e->reports, "use it as a subscript of a tensor, or declare axis %s = ...", index);
}

int free_indices(Elaborator *e, Expr *expr, Index **indices) {
    UsedIndices found = {e, indices, 0, false};
    expr_walk(expr, find_used_index, &found);
    return found.count;
}

/* The ambient indices that expr depends on, outermost first. */
int ambient_used(Elaborator *e, Expr *expr, Index **indices) {
    int count = 0;
    for (int i = 0; i < e->frame->ambient_count; i++)
        if (expr_uses_index(expr, e->frame->ambient[i])) indices[count++] = e->frame->ambient[i];
    return count;
}

const char *temporary_name(Elaborator *e, const char *name) {
    const char *path = e->frame->path, *dot = strrchr(path, '.');
    const char *last = dot ? dot + 1 : path;
    if (!*last || *last == '{' || (*last >= '0' && *last <= '9')) return name;
    return arena_format(e->arena, "%s_%s", last, name);
}

void name_in_spec(Elaborator *e, Tensor *tensor, const char *name) {
    const char *path = e->frame->path;
    tensor->spec_name = *path ? arena_format(e->arena, "%s.%s", path, name) : name;
}

static bool is_square(const Expr *expr) {
    if (expr->kind != EXPR_APPLY) return false;
    return (expr->op == OP_MUL && expr_equal(expr->args[0], expr->args[1])) ||
           (expr->op == OP_POW && expr_is_number(expr->args[1], 2));
}

/* "query_product" of x * query, a parameter. */
static const char *product_name(const Elaborator *e, const Expr *product) {
    for (int i = 0; i < product->count; i++) {
        const Expr *factor = product->args[i];
        if (factor->kind != EXPR_READ || factor->tensor->role != ROLE_PARAMETER) continue;
        const char *path = factor->tensor->path, *dot = strrchr(path, '.');
        return arena_format(e->arena, "%s_product", dot ? dot + 1 : path);
    }
    return "product";
}

/* The name of a subexpression. */
static const char *part_name(const Elaborator *e, Reduction reduction, const Expr *value) {
    if (reduction == REDUCE_MAX) return "largest";
    if (reduction == REDUCE_MIN) return "smallest";
    if (reduction == REDUCE_NONE) return "value";
    if (is_square(value)) return "sum_of_squares";
    if (value->kind != EXPR_APPLY) return "total";
    if (value->op == OP_EXP) return "sum_of_powers";
    return value->op == OP_MUL ? product_name(e, value) : "total";
}

Value *define(Elaborator *e, const char *name, Index *const *dims, int rank, Reduction reduction,
              Index *const *reduced, int reduced_count, Expr *value, Span span) {
    Index *ambient[MAX_RANK], *indices[MAX_RANK * 2 + MAX_LOOPS];
    int ambient_count = ambient_used(e, value, ambient), count = 0;
    for (int i = 0; i < ambient_count; i++)
        if (!indices_have(reduced, reduced_count, ambient[i]) &&
            !indices_have(dims, rank, ambient[i]))
            indices[count++] = ambient[i];
    for (int i = 0; i < rank; i++) indices[count++] = dims[i];
    if (!fits_rank(e, name, count, span)) return value_error(e, span);
    if (count + reduced_count > MAX_LOOPS)
        return value_invalid(e, span, "split the equation into two",
                             "too many indices: %d, the maximum is %d", count + reduced_count,
                             MAX_LOOPS);
    const char *own = name ? name : part_name(e, reduction, value);
    Tensor *tensor =
        tensor_over(e->program, temporary_name(e, own), ROLE_TEMP, TYPE_REAL, indices, count, span);
    name_in_spec(e, tensor, own);
    tensor->part = !name;
    tensor->integer = expr_names_whole(value);
    Expr *target = expr_read_indices(e->program, tensor, indices);
    statement_loop(e->program, e->block, target, false, reduction, reduced, reduced_count, value,
                   span);
    return value_tensor(e, target, dims, rank, span);
}

static void find_index_of_data(Expr *expr, void *data) {
    UsedIndices *found = data;
    if (expr->kind == EXPR_READ) found->count++;
    if (expr->kind == EXPR_INDEX && !is_repeat_index(found->e, expr->index)) found->count++;
}

/* Whether the expression reads a whole tensor: each subscript is a different index. */
bool is_plain_read(Elaborator *e, Expr *expr) {
    if (expr->kind != EXPR_READ) return false;
    for (int i = 0; i < expr->count; i++) {
        UsedIndices found = {e, NULL, 0, false};
        if (expr->args[i]->kind != EXPR_INDEX) expr_walk(expr->args[i], find_index_of_data, &found);
        if (found.count) return false;
        for (int j = 0; j < i; j++)
            if (expr->args[i]->kind == EXPR_INDEX && expr_equal(expr->args[i], expr->args[j]))
                return false;
    }
    return true;
}

/* The value as a tensor. */
Value *materialise(Elaborator *e, const char *name, Value *value) {
    if (value->kind != KIND_TENSOR || is_plain_read(e, value->expr)) return value;
    return define(e, name, value->dims, value->rank, REDUCE_NONE, NULL, 0, value->expr,
                  value->span);
}

static void report_unbound(Elaborator *e, const Node *node, Index *index) {
    EquationIndex *entry = NULL;
    LIST_EACH(EquationIndex, candidate, &e->equation->indices)
        if (candidate->index == index) entry = candidate;
    report_error(
        e->reports, entry ? entry->span : node->span,
        "index '%s' is used on the right side, but is neither on the left side nor reduced",
        index->name);
    report_note(e->reports, node->kids[0] ? node->kids[0]->span : node->name_span,
                "the left side is here");
    report_help(e->reports,
                "add it to the left side, or reduce it with sum[%s], mean[%s] or max[%s]",
                index->name, index->name, index->name);
}

/* The indices of the left side; the axis is NULL until the right side determines it. */
static bool left_indices(Elaborator *e, const Node *node) {
    Equation *equation = e->equation;
    const Node *subs = node->kids[0];
    for (int i = 0; i < subs->count; i++) {
        const Node *sub = subs->kids[i];
        bool fine = true;
        const List *list = axis_list(e, sub, &fine); /* expands to its axes */
        if (!fine ||
            !fits_rank(e, node->name, equation->left_count + (list ? list->count : 1), sub->span))
            return false;
        for (int j = 0; list && j < list->count; j++)
            equation->left[equation->left_count++] =
                equation_canonical(e, ((Value *)list->items[j])->axis, sub->span);
        if (list) continue;
        if (sub->kind != NODE_NAME)
            return report_invalid(e->reports, sub->span, "move the expression to the right side",
                                  "a subscript on the left side must be the name of an index");
        if (names_position(e, scope_find(e->scope, sub->name))) {
            report_error(
                e->reports, sub->span,
                "'%s' is the current position of the scan and not a subscript of the left side",
                sub->name);
            return report_help(e->reports, "remove '%s' from the left side", sub->name);
        }
        if (equation_find(e, sub->name))
            return report_invalid(e->reports, sub->span,
                                  "use an index with another name for the second dimension",
                                  "duplicate index '%s' on the left side", sub->name);
        Index *index = equation_index(e, sub->name, NULL, sub->span);
        if (!index) return false;
        equation->left[equation->left_count++] = index;
    }
    return true;
}

static bool check_left(Elaborator *e, const Node *node, Expr *expr) {
    Equation *equation = e->equation;
    for (int i = 0; i < equation->left_count; i++)
        if (!equation->left[i]->axis) {
            report_no_axis(e, node->kids[0]->span, equation->left[i]->name);
            return false;
        }
    Index *used[MAX_LOOPS];
    int count = free_indices(e, expr, used);
    for (int i = 0; i < count; i++)
        if (!indices_have(equation->left, equation->left_count, used[i])) {
            report_unbound(e, node, used[i]);
            return false;
        }
    return true;
}

/* Turns the last statement, made for a subexpression, into the definition of `name`. */
static Value *adopt(Elaborator *e, const char *name, Value *value, Index *const *dims, int rank,
                    Span span) {
    if (value->expr->kind != EXPR_READ || !e->block->statements.count) return NULL;
    Statement *last = e->block->statements.items[e->block->statements.count - 1];
    Tensor *tensor = value->expr->tensor;
    if (last->kind != STATEMENT_LOOP || last->target->tensor != tensor || last->accumulate)
        return NULL;
    if (!tensor->part || last->reduction == REDUCE_NONE) return NULL;
    int count = rank;
    for (int i = 0; i < tensor->rank; i++) {
        Expr *sub = value->expr->args[i];
        if (sub->kind != EXPR_INDEX || last->target->args[i]->index != sub->index) return NULL;
        if (!indices_have(dims, rank, sub->index)) count++;
    }
    if (count != tensor->rank) return NULL;
    Index *reduced[MAX_LOOPS];
    int reduced_count = 0;
    for (int i = 0; i < last->loop_count; i++)
        if (!expr_uses_index(last->target, last->loops[i]))
            reduced[reduced_count++] = last->loops[i];
    Expr *right = last->value;
    Reduction reduction = last->reduction;
    e->block->statements.count--;
    return define(e, name, dims, rank, reduction, reduced, reduced_count, right, span);
}

/* Binds the name in the nearest scope that has it, else as a new name. The scope of the equation
 * records that it was set here. */
static void bind_equation(Elaborator *e, const Node *node, Value *value) {
    Binding *before = scope_find(e->scope, node->name);
    if (before) {
        before->value = value;
        before->span = node->name_span;
    } else
        before = scope_bind(e, e->scope, node->name, value, node->name_span);
    if (scope_own(e->scope, node->name) != before) scope_add(e, e->scope, before);
}

/* A name can be redefined in an inner block, or if the right side reads the old value. */
static bool may_define(Elaborator *e, const Node *node) {
    const Binding *binding = scope_own(e->scope, node->name);
    if (!binding || binding->value->kind == KIND_ERROR) return true;
    bool data = binding->value->kind == KIND_TENSOR || binding->value->kind == KIND_NUMBER;
    if (data && node_mentions(node->kids[1], node->name)) return true;
    report_error(e->reports, node->name_span, "duplicate definition of '%s'", node->name);
    report_note(e->reports, binding->span, "first defined here");
    return report_help(e->reports,
                       data ? "choose another name, or read the old value on the right side"
                            : "choose another name");
}

/* Whether the expression is a whole tensor with exactly the indices of the left side. */
static bool is_full_read(Elaborator *e, Expr *expr, const Equation *equation) {
    Index *used[MAX_LOOPS];
    return is_plain_read(e, expr) && expr->tensor->role != ROLE_STATE &&
           free_indices(e, expr, used) == equation->left_count;
}

/* Keeps the additional results of the value. */
static Value *with_results(Value *defined, const Value *value) {
    if (defined->kind == KIND_TENSOR) defined->results = value->results;
    return defined;
}

static Value *equation_value(Elaborator *e, const Node *node) {
    Equation *equation = e->equation;
    if (node->kids[0]) {
        equation->has_left = true;
        if (!left_indices(e, node)) return value_error(e, node->span);
    }
    Value *value = evaluate(e, node->kids[1]);
    if (value->kind == KIND_ERROR) return value;
    const Node *right = node->kids[1];
    if (value->kind == KIND_WORD && right->kind == NODE_NAME &&
        !scope_find(e->scope, right->name)) {
        report_unknown_name(e, value);
        return value_error(e, node->span);
    }
    if (!node->kids[0] && value->kind != KIND_TENSOR) return value;
    if (value->kind == KIND_WORD || (value->kind != KIND_TENSOR && value->kind != KIND_NUMBER)) {
        value_expr(e, value); /* reports its kind */
        return value_error(e, node->span);
    }
    Expr *expr = value_expr(e, value);
    if (!expr) return value_error(e, node->span);
    if (node->kids[0]) {
        if (!check_left(e, node, expr)) return value_error(e, node->span);
        Value *own = value_tensor(e, expr, equation->left, equation->left_count, node->span);
        own->results = value->results;
        Value *adopted =
            adopt(e, node->name, own, equation->left, equation->left_count, node->span);
        if (adopted) return with_results(adopted, value);
        if (is_full_read(e, expr, equation)) return own; /* another name for the same tensor */
        return with_results(define(e, node->name, equation->left, equation->left_count, REDUCE_NONE,
                                   NULL, 0, expr, node->span),
                            value);
    }
    Value *adopted = adopt(e, node->name, value, value->dims, value->rank, node->span);
    if (adopted) return with_results(adopted, value);
    if (is_plain_read(e, expr)) return value; /* another name for the same tensor */
    Value *defined =
        define(e, node->name, value->dims, value->rank, REDUCE_NONE, NULL, 0, expr, node->span);
    return with_results(defined, value);
}

/* u * v without subscripts, with two different axes of the same name. */
static bool has_twins(Elaborator *e, const Node *node, const Value *value) {
    for (int i = 0; i < value->rank; i++)
        for (int j = 0; j < i; j++) {
            const Axis *a = value->dims[j]->axis, *b = value->dims[i]->axis;
            if (strcmp(a->name, b->name) != 0 ||
                axes_match(e, value->dims[j]->axis, value->dims[i]->axis))
                continue;
            report_error(e->reports, node->kids[1]->span,
                         "'%s' has two different axes '%s' (sizes %ld and %ld): an outer product",
                         node->name, a->name, a->size, b->size);
            report_note(e->reports, b->span, "each application of a layer declares a new axis");
            report_help(e->reports,
                        "for an elementwise product, declare one axis here and pass it to both "
                        "layers as an option of type axes; for an outer product, write subscripts");
            return true;
        }
    return false;
}

/* x = x + f without subscripts, with an axis of f that x lacks. */
static bool gains_axis(Elaborator *e, const Node *node, const Value *value) {
    const Binding *before = scope_find(e->scope, node->name);
    const Value *old = before ? before->value : NULL;
    if (!old || old->kind != KIND_TENSOR || value->rank <= old->rank) return false;
    const Axis *gained = NULL;
    int kept = 0;
    for (int i = 0; i < value->rank; i++) {
        bool known = false;
        for (int j = 0; j < old->rank; j++)
            known |= axes_match(e, value->dims[i]->axis, old->dims[j]->axis);
        kept += known;
        if (!known) gained = value->dims[i]->axis;
    }
    if (kept < old->rank || !gained) return false;
    Span blamed = is_written(gained->span) ? gained->span : (Span){0};
    report_blamed(e, blamed, node->kids[1]->span, "this adds axis '%s' (size %ld) to '%s'",
                  gained->name, gained->size, node->name);
    report_note(e->reports, before->span, "'%s' has %d dimensions", node->name, old->rank);
    report_help(e->reports,
                "add a tensor with the axes of '%s', or write the subscripts of the larger tensor: "
                "%s[...] = ...",
                node->name, node->name);
    return true;
}

Value *value_of_equation(Elaborator *e, const Node *node) {
    Equation own = {.node = node}, *outer = e->equation;
    e->equation = &own;
    Value *value = equation_value(e, node);
    e->equation = outer;
    return value;
}

/* equation: NAME[subs] = expr. */
void equation(Elaborator *e, const Node *node) {
    Equation own = {.node = node}, *outer = e->equation;
    e->equation = &own;
    Value *value = may_define(e, node) ? equation_value(e, node) : value_error(e, node->span);
    bool matched = !node->kids[0] && value->kind == KIND_TENSOR;
    if (matched && (has_twins(e, node, value) || gains_axis(e, node, value)))
        value = value_error(e, node->span);
    e->equation = outer;
    bind_equation(e, node, value);
}

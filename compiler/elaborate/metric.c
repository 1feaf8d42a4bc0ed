/* metric: the loss, auxiliary loss terms and probes.
 *
 * An aux term is summed over all layers that define it. A probe is an output of its layer, stacked
 * over the iterations of a repeat:
 *
 *     probe share = e   in block.{i}.attention   -->   output "block.{i}.attention.share"[i]
 */
#include "elaborate/elaborate.h"

#include <string.h>

static Value *in_equation(Elaborator *e, const Node *node) {
    Equation own = {0}, *outer = e->equation;
    e->equation = &own;
    Value *value = evaluate(e, node);
    e->equation = outer;
    return value;
}

/* A value without dimensions as one number: the mean over all indices that its layer is mapped
 * over. NULL after a report. */
static Expr *scalar(Elaborator *e, Value *value, const char *what, Span span) {
    Expr *expr = value_expr(e, value);
    if (!expr) return NULL;
    Index *used[MAX_LOOPS];
    int count = free_indices(e, expr, used);
    if (count) {
        report_error(e->reports, span, "%s must be one number, but it depends on index '%s'", what,
                     used[0]->name);
        report_help(e->reports, "reduce it with mean[%s] or sum[%s]", used[0]->name, used[0]->name);
        return NULL;
    }
    count = ambient_used(e, expr, used);
    if (!count) return expr;
    Equation own = {0}, *outer = e->equation;
    e->equation = &own;
    Value *mean = reduce(e, "mean", used, count, value_tensor(e, expr, NULL, 0, span), span);
    e->equation = outer;
    return value_expr(e, mean);
}

void loss_statement(Elaborator *e, const Node *node) {
    if (e->loss) {
        report_error(e->reports, node->span, "duplicate loss");
        report_note(e->reports, e->loss->span, "first defined here");
        report_help(e->reports, "write one of them as aux NAME = ...");
        return;
    }
    Value *value = in_equation(e, node->kids[0]);
    if (value->kind == KIND_ERROR) return;
    Expr *expr = scalar(e, value, "the loss", node->span);
    if (expr) e->loss = value_tensor(e, expr, NULL, 0, node->span);
}

/* Reserved names: fields of a log line, the loss, and its sum with the auxiliary terms.
 */
static bool is_logged_anyway(const char *name) {
    static const char *const names[] = {"loss",
                                        "loss_weight",
                                        "total",
                                        "step",
                                        "lr",
                                        "nats",
                                        "grad_norm",
                                        "seconds",
                                        "val_loss",
                                        "stage_sequences",
                                        "stage_context_length"};
    return text_find(names, sizeof names / sizeof *names, name) >= 0;
}

static const RepeatBuild *repeat_around(const Elaborator *e) {
    const RepeatBuild *region = e->region;
    while (region && !region->index) region = region->outer;
    return region;
}

static bool has_probes(const Elaborator *e) {
    Graph graph = e->program->graph;
    return graph == GRAPH_FORWARD || graph == GRAPH_TRAIN || graph == GRAPH_MEASURE;
}

/* A repeated application of a label has its own probes with numbered names: "share_2". */
static const char *probe_path(Elaborator *e, const char *name) {
    const char *dot = *e->frame->path ? "." : "";
    const char *path = arena_format(e->arena, "%s%s%s", e->frame->path, dot, name), *free = path;
    for (int i = 0, number = 2; i < e->probed.count; i++) {
        const Tensor *other = e->probed.items[i];
        if (strcmp(other->path, free) != 0) continue;
        free = arena_format(e->arena, "%s_%d", path, number++);
        i = -1;
    }
    return free;
}

/* The value as an output of this layer. A probe reduces by max if its expression is a max, else by
 * mean. */
static void probe_output(Elaborator *e, const Node *node, Expr *expr, Index *const *dims,
                         int rank) {
    const RepeatBuild *region = repeat_around(e);
    const Node *right = node->kids[1];
    Index *all[MAX_RANK + 1];
    int count = 0;
    if (region) all[count++] = region->index;
    for (int i = 0; i < rank; i++) all[count++] = dims[i];
    if (!fits_rank(e, node->name, count, node->name_span)) return;
    Tensor *tensor = tensor_over(e->program, temporary_name(e, node->name), ROLE_OUTPUT, TYPE_REAL,
                                 all, count, node->name_span);
    bool largest = right->kind == NODE_REDUCE && !strcmp(right->name, "max");
    tensor->path = probe_path(e, node->name);
    tensor->probe = largest ? MOEC_PROBE_LARGEST : MOEC_PROBE_MEAN;
    statement_assign(e->program, e->block, expr_read_indices(e->program, tensor, all), expr,
                     node->span);
    list_push(e->arena, &e->probed, tensor);
}

/* probe NAME[axes] = expr: read as an equation with a local name. It is evaluated only on
 * validation data, which keeps the log short. */
static void probe_of_axes(Elaborator *e, const Node *node) {
    Binding *outside = scope_find(e->scope, node->name);
    Value *kept = outside ? outside->value : NULL;
    Scope *scope = scope_push(e);
    equation(e, node);
    Value *value = scope_find(scope, node->name)->value;
    if (outside) outside->value = kept;
    scope_pop(e);
    if (value->kind != KIND_TENSOR || e->program->graph != GRAPH_MEASURE) return;
    Index *used[MAX_LOOPS];
    int count = ambient_used(e, value->expr, used);
    Equation own = {0}, *outer = e->equation;
    e->equation = &own;
    if (count) value = reduce(e, "mean", used, count, value, node->span);
    e->equation = outer;
    if (value->kind == KIND_TENSOR) probe_output(e, node, value->expr, value->dims, value->rank);
}

static void probe_number(Elaborator *e, const char *name, Expr *expr, Span span) {
    Node right = {.kind = NODE_NUMBER}, *kids[] = {NULL, &right};
    const Node node = {.name = name, .kids = kids, .count = 2, .span = span, .name_span = span};
    probe_output(e, &node, expr, NULL, 0);
}

void probe_density(Elaborator *e, Tensor *mask, double share, Span span) {
    Index *indices[MAX_RANK];
    Equation own = {0}, *outer = e->equation;
    if (!has_probes(e)) return;
    for (int i = 0; i < mask->rank; i++) indices[i] = index_over(e->program, mask->axes[i]);
    Expr *on = expr_apply(e->program, OP_NE, expr_read_indices(e->program, mask, indices),
                          expr_number(e->program, 0), NULL);
    e->equation = &own;
    Value *mean = reduce(e, "mean", indices, mask->rank, value_tensor(e, on, NULL, 0, span), span);
    e->equation = outer;
    probe_number(e, "density", value_expr(e, mean), span);
    probe_number(e, "stated_density", expr_number(e->program, share), span);
}

/* The standard library that a checkpoint holds may call a probe by a former name. */
static const Node *current_probe(Elaborator *e, const Node *node) {
    bool old = e->reports->saved && path_is_standard(node->span.source->path);
    const char *now = old ? renamed_probe(node->name) : NULL;
    if (!now) return node;
    Node *current = arena_alloc(e->arena, sizeof *current);
    *current = *node;
    current->name = now;
    return current;
}

void metric_statement(Elaborator *e, const Node *node) {
    if (node->kind == NODE_PROBE) node = current_probe(e, node);
    bool aux = node->kind == NODE_AUX;
    if (is_logged_anyway(node->name)) {
        report_error(e->reports, node->name_span,
                     "'%s' is a reserved name: each line of the log has this field", node->name);
        report_help(e->reports, "choose another name, such as 'my_%s'", node->name);
        return;
    }
    if (!aux && node->kids[0]) {
        probe_of_axes(e, node);
        return;
    }
    Value *value = in_equation(e, node->kids[aux ? 0 : 1]);
    if (value->kind == KIND_ERROR) return;
    Expr *expr = scalar(e, value, aux ? "an aux term" : "a probe", node->span);
    if (!expr) return;
    if (aux)
        add_term(e, node->name, expr, node->name_span);
    else if (has_probes(e))
        probe_output(e, node, expr, NULL, 0);
}

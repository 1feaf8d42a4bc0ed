/* attend_call: attend(q, k, v; options): the mask, its sliding window, documents, the scale and
 * soft-capping of the scores, and an attention sink. Emits a call statement if the kernels support
 * all options, else equations (attend_scores.c).
 *
 *     o[s,h,c] = attend(q[s,h,d], k[s,g,d], v[s,g,c]; mask = window, window = 1024)
 */
#include "elaborate/elaborate.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_BEST = 4096 }; /* the limit of the kernels per query */

/* One operand of attend as a tensor over [leading..., position, heads, width]. */
static Expr *attend_operand(Elaborator *e, Value *value, Index *const *leading, int count,
                            Index *position, const char *name) {
    Index *dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < count; i++) dims[rank++] = leading[i];
    for (int i = 0; i < value->rank; i++) dims[rank++] = value->dims[i];
    Expr *expr = value->expr;
    bool in_order =
        expr->kind == EXPR_READ && expr->count == rank && expr->tensor->type == TYPE_REAL;
    for (int i = 0; in_order && i < rank; i++)
        if (expr->args[i]->kind != EXPR_INDEX || expr->args[i]->index != dims[i]) in_order = false;
    if (!in_order) {
        Axis *axes[MAX_RANK];
        for (int i = 0; i < rank; i++) axes[i] = dims[i]->axis;
        Tensor *tensor =
            tensor_new(e->program, name, ROLE_TEMP, TYPE_REAL, rank, axes, value->span);
        name_in_spec(e, tensor, name);
        Expr *target = expr_read_indices(e->program, tensor, dims);
        statement_loop(e->program, e->block, target, false, REDUCE_NONE, NULL, 0, expr,
                       value->span);
        expr = target;
    }
    if (!position) return expr;
    Expr *to = expr_index(e->program, position);
    return expr_substitute(e->program, expr, &value->dims[0], &to, 1);
}

/* An option that is a tensor or none. */
static bool given_tensor(Elaborator *e, const Node *entry, Value **given) {
    Value *value = evaluate(e, entry->kids[0]);
    if (value->kind == KIND_TENSOR)
        *given = value;
    else if (value->kind != KIND_NONE && value->kind != KIND_ERROR) {
        report_error(e->reports, entry->kids[0]->span, "'%s' expects a tensor or none, got %s",
                     entry->name, value_shown(e, value));
        report_help(e->reports, "write the name of a tensor, or remove %s", entry->name);
    }
    return value->kind == KIND_TENSOR || value->kind == KIND_NONE;
}

static bool take_mask(Elaborator *e, const Node *entry, Attending *attending) {
    const Node *node = entry->kids[0];
    Value *value = evaluate(e, node);
    AttendOptions *options = &attending->options;
    if (value->kind == KIND_NUMBER || value->kind == KIND_LAYER || value->kind == KIND_RECORD)
        value = evaluate_word(e, node); /* not a mask; a flag can be meant as one */
    const char *word = value->kind == KIND_WORD ? value->word : "";
    if (!strcmp(word, "causal"))
        options->mask = MASK_CAUSAL;
    else if (value->kind == KIND_NONE)
        options->mask = MASK_NONE;
    else if (!strcmp(word, "window"))
        options->mask = MASK_WINDOW;
    else if (value->kind == KIND_TENSOR) {
        options->mask = MASK_NONE;
        attending->mask = value;
    } else if (value->kind != KIND_ERROR) {
        report_error(e->reports, entry->kids[0]->span,
                     "'mask' expects causal, window, none or a condition");
        report_help(e->reports, "write a condition on query position s and key position t as "
                                "attend[t](q, k, v; mask = t <= s or t < 4)");
        return false;
    }
    return value->kind != KIND_ERROR;
}

static bool parse_bias(Elaborator *e, const Node *entry, Attending *attending) {
    return given_tensor(e, entry, &attending->bias);
}

static bool take_sink(Elaborator *e, const Node *entry, Attending *attending) {
    return given_tensor(e, entry, &attending->sink);
}

static bool parse_documents(Elaborator *e, const Node *entry, Attending *attending) {
    return given_tensor(e, entry, &attending->documents);
}

static bool take_scale(Elaborator *e, const Node *entry, Attending *attending) {
    return evaluate_number(e, entry->kids[0], entry->name, &attending->options.scale);
}

static bool take_cap(Elaborator *e, const Node *entry, Attending *attending) {
    return evaluate_number(e, entry->kids[0], entry->name, &attending->options.cap);
}

/* An option that counts positions. */
static bool parse_count(Elaborator *e, const Node *entry, long *count) {
    double number = 0;
    if (!evaluate_number(e, entry->kids[0], entry->name, &number)) return false;
    if (!(number >= 0 && number <= INT_MAX && number == floor(number))) {
        report_error(e->reports, entry->kids[0]->span, "'%s' expects an integer from 0, got %g",
                     entry->name, number);
        report_help(e->reports, "write an integer, such as 128");
        return false;
    }
    *count = (long)number;
    return true;
}

static bool take_window(Elaborator *e, const Node *entry, Attending *attending) {
    return parse_count(e, entry, &attending->options.window);
}

static bool take_best(Elaborator *e, const Node *entry, Attending *attending) {
    return parse_count(e, entry, &attending->options.best);
}

static const struct AttendOption {
    const char *name;
    bool (*take)(Elaborator *e, const Node *entry, Attending *attending);
} attend_table[] = {
    {"mask", take_mask},       {"window", take_window},
    {"scale", take_scale},     {"softcap", take_cap},
    {"bias", parse_bias},      {"sink", take_sink},
    {"top_values", take_best}, {"document_ids", parse_documents},
};
enum { ATTEND_OPTIONS = sizeof attend_table / sizeof *attend_table };

static bool unknown_attend_option(Elaborator *e, const Node *entry) {
    const char *names[ATTEND_OPTIONS];
    for (int i = 0; i < ATTEND_OPTIONS; i++) names[i] = attend_table[i].name;
    report_error(e->reports, entry->name_span, "attend has no option '%s'", entry->name);
    report_choices(e->reports, entry->name, names, ATTEND_OPTIONS, "options");
    return false;
}

static bool take_option(Elaborator *e, const Node *entry, Attending *attending) {
    for (int i = 0; i < ATTEND_OPTIONS; i++)
        if (!strcmp(entry->name, attend_table[i].name))
            return attend_table[i].take(e, entry, attending);
    return unknown_attend_option(e, entry);
}

static bool check_window(Elaborator *e, const Attending *attending) {
    const AttendOptions *options = &attending->options;
    if (options->mask == MASK_WINDOW && options->window < 1) {
        report_error(e->reports, attending->node->span,
                     "'mask = window' requires a window of at least 1");
        report_help(e->reports, "add window = N");
        return false;
    }
    if (options->mask == MASK_NONE && !attending->mask && options->window) {
        report_error(e->reports, attending->node->span, "'window' requires a causal mask");
        report_help(e->reports, "write mask = causal, or remove window");
        return false;
    }
    if (attending->mask && options->window) {
        report_error(e->reports, attending->mask->span,
                     "'window' cannot be combined with a mask that is a condition");
        report_help(e->reports, "add 'and %s - %s < %ld' to the condition",
                    attending->query->dims[0]->name, attending->key->name, options->window);
        return false;
    }
    return true;
}

/* Whether queries and keys have the same positions. Otherwise their order has no meaning. */
static bool same_sequence_axis(Elaborator *e, const Attending *attending) {
    return axes_match(e, attending->query->dims[0]->axis, attending->keys->dims[0]->axis);
}

static bool check_order(Elaborator *e, const Attending *attending) {
    const Axis *queries = attending->query->dims[0]->axis, *keys = attending->keys->dims[0]->axis;
    if (same_sequence_axis(e, attending) || attending->options.mask == MASK_NONE) return true;
    report_error(e->reports, attending->keys->span,
                 "the key has axis '%s', but the query has axis '%s'", keys->name, queries->name);
    report_help(e->reports, "write mask = none: a causal mask requires one common axis");
    return false;
}

static bool attend_options(Elaborator *e, Attending *attending) {
    AttendOptions *options = &attending->options;
    *options = (AttendOptions){.mask = same_sequence_axis(e, attending) ? MASK_CAUSAL : MASK_NONE,
                               .scale = 1 / sqrt((double)attending->query->dims[2]->axis->size)};
    const Node *record = attending->node->kids[2];
    bool fine = true;
    for (int i = 0; record && i < record->count; i++)
        fine = take_option(e, record->kids[i], attending) && fine;
    if (options->best > MAX_BEST) {
        report_error(e->reports, attending->node->span,
                     "'top_values' expects an integer from 0 to %d, got %ld", (int)MAX_BEST,
                     options->best);
        report_help(e->reports, "use a smaller number, or 0 for all positions");
        fine = false;
    }
    if (options->mask == MASK_CAUSAL && options->window > 0) options->mask = MASK_WINDOW;
    return fine && check_window(e, attending) && check_order(e, attending);
}

static bool check_attend_arguments(Elaborator *e, const Node *node, Value **values) {
    static const char *const names[] = {"the query", "the key", "the value"};
    const Node *args = node->kids[1];
    if (args->count != 3) {
        report_error(e->reports, node->span, "attend expects three tensors");
        report_help(e->reports, "write attend(q[s,h,d], k[s,g,d], v[s,g,c])");
        return false;
    }
    for (int i = 0; i < 3; i++) {
        values[i] = evaluate(e, args->kids[i]);
        if (values[i]->kind == KIND_ERROR) return false;
        if (values[i]->kind == KIND_TENSOR && values[i]->rank == 3) continue;
        report_error(e->reports, args->kids[i]->span,
                     "%s must have three dimensions: position, head, width", names[i]);
        report_help(e->reports, "write attend(q[s,h,d], k[s,g,d], v[s,g,c])");
        return false;
    }
    Axis *q = values[0]->dims[2]->axis, *k = values[1]->dims[2]->axis;
    if (q->size != k->size) {
        report_blamed(e, blamed_axes(e, q, k), args->kids[1]->span,
                      "the key has width %ld (axis '%s'), but the query has width %ld (axis '%s')",
                      k->size, k->name, q->size, q->name);
        report_help(e->reports, "use the same width for queries and keys");
        return false;
    }
    for (int i = 1; i < 3; i++) {
        Axis *heads = values[i]->dims[1]->axis, *queries = values[0]->dims[1]->axis;
        if (heads->size <= queries->size && queries->size % heads->size == 0) continue;
        report_blamed(e, blamed_axes(e, queries, heads), args->kids[i]->span,
                      "%ld query heads (axis '%s') cannot share %ld heads of %s (axis '%s')",
                      queries->size, queries->name, heads->size, names[i] + 4, heads->name);
        long below = heads->size < queries->size ? heads->size : queries->size;
        while (queries->size % below) below--;
        report_help(e->reports, "use a divisor of the number of query heads, such as %ld", below);
        return false;
    }
    Axis *keys = values[1]->dims[0]->axis, *own = values[2]->dims[0]->axis;
    if (own->size == keys->size) return true;
    report_error(e->reports, args->kids[2]->span,
                 "the value has axis '%s', but the key has axis '%s'", own->name, keys->name);
    report_help(e->reports, "use '%s' as the first axis of both", keys->name);
    return false;
}

/* Checks that a tensor option depends only on query position, query head and, with `by_key`, key
 * position. */
static bool check_given(Elaborator *e, const Attending *attending, const char *name,
                        const Value *value, bool by_key) {
    Index *used[MAX_LOOPS];
    int count = value ? free_indices(e, value->expr, used) : 0;
    for (int i = 0; i < count; i++) {
        if (used[i] == attending->query->dims[0] || used[i] == attending->query->dims[1] ||
            (by_key && used[i] == attending->key))
            continue;
        report_error(
            e->reports, value->span,
            "'%s' depends on index '%s': expected only query position %s%s query head %s%s%s", name,
            used[i]->name, attending->query->dims[0]->name, by_key ? "," : " and",
            attending->query->dims[1]->name, by_key ? " and key position " : "",
            by_key ? attending->key->name : "");
        if (by_key && !attending->named)
            report_help(e->reports, "write attend[t](q, k, v; ...) to name the key position");
        return false;
    }
    return true;
}

static bool check_document_ids(Elaborator *e, const Attending *attending) {
    const Value *documents = attending->documents;
    const Index *query_position = attending->query->dims[0];
    Index *used[MAX_LOOPS];
    int count = documents ? free_indices(e, documents->expr, used) : 0;
    if (!documents || (count == 1 && used[0] == query_position)) return true;
    report_error(e->reports, documents->span,
                 "'document_ids' must have one dimension, the query position: axis '%s'",
                 query_position->axis->name);
    report_help(e->reports, "use a tensor with one number per position: ids[%s]",
                query_position->name);
    return false;
}

/* Whether the sink is one logit per head, which the call supports. */
static bool is_shared_sink(const Elaborator *e, const Value *sink) {
    return sink && sink->rank == 1 && !expr_uses_index(sink->expr, e->batch);
}

/* The heads of a sink can have an axis of their own. */
static bool check_sink(Elaborator *e, Attending *attending) {
    Value *sink = attending->sink;
    Index *head = attending->query->dims[1];
    if (sink && sink->rank == 1 && sink->dims[0] != head &&
        sink->dims[0]->axis->size == head->axis->size) {
        Expr *to = expr_index(e->program, head);
        attending->sink = value_tensor(
            e, expr_substitute(e->program, sink->expr, sink->dims, &to, 1), &head, 1, sink->span);
    }
    if (!sink ||
        (attending->sink->rank && check_given(e, attending, "sink", attending->sink, false)))
        return true;
    if (!attending->sink->rank)
        report_error(e->reports, sink->span,
                     "'sink' has no head dimension: expected axis '%s' (size %ld)",
                     head->axis->name, head->axis->size);
    report_help(e->reports, "declare it as param sink[%s] ~ zeros", head->axis->name);
    return false;
}

static bool check_attend_options(Elaborator *e, Attending *attending) {
    return check_document_ids(e, attending) &&
           check_given(e, attending, "mask", attending->mask, true) &&
           check_given(e, attending, "bias", attending->bias, true) && check_sink(e, attending);
}

static int leading_indices(Elaborator *e, Value **values, int value_count, Index **leading) {
    int count = 0;
    for (int a = 0; a < e->frame->ambient_count; a++) {
        bool used = false;
        for (int i = 0; i < value_count; i++)
            if (values[i] && expr_uses_index(values[i]->expr, e->frame->ambient[a])) used = true;
        if (used) leading[count++] = e->frame->ambient[a];
    }
    return count;
}

/* Attention as a call. Its kernels never store all scores. */
static Value *attend_statement(Elaborator *e, Attending *at) {
    Span span = at->node->span;
    Value *v[6] = {at->query, at->keys, at->values, at->documents, at->chosen, at->table};
    bool sink = is_shared_sink(e, at->sink);
    Index *leading[MAX_RANK], *none[MAX_RANK];
    int count = leading_indices(e, v, 6, leading);
    if (!fits_rank(e, "attend", count + 3, span)) return value_error(e, span);
    const Index *position = v[same_sequence_axis(e, at) ? 0 : 1]->dims[0];
    Index *key_position = index_new(e->program, position->name, position->axis);
    bool shared = v[4] && !leading_indices(e, v + 4, 1, none),
         common = v[5] && !leading_indices(e, v + 5, 1, none);
    Expr *inputs[7] = {
        attend_operand(e, v[0], leading, count, NULL, "query"),
        attend_operand(e, v[1], leading, count, key_position, "key"),
        attend_operand(e, v[2], leading, count, key_position, "value"),
        sink ? materialise(e, "sink", at->sink)->expr : NULL,
        v[3] ? attend_operand(e, v[3], leading, count, key_position, "document") : NULL,
        v[4] ? attend_operand(e, v[4], leading, shared ? 0 : count, NULL, "chosen") : NULL,
        v[5] ? attend_operand(e, v[5], leading, common ? 0 : count, NULL, "bias") : NULL};
    Index *out[MAX_RANK];
    Axis *axes[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < count; i++) out[rank++] = leading[i];
    out[rank++] = v[0]->dims[0];
    out[rank++] = v[0]->dims[1];
    out[rank++] = v[2]->dims[2];
    for (int i = 0; i < rank; i++) axes[i] = out[i]->axis;
    Tensor *o = tensor_new(e->program, "attended", ROLE_TEMP, TYPE_REAL, rank, axes, span);
    Tensor *lse =
        tensor_new(e->program, "attended_lse", ROLE_TEMP, TYPE_REAL, rank - 1, axes, span);
    name_in_spec(e, o, o->stem);
    name_in_spec(e, lse, lse->stem);
    Statement *statement = statement_call(e->program, e->block, CALL_ATTEND, span);
    for (int i = 0; i < 7; i++)
        if (inputs[i]) list_push(e->arena, &statement->inputs, inputs[i]);
    Expr *read = expr_read_indices(e->program, o, out),
         *normaliser = expr_read_indices(e->program, lse, out);
    list_push(e->arena, &statement->outputs, read);
    list_push(e->arena, &statement->outputs, normaliser);
    statement->attention = at->options;
    statement->attention.sink = sink;
    statement->attention.documents = v[3] != NULL;
    statement->attention.bias = v[5] != NULL;
    Value *result = value_tensor(e, read, out + count, 3, span);
    value_add_result(e, result, "lse", value_tensor(e, normaliser, out + count, 2, span));
    return result;
}

/* Adds a logit to the softmax denominator of a result without it:
 *
 *     o * exp(lse) / (exp(lse) + exp(sink)) = o * sigmoid(lse - sink)
 */
static Value *with_sink(Elaborator *e, Value *attended, Value *sink) {
    if (attended->kind == KIND_ERROR) return attended;
    Span span = attended->span;
    Value *lse = value_result(attended, "lse");
    Value *apart = apply_op(e, OP_SUB, lse, sink, NULL, span);
    Value *share = apply_op(e, OP_SIGMOID, apart, NULL, NULL, span);
    Value *more =
        apply_op(e, OP_SOFTPLUS, apply_op(e, OP_NEG, apart, NULL, NULL, span), NULL, NULL, span);
    Value *result = apply_op(e, OP_MUL, attended, share, NULL, span);
    value_add_result(e, result, "lse", apply_op(e, OP_ADD, lse, more, NULL, span));
    return result;
}

/* attend[t]: names the key position for mask and bias. */
static bool name_key(Elaborator *e, const Node *subs, Attending *attending) {
    if (!subs) return true;
    const Node *sub = subs->kids[0];
    if (subs->count != 1 || sub->kind != NODE_NAME) {
        report_error(e->reports, subs->span, "expected one index name, the key position");
        report_help(e->reports, "write attend[t](q, k, v)");
        return false;
    }
    const Binding *binding = scope_find(e->scope, sub->name);
    Axis *axis = binding && binding->value->kind == KIND_AXIS ? binding->value->axis : NULL;
    attending->named = true;
    attending->key = bind_reduced(e, sub->name, axis, sub->span);
    return true;
}

static bool bind_key_axis(Elaborator *e, Attending *attending) {
    Axis *axis = attending->keys->dims[0]->axis;
    if (!attending->named) attending->key = index_new(e->program, axis->name, axis);
    if (!attending->key->axis) attending->key->axis = axis;
    if (axes_match(e, attending->key->axis, axis)) return true;
    report_error(e->reports, attending->keys->span, "the key has axis '%s', but '%s' has axis '%s'",
                 axis->name, attending->key->name, attending->key->axis->name);
    report_help(e->reports, "choose another name for the key position");
    return false;
}

static Value *attend_as_read(Elaborator *e, Attending *at) {
    Value *values[3];
    if (!check_attend_arguments(e, at->node, values)) return value_error(e, at->node->span);
    at->query = values[0];
    at->keys = values[1];
    at->values = values[2];
    if (!bind_key_axis(e, at) || !attend_options(e, at) || !check_attend_options(e, at))
        return value_error(e, at->node->span);
    bool known = e->program->target->attention && (!at->bias || is_bias_by_distance(e, at));
    if (known && at->mask) take_mask_terms(e, at);
    if (known && at->bias) take_bias(e, at);
    if ((!known || at->chosen || !same_sequence_axis(e, at)) && at->options.best) {
        report_error(
            e->reports, at->node->span,
            "'top_values' requires keys with the positions of the queries, a bias of their "
            "distance, and a mask of the terms t <= s, s - t < window and number[s] == number[t]");
        report_help(e->reports, "write top_values = 0, or use such a mask");
        return value_error(e, at->node->span);
    }
    if (!known) return attend_scores(e, at);
    Value *result = attend_statement(e, at);
    return !at->sink || is_shared_sink(e, at->sink) ? result : with_sink(e, result, at->sink);
}

Value *attend(Elaborator *e, const Node *node, const Node *subs) {
    Attending attending = {.node = node};
    if (!name_key(e, subs, &attending)) return value_error(e, node->span);
    Value *result = attend_as_read(e, &attending);
    if (attending.named) release(e, &attending.key, 1);
    return result;
}

/* attend_call: attend(q, k, v) { options } as a call statement: which keys a query sees (the mask,
 * its window, documents), what their scores are scaled and capped by, a sink beside them.
 *
 *     o[s,h,c] = attend(q[s,h,d], k[s,g,d], v[s,g,c]) { mask = window, window = 1024 }
 */
#include "elaborate/elaborate.h"

#include <math.h>
#include <string.h>

enum { MAX_BEST = 4096 }; /* what the kernels keep in order for one query */

/* One operand of attend as a tensor of its own over [leading..., place, heads, width]. */
static Expr *operand(Elaborator *e, Value *value, Index *const *leading, int count, Index *place,
                     const char *name) {
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
        Expr *target = expr_read_indices(e->program, tensor, dims);
        statement_loop(e->program, e->block, target, false, REDUCE_NONE, NULL, 0, expr,
                       value->span);
        expr = target;
    }
    if (!place) return expr;
    Expr *to = expr_index(e->program, place);
    return expr_substitute(e->program, expr, &value->dims[0], &to, 1);
}

/* The tensors among the options of attend, NULL where there is none. */
typedef struct Given {
    Value *sink, *documents;
} Given;

/* An option that is a tensor or none. */
static bool given_tensor(Elaborator *e, const Node *entry, Value **given) {
    Value *value = evaluate(e, entry->kids[0]);
    if (value->kind == KIND_TENSOR)
        *given = value;
    else if (value->kind != KIND_NONE && value->kind != KIND_ERROR)
        report_error(e->reports, entry->kids[0]->span, "'%s' takes a tensor or none, not %s",
                     entry->name, value_kind_text(value));
    return value->kind == KIND_TENSOR || value->kind == KIND_NONE;
}

static bool take_mask(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)given;
    const Value *value = evaluate(e, entry->kids[0]);
    bool word = value->kind == KIND_WORD;
    if (word && !strcmp(value->word, "causal"))
        options->mask = MASK_CAUSAL;
    else if (value->kind == KIND_NONE)
        options->mask = MASK_NONE;
    else if (word && !strcmp(value->word, "window"))
        options->mask = MASK_WINDOW;
    else if (value->kind != KIND_ERROR) {
        report_error(e->reports, entry->kids[0]->span, "a mask is one of causal, window, none");
        return false;
    }
    return true;
}

static bool take_sink(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)options;
    return given_tensor(e, entry, &given->sink);
}

static bool take_documents(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)options;
    return given_tensor(e, entry, &given->documents);
}

static bool take_scale(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)given;
    return evaluate_number(e, entry->kids[0], entry->name, &options->scale);
}

static bool take_cap(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)given;
    return evaluate_number(e, entry->kids[0], entry->name, &options->cap);
}

/* An option that counts places. */
static bool take_count(Elaborator *e, const Node *entry, long *count) {
    double number = 0;
    bool fine = evaluate_number(e, entry->kids[0], entry->name, &number);
    *count = (long)number;
    return fine;
}

static bool take_window(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)given;
    return take_count(e, entry, &options->window);
}

static bool take_best(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    (void)given;
    return take_count(e, entry, &options->best);
}

static const struct AttendOption {
    const char *name;
    bool (*take)(Elaborator *e, const Node *entry, AttendOptions *options, Given *given);
} attend_table[] = {
    {"mask", take_mask}, {"window", take_window},       {"scale", take_scale}, {"cap", take_cap},
    {"sink", take_sink}, {"documents", take_documents}, {"best", take_best},
};
enum { ATTEND_OPTIONS = sizeof attend_table / sizeof *attend_table };

static bool unknown_attend_option(Elaborator *e, const Node *entry) {
    Text names = {.arena = e->arena};
    for (int i = 0; i < ATTEND_OPTIONS; i++)
        text_add(&names, "%s%s", i ? ", " : "", attend_table[i].name);
    report_error(e->reports, entry->name_span, "attend has no option '%s'", entry->name);
    report_help(e->reports, "its options are %s", names.text);
    return false;
}

static bool take_option(Elaborator *e, const Node *entry, AttendOptions *options, Given *given) {
    for (int i = 0; i < ATTEND_OPTIONS; i++)
        if (!strcmp(entry->name, attend_table[i].name))
            return attend_table[i].take(e, entry, options, given);
    return unknown_attend_option(e, entry);
}

static bool attend_options(Elaborator *e, const Node *node, AttendOptions *options, double width,
                           Given *given) {
    *options = (AttendOptions){.mask = MASK_CAUSAL, .scale = 1 / sqrt(width)};
    const Node *record = node->kids[2];
    bool fine = true;
    for (int i = 0; record && i < record->count; i++)
        fine = take_option(e, record->kids[i], options, given) && fine;
    if (options->best < 0 || options->best > MAX_BEST) {
        report_error(e->reports, node->span, "best = %ld is outside 0..%d", options->best,
                     (int)MAX_BEST);
        fine = false;
    }
    if (options->mask == MASK_CAUSAL && options->window > 0) options->mask = MASK_WINDOW;
    if (options->mask == MASK_WINDOW && options->window < 1) {
        report_error(e->reports, node->span, "a window mask needs window = 1 or more");
        fine = false;
    }
    return fine;
}

static bool check_attend(Elaborator *e, const Node *node, Value **values) {
    static const char *const names[] = {"the query", "the key", "the value"};
    const Node *args = node->kids[1];
    if (args->count != 3) {
        report_error(e->reports, node->span, "attend(q, k, v) takes three tensors");
        return false;
    }
    for (int i = 0; i < 3; i++) {
        values[i] = evaluate(e, args->kids[i]);
        if (values[i]->kind == KIND_ERROR) return false;
        if (values[i]->kind == KIND_TENSOR && values[i]->rank == 3) continue;
        report_asked(e, args->kids[i]->span, "%s must have three dimensions: place, heads, width",
                     names[i]);
        return false;
    }
    Axis *q = values[0]->dims[2]->axis, *k = values[1]->dims[2]->axis;
    if (q->size != k->size) {
        report_asked(e, args->kids[1]->span,
                     "the key is %ld wide (axis '%s'), the query %ld (axis '%s')", k->size, k->name,
                     q->size, q->name);
        report_help(e->reports, "queries and keys must have the same width");
        return false;
    }
    for (int i = 1; i < 3; i++) {
        Axis *heads = values[i]->dims[1]->axis, *queries = values[0]->dims[1]->axis;
        if (heads->size <= queries->size && queries->size % heads->size == 0) continue;
        report_asked(e, args->kids[i]->span,
                     "%ld query heads (axis '%s') cannot share %ld heads of %s (axis '%s')",
                     queries->size, queries->name, heads->size, names[i] + 4, heads->name);
        long below = heads->size < queries->size ? heads->size : queries->size;
        while (queries->size % below) below--;
        report_help(e->reports, "the number of query heads must be a multiple: %ld would do",
                    below);
        return false;
    }
    for (int i = 1; i < 3; i++)
        if (values[i]->dims[0]->axis->size != values[0]->dims[0]->axis->size) {
            report_asked(e, args->kids[i]->span, "%s runs over axis '%s', the query over axis '%s'",
                         names[i], values[i]->dims[0]->axis->name, values[0]->dims[0]->axis->name);
            return false;
        }
    return true;
}

/* A number for each place of the queries. */
static bool check_documents(Elaborator *e, const Value *documents, const Index *place) {
    if (!documents || (documents->rank == 1 && documents->dims[0] == place)) return true;
    report_error(e->reports, documents->span,
                 "'documents' must have one dimension, the places of the query: axis '%s'",
                 place->axis->name);
    return false;
}

/* One logit for each head of the queries, the same for all tokens. */
static bool check_sink(Elaborator *e, const Value *sink, const Axis *heads) {
    if (!sink) return true;
    bool shaped = sink->rank == 1 && sink->dims[0]->axis->size == heads->size;
    bool batch = expr_uses_index(sink->expr, e->batch);
    if (shaped && !batch) return true;
    report_error(e->reports, sink->span,
                 "'sink' must have one dimension, the heads of the query: axis '%s' (size %ld)%s",
                 heads->name, heads->size,
                 shaped ? ", and be the same for every sequence of the batch" : "");
    report_help(e->reports, "declare it as a parameter: param sink[%s] ~ zeros", heads->name);
    return false;
}

static int leading_indices(Elaborator *e, Value **values, int value_count, Index **leading) {
    int count = 0;
    for (int a = 0; a < e->frame->ambient_count; a++) {
        bool used = false;
        for (int i = 0; i < value_count; i++)
            if (expr_uses_index(values[i]->expr, e->frame->ambient[a])) used = true;
        if (used) leading[count++] = e->frame->ambient[a];
    }
    return count;
}

Value *attend(Elaborator *e, const Node *node, const Node *subs) {
    (void)subs;
    Value *v[4];
    if (!check_attend(e, node, v)) return value_error(e, node->span);
    AttendOptions options;
    Given given = {0};
    if (!attend_options(e, node, &options, (double)v[0]->dims[2]->axis->size, &given))
        return value_error(e, node->span);
    if (!check_documents(e, given.documents, v[0]->dims[0]) ||
        !check_sink(e, given.sink, v[0]->dims[1]->axis))
        return value_error(e, node->span);
    v[3] = given.documents;
    options.documents = given.documents != NULL;
    Index *leading[MAX_RANK];
    int count = leading_indices(e, v, 3 + options.documents, leading);
    if (!fits_rank(e, "attend", count + 3, node->span)) return value_error(e, node->span);
    Index *place = index_new(e->program, v[0]->dims[0]->name, v[0]->dims[0]->axis);
    Expr *inputs[5] = {operand(e, v[0], leading, count, NULL, "query"),
                       operand(e, v[1], leading, count, place, "key"),
                       operand(e, v[2], leading, count, place, "value"), NULL, NULL};
    if (given.sink) {
        Value *logit = materialise(e, "sink", given.sink);
        inputs[3] = logit->expr;
        options.sink = true;
    }
    if (given.documents) inputs[4] = operand(e, v[3], leading, count, place, "document");
    Index *out[MAX_RANK];
    Axis *axes[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < count; i++) out[rank++] = leading[i];
    out[rank++] = v[0]->dims[0];
    out[rank++] = v[0]->dims[1];
    out[rank++] = v[2]->dims[2];
    for (int i = 0; i < rank; i++) axes[i] = out[i]->axis;
    Tensor *o = tensor_new(e->program, "attended", ROLE_TEMP, TYPE_REAL, rank, axes, node->span);
    Tensor *lse =
        tensor_new(e->program, "attended_lse", ROLE_TEMP, TYPE_REAL, rank - 1, axes, node->span);
    Statement *statement = statement_call(e->program, e->block, CALL_ATTEND, node->span);
    for (int i = 0; i < 5; i++)
        if (inputs[i]) list_push(e->arena, &statement->inputs, inputs[i]);
    Expr *read = expr_read_indices(e->program, o, out),
         *normaliser = expr_read_indices(e->program, lse, out);
    list_push(e->arena, &statement->outputs, read);
    list_push(e->arena, &statement->outputs, normaliser);
    statement->attention = options;
    Value *result = value_tensor(e, read, out + count, 3, node->span);
    result->lse = value_tensor(e, normaliser, out + count, 2, node->span);
    return result;
}

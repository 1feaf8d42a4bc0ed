/* attend_interpret: the definition of attention and of its gradient. */
#include "calls/attend/attend_row.h"
#include "interpret/interpreter.h"

#include <math.h>
#include <stdlib.h>

/* The log-sum-exp of a query that no key is visible to; the kernels have the same number. */
#define NO_KEY (-8e37)

/* ---- operands ---- */

static View input_view(Interpreter *interpreter, const Statement *statement, int place) {
    return interpreter_view(interpreter, statement->inputs.items[place]);
}

static View output_view(Interpreter *interpreter, const Statement *statement, int place) {
    return interpreter_view(interpreter, statement->outputs.items[place]);
}

/* Moves a view to the sequence-and-heads part of element `number` of the first `count` dimensions.
 */
static double *lead_part(const View *view, const View *query, long number) {
    double *part = view->real;
    for (int i = query->rank - 4; i >= 0; i--) {
        part += number % query->size[i] * view->stride[i];
        number /= query->size[i];
    }
    return part;
}

/* ---- attention ---- */

/* The last dimensions of an operand that it has: position, head, width. */
typedef struct AttendOperand {
    View view;
    double *part;               /* at the current leading coordinates */
    long position, head, width; /* strides */
} AttendOperand;

typedef struct Attention {
    Interpreter *interpreter;
    const AttendOptions *options;
    long leads, queries, keys, heads, key_heads, value_heads, key_width, value_width, position;
    AttendOperand q, k, v, o, lse, adjoint, dq, dk, dv;
    View sink, dsink;
    AttendOperand document;    /* `.position`: its stride; no heads, no width */
    AttendOperand chosen;      /* `.width`: the stride between blocks of keys */
    AttendOperand bias, dbias; /* `.head`, `.width`: strides between heads and between distances */
    double *score;     /* [keys] of one query: the scores after scale and cap, then the weights */
    double scale;      /* at which weights are rounded; 0: no rounding */
    double *copies[4]; /* rounded operands */
    int copy_count;
} Attention;

static AttendOperand operand_of(View view, int lead) {
    AttendOperand operand = {.view = view, .part = view.real};
    operand.position = view.stride[lead];
    operand.head = view.stride[lead + 1];
    operand.width = view.rank > lead + 2 ? view.stride[lead + 2] : 0;
    return operand;
}

/* An operand of the products: a rounded copy of its tensor if they round. */
static View factor_view(Interpreter *interpreter, const Statement *statement, int place,
                        Attention *attention) {
    View view = input_view(interpreter, statement, place);
    if (attention->scale == 0 || interpreter->message) return view;
    const Tensor *tensor = ((const Expr *)statement->inputs.items[place])->tensor;
    size_t elements = (size_t)tensor_elements(tensor);
    double *copy = malloc((elements + 1) * sizeof *copy);
    if (!copy) abort();
    interpreter_round_all_at(copy, interpreter->real[tensor->id], elements,
                             interpreter_round_scale(interpreter, tensor->id));
    attention->copies[attention->copy_count++] = copy;
    view.real = copy + (view.real - interpreter->real[tensor->id]);
    return view;
}

/* Keys (0) or values (1) of bytes: a copy of their tensor with each row multiplied by its scale. */
static View scaled_view(Interpreter *interpreter, const Statement *statement, int which,
                        Attention *attention) {
    const AttendOptions *options = &statement->attention;
    View view = factor_view(interpreter, statement, 1 + which, attention);
    if (!options->scaled[which] || interpreter->message) return view;
    const Expr *rows = statement->inputs.items[1 + which],
               *scales = statement->inputs.items[attend_scale(options, which)];
    const double *real = interpreter->real[rows->tensor->id],
                 *scale = interpreter->real[scales->tensor->id];
    long elements = tensor_elements(rows->tensor),
         width = elements / tensor_elements(scales->tensor);
    double *copy = malloc((size_t)(elements + 1) * sizeof *copy);
    if (!copy) abort();
    for (long i = 0; i < elements; i++) copy[i] = real[i] * scale[i / width];
    attention->copies[attention->copy_count++] = copy;
    view.real = copy + (view.real - real);
    return view;
}

static double factor(const Attention *attention, double value) {
    return attention->scale != 0 ? interpreter_round_at(value, attention->scale) : value;
}

static void release_rows(Attention *attention) {
    free(attention->score);
    for (int i = 0; i < attention->copy_count; i++) free(attention->copies[i]);
}

/* A bias or its adjoint. */
static AttendOperand distances_of(View view) {
    return (AttendOperand){.view = view,
                           .part = view.real,
                           .head = view.stride[view.rank - 2],
                           .width = view.stride[view.rank - 1]};
}

/* A GPU rounds if there are many queries, not in a decoding step. */
static Attention attention_of(Interpreter *interpreter, const Statement *statement) {
    Attention attention = {
        .interpreter = interpreter, .options = &statement->attention, .leads = 1};
    if (interpreter->way && !statement->exact && !statement->attention.position)
        attention.scale = interpreter_round_scale(interpreter, -1);
    View q = factor_view(interpreter, statement, 0, &attention),
         k = scaled_view(interpreter, statement, 0, &attention),
         v = scaled_view(interpreter, statement, 1, &attention);
    int lead = q.rank - 3;
    for (int i = 0; i < lead; i++) attention.leads *= q.size[i];
    attention.queries = q.size[lead];
    attention.heads = q.size[lead + 1];
    attention.key_width = q.size[lead + 2];
    attention.keys = k.size[lead];
    attention.key_heads = k.size[lead + 1];
    attention.value_heads = v.size[lead + 1];
    attention.value_width = v.size[lead + 2];
    attention.q = operand_of(q, lead);
    attention.k = operand_of(k, lead);
    attention.v = operand_of(v, lead);
    if (statement->attention.sink) attention.sink = input_view(interpreter, statement, 3);
    if (statement->attention.documents) {
        View view = input_view(interpreter, statement, attend_document(&statement->attention));
        attention.document =
            (AttendOperand){.view = view, .part = view.real, .position = view.stride[lead]};
    }
    if (statement->attention.chosen) {
        View view = input_view(interpreter, statement, attend_chosen(&statement->attention));
        attention.chosen = operand_of(view, view.rank - 3);
    }
    if (statement->attention.bias)
        attention.bias =
            distances_of(input_view(interpreter, statement, attend_bias(&statement->attention)));
    attention.score = malloc((size_t)attention.keys * sizeof *attention.score);
    if (!attention.score) abort();
    return attention;
}

/* True if a key that the mask allows is in the document of query s. */
static bool same_document(const Attention *attention, long s, long t) {
    const AttendOperand *document = &attention->document;
    if (!attention->options->documents) return true;
    return document->part[(s + attention->position) * document->position] ==
           document->part[t * document->position];
}

/* True if the mask and the chosen pairs allow it, and the documents. */
static bool sees_key(const Attention *attention, long s, long h, long t) {
    const AttendOperand *chosen = &attention->chosen;
    const long *block = attention->options->block;
    if (!same_document(attention, s, t)) return false;
    if (!chosen->part) return true;
    const long key = t / block[2];
    const double *row =
        chosen->part + s / block[0] * chosen->position + h / block[1] * chosen->head;
    return attention->options->words
               ? (long)row[key / MOEC_WORD * chosen->width] >> key % MOEC_WORD & 1
               : row[key * chosen->width] != 0;
}

/* Pairs that are chosen for all leading elements stay. */
static void move_to_lead(const Attention *attention, AttendOperand *operand, long lead) {
    if (operand == &attention->chosen && operand->view.rank == 3) return;
    if (operand == &attention->bias && operand->view.rank == 2) return;
    operand->part = lead_part(&operand->view, &attention->q.view, lead);
}

/* The keys first .. last-1 that the mask allows for query s. */
static void visible_keys(const Attention *attention, long s, long *first, long *last) {
    const AttendOptions *options = attention->options;
    long place = s + attention->position;
    bool all = options->mask == MASK_NONE && !options->position;
    bool past_end = place + 1 > attention->keys && options->mask != MASK_WINDOW;
    *last = all || past_end ? attention->keys : place + 1;
    *first = options->mask == MASK_WINDOW && place - options->window + 1 > 0
                 ? place - options->window + 1
                 : 0;
}

static long key_head(const Attention *attention, long h) {
    return h * attention->key_heads / attention->heads;
}

static long value_head(const Attention *attention, long h) {
    return h * attention->value_heads / attention->heads;
}

/* An intermediate value, with noise if enabled. */
static double rounded_operand(const Attention *attention, double value) {
    if (attention->interpreter->noise != 0) interpreter_disturb(attention->interpreter, &value, 1);
    return value;
}

/* The row of k, v and the scores for a key: the cache of a window may be a ring buffer. */
static long row_of_key(const Attention *attention, long t) {
    return t % attention->keys;
}

/* The score of a key before the cap. */
static double raw_score(const Attention *attention, long s, long h, long t) {
    const AttendOperand *q = &attention->q, *k = &attention->k;
    const double *query = q->part + s * q->position + h * q->head;
    const double *key =
        k->part + row_of_key(attention, t) * k->position + key_head(attention, h) * k->head;
    double sum = 0;
    for (long e = 0; e < attention->key_width; e++) sum += query[e * q->width] * key[e * k->width];
    return rounded_operand(attention, sum * attention->options->scale);
}

/* Where the bias of a pair is, in a bias or its adjoint. */
static double *bias_cell(const Attention *attention, const AttendOperand *table, long s, long h,
                         long t) {
    const long zero = attention->options->mask == MASK_NONE ? attention->keys - 1 : 0,
               distance = s + attention->position - t + zero;
    return table->part + h * table->head + distance * table->width;
}

static double with_bias(const Attention *attention, double score, long s, long h, long t) {
    if (!attention->options->bias) return score;
    return score + *bias_cell(attention, &attention->bias, s, h, t);
}

static double capped(const Attention *attention, double score) {
    double cap = attention->options->cap;
    return cap != 0 ? cap * tanh(score / cap) : score;
}

/* Sets the scores of a row and returns their log-sum-exp, including the sink, or NO_KEY. */
static double score_row(Attention *attention, long s, long h, long first, long last) {
    const View *sink = &attention->sink;
    double extra = sink->real ? sink->real[h * sink->stride[0]] : -INFINITY, largest = extra,
           sum = 0;
    for (long t = first; t < last; t++) {
        double *score = &attention->score[row_of_key(attention, t)];
        *score =
            sees_key(attention, s, h, t)
                ? with_bias(attention, capped(attention, raw_score(attention, s, h, t)), s, h, t)
                : -INFINITY;
        if (*score > largest) largest = *score;
    }
    if (largest == -INFINITY) return NO_KEY;
    for (long t = first; t < last; t++)
        sum += exp(attention->score[row_of_key(attention, t)] - largest);
    if (sink->real) sum += exp(extra - largest);
    return largest + log(sum);
}

/* Sets all but the `best` largest weights to 0, without renormalization; of equal weights it keeps
 * the earlier. */
static void keep_best(const Attention *attention, long first, long last, long best) {
    double *kept = calloc((size_t)(last - first) + 1, sizeof *kept), *weight = attention->score;
    if (!kept) abort();
    for (long round = 0; round < best && round < last - first; round++) {
        long chosen = first;
        for (long t = first; t < last; t++)
            if (weight[row_of_key(attention, t)] > weight[row_of_key(attention, chosen)])
                chosen = t;
        kept[chosen - first] = weight[row_of_key(attention, chosen)];
        weight[row_of_key(attention, chosen)] = -1;
    }
    for (long t = first; t < last; t++) weight[row_of_key(attention, t)] = kept[t - first];
    free(kept);
}

static void attend_row(Attention *attention, long s, long h) {
    long first, last, best = attention->options->best;
    visible_keys(attention, s, &first, &last);
    double lse = score_row(attention, s, h, first, last);
    for (long t = first; t < last; t++) {
        double *weight = &attention->score[row_of_key(attention, t)];
        *weight = factor(attention, rounded_operand(attention, exp(*weight - lse)));
    }
    if (best > 0 && attention->options->position) keep_best(attention, first, last, best);
    const AttendOperand *o = &attention->o, *v = &attention->v;
    const double *values = v->part + value_head(attention, h) * v->head;
    double *out = o->part + s * o->position + h * o->head;
    for (long c = 0; c < attention->value_width; c++) {
        double sum = 0;
        for (long t = first; t < last; t++)
            sum += attention->score[row_of_key(attention, t)] *
                   values[row_of_key(attention, t) * v->position + c * v->width];
        out[c * o->width] = sum;
    }
    attention->lse.part[s * attention->lse.position + h * attention->lse.head] = lse;
}

void interpret_attend(Interpreter *interpreter, const Statement *statement) {
    Attention attention = attention_of(interpreter, statement);
    int lead = attention.q.view.rank - 3;
    attention.o = operand_of(output_view(interpreter, statement, 0), lead);
    attention.lse = operand_of(output_view(interpreter, statement, 1), lead);
    if (statement->attention.position)
        attention.position =
            *input_view(interpreter, statement, attend_operands(&statement->attention)).ints;
    for (long part = 0; part < attention.leads && !interpreter->message; part++) {
        AttendOperand *operands[] = {&attention.q,      &attention.k,   &attention.v,
                                     &attention.o,      &attention.lse, &attention.document,
                                     &attention.chosen, &attention.bias};
        for (int i = 0; i < 8; i++) move_to_lead(&attention, operands[i], part);
        for (long s = 0; s < attention.queries; s++)
            for (long h = 0; h < attention.heads; h++) attend_row(&attention, s, h);
    }
    release_rows(&attention);
}

/* ---- the adjoint of attention ----
 *
 * With raw scores r = scale q.k, scores z = cap tanh(r/cap), weights p = exp(z - lse), o = sum p v
 * and D = do.o:
 *
 *     dp = do.v   dz = p (dp - D)   dr = dz (1 - (z/cap)^2)
 *     dq += scale dr k   dk += scale dr q   dv += p do
 *
 * A bias is added to z and has the derivative dz.
 *
 * The sink is a score with value zero: dsink = -exp(sink - lse) D. */

/* One query and key, with D and the log-sum-exp. */
static void attend_grad_pair(Attention *attention, long s, long h, long t, double lse,
                             double total) {
    const AttendOperand *q = &attention->q, *k = &attention->k, *v = &attention->v,
                        *d = &attention->adjoint;
    const AttendOperand *dq = &attention->dq, *dk = &attention->dk, *dv = &attention->dv;
    long kh = key_head(attention, h), vh = value_head(attention, h);
    const double *adjoint = d->part + s * d->position + h * d->head;
    double cap = attention->options->cap, scale = attention->options->scale;
    double z = capped(attention, raw_score(attention, s, h, t)), dp = 0;
    double p = rounded_operand(attention, exp(with_bias(attention, z, s, h, t) - lse)),
           weight = factor(attention, p);
    for (long c = 0; c < attention->value_width; c++) {
        dp += adjoint[c * d->width] * v->part[t * v->position + vh * v->head + c * v->width];
        dv->part[t * dv->position + vh * dv->head + c * dv->width] +=
            weight * adjoint[c * d->width];
    }
    const double dz = p * (rounded_operand(attention, dp) - total);
    double dr = rounded_operand(attention, dz * scale);
    if (attention->dbias.part) *bias_cell(attention, &attention->dbias, s, h, t) += dz;
    if (cap != 0) dr *= 1 - z / cap * (z / cap);
    dr = factor(attention, dr);
    for (long e = 0; e < attention->key_width; e++) {
        dq->part[s * dq->position + h * dq->head + e * dq->width] +=
            dr * k->part[t * k->position + kh * k->head + e * k->width];
        dk->part[t * dk->position + kh * dk->head + e * dk->width] +=
            dr * q->part[s * q->position + h * q->head + e * q->width];
    }
}

static void attend_grad_row(Attention *attention, long s, long h) {
    const AttendOperand *o = &attention->o, *d = &attention->adjoint;
    const double *out = o->part + s * o->position + h * o->head,
                 *adjoint = d->part + s * d->position + h * d->head;
    double lse = attention->lse.part[s * attention->lse.position + h * attention->lse.head],
           total = 0;
    for (long c = 0; c < attention->value_width; c++)
        total += out[c * o->width] * adjoint[c * d->width];
    total = rounded_operand(attention, total);
    long first, last;
    visible_keys(attention, s, &first, &last);
    for (long t = first; t < last; t++)
        if (sees_key(attention, s, h, t)) attend_grad_pair(attention, s, h, t, lse, total);
    const View *sink = &attention->sink, *dsink = &attention->dsink;
    if (sink->real)
        dsink->real[h * dsink->stride[0]] -= exp(sink->real[h * sink->stride[0]] - lse) * total;
}

static void clear_view(const View *view, int dimension, double *part) {
    if (dimension == view->rank) {
        *part = 0;
        return;
    }
    for (long i = 0; i < view->size[dimension]; i++)
        clear_view(view, dimension + 1, part + i * view->stride[dimension]);
}

void interpret_attend_grad(Interpreter *interpreter, const Statement *statement) {
    Attention attention = attention_of(interpreter, statement);
    int lead = attention.q.view.rank - 3, sink = statement->attention.sink;
    int own = attend_operands(&statement->attention);
    AttendOperand *operands[] = {
        &attention.o,      &attention.lse,  &attention.adjoint, &attention.dq, &attention.dk,
        &attention.dv,     &attention.q,    &attention.k,       &attention.v,  &attention.document,
        &attention.chosen, &attention.bias, &attention.dbias};
    for (int i = 0; i < 2; i++)
        *operands[i] = operand_of(input_view(interpreter, statement, own + i), lead);
    attention.adjoint = operand_of(factor_view(interpreter, statement, own + 2, &attention), lead);
    for (int i = 0; i < statement->outputs.count; i++) {
        View view = output_view(interpreter, statement, i);
        clear_view(&view, 0, view.real);
        if (i < 3)
            *operands[3 + i] = operand_of(view, lead);
        else if (i == 3 && sink)
            attention.dsink = view;
        else
            attention.dbias = distances_of(view);
    }
    for (long part = 0; part < attention.leads && !interpreter->message; part++) {
        for (int i = 0; i < 13; i++) move_to_lead(&attention, operands[i], part);
        for (long s = 0; s < attention.queries; s++)
            for (long h = 0; h < attention.heads; h++) attend_grad_row(&attention, s, h);
    }
    release_rows(&attention);
}

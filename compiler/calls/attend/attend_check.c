/* attend_check: operand counts, shapes and types of attention and of its gradient. */
#include "calls/attend/attend_row.h"
#include "ir/call.h"
#include "ir/well_formed.h"

/* All operands share the dimensions before the last `own` ones with the queries. */
static void check_lead(Verify *verify, const CallShape *query, const CallShape *shape, int own,
                       const char *name) {
    if (verify->message) return;
    if (shape->rank != query->rank - 3 + own) {
        verify_error(verify, "%s iterates over %d dimensions, q over %d", name, shape->rank,
                     query->rank);
        return;
    }
    for (int i = 0; i < query->rank - 3; i++)
        verify_sizes(verify, name, query->size[i], shape->size[i]);
}

/* One document id per position, and queries read that of their own position. */
static void check_documents(Verify *verify, const Statement *statement, const CallShape shapes[3]) {
    const AttendOptions *options = &statement->attention;
    if (verify->message || !options->documents) return;
    const Expr *documents = call_input(statement, attend_document(options));
    CallShape found = verify_operand(verify, documents), wanted = shapes[1];
    wanted.rank -= 2;
    if (options->position) wanted.size[wanted.rank - 1] = verify->program->context;
    verify_like(verify, "the document ids of the keys", &wanted, &found);
    if (documents->tensor->type != TYPE_REAL)
        verify_error(verify, "the document ids are not integers");
    if (!options->position)
        verify_sizes(verify, "positions of q and document ids", shapes[0].size[shapes[0].rank - 3],
                     wanted.size[wanted.rank - 1]);
}

/* Chosen pairs: one element per block, or one number for several, for each leading element or for
 * all. */
static void check_chosen(Verify *verify, const Statement *statement, const CallShape shapes[3]) {
    const AttendOptions *options = &statement->attention;
    if (verify->message || !options->chosen) return;
    const Expr *chosen = call_input(statement, attend_chosen(options));
    CallShape found = verify_operand(verify, chosen), wanted = shapes[0];
    const int lead = wanted.rank - 3;
    wanted.size[wanted.rank - 1] =
        options->position ? verify->program->context : shapes[1].size[lead];
    for (int i = 0; i < 3; i++) {
        if (options->block[i] < 1) verify_error(verify, "blocks of %ld", options->block[i]);
        if (verify->message) return;
        long *size = &wanted.size[lead + i];
        *size = (*size + options->block[i] - 1) / options->block[i];
        if (i == 2 && options->words) *size = (*size + MOEC_WORD - 1) / MOEC_WORD;
    }
    if (found.rank == 3) {
        for (int i = 0; i < 3; i++) wanted.size[i] = wanted.size[lead + i];
        wanted.rank = 3;
    }
    verify_like(verify, "the chosen pairs", &wanted, &found);
    if (chosen->tensor->type != TYPE_REAL) verify_error(verify, "chosen pairs are not reals");
    if (options->best) verify_error(verify, "only the best of chosen pairs");
}

/* A bias: one element per head and distance, for each leading element or for all. */
static void check_bias(Verify *verify, const Statement *statement, const CallShape shapes[3]) {
    const AttendOptions *options = &statement->attention;
    if (verify->message || !options->bias) return;
    const Expr *bias = call_input(statement, attend_bias(options));
    const CallShape found = verify_operand(verify, bias);
    const int lead = shapes[0].rank - 3, own = found.rank == 2 ? 0 : lead;
    const long positions = options->position ? verify->program->context : shapes[1].size[lead];
    CallShape wanted = shapes[0];
    wanted.rank = own + 2;
    wanted.size[own] = shapes[0].size[lead + 1];
    wanted.size[own + 1] = options->mask == MASK_NONE ? 2 * positions - 1 : positions;
    verify_like(verify, "the bias", &wanted, &found);
    if (bias->tensor->type != TYPE_REAL) verify_error(verify, "the bias is not real");
    if (options->position && options->mask == MASK_NONE)
        verify_error(verify, "a bias of later positions in decoding");
}

/* Keys or values have a scale per row if and only if they are bytes. */
static void check_scales(Verify *verify, const Statement *statement, const CallShape shapes[3]) {
    const AttendOptions *options = &statement->attention;
    for (int i = 0; i < 2 && !verify->message; i++) {
        bool bytes = call_input(statement, 1 + i)->tensor->type == TYPE_BYTE;
        if (bytes != options->scaled[i]) verify_error(verify, "bytes without a scale");
        if (verify->message || !bytes) continue;
        CallShape wanted = shapes[1 + i];
        wanted.rank--;
        CallShape found = verify_operand(verify, call_input(statement, attend_scale(options, i)));
        verify_like(verify, "the scale of bytes", &wanted, &found);
    }
}

/* A cache has room for all positions or, with a sliding window, for those that new queries see. */
static void check_places(Verify *verify, const AttendOptions *options, long queries, long keys) {
    long context = verify->program->context;
    bool ring = options->mask == MASK_WINDOW && keys < context;
    if (!options->position && options->mask != MASK_NONE)
        verify_sizes(verify, "positions of q and k", queries, keys);
    if (options->position && !ring)
        verify_sizes(verify, "positions of the sequence and k", context, keys);
    if (options->position && ring && keys < options->window + queries - 1)
        verify_error(verify, "%ld positions of k for a window of %ld and %ld queries", keys,
                     options->window, queries);
}

/* Checks q k v (sink) (document) of both attention calls; sets q, k, v. */
static void check_query_key_value(Verify *verify, const Statement *statement, CallShape shapes[3]) {
    static const char *const names[] = {"q", "k", "v"};
    const AttendOptions *options = &statement->attention;
    for (int i = 0; i < 3; i++) shapes[i] = verify_operand(verify, call_input(statement, i));
    if (verify->message) return;
    const CallShape *q = &shapes[0], *k = &shapes[1], *v = &shapes[2];
    int lead = q->rank - 3;
    if (lead < 0) {
        verify_error(verify, "q of an attention has %d dimensions", q->rank);
        return;
    }
    for (int i = 0; i < 3; i++) check_lead(verify, q, &shapes[i], 3, names[i]);
    if (verify->message) return;
    verify_sizes(verify, "positions of k and v", k->size[lead], v->size[lead]);
    verify_sizes(verify, "widths of q and k", q->size[lead + 2], k->size[lead + 2]);
    check_places(verify, options, q->size[lead], k->size[lead]);
    if (options->mask == MASK_WINDOW && options->window < 1)
        verify_error(verify, "window %ld", options->window);
    check_documents(verify, statement, shapes);
    check_chosen(verify, statement, shapes);
    check_bias(verify, statement, shapes);
    check_scales(verify, statement, shapes);
    if (verify->message || !options->sink) return;
    CallShape sink = verify_operand(verify, call_input(statement, 3));
    if (verify->message) return;
    if (sink.rank != 1)
        verify_error(verify, "the sink has %d dimensions", sink.rank);
    else
        verify_sizes(verify, "heads of q and sink", q->size[lead + 1], sink.size[0]);
}

/* o or do has the positions and heads of q and the width of v; lse the positions and heads. */
static void check_attended(Verify *verify, const CallShape shapes[3], const Expr *o,
                           const Expr *lse) {
    CallShape wanted = shapes[0];
    if (verify->message) return;
    wanted.size[wanted.rank - 1] = shapes[2].size[shapes[2].rank - 1];
    CallShape found = verify_operand(verify, o);
    verify_like(verify, "o", &wanted, &found);
    if (!lse) return;
    wanted.rank--;
    found = verify_operand(verify, lse);
    verify_like(verify, "lse", &wanted, &found);
}

void check_attend(Verify *verify, const Statement *statement) {
    CallShape shapes[3];
    int own = attend_operands(&statement->attention), position = statement->attention.position;
    if (!verify_counts(verify,
                       statement->inputs.count == own + position && statement->outputs.count == 2))
        return;
    check_query_key_value(verify, statement, shapes);
    check_attended(verify, shapes, call_output(statement, 0), call_output(statement, 1));
    if (verify->message || !position) return;
    const Expr *read = call_input(statement, own);
    if (read->kind != EXPR_READ || read->tensor->rank != 0 || read->tensor->type != TYPE_INT)
        verify_error(verify, "the position is not one integer");
}

void check_attend_grad(Verify *verify, const Statement *statement) {
    CallShape shapes[3];
    const AttendOptions *options = &statement->attention;
    int sink = options->sink, own = attend_operands(options);
    const int extra = statement->outputs.count - 3 - sink;
    if (!verify_counts(verify, statement->inputs.count == own + 3 &&
                                   (extra == 0 || (options->bias && extra == 1))))
        return;
    if (statement->attention.position)
        verify_error(verify, "no gradient passes a decoding attention");
    check_query_key_value(verify, statement, shapes);
    check_attended(verify, shapes, call_input(statement, own), call_input(statement, own + 1));
    check_attended(verify, shapes, call_input(statement, own + 2), NULL);
    for (int i = 0; i < 3 && !verify->message; i++) {
        CallShape found = verify_operand(verify, call_output(statement, i));
        verify_like(verify, "an adjoint", &shapes[i], &found);
    }
    if (extra && !verify->message) {
        const CallShape bias = verify_operand(verify, call_input(statement, attend_bias(options)));
        CallShape found = verify_operand(verify, call_output(statement, 3 + sink)),
                  wanted = shapes[0];
        wanted.rank--;
        for (int i = 0; i < 2; i++) wanted.size[wanted.rank - 2 + i] = bias.size[bias.rank - 2 + i];
        verify_like(verify, "the adjoint of the bias", &wanted, &found);
    }
    if (verify->message || !sink) return;
    CallShape given = verify_operand(verify, call_input(statement, 3)),
              found = verify_operand(verify, call_output(statement, 3));
    verify_like(verify, "the adjoint of the sink", &given, &found);
}

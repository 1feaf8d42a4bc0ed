/* well_formed: checks the invariants of a program after every pass. An error is a bug in the pass
 * that ran last.
 *
 * Tensors are listed once and have unique names and known axes. Every dimension has one integer
 * subscript. Every index is a loop of its statement or the index of an enclosing repeat. Loops that
 * are not on the left are reduced. In program order, a temporary is set before a statement reads it
 * or adds to it.
 */
#include "ir/ir.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct Verify {
    Arena *arena;
    const Program *program;
    const Statement *statement; /* under examination, or NULL */
    List repeats;               /* Index * of the enclosing repeats */
    bool *set;                  /* by tensor: something was stored in it */
    char *message;              /* the first error */
} Verify;

static void error_message(Verify *verify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void error_message(Verify *verify, const char *format, ...) {
    if (verify->message) return;
    va_list arguments;
    va_start(arguments, format);
    char *what = arena_vformat(verify->arena, format, arguments);
    va_end(arguments);
    const Statement *statement = verify->statement;
    if (!statement || statement->kind == STATEMENT_REPEAT)
        verify->message = what;
    else
        verify->message = arena_format(verify->arena, "%s\n    in: %s", what,
                                       print_statement(verify->arena, statement));
}

/* ---- tensors ---- */

static bool is_identifier(const char *name) {
    if (!name || !(isalpha((unsigned char)*name) || *name == '_')) return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_') return false;
    return true;
}

static void check_tensor(Verify *verify, const Tensor *tensor, int place) {
    if (tensor->id != place)
        error_message(verify, "tensor %s has number %d at index %d", tensor->name, tensor->id,
                      place);
    if (!is_identifier(tensor->name))
        error_message(verify, "'%s' is not a name for a tensor", tensor->name);
    if (tensor->rank < 0 || tensor->rank > MAX_RANK) {
        error_message(verify, "tensor %s has rank %d", tensor->name, tensor->rank);
        return;
    }
    for (int i = 0; i < tensor->rank; i++) {
        const Axis *axis = tensor->axes[i];
        if (!axis)
            error_message(verify, "dimension %d of tensor %s has no axis", i, tensor->name);
        else if (axis->size < 1 && axis->kind != AXIS_ELEMENTS)
            error_message(verify, "axis %s of tensor %s has size %ld", axis->name, tensor->name,
                          axis->size);
    }
    if (tensor->role == ROLE_GRADIENT && !tensor->of && verify->program->graph != GRAPH_UPDATE)
        error_message(verify, "gradient %s belongs to no parameter", tensor->name);
}

/* A hash of a name: the search for equal names has linear time. */
static unsigned name_slot(const char *name, unsigned mask) {
    unsigned hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash & mask;
}

static void check_names(Verify *verify) {
    const List *tensors = &verify->program->tensors;
    unsigned size = 16;
    while (size < 2 * (unsigned)tensors->count) size *= 2;
    const char **names = arena_alloc(verify->arena, size * sizeof *names);
    for (int i = 0; i < tensors->count && !verify->message; i++) {
        const char *name = ((const Tensor *)tensors->items[i])->name;
        unsigned slot = name_slot(name, size - 1);
        while (names[slot] && strcmp(names[slot], name) != 0) slot = (slot + 1) & (size - 1);
        if (names[slot]) error_message(verify, "two tensors have the name %s", name);
        names[slot] = name;
    }
}

static bool is_listed(const Verify *verify, const Tensor *tensor) {
    const List *tensors = &verify->program->tensors;
    return tensor->id >= 0 && tensor->id < tensors->count && tensors->items[tensor->id] == tensor;
}

/* ---- expressions ---- */

static bool is_open_repeat(const Verify *verify, const Index *index) {
    for (int i = 0; i < verify->repeats.count; i++)
        if (verify->repeats.items[i] == index) return true;
    return false;
}

static void check_expr(Verify *verify, const Expr *expr);

/* A plain subscript runs over the whole dimension. The subscript of a repeat may omit the last
 * element of a carried tensor. Any subscript may omit the end of a padded axis. */
static void check_sub(Verify *verify, const Tensor *tensor, int dimension, const Expr *sub) {
    check_expr(verify, sub);
    if (verify->message) return;
    const Axis *axis = tensor->axes[dimension];
    if (!expr_is_whole(sub)) {
        error_message(verify, "subscript %s of %s is not an integer",
                      print_expr(verify->arena, sub), tensor->name);
    } else if (sub->kind == EXPR_INDEX && sub->index->axis != axis) {
        long size = sub->index->axis->size;
        if (sub->index->of_repeat || axis->padded ? size > axis->size : size != axis->size)
            error_message(verify, "index %s runs over %s (%ld), dimension %d of %s is %s (%ld)",
                          sub->index->name, sub->index->axis->name, size, dimension, tensor->name,
                          axis->name, axis->size);
    } else if (sub->kind == EXPR_NUMBER && (sub->number < 0 || sub->number >= (double)axis->size)) {
        error_message(verify, "subscript %g of %s is outside axis %s (%ld)", sub->number,
                      tensor->name, axis->name, axis->size);
    }
}

static void check_read(Verify *verify, const Expr *read) {
    const Tensor *tensor = read->tensor;
    if (!is_listed(verify, tensor)) {
        error_message(verify, "tensor %s is not in the list of the program", tensor->name);
        return;
    }
    if (read->count != tensor->rank) {
        error_message(verify, "%s has %d dimensions and %d subscripts", tensor->name, tensor->rank,
                      read->count);
        return;
    }
    for (int i = 0; i < read->count; i++) check_sub(verify, tensor, i, read->args[i]);
}

/* Checks that an index is in scope. In a call, every index that is not of a repeat is in scope. */
static void check_index(Verify *verify, const Index *index) {
    const Statement *statement = verify->statement;
    if (index->of_repeat
            ? is_open_repeat(verify, index)
            : statement->kind == STATEMENT_CALL || statement_loops_over(statement, index))
        return;
    error_message(verify, "index %s is not bound", index->name);
}

static void check_expr(Verify *verify, const Expr *expr) {
    if (verify->message) return;
    if (expr->kind == EXPR_INDEX) check_index(verify, expr->index);
    if (expr->kind == EXPR_READ) check_read(verify, expr);
    if (expr->kind != EXPR_APPLY) return;
    if (expr->op < 0 || expr->op >= OP_COUNT || expr->count != op_table[expr->op].arity) {
        error_message(verify, "operation %d has %d arguments", (int)expr->op, expr->count);
        return;
    }
    for (int i = 0; i < expr->count; i++) check_expr(verify, expr->args[i]);
}

/* ---- order ---- */

static bool needs_setting(const Tensor *tensor) {
    return tensor->role == ROLE_TEMP || tensor->role == ROLE_OUTPUT;
}

static void check_is_set(Verify *verify, const Expr *expr) {
    if (expr->kind == EXPR_READ && needs_setting(expr->tensor) && !verify->set[expr->tensor->id])
        error_message(verify, "%s is read before it is set", expr->tensor->name);
    for (int i = 0; i < expr->count && !verify->message; i++) check_is_set(verify, expr->args[i]);
}

static void check_may_be_set(Verify *verify, const Tensor *tensor) {
    const Graph graph = verify->program->graph;
    bool updating = graph == GRAPH_UPDATE || graph == GRAPH_STEP;
    if (tensor->role == ROLE_INPUT || (tensor->role == ROLE_PARAMETER && !updating))
        error_message(verify, "%s is an input and cannot be computed", tensor->name);
    verify->set[tensor->id] = true;
}

/* ---- loop statements ---- */

static void check_loops(Verify *verify, const Statement *statement) {
    for (int i = 0; i < statement->loop_count; i++) {
        const Index *index = statement->loops[i];
        if (index->of_repeat)
            error_message(verify, "index %s of a repeat is iterated", index->name);
        for (int j = 0; j < i; j++)
            if (statement->loops[j] == index)
                error_message(verify, "index %s is iterated twice", index->name);
        if (statement->reduction == REDUCE_NONE && !statement_is_scatter(statement) &&
            !expr_uses_index(statement->target, index))
            error_message(verify, "index %s is neither on the left nor reduced", index->name);
    }
}

static void check_target(Verify *verify, const Statement *statement) {
    const Expr *target = statement->target;
    const Tensor *tensor = target->tensor;
    for (int i = 0; i < target->count; i++)
        for (int j = 0; j < i; j++)
            if (target->args[i]->kind == EXPR_INDEX && expr_equal(target->args[i], target->args[j]))
                error_message(verify, "duplicate index %s on the left",
                              target->args[i]->index->name);
    if (statement->accumulate &&
        (statement->reduction == REDUCE_MAX || statement->reduction == REDUCE_MIN))
        error_message(verify, "a largest or smallest value cannot be added to %s", tensor->name);
    if (statement->accumulate && needs_setting(tensor) && !verify->set[tensor->id])
        error_message(verify, "%s is added to before it is set", tensor->name);
    if (!statement->accumulate && tensor->role == ROLE_GRADIENT)
        error_message(verify, "gradient %s is set: it may only be added to", tensor->name);
    if (tensor->type == TYPE_INT && !expr_is_whole(statement->value))
        error_message(verify, "%s holds integers, the value is not one", tensor->name);
}

static void check_loop(Verify *verify, const Statement *statement) {
    if (statement->loop_count > MAX_LOOPS || !statement->target ||
        statement->target->kind != EXPR_READ) {
        error_message(verify, "a loop statement without a target");
        return;
    }
    check_expr(verify, statement->target);
    check_expr(verify, statement->value);
    if (verify->message) return;
    check_loops(verify, statement);
    for (int i = 0; i < statement->target->count; i++)
        check_is_set(verify, statement->target->args[i]);
    check_is_set(verify, statement->value);
    check_target(verify, statement);
    check_may_be_set(verify, statement->target->tensor);
}

/* ---- calls ---- */

/* The dimensions of a call operand that iterate, without those fixed by repeat indices and
 * numbers. */
typedef struct Shape {
    int rank;
    const Index *index[MAX_RANK];
    long size[MAX_RANK];
} Shape;

static bool uses_only_steps(const Expr *expr) {
    if (expr->kind == EXPR_INDEX) return expr->index->of_repeat;
    if (expr->kind == EXPR_READ) return false;
    for (int i = 0; i < expr->count; i++)
        if (!uses_only_steps(expr->args[i])) return false;
    return true;
}

static Shape operand_shape(Verify *verify, const Expr *operand) {
    Shape shape = {0};
    if (!operand || operand->kind != EXPR_READ) {
        error_message(verify, "an operand is not a tensor");
        return shape;
    }
    check_expr(verify, operand);
    for (int i = 0; i < operand->count && !verify->message; i++) {
        const Expr *sub = operand->args[i];
        if (sub->kind == EXPR_INDEX && !sub->index->of_repeat) {
            shape.index[shape.rank] = sub->index;
            shape.size[shape.rank++] = operand->tensor->axes[i]->size;
        } else if (!uses_only_steps(sub)) {
            error_message(verify, "subscript %s of an operand is computed",
                          print_expr(verify->arena, sub));
        }
    }
    return shape;
}

static void check_sizes(Verify *verify, const char *what, long a, long b) {
    if (a != b) error_message(verify, "%s: %ld and %ld", what, a, b);
}

/* All operands share the dimensions before the last `own` ones with the queries. */
static void check_lead(Verify *verify, const Shape *query, const Shape *shape, int own,
                       const char *name) {
    if (verify->message) return;
    if (shape->rank != query->rank - 3 + own) {
        error_message(verify, "%s iterates over %d dimensions, q over %d", name, shape->rank,
                      query->rank);
        return;
    }
    for (int i = 0; i < query->rank - 3; i++)
        check_sizes(verify, name, query->size[i], shape->size[i]);
}

static void check_like(Verify *verify, const char *name, const Shape *model, const Shape *shape) {
    if (verify->message) return;
    if (model->rank != shape->rank)
        error_message(verify, "%s has another rank than its counterpart", name);
    for (int i = 0; i < model->rank && !verify->message; i++)
        check_sizes(verify, name, model->size[i], shape->size[i]);
}

static const Expr *operand(const List *list, int place) {
    return list->items[place];
}

/* One document id per position, and queries read that of their own position. */
static void check_documents(Verify *verify, const Statement *statement, const Shape shapes[3]) {
    const AttendOptions *options = &statement->attention;
    if (verify->message || !options->documents) return;
    const Expr *documents = operand(&statement->inputs, attend_document(options));
    Shape found = operand_shape(verify, documents), wanted = shapes[1];
    wanted.rank -= 2;
    if (options->position) wanted.size[wanted.rank - 1] = verify->program->context;
    check_like(verify, "the document ids of the keys", &wanted, &found);
    if (documents->tensor->type != TYPE_REAL)
        error_message(verify, "the document ids are not integers");
    if (!options->position)
        check_sizes(verify, "positions of q and document ids", shapes[0].size[shapes[0].rank - 3],
                    wanted.size[wanted.rank - 1]);
}

/* Keys or values have a scale per row if and only if they are bytes. */
static void check_scales(Verify *verify, const Statement *statement, const Shape shapes[3]) {
    const AttendOptions *options = &statement->attention;
    for (int i = 0; i < 2 && !verify->message; i++) {
        bool bytes = operand(&statement->inputs, 1 + i)->tensor->type == TYPE_BYTE;
        if (bytes != options->scaled[i]) error_message(verify, "bytes without a scale");
        if (verify->message || !bytes) continue;
        Shape wanted = shapes[1 + i];
        wanted.rank--;
        Shape found = operand_shape(verify, operand(&statement->inputs, attend_scale(options, i)));
        check_like(verify, "the scale of bytes", &wanted, &found);
    }
}

/* A cache has room for all positions or, with a sliding window, for those that new queries see. */
static void check_places(Verify *verify, const AttendOptions *options, long queries, long keys) {
    long context = verify->program->context;
    bool ring = options->mask == MASK_WINDOW && keys < context;
    if (!options->position && options->mask != MASK_NONE)
        check_sizes(verify, "positions of q and k", queries, keys);
    if (options->position && !ring)
        check_sizes(verify, "positions of the sequence and k", context, keys);
    if (options->position && ring && keys < options->window + queries - 1)
        error_message(verify, "%ld positions of k for a window of %ld and %ld queries", keys,
                      options->window, queries);
}

/* Checks q k v (sink) (document) of both attention calls; sets q, k, v. */
static void check_query_key_value(Verify *verify, const Statement *statement, Shape shapes[3]) {
    static const char *const names[] = {"q", "k", "v"};
    const AttendOptions *options = &statement->attention;
    for (int i = 0; i < 3; i++) shapes[i] = operand_shape(verify, operand(&statement->inputs, i));
    if (verify->message) return;
    const Shape *q = &shapes[0], *k = &shapes[1], *v = &shapes[2];
    int lead = q->rank - 3;
    if (lead < 0) {
        error_message(verify, "q of an attention has %d dimensions", q->rank);
        return;
    }
    for (int i = 0; i < 3; i++) check_lead(verify, q, &shapes[i], 3, names[i]);
    if (verify->message) return;
    check_sizes(verify, "positions of k and v", k->size[lead], v->size[lead]);
    check_sizes(verify, "widths of q and k", q->size[lead + 2], k->size[lead + 2]);
    check_places(verify, options, q->size[lead], k->size[lead]);
    if (options->mask == MASK_WINDOW && options->window < 1)
        error_message(verify, "window %ld", options->window);
    check_documents(verify, statement, shapes);
    check_scales(verify, statement, shapes);
    if (verify->message || !options->sink) return;
    Shape sink = operand_shape(verify, operand(&statement->inputs, 3));
    if (verify->message) return;
    if (sink.rank != 1)
        error_message(verify, "the sink has %d dimensions", sink.rank);
    else
        check_sizes(verify, "heads of q and sink", q->size[lead + 1], sink.size[0]);
}

/* o or do has the positions and heads of q and the width of v; lse the positions and heads. */
static void check_attended(Verify *verify, const Shape shapes[3], const Expr *o, const Expr *lse) {
    Shape wanted = shapes[0];
    if (verify->message) return;
    wanted.size[wanted.rank - 1] = shapes[2].size[shapes[2].rank - 1];
    Shape found = operand_shape(verify, o);
    check_like(verify, "o", &wanted, &found);
    if (!lse) return;
    wanted.rank--;
    found = operand_shape(verify, lse);
    check_like(verify, "lse", &wanted, &found);
}

static void check_attend(Verify *verify, const Statement *statement) {
    Shape shapes[3];
    check_query_key_value(verify, statement, shapes);
    check_attended(verify, shapes, operand(&statement->outputs, 0),
                   operand(&statement->outputs, 1));
    if (verify->message || !statement->attention.position) return;
    const Expr *position = operand(&statement->inputs, attend_operands(&statement->attention));
    if (position->kind != EXPR_READ || position->tensor->rank != 0 ||
        position->tensor->type != TYPE_INT)
        error_message(verify, "the position is not one integer");
}

static void check_attend_grad(Verify *verify, const Statement *statement) {
    Shape shapes[3];
    int sink = statement->attention.sink, own = attend_operands(&statement->attention);
    const List *in = &statement->inputs, *out = &statement->outputs;
    if (statement->attention.position)
        error_message(verify, "no gradient passes a decoding attention");
    check_query_key_value(verify, statement, shapes);
    check_attended(verify, shapes, operand(in, own), operand(in, own + 1));
    check_attended(verify, shapes, operand(in, own + 2), NULL);
    for (int i = 0; i < 3 && !verify->message; i++) {
        Shape found = operand_shape(verify, operand(out, i));
        check_like(verify, "an adjoint", &shapes[i], &found);
    }
    if (verify->message || !sink) return;
    Shape given = operand_shape(verify, operand(in, 3)),
          found = operand_shape(verify, operand(out, 3));
    check_like(verify, "the adjoint of the sink", &given, &found);
}

static void check_top(Verify *verify, const Statement *statement) {
    Shape p = operand_shape(verify, operand(&statement->inputs, 0));
    Shape mask = operand_shape(verify, operand(&statement->outputs, 0));
    check_like(verify, "the marks of top", &p, &mask);
    if (verify->message) return;
    int dimension = statement->top.dimension;
    if (dimension < 0 || dimension >= p.rank)
        error_message(verify, "top goes along dimension %d of %d", dimension, p.rank);
    else if (statement->top.k < 1 || statement->top.k > p.size[dimension])
        error_message(verify, "top marks %ld of %ld", statement->top.k, p.size[dimension]);
}

/* Checks one output of pack over rows; all of them have the same count. */
static void check_rows(Verify *verify, const Statement *statement, int place, long *rows) {
    Shape shape = operand_shape(verify, operand(&statement->outputs, place));
    if (verify->message) return;
    if (shape.rank != 1) {
        error_message(verify, "output %d of pack has %d dimensions", place, shape.rank);
        return;
    }
    if (*rows == 0) *rows = shape.size[0];
    check_sizes(verify, "rows of pack", *rows, shape.size[0]);
}

static void check_length(Verify *verify, const Expr *output, const char *name, long length) {
    Shape shape = operand_shape(verify, output);
    if (verify->message) return;
    if (shape.rank != 1) error_message(verify, "%s of pack has %d dimensions", name, shape.rank);
    check_sizes(verify, name, length, shape.size[0]);
}

static void check_pack(Verify *verify, const Statement *statement) {
    const List *in = &statement->inputs, *out = &statement->outputs;
    Shape mask = operand_shape(verify, operand(in, 0));
    if (verify->message) return;
    if (out->count != mask.rank + 5) {
        error_message(verify, "pack of %d dimensions has %d outputs", mask.rank, out->count);
        return;
    }
    long rows = 0, groups = 1, others = 1;
    for (int i = 1; i < in->count && !verify->message; i++) {
        const Expr *part = operand(in, i);
        operand_shape(verify, part);
        if (part->tensor->type != TYPE_INT || part->tensor->vocabulary < 1)
            error_message(verify, "%s groups rows and has no known number of values",
                          part->tensor->name);
        groups *= part->tensor->vocabulary;
    }
    for (int i = 0; i < mask.rank; i++)
        *(statement->pack.key[i] ? &groups : &others) *= mask.size[i];
    for (int i = 0; i < mask.rank; i++) check_rows(verify, statement, i, &rows);
    check_length(verify, operand(out, mask.rank), "group", groups + 1);
    Shape row_of = operand_shape(verify, operand(out, mask.rank + 1));
    check_like(verify, "row_of", &mask, &row_of);
    check_rows(verify, statement, mask.rank + 2, &rows);
    check_length(verify, operand(out, mask.rank + 3), "start", others + 1);
    check_rows(verify, statement, mask.rank + 4, &rows);
    for (int i = 0; i < out->count; i++)
        if (operand(out, i)->tensor->type != TYPE_INT)
            error_message(verify, "output %d of pack is not of integers", i);
}

static bool lists(const List *list, const Tensor *tensor) {
    for (int i = 0; i < list->count; i++)
        if (operand(list, i)->tensor == tensor) return true;
    return false;
}

/* Every tensor that the body shares with other statements is an operand of the scan. */
static void check_listed(Verify *verify, const Statement *scan, const Expr *expr) {
    if (expr->kind == EXPR_READ && !lists(&scan->inputs, expr->tensor) &&
        !lists(&scan->outputs, expr->tensor))
        error_message(verify, "%s is no operand of its scan", expr->tensor->name);
    for (int i = 0; i < expr->count; i++) check_listed(verify, scan, expr->args[i]);
}

/* The body may read a tensor that it defines before its definition, at another position. */
static void check_scan(Verify *verify, const Statement *scan) {
    const List *body = &scan->body.statements;
    if (!scan->index->of_repeat || is_open_repeat(verify, scan->index))
        error_message(verify, "index %s of a scan is not its own", scan->index->name);
    for (int i = 0; i < scan->inputs.count && !verify->message; i++)
        check_is_set(verify, operand(&scan->inputs, i));
    for (int i = 0; i < body->count; i++) {
        const Statement *inner = body->items[i];
        if (!inner->accumulate) check_may_be_set(verify, inner->target->tensor);
    }
    list_push(verify->arena, &verify->repeats, scan->index);
    for (int i = 0; i < body->count && !verify->message; i++) {
        verify->statement = body->items[i];
        if (verify->statement->kind != STATEMENT_LOOP) error_message(verify, "in a scan");
        if (verify->message) break;
        check_loop(verify, verify->statement);
        check_listed(verify, scan, verify->statement->target);
        check_listed(verify, scan, verify->statement->value);
    }
    verify->repeats.count--;
    verify->statement = scan;
}

/* The counts of operands; pack accepts any count. */
static bool counts_are_right(const Statement *statement) {
    int sink = statement->attention.sink, position = statement->attention.position,
        own = attend_operands(&statement->attention);
    int in = statement->inputs.count, out = statement->outputs.count;
    switch (statement->call) {
    case CALL_ATTEND:
        return in == own + position && out == 2;
    case CALL_ATTEND_GRAD:
        return in == own + 3 && out == 3 + sink;
    case CALL_TOP:
        return in == 1 && out == 1;
    case CALL_PACK:
        return in >= 1;
    case CALL_SCAN:
        return out >= 1;
    }
    return false;
}

static void check_call(Verify *verify, const Statement *statement) {
    if (!counts_are_right(statement)) {
        error_message(verify, "a call with %d inputs and %d outputs", statement->inputs.count,
                      statement->outputs.count);
        return;
    }
    switch (statement->call) {
    case CALL_ATTEND:
        check_attend(verify, statement);
        break;
    case CALL_ATTEND_GRAD:
        check_attend_grad(verify, statement);
        break;
    case CALL_TOP:
        check_top(verify, statement);
        break;
    case CALL_PACK:
        check_pack(verify, statement);
        break;
    case CALL_SCAN:
        check_scan(verify, statement);
        break;
    }
    for (int i = 0; i < statement->inputs.count && !verify->message; i++)
        check_is_set(verify, operand(&statement->inputs, i));
    for (int i = 0; i < statement->outputs.count && !verify->message; i++)
        check_may_be_set(verify, operand(&statement->outputs, i)->tensor);
}

/* ---- programs ---- */

static void check_block(Verify *verify, const Block *block) {
    for (int i = 0; i < block->statements.count && !verify->message; i++) {
        const Statement *statement = block->statements.items[i];
        verify->statement = statement;
        if (statement->kind == STATEMENT_LOOP) check_loop(verify, statement);
        if (statement->kind == STATEMENT_CALL) check_call(verify, statement);
        if (statement->kind != STATEMENT_REPEAT) continue;
        if (!statement->index->of_repeat || is_open_repeat(verify, statement->index))
            error_message(verify, "index %s of a repeat is not its own", statement->index->name);
        list_push(verify->arena, &verify->repeats, statement->index);
        check_block(verify, &statement->body);
        verify->repeats.count--;
    }
}

char *well_formed(Arena *arena, const Program *program) {
    const List *tensors = &program->tensors;
    Verify state = {.arena = arena, .program = program};
    state.set = arena_alloc(arena, (size_t)tensors->count * sizeof *state.set);
    for (int i = 0; i < tensors->count && !state.message; i++)
        check_tensor(&state, tensors->items[i], i);
    check_names(&state);
    check_block(&state, &program->body);
    state.statement = NULL;
    for (int i = 0; i < program->outputs.count; i++) {
        const Tensor *output = program->outputs.items[i];
        if (!is_listed(&state, output))
            error_message(&state, "output %s is not in the list of the program", output->name);
        else if (needs_setting(output) && !state.set[output->id])
            error_message(&state, "output %s is never set", output->name);
    }
    if (program->loss && program->loss->rank != 0) error_message(&state, "the loss has dimensions");
    return state.message;
}

/* chunk_scan: the chunkwise-parallel form of a linear recurrence.
 *
 * Needs:   an elaborated program of a graph that runs all positions at once.
 * Leaves:  no scan whose states have many more elements than its inputs and outputs. Inside a
 *          chunk, pairs of positions interact through products. A scan over the chunks has the
 *          states at their borders.
 *
 *     scan s: S[h,e,c] = a[s,h] * S[h,e,c] + k[s,h,e] * v[s,h,c]
 *     o[s,h,c] = sum[e] q[s,h,e] * S[s,h,e,c]
 *
 * becomes, with s = C * n + i and since[n,i,j] = a[j+1] ... a[i], whole[n,i] = a[0] ... a[i],
 *
 *     met[h,n,i,j] = since[h,n,i,j] * sum[e] q[n,i,h,e] * k[n,j,h,e]
 *     taken[h,n,e,c] = sum[j] k[n,j,h,e] * since[h,n,C-1,j] * v[n,j,h,c]
 *     scan n: border[h,n,e,c] = whole[h,n-1,C-1] * border[h,n-1,e,c] + taken[h,n-1,e,c]
 *     o[n,i,h,c] = sum[j] met[h,n,i,j] * v[n,j,h,c]
 *                + whole[h,n,i] * sum[e] q[n,i,h,e] * border[h,n,e,c]
 *
 * Tensors inside a chunk are recomputed in the backward pass; borders are saved.
 *
 * The form of the equations does not matter: see linear.c and readers.c. The gradient is that of
 * the chunked form. A scan that another form would not make faster stays sequential and records the
 * reason.
 */
#include "passes.h"
#include "base/must.h"
#include "transform/scan/scan.h"

#include <string.h>

/* Chunk sizes. Products of 64 rows are fast, and pairs within a chunk cost as much as a state of
 * width 64. A size of 32 applies if decays differ along a summed dimension and inputs are
 * corrected, because pairs of blocks (sub_chunks.c) then need too much memory. Shorter axes and
 * smaller states stay sequential. */
enum { PLACES = 64, PLACES_IN_BLOCKS = 32, MIN_STATE = 256 };

/* ---- pairs of positions in a chunk ---- */

static Expr *chunk_index(const Chunks *chunks, Index *index) {
    return expr_index(chunks->program, index);
}

/* The contribution of earlier positions of the chunk to each row. */
static Expr *met_inside(const Chunks *chunks, const Parts *parts, Expr *query, Dims query_heads) {
    Dims heads;
    Expr *weight = chunk_scaled(
        chunks, parts, chunk_pairs(chunks, "scores", query, query_heads, parts, false, &heads));
    heads |= parts->scale_heads;
    Spot at = chunk_spot(chunks, heads, chunks->row, chunks->column, 0);
    Expr *met = chunk_read(chunks, chunk_make(chunks, "met", at, 0, NULL, weight), at);
    at = chunk_spot(chunks, heads | parts->value_heads, chunks->row, NULL, parts->columns);
    return chunk_read(chunks,
                      chunk_make(chunks, "inside", at, 0, chunks->column,
                                 multiply(chunks, met, chunk_value(chunks, parts))),
                      at);
}

/* ---- between chunks ---- */

/* The contribution of the positions of a chunk to the state at its end. */
static Expr *taken_of(const Chunks *chunks, const Parts *parts) {
    Spot at = chunk_spot(chunks, 0, chunks->column, NULL, parts->columns);
    Expr *left =
        chunk_left(chunks, parts, "left", chunk_value(chunks, parts), parts->value_heads, &at);
    Spot taken = chunk_spot(chunks, at.before | parts->left_heads, NULL, NULL,
                            chunks->recurrence->summed | parts->columns);
    return chunk_read(chunks,
                      chunk_make(chunks, "taken", taken, 0, chunks->column,
                                 multiply(chunks, chunk_key_left(chunks, parts), left)),
                      taken);
}

static Spot border_spot(const Chunks *chunks) {
    const Recurrence *recurrence = chunks->recurrence;
    return chunk_spot(chunks, recurrence->heads, NULL, NULL,
                      recurrence->summed | recurrence->columns);
}

/* An expression of a chunk for the chunk before `number`. */
static Expr *one_before(const Chunks *chunks, Expr *expr, Expr *number) {
    Program *program = chunks->program;
    Expr *past = expr_apply(program, OP_SUB, number, expr_number(program, 1), NULL);
    return expr_substitute(program, expr, &(Index *){chunks->number}, &past, 1);
}

/* An expression over the summed dimensions, at their second indices. */
static Expr *over_other(const Chunks *chunks, Expr *expr) {
    const Recurrence *recurrence = chunks->recurrence;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK];
    int count = 0;
    for (int i = 0; i < recurrence->target->count; i++) {
        if (!(recurrence->summed >> i & 1)) continue;
        from[count] = chunks->dims[i];
        to[count++] = expr_index(chunks->program, chunks->other[i]);
    }
    MUST(count <= MAX_RANK);
    return expr_substitute(chunks->program, expr, from, to, count);
}

/* Adds a matrix times the previous border, a sum over the second indices, to the body of the
 * scan. */
static void add_transition(const Chunks *chunks, Block *body, Expr *border, Expr *product) {
    const Recurrence *recurrence = chunks->recurrence;
    Index *over[MAX_RANK];
    int count = 0;
    for (int i = 0; i < recurrence->target->count; i++)
        if (recurrence->summed >> i & 1) over[count++] = chunks->other[i];
    MUST(count <= MAX_RANK);
    statement_loop(chunks->program, body, border, true, REDUCE_SUM, over, count, product,
                   recurrence->scan->span);
}

/* border[n] = decay * border[n-1] + taken[n-1]; the first one is the initial state of the scan. */
static Tensor *carry(const Chunks *chunks, Expr *taken, Expr *transition) {
    const Recurrence *recurrence = chunks->recurrence;
    Program *program = chunks->program;
    Span span = recurrence->scan->span;
    Index *number = index_new(program, chunks->number->name, chunks->chunk);
    Statement *scan = statement_scan(program, chunks->block, number, false, span);
    Expr *own = expr_index(program, number);
    Spot at = border_spot(chunks);
    Tensor *border = chunk_tensor(chunks, "border", &at);
    Expr *past = chunk_read(chunks, border, at),
         *before = multiply(chunks, past, decay_whole(chunks, chunk_last(chunks)));
    Expr *value = one_before(chunks, expr_apply(program, OP_ADD, before, taken, NULL), own);
    at.number = own;
    if (recurrence->begin) {
        Expr *first = expr_apply(program, OP_EQ, own, expr_number(program, 0), NULL);
        value = expr_apply(program, OP_WHERE, first, at_dims(chunks, recurrence->begin), value);
    }
    statement_assign(program, &scan->body, chunk_read(chunks, border, at), value, span);
    if (transition)
        add_transition(
            chunks, &scan->body, chunk_read(chunks, border, at),
            one_before(chunks, multiply(chunks, transition, over_other(chunks, past)), own));
    scan_operands(program, scan);
    return border;
}

/* ---- readers ---- */

/* The factors of a reader that are multiplied with the state, over the indices of the
 * recurrence. */
static List own_factors(const Recurrence *recurrence, const Reader *reader) {
    List factors = {0};
    for (int i = 0; i < reader->inside.count; i++)
        list_push(recurrence->program->arena, &factors,
                  expr_substitute(recurrence->program, reader->inside.items[i],
                                  (Index *const *)reader->own, recurrence->target->args,
                                  recurrence->target->count));
    return factors;
}

/* Reads an expression of chunks at the chunk and row of a position of the axis. */
static Expr *at_axis(const Chunks *chunks, Expr *expr, Index *position) {
    const Statement *scan = chunks->recurrence->scan;
    Program *program = chunks->program;
    Expr *at = expr_index(program, position), *size;
    if (scan->reverse)
        at = expr_apply(program, OP_SUB, expr_number(program, (double)scan->index->axis->size - 1),
                        at, NULL);
    size = expr_number(program, (double)chunks->positions->size);
    Expr *number = expr_apply(program, OP_DIV, at, size, NULL);
    Expr *to[] = {expr_apply(program, OP_FLOOR, number, NULL, NULL),
                  expr_apply(program, OP_MOD, at, size, NULL)};
    Index *from[] = {chunks->number, chunks->row};
    return expr_substitute(program, expr, from, to, 2);
}

/* A tensor over the dimensions of the state that are not summed, and the axis. */
static Tensor *along_axis(const Chunks *chunks, Expr *value) {
    const Recurrence *recurrence = chunks->recurrence;
    Program *program = chunks->program;
    Axis *axis = recurrence->scan->index->axis;
    Index *position = index_new(program, recurrence->scan->index->name, axis), *loops[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < recurrence->target->count; i++)
        if (!(recurrence->summed >> i & 1))
            loops[rank++] = i == recurrence->position ? position : chunks->dims[i];
    MUST(rank <= MAX_RANK);
    const char *name = arena_format(program->arena, "%s_read", recurrence->target->tensor->name);
    Span span = recurrence->scan->span;
    Tensor *tensor = tensor_over(program, name, ROLE_TEMP, TYPE_REAL, loops, rank, span);
    statement_assign(program, chunks->block, expr_read_indices(program, tensor, loops),
                     at_axis(chunks, value, position), span);
    return tensor;
}

/* The reader uses `made` instead of its sum over the state. */
static void rewrite_reader(const Chunks *chunks, const Reader *reader, Tensor *made) {
    const Recurrence *recurrence = chunks->recurrence;
    Program *program = chunks->program;
    Statement *statement = reader->statement;
    Index *subs[MAX_RANK], *loops[MAX_LOOPS];
    int rank = 0, count = 0;
    for (int i = 0; i < recurrence->target->count; i++)
        if (!(recurrence->summed >> i & 1)) subs[rank++] = reader->own[i];
    MUST(rank <= MAX_RANK);
    for (int i = 0; i < statement->loop_count; i++) {
        bool summed = false;
        for (int j = 0; j < recurrence->target->count; j++)
            summed |= recurrence->summed >> j & 1 && reader->own[j] == statement->loops[i];
        if (!summed) loops[count++] = statement->loops[i];
    }
    MUST(count <= MAX_LOOPS);
    memcpy(statement->loops, loops, sizeof loops);
    statement->loop_count = count;
    Expr *value = multiply(chunks, product_of(program, &reader->rest.list),
                           expr_read_indices(program, made, subs));
    statement->value = multiply(chunks, expr_number(program, reader->rest.number), value);
    int kept = 0;
    for (int i = 0; i < count; i++) kept += expr_uses_index(statement->target, loops[i]);
    if (kept == count) statement->reduction = REDUCE_NONE;
}

/* The contribution of the state at the start of the chunk to each row. */
static Expr *found_outside(const Chunks *chunks, Expr *query, Dims heads, Tensor *border) {
    const Recurrence *recurrence = chunks->recurrence;
    Expr *whole = decay_whole(chunks, chunk_index(chunks, chunks->row));
    if (chunks->element) {
        heads |= chunks->faded;
        Spot at = chunk_spot(chunks, heads, chunks->row, NULL, recurrence->summed);
        query = chunk_read(
            chunks, chunk_make(chunks, "faded", at, 0, NULL, multiply(chunks, query, whole)), at);
    }
    Spot at = chunk_spot(chunks, recurrence->heads, chunks->row, NULL, recurrence->columns);
    Expr *product = multiply(chunks, query, chunk_read(chunks, border, border_spot(chunks)));
    Expr *outside = chunk_read(
        chunks, chunk_make(chunks, "outside", at, recurrence->summed, NULL, product), at);
    return chunks->element ? outside : multiply(chunks, outside, whole);
}

static void serve_readers(const Chunks *chunks, const Reader *reader, const Parts *parts,
                          Tensor *border) {
    const Recurrence *recurrence = chunks->recurrence;
    Program *program = chunks->program;
    List factors = own_factors(recurrence, reader);
    Dims heads, summed = recurrence->summed;
    Tensor *part_of = chunk_part(chunks, "query", &factors, 1, chunks->row, summed, &heads);
    Expr *query = expr_number(program, 1), *value = expr_number(program, 0);
    if (part_of)
        query = chunk_read(chunks, part_of, chunk_spot(chunks, heads, chunks->row, NULL, summed));
    for (int i = 0; i < recurrence->input_count; i++)
        value =
            expr_apply(program, OP_ADD, value, met_inside(chunks, &parts[i], query, heads), NULL);
    if (border)
        value =
            expr_apply(program, OP_ADD, value, found_outside(chunks, query, heads, border), NULL);
    rewrite_reader(chunks, reader, along_axis(chunks, value));
}

/* ---- the pass ---- */

/* Statements to insert before an existing one. */
typedef struct Insertion {
    const Statement *before;
    Block made;
} Insertion;

static Block *insertion(Program *program, List *insertions, const Statement *before) {
    Insertion *insertion = arena_alloc(program->arena, sizeof *insertion);
    insertion->before = before;
    list_push(program->arena, insertions, insertion);
    return &insertion->made;
}

static void chunk_state(const Recurrence *recurrence, List *insertions, long chunk_size) {
    Program *program = recurrence->program;
    Chunks chunks =
        chunks_of(recurrence, insertion(program, insertions, recurrence->scan), chunk_size);
    Parts parts[MAX_INPUTS];
    Expr *taken = expr_number(program, 0);
    Correction correction = {0};
    const long positions = recurrence->scan->index->axis->size;
    program->has[HAS_CHUNKED_SCAN] = true;
    program->has[HAS_ONE_CHUNK] |= chunks.chunk->size == 1;
    program->has[HAS_PARTIAL_CHUNK] |= positions % chunks.positions->size != 0;
    make_decays(&chunks);
    for (int i = 0; i < recurrence->input_count; i++)
        parts[i] = parts_of(&chunks, &recurrence->inputs[i]);
    if (recurrence->corrected >= 0) correction = correct(&chunks, parts);
    for (int i = 0; i < recurrence->input_count && chunks.chunk->size > 1; i++)
        taken = expr_apply(program, OP_ADD, taken, taken_of(&chunks, &parts[i]), NULL);
    bool carried = chunks.chunk->size > 1 || recurrence->begin;
    Parts *bent = recurrence->corrected >= 0 ? &parts[recurrence->corrected] : NULL;
    Expr *matrix = bent && carried ? transition(&chunks, &correction, bent) : NULL;
    Tensor *border = carried ? carry(&chunks, taken, matrix) : NULL;
    if (bent && border)
        add_slope(&chunks, &correction, bent, chunk_read(&chunks, border, border_spot(&chunks)));
    LIST_EACH(const Reader, reader, &recurrence->readers) {
        chunks.block = insertion(program, insertions, reader->statement);
        serve_readers(&chunks, reader, parts, border);
    }
}

/* True if the tensor is carried from position to position. */
static bool is_state(const Recurrence *recurrence, const Expr *expr) {
    const Expr *target = recurrence->target;
    if (expr->kind == EXPR_READ && expr->tensor == target->tensor)
        for (int i = 0; i < expr->count; i++)
            if (expr->args[i]->kind == EXPR_APPLY &&
                expr_uses_index(expr->args[i], recurrence->scan->index))
                return true;
    for (int i = 0; i < expr->count; i++)
        if (is_state(recurrence, expr->args[i])) return true;
    return false;
}

/* The states of a scan, analyzed. */
static List states_of(Program *program, Statement *scan) {
    List states = {0};
    LIST_EACH(const Statement, maker, &scan->body.statements) {
        Recurrence *recurrence = arena_alloc(program->arena, sizeof *recurrence);
        *recurrence = (Recurrence){.program = program, .scan = scan, .target = maker->target};
        bool carried = false;
        for (int j = 0; j < scan->body.statements.count; j++)
            carried |= is_state(recurrence, ((Statement *)scan->body.statements.items[j])->value);
        if (carried) list_push(program->arena, &states, recurrence);
    }
    return states;
}

/* A sequential scan is as fast if the axis would not fill chunks, or if no state is much larger
 * than its inputs. */
static const char *are_small(const List *states, long size) {
    long most = 0;
    LIST_EACH(const Recurrence, recurrence, states) {
        long elements = 1;
        for (int j = 0; j < recurrence->target->count; j++)
            if ((recurrence->summed | recurrence->columns) >> j & 1)
                elements *= recurrence->target->tensor->axes[j]->size;
        if (elements > most) most = elements;
    }
    return most < MIN_STATE            ? "the state is small"
           : size < SCAN_MIN_POSITIONS ? "the sequence is short"
                                       : NULL;
}

typedef struct Outside {
    const Statement *scan;
    const Tensor *tensor;
    bool found;
} Outside;

static void find_tensor(Expr *expr, void *data) {
    Outside *outside = data;
    outside->found |= expr->kind == EXPR_READ && expr->tensor == outside->tensor;
}

static void find_outside(Statement *statement, void *data) {
    Outside *outside = data;
    const List *body = &outside->scan->body.statements;
    if (statement == outside->scan || statement->kind == STATEMENT_REPEAT) return;
    if (list_find(body, statement) >= 0) return;
    if (statement->kind == STATEMENT_LOOP) expr_walk(statement->value, find_tensor, data);
    for (int i = 0; i < statement->inputs.count; i++)
        expr_walk(statement->inputs.items[i], find_tensor, data);
}

/* True if a statement after the scan reads a tensor of the body other than its states. */
static bool is_looked_into(Program *program, const Statement *scan, const List *states) {
    Outside outside = {.scan = scan};
    LIST_EACH(const Statement, maker, &scan->body.statements) {
        bool state = false;
        for (int j = 0; j < states->count; j++)
            state |= ((const Recurrence *)states->items[j])->target == maker->target;
        outside.tensor = maker->target->tensor;
        if (!state) block_walk(&program->body, find_outside, &outside);
    }
    return outside.found;
}

/* The reason why the state stays sequential, or NULL. */
static const char *stays(Recurrence *recurrence, const Block *block) {
    linear(recurrence);
    readers(recurrence);
    if (recurrence->reason) return recurrence->reason;
    for (int i = 0; i < recurrence->readers.count; i++)
        if (list_find(&block->statements, ((Reader *)recurrence->readers.items[i])->statement) < 0)
            return "the states are read elsewhere";
    return NULL;
}

static long positions_of(const Recurrence *recurrence) {
    bool blocks = recurrence->decay && dims_of(recurrence, recurrence->decay) & recurrence->summed;
    return blocks && recurrence->corrected >= 0 ? PLACES_IN_BLOCKS : PLACES;
}

static void note_form(Program *program, const Recurrence *recurrence, long chunk_size,
                      const char *slow) {
    ScanForm *form = arena_alloc(program->arena, sizeof *form);
    *form = (ScanForm){recurrence->target->tensor->name, recurrence->scan->span, chunk_size, slow};
    list_push(program->arena, &program->scans, form);
}

static bool chunk_one(Program *program, Statement *scan, const Block *block, List *insertions,
                      long chunk_size) {
    MUST(statement_is_scan(scan));
    List states = states_of(program, scan);
    const char *reason = states.count ? NULL : "there is no state";
    if (is_looked_into(program, scan, &states))
        reason = "other tensors of the scan are read after it";
    for (int i = 0; i < states.count && !reason; i++) reason = stays(states.items[i], block);
    if (!reason && chunk_size <= 0) reason = are_small(&states, scan->index->axis->size);
    scan->slow = reason;
    for (int i = 0; i < states.count; i++) {
        long size = reason ? 1 : chunk_size > 0 ? chunk_size : positions_of(states.items[i]);
        note_form(program, states.items[i], size, reason);
        if (!reason) chunk_state(states.items[i], insertions, size);
    }
    return !reason;
}

static void chunk_block(Program *program, Block *block, long chunk_size) {
    List insertions = {0}, statements = {0};
    bool *gone = arena_alloc(program->arena, (size_t)block->statements.count * sizeof *gone);
    for (int i = 0; i < block->statements.count; i++) {
        Statement *statement = block->statements.items[i];
        if (statement->kind == STATEMENT_REPEAT) chunk_block(program, &statement->body, chunk_size);
        gone[i] = statement_is_scan(statement) &&
                  chunk_one(program, statement, block, &insertions, chunk_size);
    }
    for (int i = 0; i < block->statements.count; i++) {
        LIST_EACH(const Insertion, insertion, &insertions)
            for (int k = 0; k < insertion->made.statements.count; k++)
                if (insertion->before == block->statements.items[i])
                    list_push(program->arena, &statements, insertion->made.statements.items[k]);
        if (!gone[i]) list_push(program->arena, &statements, block->statements.items[i]);
    }
    block->statements = statements;
}

void chunk_scan(Program *program, long chunk_size) {
    if (chunk_size != 1) chunk_block(program, &program->body, chunk_size);
}

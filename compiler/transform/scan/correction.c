/* correction: inputs that are corrected by the state, as in the delta rule, by one triangular solve
 * per chunk.
 *
 *     S = a[i] * S + u[i] * z[i],    z[i] = v[i] + share * sum[e] w[i,e] * S[e]
 *
 * where w is multiplied with the state after the previous position: the initial state of the chunk
 * and the inputs of its earlier positions.
 *
 *     z[i] - sum[j < i] pull[i,j] * z[j] = v[i] + other inputs + reach[i] * border
 *     pull[i,j] = share * since[i-1,j] * sum[e] w[i,e] * u[j,e]
 *     reach[i,e] = share * whole[i-1] * w[i,e]
 *
 * The inverse of the triangle on the left is computed row by row and does not depend on the border.
 * Therefore z = value + slope * border for all chunks at once. The scan over the chunks includes
 * the slope in the matrix that multiplies the border.
 */
#include "transform/scan/scan.h"

static Expr *correction_number(const Chunks *chunks, double number) {
    return expr_number(chunks->program, number);
}

static Expr *correction_apply(const Chunks *chunks, OpCode op, Expr *a, Expr *b) {
    return expr_apply(chunks->program, op, a, b, NULL);
}

static Expr *before_row(const Chunks *chunks) {
    return correction_apply(chunks, OP_SUB, expr_index(chunks->program, chunks->row),
                            correction_number(chunks, 1));
}

/* w and its scale, for the rows of a chunk. */
typedef struct Look {
    Expr *looked, *scale;
    Dims looked_heads, heads;
} Look;

static Look look_of(const Chunks *chunks) {
    const Recurrence *recurrence = chunks->recurrence;
    const Input *looked = &recurrence->looked;
    Look look = {.scale = correction_number(chunks, 1)};
    Dims scale_heads;
    Tensor *summed = chunk_part(chunks, "look", &looked->summed, 1, chunks->row, recurrence->summed,
                                &look.looked_heads);
    Tensor *scale = chunk_part(chunks, "look_scale", &looked->scale, recurrence->share, chunks->row,
                               0, &scale_heads);
    look.looked = summed ? chunk_read(chunks, summed,
                                      chunk_spot(chunks, look.looked_heads, chunks->row, NULL,
                                                 recurrence->summed))
                         : correction_number(chunks, 1);
    if (scale)
        look.scale =
            chunk_read(chunks, scale, chunk_spot(chunks, scale_heads, chunks->row, NULL, 0));
    look.heads = look.looked_heads | (scale ? scale_heads : 0);
    return look;
}

/* pull[i,j]: contribution of the input at position j to the correction of a later position i. */
static Expr *pull_of(const Chunks *chunks, const Look *look, const Parts *parts, Dims *heads) {
    Expr *pairs =
        chunk_pairs(chunks, "pairs", look->looked, look->looked_heads, parts, true, heads);
    Expr *value = chunk_scaled(chunks, parts, multiply(chunks, pairs, look->scale));
    *heads |= look->heads | parts->scale_heads;
    Spot at = chunk_spot(chunks, *heads, chunks->row, chunks->column, 0);
    Tensor *pull = chunk_make(chunks, "pull", at, 0, NULL,
                              expr_apply(chunks->program, OP_WHERE,
                                         correction_apply(chunks, OP_LT, at.column, at.row), value,
                                         correction_number(chunks, 0)));
    return chunk_read(chunks, pull, at);
}

/* The value of rows plus the contributions of the other inputs, its heads and its columns. */
static Expr *wanted_of(const Chunks *chunks, const Look *look, const Parts *parts, Dims *heads,
                       Dims *columns) {
    const Recurrence *recurrence = chunks->recurrence;
    Program *program = chunks->program;
    const Parts *own = &parts[recurrence->corrected];
    bool bare = recurrence->inputs[recurrence->corrected].bare;
    Expr *row = expr_index(program, chunks->row);
    Expr *value =
        expr_substitute(program, bare ? correction_number(chunks, 0) : chunk_value(chunks, own),
                        &(Index *){chunks->column}, &row, 1);
    *heads = own->value_heads;
    *columns = own->columns;
    for (int i = 0; i < recurrence->input_count; i++) {
        if (i == recurrence->corrected) continue;
        Dims pull_heads;
        Expr *product = multiply(chunks, pull_of(chunks, look, &parts[i], &pull_heads),
                                 chunk_value(chunks, &parts[i]));
        Dims all = pull_heads | parts[i].value_heads;
        Spot at = chunk_spot(chunks, all, chunks->row, NULL, parts[i].columns);
        Tensor *met = chunk_make(chunks, "wanted", at, 0, chunks->column, product);
        value = correction_apply(chunks, OP_ADD, value, chunk_read(chunks, met, at));
        *heads |= all;
        *columns |= parts[i].columns;
    }
    if (recurrence->input_count == 1 || (bare && recurrence->input_count == 2)) return value;
    Spot at = chunk_spot(chunks, *heads, chunks->row, NULL, *columns);
    return chunk_read(chunks, chunk_make(chunks, "all_wanted", at, 0, NULL, value), at);
}

/* The inverse of 1 - pull, row by row: solved[i,k] = (i == k) + sum[j < i] pull[i,j] * solved[j,k].
 */
static Tensor *solve(const Chunks *chunks, Expr *pull, Dims heads) {
    Program *program = chunks->program;
    Span span = chunks->recurrence->scan->span;
    Index *position = index_new(program, chunks->row->name, chunks->positions),
          *third = index_new(program, "k", chunks->positions), *column = chunks->column;
    Expr *row = expr_index(program, position);
    Spot at = chunk_spot(chunks, heads, position, third, 0), earlier = at;
    Tensor *solved = chunk_tensor(chunks, "solved", &at);
    earlier.row = expr_index(program, column);
    Expr *product = multiply(chunks, expr_substitute(program, pull, &chunks->row, &row, 1),
                             chunk_read(chunks, solved, earlier));
    Expr *value = expr_apply(program, OP_WHERE, correction_apply(chunks, OP_LT, earlier.row, row),
                             product, correction_number(chunks, 0));
    Statement *scan = statement_scan(program, chunks->block, position, false, span);
    scan->again = true;
    Expr *target = chunk_read(chunks, solved, at);
    statement_assign(program, &scan->body, target,
                     correction_apply(chunks, OP_EQ, expr_index(program, third), row), span);
    statement_loop(program, &scan->body, target, true, REDUCE_SUM, &column, 1, value, span);
    scan_operands(program, scan);
    return solved;
}

/* The derivative of the correction by the border at the rows of a chunk: reach[i,e]. */
static Expr *correction_reach(const Chunks *chunks, const Look *look, Dims heads) {
    Expr *first = correction_apply(chunks, OP_EQ, expr_index(chunks->program, chunks->row),
                                   correction_number(chunks, 0));
    Expr *whole = decay_whole(chunks, before_row(chunks));
    if (chunks->decay)
        whole = expr_apply(chunks->program, OP_WHERE, first, correction_number(chunks, 1), whole);
    Spot at = chunk_spot(chunks, heads, chunks->row, NULL, chunks->recurrence->summed);
    Tensor *reach =
        chunk_make(chunks, "reach", at, 0, NULL,
                   multiply(chunks, multiply(chunks, whole, look->scale), look->looked));
    return chunk_read(chunks, reach, at);
}

Correction correct(const Chunks *chunks, Parts *parts) {
    const Look look = look_of(chunks);
    Parts *own = &parts[chunks->recurrence->corrected];
    Correction correction;
    Dims heads, columns;
    chunks->program->has[HAS_CORRECTION] = true;
    Expr *pull = pull_of(chunks, &look, own, &correction.heads);
    Expr *value = wanted_of(chunks, &look, parts, &heads, &columns);
    Tensor *solved = solve(chunks, pull, correction.heads);
    /* Its rows are the positions of later values; its columns are rows here. */
    Expr *rows = chunk_read(chunks, solved,
                            chunk_spot(chunks, correction.heads, chunks->column, chunks->row, 0));
    heads |= correction.heads;
    Spot at = chunk_spot(chunks, heads, chunks->column, NULL, columns);
    own->value = chunk_make(chunks, "own", at, 0, chunks->row, multiply(chunks, rows, value));
    own->value_heads = heads;
    own->columns = columns;
    at = chunk_spot(chunks, correction.heads, chunks->column, NULL, chunks->recurrence->summed);
    Expr *reach = correction_reach(chunks, &look, correction.heads);
    correction.slope =
        chunk_make(chunks, "slope", at, 0, chunks->row, multiply(chunks, rows, reach));
    return correction;
}

Expr *transition(const Chunks *chunks, const Correction *correction, const Parts *parts) {
    const Recurrence *recurrence = chunks->recurrence;
    Dims summed = recurrence->summed;
    Spot at = chunk_spot(chunks, correction->heads, chunks->column, NULL, summed);
    Expr *slope = chunk_read(chunks, correction->slope, at);
    Tensor *left_slope =
        chunk_left(chunks, parts, "left_slope", slope, correction->heads, &at)->tensor;
    Spot left = at;
    left.behind = 0;
    left.other = summed;
    Expr *key = chunk_key_left(chunks, parts);
    Spot matrix = chunk_spot(chunks, at.before | parts->left_heads, NULL, NULL, summed);
    matrix.other = summed;
    Expr *product = multiply(chunks, key, chunk_read(chunks, left_slope, left));
    return chunk_read(chunks, chunk_make(chunks, "transition", matrix, 0, chunks->column, product),
                      matrix);
}

void add_slope(const Chunks *chunks, const Correction *correction, Parts *parts, Expr *border) {
    const Recurrence *recurrence = chunks->recurrence;
    Spot at = chunk_spot(chunks, correction->heads, chunks->column, NULL, recurrence->summed);
    Expr *product = multiply(chunks, chunk_read(chunks, correction->slope, at), border);
    Dims heads = recurrence->heads | correction->heads;
    at = chunk_spot(chunks, heads, chunks->column, NULL, recurrence->columns);
    Tensor *bent = chunk_make(chunks, "bent", at, recurrence->summed, NULL, product);
    Expr *value =
        correction_apply(chunks, OP_ADD, chunk_value(chunks, parts), chunk_read(chunks, bent, at));
    heads |= parts->value_heads;
    at.before = heads;
    parts->value = chunk_make(chunks, "corrected", at, 0, NULL, value);
    parts->value_heads = heads;
    parts->columns = recurrence->columns;
}

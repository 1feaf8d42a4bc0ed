/* position_share: the cost of attention whose mask depends on positions alone.
 *
 * Terms such as `s - t < 256 or t < 4` have a known number of pairs. The cost of chosen pairs is
 * that of a window (attended_keys), so the share is that of a window with as many pairs. */
#include "transform/route/route.h"
#include "ir/call.h"

#include <math.h>

enum { MOST_SAMPLES = 1 << 18 };

static bool is_of_loops(const Expr *expr) {
    if (expr->kind == EXPR_READ || (expr->kind == EXPR_INDEX && expr->index->of_repeat))
        return false;
    for (int i = 0; i < expr->count; i++)
        if (!is_of_loops(expr->args[i])) return false;
    return true;
}

/* A decoding step adds the position of its first token to those of the new tokens. */
static Expr *position_index(Program *program, Expr *read, void *data) {
    const Tensor *tensor = read->tensor;
    (void)program;
    return tensor->role == ROLE_INPUT && tensor->input == MOEC_INPUT_SCALAR &&
                   tensor->type == TYPE_INT
               ? data
               : NULL;
}

typedef struct PairMask {
    const Statement *attend;
    const Expr *value;
    Index *indices[4]; /* query, head, key, the position of the first query */
} PairMask;

/* The average number of keys of a query: of several queries, all keys. In a step, of one token at
 * several positions. */
static double keys_of_query(const PairMask *mask) {
    const long *block = mask->attend->attention.block;
    const int query = mask->attend->attention.position ? 3 : 0;
    const long keys = mask->indices[2]->axis->size, queries = mask->indices[query]->axis->size,
               step = 1 + queries * keys / MOST_SAMPLES;
    double values[4] = {0, 0, 0, 0}, seen = 0;
    long samples = 0;
    for (long s = step / 2; s < queries; s += step, samples++)
        for (long t = 0; t < keys; t++) {
            values[query] = (double)s, values[2] = (double)t;
            if (mask->attend->row->sees(mask->attend, s * block[0], t * block[2]) &&
                value_for(mask->value, mask->indices, values, 4) != 0)
                seen += (double)block[2];
        }
    return samples ? seen / (double)samples : 0;
}

/* The share of the first head's pairs; 0: it depends on data. */
double share_of_positions(Program *program, const Statement *attend, const Statement *maker) {
    PairMask mask = {.attend = attend};
    if (maker->kind != STATEMENT_LOOP || maker->reduction != REDUCE_NONE || !attend->row->sees)
        return 0;
    const Expr *target = maker->target;
    for (int i = 0; i < 3; i++) {
        const int from = target->count - 3 + i;
        if (from < 0 || target->args[from]->kind != EXPR_INDEX) return 0;
        mask.indices[i] = target->args[from]->index;
    }
    mask.indices[3] = index_over(program, mask.indices[2]->axis);
    mask.value =
        rewrite_expr(program, maker->value, position_index, expr_index(program, mask.indices[3]));
    if (!is_of_loops(mask.value)) return 0;
    const double places = (double)mask.indices[2]->axis->size * (double)attend->attention.block[2],
                 keys = keys_of_query(&mask), half = places + 0.5;
    const double window = attend->attention.mask == MASK_NONE
                              ? keys
                              : half - sqrt(fmax(0, half * half - 2 * keys * places));
    return fmin(1, window / places);
}

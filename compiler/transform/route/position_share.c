/* position_share: the cost of attention whose mask depends on positions and heads alone.
 *
 * Terms such as `s - t < 256 or t < 4` have a known number of pairs. The cost of chosen pairs is
 * that of a window (attended_keys), so the share is that of a window with as many pairs. */
#include "transform/route/route.h"
#include "ir/call.h"

#include <math.h>

enum { MOST_SAMPLES = 1 << 18 };

/* A decoding step adds the position of its first token to those of the new tokens. */
static Expr *position_index(Program *program, Expr *read, void *data) {
    const Tensor *tensor = read->tensor;
    (void)program;
    return tensor->role == ROLE_INPUT && tensor->input == MOEC_INPUT_SCALAR &&
                   tensor->type == TYPE_INT
               ? data
               : NULL;
}

enum { INDICES = 4 };

typedef struct PairMask {
    const Statement *attend;
    const Expr *value;
    Index *indices[INDICES]; /* query, head, key, the position of the first query */
} PairMask;

static bool follows_from_indices(const PairMask *mask, const Expr *expr) {
    if (expr->kind == EXPR_READ) return false;
    if (expr->kind == EXPR_INDEX) return indices_have(mask->indices, INDICES, expr->index);
    for (int i = 0; i < expr->count; i++)
        if (!follows_from_indices(mask, expr->args[i])) return false;
    return true;
}

/* The number of keys that a query of a head sees. */
static double keys_of_query(const PairMask *mask, double values[INDICES], long position) {
    const long *block = mask->attend->attention.block;
    double seen = 0;
    for (long t = 0; t < mask->indices[2]->axis->size; t++) {
        values[2] = (double)t;
        if (mask->attend->row->sees(mask->attend, position * block[0], t * block[2]) &&
            value_for(mask->value, mask->indices, values, INDICES) != 0)
            seen += (double)block[2];
    }
    return seen;
}

/* The average over all heads and several queries; in a step, over several positions of a token. */
static double average_of_queries(const PairMask *mask) {
    const int query = mask->attend->attention.position ? 3 : 0;
    const long queries = mask->indices[query]->axis->size, heads = mask->indices[1]->axis->size,
               step = 1 + queries * heads * mask->indices[2]->axis->size / MOST_SAMPLES;
    double values[INDICES] = {0, 0, 0, 0}, seen = 0;
    long samples = 0;
    for (long i = step / 2; i < queries * heads; i += step, samples++) {
        values[query] = (double)(i / heads), values[1] = (double)(i % heads);
        seen += keys_of_query(mask, values, i / heads);
    }
    return samples ? seen / (double)samples : 0;
}

/* The share of the pairs; 0: it depends on more than positions and heads. */
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
    if (!follows_from_indices(&mask, mask.value)) return 0;
    const double places = (double)mask.indices[2]->axis->size * (double)attend->attention.block[2],
                 keys = average_of_queries(&mask), half = places + 0.5;
    const double window = attend->attention.mask == MASK_NONE
                              ? keys
                              : half - sqrt(fmax(0, half * half - 2 * keys * places));
    return fmin(1, window / places);
}

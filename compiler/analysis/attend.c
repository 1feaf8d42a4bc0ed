/* attend: block sizes of attention on a GPU, and the operands that it rounds.
 *
 * The templates of runtime/kernels keep the results of 16 * tiles rows per warp in registers.
 * Shared memory holds the rows of four warps and two parts of the other side. Both limits bound the
 * size of tiles and parts.
 */
#include "analysis/attend.h"

#include "abi/shapes.h"
#include "base/must.h"

/* Floats per thread for results and scores without register spills (tested by
 * tests/unit/test_nvrtc.c); bytes of shared memory per block on every GPU from compute capability
 * 8.0 on. */
enum {
    MAX_KEPT = 160,
    MAX_SHARED = 99 * 1024,
    WARPS = 4,
    MIN_PART = 16,
    MAX_PART = 64,
    MAX_RING = 4,
    WIDE = 64
};

/* The same with warpgroups. Two or three of them form a block that has a multiprocessor of compute
 * capability 9.0 to itself. Else two blocks of two, or three of one, share it: *_SHARE is the
 * shared memory of each, *_KEPT its floats per thread. */
enum {
    GROUP_ROWS = 64,
    GROUP_PART = 128,
    MIN_GROUP_PART = 64,
    TRIPLE_KEPT = 128,
    GROUP_SHARED = 227 * 1024,
    HALF_SHARE = 113 * 1024,
    HALF_KEPT = 96,
    THIRD_SHARE = 75 * 1024,
    THIRD_KEPT = 128
};

static long padded(long width) {
    return (width + 15) / 16 * 16;
}

/* Bytes of a row in shared memory. */
static long row_bytes(long width) {
    return 2 * (padded(width) + 8);
}

static long size_from_end(const Statement *statement, int operand, int back) {
    const Expr *expr = statement->inputs.items[operand];
    return expr->tensor->axes[expr->count - back]->size;
}

typedef struct Need {
    long kept;       /* widths of the sums of a row of a warp */
    int scores;      /* products of pairs that are kept at the same time */
    long own;        /* bytes of a row */
    long other;      /* bytes of a row of a part */
    int tiles, part; /* maximum */
} Need;

static AttendShape shape_that_fits(Need need) {
    for (int tiles = need.tiles; tiles > 0; tiles--)
        for (int part = need.part; part >= MIN_PART; part /= 2) {
            long floats = tiles * (4 * need.kept + 5L * need.scores * part) / 8;
            long bytes = 16L * WARPS * tiles * need.own + 2L * part * need.other;
            if (floats <= MAX_KEPT && bytes <= MAX_SHARED)
                return (AttendShape){tiles, part, bytes, 1};
        }
    return (AttendShape){0, 0, 0, 0};
}

/* Two tiles per warp halve the reads of shared memory. A few queries do not need them. Document ids
 * and a modified score together use the registers of one. */
static int most_tiles(const Statement *statement) {
    MUST(statement->kind == STATEMENT_CALL);
    const AttendOptions *options = &statement->attention;
    return size_from_end(statement, 0, 3) > WIDE &&
                   !(options->documents && (options->cap != 0 || options->bias))
               ? 2
               : 1;
}

AttendShape attend_forward(const Statement *statement) {
    long e = size_from_end(statement, 0, 1), c = size_from_end(statement, 2, 1);
    return shape_that_fits((Need){padded(c), 1, row_bytes(e), row_bytes(e) + row_bytes(c),
                                  most_tiles(statement), MAX_PART});
}

static long in_lines(long width) {
    return (width + MOEC_SWIZZLED - 1) / MOEC_SWIZZLED * MOEC_SWIZZLED;
}

/* Requirements of warpgroups. */
typedef struct GroupNeed {
    long rows;        /* number of rows */
    long own, other;  /* elements in shared memory per own row, per row of a part */
    long kept;        /* floats per thread for results */
    int quarters;     /* and, in quarters of a part, for the kept values of a part */
    int most;         /* maximum of both */
    int groups, part; /* maximum */
} GroupNeed;

/* Operands arrive in copies of 16 bytes. A third warpgroup does not use smaller parts, because it
 * would wait more often. */
static AttendShape groups_that_fit(const Statement *statement, GroupNeed need) {
    bool copied = true;
    for (int i = 0; i < 3; i++) copied &= size_from_end(statement, i, 1) % MOEC_VECTOR == 0;
    int fill = (int)((need.rows + GROUP_ROWS - 1) / GROUP_ROWS);
    for (int groups = need.groups < fill ? need.groups : fill; copied && groups > 1; groups--)
        for (int part = need.part; part >= MIN_GROUP_PART; part /= 2) {
            long kept = need.kept + need.quarters * part / 4;
            long bytes =
                2 * (groups * GROUP_ROWS * need.own + part * need.other) + MOEC_SWIZZLED_ALIGN;
            if (kept <= (groups > 2 ? TRIPLE_KEPT : need.most) && bytes <= GROUP_SHARED)
                return (AttendShape){groups, part, bytes, 1};
            if (groups > 2) break;
        }
    return (AttendShape){0, 0, 0, 0};
}

/* The shape of several blocks per multiprocessor, each of one or two warpgroups. Documents and
 * parts that are not full need too many registers. */
static AttendShape blocks_that_fit(const Statement *statement, GroupNeed need) {
    const int blocks = need.groups == 1 ? 3 : 2;
    const long share = blocks == 3 ? THIRD_SHARE : HALF_SHARE,
               most = blocks == 3 ? THIRD_KEPT : HALF_KEPT;
    bool copied = !statement->attention.documents;
    for (int i = 0; i < 3; i++) copied &= size_from_end(statement, i, 1) % MOEC_VECTOR == 0;
    for (int i = 0; i < 2; i++) copied &= size_from_end(statement, i, 3) % GROUP_PART == 0;
    for (int part = need.part; copied && part >= MIN_GROUP_PART; part /= 2) {
        long bytes =
            2 * (need.groups * GROUP_ROWS * need.own + part * need.other) + MOEC_SWIZZLED_ALIGN;
        if (need.rows >= GROUP_ROWS * need.groups && bytes <= share &&
            need.kept + need.quarters * part / 4 <= most)
            return (AttendShape){need.groups, part, bytes, blocks};
    }
    return (AttendShape){0, 0, 0, 0};
}

/* Scores, weights and results are in registers; shared memory of a block has its queries and two
 * parts of keys and of values. The data of a mask needs registers as well: those of a third
 * warpgroup for a window, half a part for documents (tests/unit/test_nvrtc.c checks for spills). */
AttendShape attend_forward_groups(const Statement *statement) {
    MUST(statement->kind == STATEMENT_CALL);
    const AttendOptions *options = &statement->attention;
    long e = in_lines(size_from_end(statement, 0, 1)), c = size_from_end(statement, 2, 1);
    bool simple = !options->documents && options->mask != MASK_WINDOW && e <= 2 * MOEC_SWIZZLED;
    return groups_that_fit(statement,
                           (GroupNeed){.rows = size_from_end(statement, 0, 3),
                                       .own = e,
                                       .other = 2 * (e + in_lines(c)),
                                       .kept = padded(c) / 2,
                                       .quarters = 3,
                                       .most = 176,
                                       .groups = simple ? 3 : 2,
                                       .part = options->documents ? MIN_GROUP_PART : GROUP_PART});
}

/* Scores become weights in their registers. A mask and a softcap need registers as well. */
AttendShape attend_forward_blocks(const Statement *statement) {
    MUST(statement->kind == STATEMENT_CALL);
    const AttendOptions *options = &statement->attention;
    const bool simple = options->mask != MASK_WINDOW && options->cap == 0;
    long e = in_lines(size_from_end(statement, 0, 1)), c = size_from_end(statement, 2, 1);
    return blocks_that_fit(statement, (GroupNeed){.rows = size_from_end(statement, 0, 3),
                                                  .own = e,
                                                  .other = 2 * (e + in_lines(c)),
                                                  .kept = padded(c) / 2,
                                                  .quarters = 2,
                                                  .groups = 2,
                                                  .part = simple ? GROUP_PART : MIN_GROUP_PART});
}

/* Scores, their derivatives before and after rounding, results; three parts of keys, two of
 * values. */
AttendShape attend_grad_query_groups(const Statement *statement) {
    long e = size_from_end(statement, 0, 1), c = in_lines(size_from_end(statement, 2, 1));
    return groups_that_fit(statement, (GroupNeed){.rows = size_from_end(statement, 0, 3),
                                                  .own = in_lines(e) + c,
                                                  .other = 3 * in_lines(e) + 2 * c,
                                                  .kept = padded(e) / 2,
                                                  .quarters = 5,
                                                  .most = 192,
                                                  .groups = 2,
                                                  .part = GROUP_PART});
}

/* The same one after the other; two parts of both. */
AttendShape attend_grad_query_blocks(const Statement *statement) {
    long e = size_from_end(statement, 0, 1), both = in_lines(e);
    both += in_lines(size_from_end(statement, 2, 1));
    return blocks_that_fit(statement, (GroupNeed){.rows = size_from_end(statement, 0, 3),
                                                  .own = both,
                                                  .other = 2 * both,
                                                  .kept = padded(e) / 2,
                                                  .quarters = 4,
                                                  .groups = 2,
                                                  .part = MIN_GROUP_PART});
}

AttendShape attend_grad_query(const Statement *statement) {
    long e = size_from_end(statement, 0, 1), c = size_from_end(statement, 2, 1);
    long both = row_bytes(e) + row_bytes(c);
    return shape_that_fits((Need){padded(e), 2, both, both, most_tiles(statement), MAX_PART});
}

AttendShape attend_grad_keys(const Statement *statement, bool keys, bool values) {
    long e = size_from_end(statement, 0, 1), c = size_from_end(statement, 2, 1);
    long both = row_bytes(e) + row_bytes(c),
         kept = (keys ? padded(e) : 0) + (values ? padded(c) : 0);
    return shape_that_fits((Need){kept, 2, both, both, 1, MAX_PART / 2});
}

/* Of scores, their derivatives and results. Queries and gradients have `buffers`, each with 1024
 * bytes for the other values of a query. */
static GroupNeed grad_keys_need(const Statement *statement, bool keys, bool values, int buffers) {
    long e = size_from_end(statement, 0, 1), c = size_from_end(statement, 2, 1);
    long both = in_lines(e) + in_lines(c), kept = (keys ? padded(e) : 0) + (values ? padded(c) : 0);
    return (GroupNeed){.rows = size_from_end(statement, 1, 3),
                       .own = keys ? both : in_lines(e),
                       .other = buffers * (both + MOEC_SWIZZLED_ALIGN / 2 / MIN_GROUP_PART),
                       .kept = kept / 2,
                       .quarters = keys ? 4 : 2,
                       .part = MIN_GROUP_PART};
}

AttendShape attend_grad_keys_groups(const Statement *statement, bool keys, bool values) {
    GroupNeed need = grad_keys_need(statement, keys, values, 3);
    need.most = 144;
    need.groups = 2;
    return groups_that_fit(statement, need);
}

/* Sums of a part end before the next part. */
AttendShape attend_grad_keys_blocks(const Statement *statement, bool keys, bool values) {
    GroupNeed need = grad_keys_need(statement, keys, values, 2);
    need.groups = 1;
    return blocks_that_fit(statement, need);
}

static long common(long a, long b) {
    return b == 0 ? a : common(b, a % b);
}

long attend_groups(const Statement *statement) {
    long heads = common(size_from_end(statement, 0, 2), size_from_end(statement, 1, 2));
    return common(heads, size_from_end(statement, 2, 2));
}

AttendShape attend_step(const Statement *statement) {
    long e = size_from_end(statement, 0, 1), c = size_from_end(statement, 2, 1);
    long wide = row_bytes(e > c ? e : c);
    long rows =
        size_from_end(statement, 0, 3) * size_from_end(statement, 0, 2) / attend_groups(statement);
    for (int tiles = rows > 16 ? 2 : 1; tiles > 0; tiles--)
        for (int ring = MAX_RING; ring > 1; ring--) {
            long keys = 16 * tiles * row_bytes(e) + 16L * WARPS * ring * wide;
            long states = 4L * WARPS * 16 * tiles * (c + 2), bytes = keys > states ? keys : states;
            if (tiles * padded(c) / 2 <= MAX_KEPT && bytes <= MAX_SHARED)
                return (AttendShape){tiles, ring, bytes, 1};
        }
    return (AttendShape){0, 0, 0, 0};
}

static bool fits_device(const Statement *statement) {
    return attend_forward(statement).tiles && attend_grad_query(statement).tiles &&
           attend_grad_keys(statement, true, false).tiles &&
           attend_grad_keys(statement, false, true).tiles && attend_step(statement).tiles;
}

double attended_keys(const AttendOptions *options, double places) {
    const double chosen = options->chosen && options->share > 0 ? options->share * places : places;
    return options->mask == MASK_WINDOW && (double)options->window < chosen
               ? (double)options->window
               : chosen;
}

/* The best values are selected by exact scores. A GPU has exact templates for chosen pairs. */
bool attend_rounds(const Program *program, const Statement *statement) {
    MUST(statement->kind == STATEMENT_CALL);
    const AttendOptions *options = &statement->attention;
    if (!program->rounded || (options->position && options->best)) return false;
    if (options->scaled[0] || options->scaled[1]) return false; /* bytes times f32 */
    long widest = program->target->rounded_heads;
    if (options->chosen && !widest) return false;
    return widest ? size_from_end(statement, 0, 1) <= widest &&
                        size_from_end(statement, 2, 1) <= widest
                  : fits_device(statement);
}

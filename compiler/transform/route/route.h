/* route: declarations shared by the files of the pass.
 *
 * One mask is processed at a time. A are its axes, without the axis of a repeat that it is stacked
 * over. A `tuple` has values for the axes A: h[b,s,n,f] is read at the tuple (b,s,n). support.c
 * decides, relation.c makes packs, rows.c rewrites.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "analysis/def_use.h"

typedef struct Tuple {
    Expr *at[MAX_RANK]; /* of a statement under the mask: indices */
} Tuple;

/* Facts about a tensor that has all axes of the mask. */
typedef struct Packing {
    bool candidate; /* every access has plain subscripts in these dimensions */
    bool supported; /* zero wherever the mask is zero */
    bool demanded;  /* not read where the mask is zero */
    bool packed;
    bool seen;
    Statement *region;        /* of all accesses, if it is not stacked */
    const Statement *blocker; /* needs it where the mask is zero, or NULL */
    int dims[MAX_RANK];       /* its dimension for each axis of the mask */
} Packing;

/* A relation in one region of the program. */
typedef struct Site {
    Relation *relation;
    Statement *region;
    Statement *pack;
    Statement *last; /* the last inserted statement */
    Index *row;      /* of statements made by relation.c */
    List pending;    /* Statement *, to insert after `last` */
    Expr *bound;     /* the number of its rows, if data determines it; or NULL */
    struct Site *outer;
} Site;

/* An int tensor over the rows of a site: coordinate `dimension` of mask `root`, its own or an outer
 * one. */
typedef struct RowTensor {
    Site *site;
    Tensor *tensor, *root;
    int dimension;
} RowTensor;

typedef struct Scattered Scattered;

/* The expected share of entries for which a comparison of data holds, unless it is stated. */
#define MASK_SHARE 0.5

/* Powers of smaller numbers are 0 in double precision. */
#define LEAST_POWER (-800)

enum { MAX_MASK_DEPTH = 8 }; /* of masks made of masks */

/* The entries of a mask that are not zero: from `least` to `most` of those along some of its
 * indices, and a share of all of them as expected. truth: the others are 1. assumed: a comparison
 * of data holds for a share that nothing states. */
typedef struct MaskCount {
    Index *along[MAX_LOOPS];
    int along_count; /* 0: no limit */
    long least, most;
    double share;
    bool truth, assumed;
} MaskCount;

/* A choice without rows, and the value that keeps it dense with the statement that needs it. */
typedef struct DenseChoice {
    Statement *choice;
    const Tensor *value;
    const Statement *reader;
} DenseChoice;

typedef struct Routing {
    Program *program;
    List *done;       /* Tensor *: masks that are processed, or make another one */
    List *dense;      /* DenseChoice * */
    List sites;       /* Site *, outer ones first */
    List row_tensors; /* RowTensor * */

    /* the current mask */
    Statement *choice, *home; /* the statement that makes it, and its repeat or NULL */
    Tensor *mask;
    bool truth;   /* its entries are 0 or 1 */
    bool assumed; /* nothing states the number of rows that is expected */
    bool counted; /* data determines the number of rows */
    bool stacked;
    int rank; /* of A */
    int mask_dims[MAX_RANK];
    Axis *rows;
    Packing *packing; /* by tensor id */
    int packing_count;
    const DefUse *def_use;
    int first_site;
    List scattered; /* Scattered *: sums on rows that were scattered */
    bool key[MAX_RANK];
} Routing;

/* position_share.c */
double share_of_positions(Program *program, const Statement *attend, const Statement *maker);

/* masks.c */
Statement *mask_maker(const Routing *routing, const Tensor *tensor);
Expr *mask_target(const Statement *maker);
MaskCount mask_count(const Routing *routing, const Statement *maker, int depth);
bool is_zero_or_one(const Routing *routing, Expr *expr);
/* The share of the values of its indices for which a condition holds; 0: unknown, or all. */
double condition_share(const Routing *routing, Expr *condition);
/* The value of an expression without reads at these values of its indices. */
double value_for(const Expr *expr, Index *const *indices, const double *values, int count);
/* The value of an element by the only equation of its tensor, which is no reduction; or NULL. */
Expr *value_of_read(const Routing *routing, const Expr *read);
bool has_random_value(Expr *expr);
/* Sets the current mask: the one that `choice` makes. home: the repeat around it, or NULL. */
void start_mask(Routing *routing, Statement *choice, Statement *home);
/* True for a mask of positions: all rows are one group, with the same weights. */
bool masks_positions(const Routing *routing);

/* saved_work.c */
/* True if a mask with these indices saves work in a value of the statement, outside of the mask
 * itself. tuple: where the current mask is at these indices; NULL: the value is a factor of it. */
bool saves_work(const Routing *routing, const ProgramPoint *point, const Expr *value,
                const Expr *mask, Index *const *indices, int count, const Tuple *tuple);
/* A value from products with weights, read at other positions than its mask of positions; or
 * NULL. */
const Expr *shifted_value(const Routing *routing, const ProgramPoint *point, const Expr *mask,
                          Index *const *indices, int count);
/* True if products with weights compute a vector for each of the indices in the value. */
bool saves_products(const Routing *routing, const ProgramPoint *point, const Expr *value,
                    const Expr *weights, Index *const *indices, int count);
/* True if the value reads a vector that products with weights compute, with all indices of the
 * statement. */
bool saves_networks(const Routing *routing, const ProgramPoint *point, const Expr *value,
                    Index *const *indices, int count);
/* True if the statement is a product with weights. */
bool has_summed_weights(const Statement *statement);
bool sums_over(const Statement *statement, const Index *index);

/* masked_values.c */
/* True if a number per position under the mask needs products with weights that no other value
 * needs. tuple: as for saves_work. */
bool saves_own_products(const Routing *routing, const ProgramPoint *point, const Expr *value,
                        const Expr *mask, Index *const *indices, int count, const Tuple *tuple);

/* unmasked_weights.c */
void unmasked_weights(Routing *routing);

/* straight_through.c */
void straight_through(Routing *routing, bool trains);

/* scan_masks.c */
void scan_masks(Routing *routing);

/* inline_masks.c */
void inline_masks(Routing *routing);

/* left_out.c */
/* The condition as 0 or 1: the mask itself for m[s,n] > 0. */
Expr *as_truth(const Routing *routing, Expr *condition);
Expr *opposite(const Routing *routing, Expr *condition);
Expr *left_out(const Routing *routing, Expr *expr, int depth);

/* implied_condition.c */
Expr *implied_condition(const Routing *routing, const Statement *region, Expr *expr);

/* dense.c */
/* Without weights of a group, the largest share of entries whose rows are gathered. */
#define GATHERED_SHARE 0.0625
/* The largest share of positions that are gathered. */
#define WORTH_SHARE 0.75
/* True if the mask selects few entries. */
bool selects_few(const Routing *routing);
/* True if rows of the mask are faster than all its entries. */
bool rows_pay(const Routing *routing);
/* Why no statement runs on rows. */
const char *why_dense(const Routing *routing);
/* Notes the last call whose result is computed for all entries, although rows alone read it. */
void find_dense_call(const Routing *routing);
/* Remembers the choice if it saves nothing, although a value of its entries has weights. */
void find_dense_choice(const Routing *routing);
/* Notes for `check` about these choices, except those whose value another mask has on rows. */
/* A line of `check`: all entries of the axis are computed for the statement. */
void list_dense(Program *program, Expr *mask, const Axis *axis, const Statement *at);
void note_dense_choices(const Routing *routing);

/* outside.c */
/* The tuple at which the dimensions are read; false unless each has an index of its own. */
bool tuple_of(const Expr *read, const int *dims, int rank, Tuple *tuple);
bool read_at(const Expr *read, const int *dims, int rank, const Tuple *tuple);
bool step_fits(const Routing *routing, const Expr *read, const Statement *region);
bool reads_mask_at(const Routing *routing, const Expr *read, const Tuple *tuple,
                   const Statement *region);
/* The dimension of an axis of a repeat, or -1. */
int repeat_dimension(const Tensor *tensor);
/* The facts of a tensor that may be dispatched, and of one that is; or NULL. */
Packing *packing_candidate(const Routing *routing, const Tensor *tensor);
Packing *packing_of(const Routing *routing, const Tensor *tensor);
/* True if the value is zero wherever the mask at the tuple is zero. region: the repeat around. */
bool vanishes(const Routing *routing, const Expr *expr, const Tuple *tuple,
              const Statement *region);
/* True if the value depends on the read where the mask at the tuple is zero. */
bool depends_on_read(const Routing *routing, const Expr *expr, const Expr *read, const Tuple *tuple,
                     const Statement *region);

/* sink.c */
void sink(Routing *routing);

/* hoist_masked.c */
void hoist_masked(Routing *routing);

/* per_choice.c */
void per_choice(Routing *routing);

/* split_choice.c */
bool split_choice(const Routing *routing, int tensors);

/* support.c */
/* Finds each axis of the mask exactly once among those of the tensor. */
bool match_axes(const Routing *routing, const Tensor *tensor, int *dims);
void find_support(Routing *routing);
bool choose_tuple(const Routing *routing, const ProgramPoint *point, Tuple *tuple);
bool wants_rows(const Routing *routing, const Statement *statement, const Tuple *tuple);

/* relation.c */
Site *site_for(Routing *routing, Statement *region);
RowTensor *row_tensor_find(const Routing *routing, const Tensor *tensor);
Tensor *row_tensor(Routing *routing, Site *site, Tensor *root, int dimension);
void relation_finish(Routing *routing);

/* rows.c */
int collapse(const Routing *routing, const Packing *packing, int rank, void **subs, void *row);
void rewrite_block(Routing *routing, Block *block, Statement *region);

#endif

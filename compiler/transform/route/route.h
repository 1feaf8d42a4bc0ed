/* route: what the files of the pass share.
 *
 * One mask is treated at a time. Its axes A (all but the axis of a repeat that it is stacked over)
 * are what a `tuple` gives values to: h[b,s,n,f] is read at the tuple (b,s,n). support.c decides,
 * relation.c makes packs, rows.c rewrites.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "ir/ir.h"

/* A statement and the repeat that it stands in, or NULL. */
typedef struct Place {
    Statement *statement, *region;
} Place;

typedef struct Tuple {
    Index *at[MAX_RANK];
} Tuple;

/* What is known of a tensor that has all axes of the mask. */
typedef struct Packing {
    bool candidate; /* every access has plain subscripts where it matters */
    bool supported; /* it is zero wherever the mask is */
    bool demanded;  /* nobody looks at it where the mask is zero */
    bool packed;
    bool seen;
    Statement *region;  /* where it is accessed, when it is not stacked */
    int dims[MAX_RANK]; /* its dimension for each axis of the mask */
} Packing;

/* A relation with its place in the program. */
typedef struct Site {
    Relation *relation;
    Statement *region;
    Statement *pack;
    Statement *last; /* what it inserted last */
    Index *row;      /* of the statements that relation.c makes */
    List pending;    /* Statement *, to be inserted after `last` */
    struct Site *outer;
} Site;

/* An int tensor over the rows of a site: coordinate `dimension` of mask `root`, which is its own or
 * an outer one. */
typedef struct RowTensor {
    Site *site;
    Tensor *tensor, *root;
    int dimension;
} RowTensor;

typedef struct Scattered Scattered;

typedef struct Routing {
    Program *program;
    List sites;       /* Site *, outer ones first */
    List row_tensors; /* RowTensor * */

    /* the mask at hand */
    Statement *choice, *home; /* its top and the repeat that this stands in, or NULL */
    Tensor *mask;
    bool stacked;
    int rank; /* of A */
    int mask_dims[MAX_RANK];
    Axis *rows;
    Packing *packing; /* by id of tensor */
    int packing_count;
    List places; /* Place * */
    int first_site;
    List scattered; /* Scattered *: sums on rows that were added to their places */
    bool key[MAX_RANK];
} Routing;

/* split_choice.c */
bool split_choice(const Routing *routing, int tensors);

/* support.c */
void find_support(Routing *routing);
bool step_fits(const Routing *routing, const Expr *read, const Statement *region);
bool choose_tuple(const Routing *routing, const Place *place, Tuple *tuple);
bool reads_mask_at(const Routing *routing, const Expr *read, const Tuple *tuple,
                   const Statement *region);
/* The facts of a tensor that is packed, or NULL. */
Packing *packing_of(const Routing *routing, const Tensor *tensor);
bool read_at(const Expr *read, const int *dims, int rank, const Tuple *tuple);
bool wants_rows(const Routing *routing, const Statement *statement);

/* relation.c */
Site *site_for(Routing *routing, Statement *region);
RowTensor *row_tensor_find(const Routing *routing, const Tensor *tensor);
Tensor *row_tensor(Routing *routing, Site *site, Tensor *root, int dimension);
void relation_finish(Routing *routing);

/* rows.c */
int collapse(const Routing *routing, const Packing *packing, int rank, void **subs, void *row);
void rewrite_block(Routing *routing, Block *block, Statement *region);

#endif

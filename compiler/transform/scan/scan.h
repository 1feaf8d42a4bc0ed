/* scan: what the files of this folder share.
 *
 *     linear.c       what a scan does to its state, as a sum of products
 *     readers.c      who reads the states after each place, what they sum over, what that leaves
 *     chunk_scan.c   the pass: a linear recurrence by products, a chunk of places at a time
 *     chunks.c       the parts of that form: decays within a chunk, factors by chunks
 *     sub_chunks.c   pairs of places of a chunk where decays differ along what is summed over
 *     correction.c   inputs that are corrected by what the state gives
 */
#ifndef SCAN_H
#define SCAN_H

#include "ir/ir.h"

/* Sets of dimensions of a state, by bit. */
typedef unsigned Dims;

enum { MAX_INPUTS = 4 };

/* A product. */
typedef struct Factors {
    List list; /* Expr * */
    double number;
} Factors;

typedef enum TermKind { TERM_STATE, TERM_INPUT, TERM_CORRECTION } TermKind;

/* A term of what a place makes of its state: a product, of the state before or of what the state
 * before gives for `looked`, sum[e] looked[e] * S[e]. */
typedef struct Term {
    TermKind kind;
    Factors factors, looked;
    Dims summed; /* of a correction */
} Term;

/* An input of a place, an outer product u v, its factors sorted by what they use: what readers sum
 * over; columns, which the input alone has; neither. */
typedef struct Input {
    List summed, column, scale;
    double number;
    bool bare; /* nothing but the correction comes in here */
} Input;

/* One state of a scan, taken apart:
 *
 *     S[h,e,c] = decay[h] * S[h,e,c] + sum of u[h,e] * (v[h,c] + share * sum[e] w[h,e] * S[h,e,c])
 *
 * where the sum in parentheses stands in at most one of the inputs. h are heads, e is what readers
 * sum over, c are columns; each may be several dimensions. The decay may differ along e as well.
 * Expressions are over the place of the scan and the indices of the target. */
typedef struct Recurrence {
    Program *program;
    Statement *scan;
    Tensor *before; /* what the body calls the state of the place before, or NULL */
    Expr *target;   /* the state after the place */
    int place;      /* the dimension of the place */
    Expr *begin;    /* what the first place finds, or NULL: 0 */
    List terms;     /* Term * */
    List readers;   /* Reader * */
    Dims heads, summed, columns;
    Expr *decay; /* NULL: 1 */
    Input inputs[MAX_INPUTS];
    int input_count;
    int corrected; /* the input with the correction, or -1 */
    double share;
    Input looked;       /* w; it has no columns */
    const char *reason; /* why it is none of this, or NULL */
} Recurrence;

/* A statement that reads the states: target = sum of a product. */
typedef struct Reader {
    Statement *statement;
    Expr *read;           /* of the state */
    List inside;          /* Expr *: factors that use summed dimensions */
    Factors rest;         /* the others */
    Index *own[MAX_RANK]; /* its indices, by dimension of the state */
} Reader;

/* linear: the terms of what the body makes of the state. */
void linear(Recurrence *recurrence);
/* readers: who reads the state, and the terms sorted by what that sums over. */
void readers(Recurrence *recurrence);

/* Multiplies by an expression: products, signs and numbers are taken apart. */
void multiply_by(Program *program, Factors *factors, Expr *expr);
/* Random numbers go by the place where they are drawn. */
bool is_random(const Expr *expr);
Expr *product_of(Program *program, const List *factors);
/* The dimensions of the state whose indices an expression uses. */
Dims dims_of(const Recurrence *recurrence, const Expr *expr);
Dims dims_of_list(const Recurrence *recurrence, const List *factors);

/* ---- chunks.c ---- */

/* Where decays differ along what is summed over: chunks in blocks, place width * block + row of the
 * chunk, and the products of decays within them and between them. */
typedef struct Blocks {
    Axis *blocks, *within;
    Index *block, *row, *other, *column; /* column of block `other` */
    Tensor *start; /* [faded, number, block, row, summed]: from the first of the block up to row */
    Tensor *rest;  /* [faded, number, block, row, summed]: behind row to the end of the block */
    Tensor *between; /* [faded, number, block, other, summed]: of the blocks between the two; 0
                        where `other` is not the earlier one */
    Tensor *since;   /* [faded, number, block, row, column, summed]: within one block */
} Blocks;

/* The chunked form while it is made. Place C * number + row of the axis, or that many from its
 * end. */
typedef struct Chunks {
    const Recurrence *recurrence;
    Program *program;
    Block *block; /* where statements go */
    Axis *chunk, *places;
    Index *number, *row, *column; /* column: another place of the chunk, not behind row */
    Index *dims[MAX_RANK];        /* of the state; other: besides them */
    Index *other[MAX_RANK];
    Dims faded;    /* heads that the decay uses */
    Dims element;  /* what it uses of what is summed over; then `blocks` take the place of since */
    Tensor *decay; /* [faded, number, row, element]; NULL: 1 */
    Tensor *since; /* [faded, number, row, column]: the product of the decays behind column up to
                      row, 0 where column is behind row */
    Tensor *whole; /* [faded, number, row, element]: of all up to row */
    Tensor *rest;  /* [faded, number, row, element]: of all behind row */
    Blocks blocks;
} Chunks;

/* The subscripts of a tensor of the chunked form: dimensions of the state, the chunk, places in it,
 * dimensions of the state. */
typedef struct Spot {
    Dims before;
    /* NULL: it has no such dimension. */
    Expr *number, *block, *row, *other_block, *column;
    Dims behind, other;
} Spot;

/* What an input becomes; NULL: it has no such factors. */
typedef struct Parts {
    Tensor *summed;  /* [summed_heads, number, column, summed] */
    Tensor *left;    /* [left_heads, number, column, summed]: what of that is left at the end of
                       the chunk; where decays do not differ along it, all */
    Tensor *brought; /* [left_heads, number, block, other, column, summed]: at the beginning of a
                        later block */
    Tensor *value;   /* [value_heads, number, column, columns] */
    Tensor *scale;   /* [scale_heads, number, column] */
    Dims summed_heads, left_heads, value_heads, scale_heads, columns;
} Parts;

Chunks chunks_of(const Recurrence *recurrence, Block *block, long places);
/* For every chunk; row and column may be NULL. */
Spot chunk_spot(const Chunks *chunks, Dims before, Index *row, Index *column, Dims behind);
Tensor *chunk_tensor(const Chunks *chunks, const char *name, const Spot *spot);
Expr *chunk_read(const Chunks *chunks, Tensor *tensor, Spot spot);
/* A new tensor; its value is summed over dimensions of the state and a place (may be NULL). */
Tensor *chunk_make(const Chunks *chunks, const char *name, Spot spot, Dims summed, Index *reduced,
                   Expr *value);
/* The same for an expression that uses no place. */
Expr *at_dims(const Chunks *chunks, Expr *expr);
/* The tensor of a product of factors for places `row`; NULL: there are none. */
Tensor *chunk_part(const Chunks *chunks, const char *name, const List *factors, double number,
                   Index *row, Dims behind, Dims *heads);
Parts parts_of(const Chunks *chunks, const Input *input);
void make_decays(Chunks *chunks);
/* The same from the beginning of the chunk. */
Expr *decay_whole(const Chunks *chunks, Expr *row);
Expr *multiply(const Chunks *chunks, Expr *a, Expr *b);
/* What an input is made of at place `column`: what is summed over, the value, and `value` by its
 * scale. */
Expr *chunk_key(const Chunks *chunks, const Parts *parts);
Expr *chunk_key_left(const Chunks *chunks, const Parts *parts);
Expr *chunk_value(const Chunks *chunks, const Parts *parts);
Expr *chunk_scaled(const Chunks *chunks, const Parts *parts, Expr *value);

/* What a vector of each row, `query`, finds of what each column brought: sum[e] query[e] * decays *
 * key[e], over the row and the column of a chunk and heads, which it sets. `past`: of what is there
 * before the row's own decay; then it means something for earlier columns alone, else for those up
 * to the row. */
Expr *chunk_pairs(const Chunks *chunks, const char *name, Expr *query, Dims query_heads,
                  const Parts *parts, bool past, Dims *heads);
/* A scan over the places `axis` of each chunk, or of each block, from the last to the first when
 * `reverse`: a new tensor at the spot, whose row is `place`. */
Tensor *chunk_recur(const Chunks *chunks, const char *name, Spot at, Index *place, bool reverse,
                    Expr *(*value)(const Chunks *chunks, Spot at, Tensor *own));

/* ---- sub_chunks.c ---- */

void make_blocks(Chunks *chunks);
Tensor *block_keys(const Chunks *chunks, const Parts *parts);
/* The tensor of chunk_pairs, [heads, number, row, column]. */
Tensor *block_pairs(const Chunks *chunks, const char *name, Expr *query, Dims query_heads,
                    const Parts *parts, bool past, Dims heads);

/* The last place of a chunk. */
Expr *chunk_last(const Chunks *chunks);
/* What is left at the end of a chunk of the values of its places, over the dimensions behind
 * them: a new tensor, made at the spot, whose heads are set. */
Expr *chunk_left(const Chunks *chunks, const Parts *parts, const char *name, Expr *value,
                 Dims heads, Spot *at);

/* ---- correction.c ---- */

/* What a chunk's border adds to the values of a corrected input: sum[e] slope[j,e] * border[e]. */
typedef struct Correction {
    Tensor *slope; /* [heads, number, column, summed] */
    Dims heads;
} Correction;

/* `parts[corrected].value` becomes what the values are where the border is 0. */
Correction correct(const Chunks *chunks, Parts *parts);
/* What a border becomes in a chunk by the correction alone, a matrix of [summed, other]. */
Expr *transition(const Chunks *chunks, const Correction *correction, const Parts *parts);
/* `parts->value` becomes what the values are. */
void add_slope(const Chunks *chunks, const Correction *correction, Parts *parts, Expr *border);

#endif

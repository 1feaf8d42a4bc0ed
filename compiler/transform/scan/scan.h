/* scan: declarations shared by the files of this folder.
 *
 *     linear.c       the update of the state by a scan, as a sum of products
 *     readers.c      the readers of the states, the dimensions that they sum over, sorted terms
 *     chunk_scan.c   the pass: the chunkwise-parallel form of a linear recurrence
 *     chunks.c       the tensors of that form: decays within a chunk, factors by chunks
 *     sub_chunks.c   pairs of positions of a chunk if decays differ along a summed dimension
 *     correction.c   inputs that are corrected by the state
 */
#ifndef SCAN_H
#define SCAN_H

#include "ir/ir.h"

/* A set of dimensions of a state, one bit each. */
typedef unsigned Dims;

enum { MAX_INPUTS = 4 };

/* A product. */
typedef struct Factors {
    List list; /* Expr * */
    double number;
} Factors;

typedef enum StateTermKind { TERM_STATE, TERM_INPUT, TERM_CORRECTION } StateTermKind;

/* A term of the update of a state: a product, a factor of the previous state, or a factor of its
 * sum with `looked`, sum[e] looked[e] * S[e]. */
typedef struct StateTerm {
    StateTermKind kind;
    Factors factors, looked;
    Dims summed; /* of a correction */
} StateTerm;

/* An input of a position, an outer product u v, with its factors sorted by the dimensions that they
 * use: dimensions summed by readers; columns, which only the input has; neither. */
typedef struct Input {
    List summed, column, scale;
    double number;
    bool bare; /* it consists of the correction only */
} Input;

/* One state of a scan, analyzed:
 *
 *     S[h,e,c] = decay[h] * S[h,e,c] + sum of u[h,e] * (v[h,c] + share * sum[e] w[h,e] * S[h,e,c])
 *
 * At most one input has the sum in parentheses. h are heads, e the dimensions summed by readers, c
 * columns; each may be several dimensions. The decay may differ along e as well. Expressions are
 * over the position of the scan and the indices of the target. */
typedef struct Recurrence {
    Program *program;
    Statement *scan;
    Tensor *before; /* name of the previous state in the body, or NULL */
    Expr *target;   /* the state after the position */
    int position;   /* the dimension of the position */
    Expr *begin;    /* the initial state, or NULL: 0 */
    List terms;     /* StateTerm * */
    List readers;   /* Reader * */
    Dims heads, summed, columns;
    Expr *decay; /* NULL: 1 */
    Input inputs[MAX_INPUTS];
    int input_count;
    int corrected; /* the input with the correction, or -1 */
    double share;
    Input looked;       /* w; it has no columns */
    const char *reason; /* the reason if the recurrence has another form, or NULL */
} Recurrence;

/* A statement that reads the states: target = sum of a product. */
typedef struct Reader {
    Statement *statement;
    Expr *read;           /* of the state */
    List inside;          /* Expr *: factors that use summed dimensions */
    Factors rest;         /* the other factors */
    Index *own[MAX_RANK]; /* its indices, by dimension of the state */
} Reader;

/* linear: the terms of the update of the state. */
void linear(Recurrence *recurrence);
/* readers: the readers of the state, and the terms sorted by the dimensions summed there. */
void readers(Recurrence *recurrence);

/* Multiplies by an expression: products, signs and numbers are separated. */
void multiply_by(Program *program, Factors *factors, Expr *expr);
/* True for random numbers, which depend on the position of their computation. */
bool is_random(const Expr *expr);
Expr *product_of(Program *program, const List *factors);
/* The dimensions of the state whose indices an expression uses. */
Dims dims_of(const Recurrence *recurrence, const Expr *expr);
Dims dims_of_list(const Recurrence *recurrence, const List *factors);

/* ---- chunks.c ---- */

/* Chunks in blocks, for decays that differ along a summed dimension: position width * block + row
 * of the chunk, and the products of decays within blocks and between them. */
typedef struct Blocks {
    Axis *blocks, *within;
    Index *block, *row, *other, *column; /* column of block `other` */
    Tensor *start; /* [faded, number, block, row, summed]: from the start of the block up to row */
    Tensor *rest;  /* [faded, number, block, row, summed]: after row up to the end of the block */
    Tensor *between; /* [faded, number, block, other, summed]: of the blocks between the two; 0
                        unless `other` is earlier */
    Tensor *since;   /* [faded, number, block, row, column, summed]: within one block */
} Blocks;

/* The chunked form under construction. Position C * number + row of the axis, or that many from its
 * end. */
typedef struct Chunks {
    const Recurrence *recurrence;
    Program *program;
    Block *block; /* that receives the statements */
    Axis *chunk, *positions;
    Index *number, *row, *column; /* column: another position of the chunk, not after row */
    Index *dims[MAX_RANK];        /* of the state; other: a second set of indices */
    Index *other[MAX_RANK];
    Dims faded;    /* heads that the decay uses */
    Dims element;  /* summed dimensions that the decay uses; then `blocks` replaces since */
    Tensor *decay; /* [faded, number, row, element]; NULL: 1 */
    Tensor *since; /* [faded, number, row, column]: the product of the decays after column up to
                      row, 0 if column is after row */
    Tensor *whole; /* [faded, number, row, element]: of all up to row */
    Tensor *rest;  /* [faded, number, row, element]: of all after row */
    Blocks blocks;
} Chunks;

/* The subscripts of a tensor of the chunked form: dimensions of the state, the chunk, positions in
 * it, dimensions of the state. */
typedef struct Spot {
    Dims before;
    /* NULL: no such dimension. */
    Expr *number, *block, *row, *other_block, *column;
    Dims behind, other;
} Spot;

/* Tensors of an input; NULL: it has no such factors. */
typedef struct Parts {
    Tensor *summed;  /* [summed_heads, number, column, summed] */
    Tensor *left;    /* [left_heads, number, column, summed]: `summed` times the decays up to the
                        end of the chunk, if decays differ along it, else `summed` */
    Tensor *brought; /* [left_heads, number, block, other, column, summed]: the same at the start of
                        a later block */
    Tensor *value;   /* [value_heads, number, column, columns] */
    Tensor *scale;   /* [scale_heads, number, column] */
    Dims summed_heads, left_heads, value_heads, scale_heads, columns;
} Parts;

Chunks chunks_of(const Recurrence *recurrence, Block *block, long chunk_size);
/* The spot of every chunk; row and column may be NULL. */
Spot chunk_spot(const Chunks *chunks, Dims before, Index *row, Index *column, Dims behind);
Tensor *chunk_tensor(const Chunks *chunks, const char *name, const Spot *spot);
Expr *chunk_read(const Chunks *chunks, Tensor *tensor, Spot spot);
/* A new tensor; its value is summed over dimensions of the state and a position (may be NULL). */
Tensor *chunk_make(const Chunks *chunks, const char *name, Spot spot, Dims summed, Index *reduced,
                   Expr *value);
/* The same for an expression that does not use the position. */
Expr *at_dims(const Chunks *chunks, Expr *expr);
/* The tensor of a product of factors for positions `row`; NULL: there are none. */
Tensor *chunk_part(const Chunks *chunks, const char *name, const List *factors, double number,
                   Index *row, Dims behind, Dims *heads);
Parts parts_of(const Chunks *chunks, const Input *input);
void make_decays(Chunks *chunks);
/* The same from the start of the chunk. */
Expr *decay_whole(const Chunks *chunks, Expr *row);
Expr *multiply(const Chunks *chunks, Expr *a, Expr *b);
/* The factors of an input at position `column`: over summed dimensions, the value, and `value`
 * times its scale. */
Expr *chunk_key(const Chunks *chunks, const Parts *parts);
Expr *chunk_key_left(const Chunks *chunks, const Parts *parts);
Expr *chunk_value(const Chunks *chunks, const Parts *parts);
Expr *chunk_scaled(const Chunks *chunks, const Parts *parts, Expr *value);

/* Products of a vector of each row, `query`, with the input of each column: sum[e] query[e] *
 * decays * key[e], over the row and the column of a chunk and heads, which it sets. `past`: before
 * the decay of the row itself, valid for earlier columns only; otherwise for columns up to the
 * row. */
Expr *chunk_pairs(const Chunks *chunks, const char *name, Expr *query, Dims query_heads,
                  const Parts *parts, bool past, Dims *heads);
/* A scan over the positions `axis` of each chunk or block, from last to first if `reverse`: a new
 * tensor at the spot, whose row is `position`. */
Tensor *chunk_recur(const Chunks *chunks, const char *name, Spot at, Index *position, bool reverse,
                    Expr *(*value)(const Chunks *chunks, Spot at, Tensor *own));

/* ---- sub_chunks.c ---- */

void make_blocks(Chunks *chunks);
Tensor *block_keys(const Chunks *chunks, const Parts *parts);
/* The tensor of chunk_pairs, [heads, number, row, column]. */
Tensor *block_pairs(const Chunks *chunks, const char *name, Expr *query, Dims query_heads,
                    const Parts *parts, bool past, Dims heads);

/* The last position of a chunk. */
Expr *chunk_last(const Chunks *chunks);
/* Values of the positions of a chunk times the decays up to its end, over the dimensions `behind`:
 * a new tensor at the spot, whose heads are set. */
Expr *chunk_left(const Chunks *chunks, const Parts *parts, const char *name, Expr *value,
                 Dims heads, Spot *at);

/* ---- correction.c ---- */

/* The contribution of the border to the values of a corrected input: sum[e] slope[j,e] *
 * border[e]. */
typedef struct Correction {
    Tensor *slope; /* [heads, number, column, summed] */
    Dims heads;
} Correction;

/* Sets `parts[corrected].value` to the values for a border of 0. */
Correction correct(const Chunks *chunks, Parts *parts);
/* The change of a border in a chunk by the correction only, a matrix of [summed, other]. */
Expr *transition(const Chunks *chunks, const Correction *correction, const Parts *parts);
/* Sets `parts->value` to the corrected values. */
void add_slope(const Chunks *chunks, const Correction *correction, Parts *parts, Expr *border);

#endif

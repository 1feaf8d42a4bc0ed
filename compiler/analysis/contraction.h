/* contraction: statements that are matrix products, dense or over dispatched rows. */
#ifndef CONTRACTION_H
#define CONTRACTION_H

#include "abi/shapes.h"
#include "ir/ir.h"

/* The scales of operands that consist of units: see MoecScales of runtime/abi/abi.h. */
typedef struct UnitScales {
    long block, a_m, a_k, b_k, b_n;
    long a_batch[2], b_batch[2];
} UnitScales;

/* c[i,j][m,n] (+)= sum_k a[i,j][m,k] * b[i,j][k,n]; strides in elements; as MoecProduct of
 * runtime/abi/abi.h. */
typedef struct Product {
    const char *name; /* of its result */
    long m, n, k;
    long a_m, a_k, b_k, b_n, c_m;
    long batch[2], a_batch[2], b_batch[2], c_batch[2];
    bool accumulate;
    bool rounded; /* operands may be rounded to bf16 */
    Type a_type, b_type, c_type;
    int epilogue_ops; /* a sum of MoecEpilogueOp; then c is the result of the epilogue */
    long add_m, kept_m;
    double scale; /* MOEC_SCALE */
    UnitScales scales;
} Product;

/* A loop around a product, for dimensions that neither the matrix nor its batch can express. */
typedef struct OuterLoop {
    Index *index;
    bool summed; /* the product accumulates from the second iteration on */
} OuterLoop;

typedef enum ContractionKind {
    CONTRACTION_PRODUCT,        /* product */
    CONTRACTION_ROWS_BY_WEIGHT, /* grouped: c[r,n] (+)= sum_k a[r,k] * b[group of r][k,n] */
    CONTRACTION_ROWS_BY_ROWS    /* grouped: c[g][k,n] += sum over rows r of g  a[r,k] * b[r,n] */
} ContractionKind;

/* Bits: the operands whose element changes with a loop. */
enum { MOVES_A = 1, MOVES_B = 2, MOVES_C = 4 };

/* The structure of a statement that is a matrix product: Statement.product. The order of the
 * operands and the part of each loop are the same for all sizes and memory layouts. */
typedef struct ProductForm {
    ContractionKind kind;
    bool swapped;         /* `a` is the second factor, not the first */
    int moves[MAX_LOOPS]; /* by loop of the statement: the operands that it moves; 0: the
                                       dispatched row, or a loop of one iteration */
    Relation *relation;   /* grouped */
} ProductForm;

/* A statement as a matrix product. The operands are reads of the statement, `a` and `b` possibly
 * swapped. An address is that of the element where all loops are 0. In a grouped product,
 * `product.k` and `product.n` are the sizes, `a_m` the row stride of a, `b_k` and `b_n` the
 * strides of b, and `c_m` the row stride of c. The number of groups is `batch[0]`. The stride
 * between groups is `b_batch[0]` or `c_batch[0]`. */
typedef struct Contraction {
    ContractionKind kind;
    Product product;
    Expr *a, *b, *c;
    Expr *a_scale, *b_scale; /* units: reads of their scales; else NULL */
    int outer_count;
    OuterLoop outer[MAX_LOOPS];
    Relation *relation; /* grouped */
    Tensor *gather,
        *gather_b; /* grouped: row of `a` (of `b`; weight) for each dispatched row, or NULL */
} Contraction;

/* True if every row of an operand is stored as bf16 and aligned to 16 bytes. */
bool lies_in_vectors(const Expr *read);
/* True if a row kernel can read both operands by 16 bytes; `across`: the stride between rows of
 * `a`. Where neighbors differ in k, vectors must not reach beyond the last term: see pad.c. */
bool fits_row_kernel(const Contraction *contraction, long across);

/* The structure of the statement. False if it is no product. */
bool product_form(const Program *program, const Statement *statement, ProductForm *form);
/* Sizes and strides of a product with a known structure, statement->product. NULL without one, for
 * small matrices, and for operands that no matrix describes. */
Contraction *product_shape(Program *program, const Statement *statement);
/* The same if it can be one unit of work on the target of the program, with the operand types of
 * the target. */
Contraction *unit_product(Program *program, const Statement *statement);

/* Strides of a read: the address moves by strides[i] when loops[i] increases by one. False if a
 * subscript is neither a plain loop index nor independent of the loops. */
bool strides_of(const Expr *read, Index *const *loops, int count, long *strides);
/* True if a subscript of the target determines the iteration of the loop: n * size + i. */
bool is_digit(const Statement *statement, const Index *loop);

/* True if the tensors store units: numbers of one byte, whose scales are stored separately. */
bool is_units(const Tensor *tensor);
/* True if the kernel for units computes the product: the terms of a sum are contiguous, and lines
 * begin at multiples of MOEC_UNITS elements. */
bool fits_units(const Contraction *contraction);

/* The two factors of a loop statement whose value is a product of two real reads. Of units times
 * their scale: the units. */
bool product_of_reads(const Statement *statement, Expr **a, Expr **b);
/* By operand (a, b, c): its strides in the loops of the statement; 0 for `row`. False if a
 * subscript is not plain. */
bool product_strides(const Statement *statement, Expr *const *operands, const Index *row,
                     long strides[3][MAX_LOOPS]);
/* ProductForm.moves for these strides. */
void product_moves(const Statement *statement, long strides[3][MAX_LOOPS], int *moves);

/* ---- grouped.c ---- */

/* The same as product_form and product_shape, for products over the dispatched rows of a relation.
 * The operands of the shape are set. */
bool grouped_form(const Program *program, const Statement *statement, ProductForm *form);
bool grouped_shape(const Statement *statement, const ProductForm *form, Contraction *shape);

#endif

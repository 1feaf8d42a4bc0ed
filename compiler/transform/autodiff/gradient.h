/* gradient: declarations shared by the files of the backward pass.
 *
 *     gradient.c   the statements in reverse
 *     derive.c     the derivative of one operation, from its row in op.def
 *     adjoint.c    the sum of contributions to one adjoint: assignment, addition, zeroing
 *     factors.c    a sum over a product as contractions
 *     recurrence.c the reverse scan of a scan
 *     rematerialize.c  saves or recomputes activations for the backward pass of a repeat
 */
#ifndef GRADIENT_H
#define GRADIENT_H

#include "analysis/reach.h"
#include "ir/ir.h"

/* derive: the derivative of an application by one of its arguments, or NULL if no gradient passes
 * there. `result` is an expression for the value of the application itself. */
Expr *derive(Program *program, const Expr *apply, int argument, Expr *result);

/* The product of factors (List of Expr *) from `first` on. Where a condition among them is false,
 * the other factors do not matter and may not even be finite. */
Expr *expr_product(Program *program, const List *factors, int first);

/* statement_product: target (+)= sum over reduced of the product of `factors` (List of Expr *).
 * Plain targets only. */
void statement_product(Program *program, Block *block, Expr *target, bool accumulate,
                       Index *const *reduced, int reduced_count, const List *factors, Span span);

/* Contributions to the adjoint of one tensor, or of one slice of a tensor that a repeat carries. */
typedef struct Slot {
    Expr *slice;    /* leading subscript; NULL: the whole tensor */
    bool started;   /* already assigned: later contributions add */
    List pointwise; /* Expr *: pending values over Adjoint.indices */
    List scatters;  /* Statement *: pending */
} Slot;

typedef struct Adjoint {
    bool needed;     /* depends on a parameter and contributes to the loss */
    bool sliced;     /* carried by a repeat: one slot per slice */
    Statement *home; /* the repeat whose iterations contain all uses of the tensor; NULL: none */
    Tensor *tensor;  /* the adjoint; NULL before the first contribution */
    Index *indices[MAX_RANK];
    List slots; /* Slot * */
} Adjoint;

typedef struct Backward {
    Program *program;
    Adjoint *adjoints; /* by tensor id */
    int count;         /* tensors of the forward program */
    Block *block;      /* that receives the statements */
    Statement *repeat; /* the forward repeat that is processed in reverse, or NULL */
    Index *step;       /* index of its reverse */
    /* by tensor id: defined by the scan that is processed in reverse, or NULL. With `recurring`,
     * only reads of these tensors are followed; otherwise only reads of all others. */
    const bool *scanned;
    bool recurring;
} Backward;

/* gradient.c: adds the contributions of one statement, as it is inside the reverse repeat. */
void reverse_loop(Backward *backward, const Statement *statement);
/* An expression of the forward pass, at the step of the reverse repeat. */
Expr *reverse_in_step(const Backward *backward, Expr *expr);
/* A new tensor with the shape of an operand, read at the loops of the operand. */
Expr *reverse_like(Backward *backward, const Expr *operand, const char *prefix, Index **loops,
                   int *loop_count);
/* True for a read of a tensor that has an adjoint. */
bool adjoint_needed(const Backward *backward, const Expr *expr);

/* recurrence: see recurrence.c. */
void reverse_scan(Backward *backward, const Statement *scan);

/* adjoint: adds the product of `factors`, summed over the loops that `read` does not use, to the
 * adjoint of `read`. */
void adjoint_add(Backward *backward, Expr *read, Index *const *loops, int loop_count,
                 const List *factors, Span span);
/* The adjoint of the tensor written by `target`, with all contributions written; NULL without
 * any. */
Expr *adjoint_read(Backward *backward, Expr *target);
/* Creates the gradient tensor of a real parameter if it has no contribution. */
void adjoint_declare(Backward *backward, Tensor *parameter);
/* Writes pending contributions of a tensor; with `zero`, an adjoint without any is zeroed. */
void adjoint_flush(Backward *backward, Tensor *tensor, bool zero);
/* The same for one slice of a carried tensor. */
void adjoint_flush_slice(Backward *backward, Tensor *tensor, Expr *slice, bool zero);

/* Saves or recomputes the values of the forward repeat that `reverse` reads. */
void rematerialize(Program *program, Statement *forward, Statement *reverse, bool recompute);
/* The same outside of repeats: the first `forward` statements are the forward pass. */
void rematerialize_body(Program *program, int forward);

#endif

/* gradient: what the files of the backward pass share.
 *
 *     gradient.c   the statements in reverse
 *     derive.c     the derivative of one operation, from its row in op.def
 *     adjoint.c    the sum of what reaches one tensor: who assigns, who adds, what is zeroed
 *     factors.c    a sum over a product as clean contractions
 *     recurrence.c a scan by a scan the other way
 *     rematerialize.c  what the backward step of a repeat needs of the forward one
 */
#ifndef GRADIENT_H
#define GRADIENT_H

#include "analysis/reach.h"
#include "ir/ir.h"

/* derive: the derivative of an application by one of its arguments, or NULL when no gradient passes
 * there. `result` is an expression of the value of the application itself. */
Expr *derive(Program *program, const Expr *apply, int argument, Expr *result);

/* The product of factors (List of Expr *) from `first` on. Where a condition among them fails, the
 * others do not matter: they may not even be finite. */
Expr *expr_product(Program *program, const List *factors, int first);

/* statement_product: target (+)= sum over reduced of the product of `factors` (List of Expr *).
 * Plain targets only. */
void statement_product(Program *program, Block *block, Expr *target, bool accumulate,
                       Index *const *reduced, int reduced_count, const List *factors, Span span);

/* What reaches one tensor, or one slice of a tensor that a repeat carries. */
typedef struct Slot {
    Expr *slice;    /* leading subscript; NULL: the whole tensor */
    bool started;   /* something was assigned: what follows adds */
    List pointwise; /* Expr *: values over Adjoint.indices, not yet written */
    List scatters;  /* Statement *: not yet written */
} Slot;

typedef struct Adjoint {
    bool needed;     /* reached from a parameter, and reaches the loss */
    bool sliced;     /* carried by a repeat: one slot for each slice */
    Statement *home; /* the repeat in whose step the tensor lives and dies; NULL: outside */
    Tensor *tensor;  /* the adjoint; NULL until something reaches it */
    Index *indices[MAX_RANK];
    List slots; /* Slot * */
} Adjoint;

typedef struct Backward {
    Program *program;
    Adjoint *adjoints; /* by tensor id */
    int count;         /* tensors of the forward program */
    Block *block;      /* where statements go */
    Statement *repeat; /* the forward repeat that is being reversed, or NULL */
    Index *step;       /* index of its reverse */
    /* by tensor id: what the scan that is being reversed defines, or NULL. `recurring`: of the
     * reads of a statement these alone are followed; else all but these. */
    const bool *scanned;
    bool recurring;
} Backward;

/* gradient.c: what one statement passes back; any statement as it is in the reverse repeat. */
void reverse_loop(Backward *backward, const Statement *statement);

/* recurrence: see there. */
void reverse_scan(Backward *backward, const Statement *scan);

/* adjoint: adds the product of `factors`, summed over the loops that `read` does not use, to the
 * adjoint of `read`. */
void adjoint_add(Backward *backward, Expr *read, Index *const *loops, int loop_count,
                 const List *factors, Span span);
/* The adjoint of what `target` writes, everything that reached it written out; NULL when nothing
 * did. */
Expr *adjoint_read(Backward *backward, Expr *target);
/* Makes the gradient tensor of a real parameter, when nothing has reached it. */
void adjoint_declare(Backward *backward, Tensor *parameter);
/* Writes out what is pending on a tensor; with `zero`, a tensor that nothing reached is zeroed. */
void adjoint_flush(Backward *backward, Tensor *tensor, bool zero);
/* The same for one slice of a carried tensor. */
void adjoint_flush_slice(Backward *backward, Tensor *tensor, Expr *slice, bool zero);

/* save: makes what `reverse` reads of the steps of `forward` available there. */
void rematerialize(Program *program, Statement *forward, Statement *reverse, bool recompute);
/* The same of what stands outside of repeats: the first `forward` statements are followed back by
 * the others. */
void rematerialize_body(Program *program, int forward);

#endif

/* fault: where values that are not finite come from. */
#ifndef FAULT_H
#define FAULT_H

#include "interpret/interpreter.h"

enum { FAULT_OPERANDS = 6 };

typedef enum NonfiniteKind {
    FAULT_OPERATION, /* an operation of the equation, whose arguments are finite or constants */
    FAULT_SUM,       /* a sum of finite terms */
    FAULT_STORE,     /* a finite value that is rounded to bf16 */
    FAULT_CALL,      /* a call with finite operands */
    FAULT_GIVEN,     /* an element that no equation computes: a weight, an input, a state */
    FAULT_CONSTANT   /* an infinity that the spec writes, such as the mask of scores */
} NonfiniteKind;

typedef struct TracedElement {
    const Tensor *tensor;
    long offset;
    double value;
} TracedElement;

typedef struct Nonfinite {
    NonfiniteKind kind;
    const Statement *statement; /* that computes the value, or reads the given element first */
    const Expr *expr;           /* operation or read; of a sum: the term; else NULL */
    TracedElement element;      /* computed by the statement, or given */
    double value, args[3];      /* of the operation; of a sum: value is that of the largest term */
    TracedElement operands[FAULT_OPERANDS];
    int operand_count, index_count;
    const Index *index[MAX_SLOTS]; /* the indices in scope and their values */
    long at[MAX_SLOTS];
    const Relation *relation; /* of the rows that one of them numbers, or NULL */
    long row, coordinate[MAX_RANK];
} Nonfinite;

/* Notes faults in later runs. */
void interpreter_trace(Interpreter *interpreter);
/* The fault of the loss, else the first one of a gradient or an output; NULL: all are finite. */
const Nonfinite *interpreter_fault(const Interpreter *interpreter);
/* Appends reports of it: the equation, the element, the operands. */
void fault_report(Reports *reports, const Nonfinite *fault);

#endif

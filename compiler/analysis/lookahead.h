/* lookahead: the last input token that each value depends on.
 *
 * Requires a program as elaborated, forward only, with a short sequence: every position is
 * evaluated. Values of positions, comparisons of them and masks made of them are exact numbers; any
 * other value is unknown and depends on the inputs that it is computed from.
 *
 *     p[s,t] = where(t <= s, score[s,t], -1e30)    t > s: the number -1e30, of no input
 *     w[s,t] = softmax[t](p[s,t])                  depends on the tokens up to s
 *     m[d]   = mean[s] x[s,d]                      depends on the last token of the sequence
 *     y[s,d] = x[s,d] + m[d]                       depends on it at every s
 */
#ifndef LOOKAHEAD_H
#define LOOKAHEAD_H

#include "ir/ir.h"

/* One element of a tensor, or all elements that differ in other dimensions than positions. */
typedef struct Cell {
    bool made;  /* a statement that was evaluated has written it */
    bool known; /* it is `value` for any input */
    double value;
    int latest; /* position of the last token that it depends on; -1: of none */
} Cell;

/* The cells of a tensor, row-major over the dimensions whose positions matter. */
typedef struct Grid {
    int count;
    int dims[MAX_RANK];
    long size;
    Cell *cells;
    bool *traced;
} Grid;

/* A read of one cell. */
typedef struct CellRead {
    const Expr *read;
    long cell;
    Cell value;
} CellRead;

enum { MAX_ASSIGNED = 3 * MAX_LOOPS };

typedef struct Lookahead {
    Program *program;
    const Tensor *text, *next; /* the inputs: the tokens, and the token after each of them */
    List axes;                 /* Axis *: those whose positions matter */
    Grid *grids;               /* by tensor id */
    int assigned;              /* indices that have a value now */
    const Index *indices[MAX_ASSIGNED];
    long values[MAX_ASSIGNED];
    List *reads; /* CellRead *: receives those that a value depends on; NULL: not wanted */
    bool changed;
    bool too_large; /* for cells: nothing is known */
} Lookahead;

/* Where a position comes to depend on a later one. */
typedef enum LeakKind {
    LEAK_SUBSCRIPT,
    LEAK_REDUCTION,
    LEAK_CALL,
    LEAK_SCAN,
    LEAK_TARGET
} LeakKind;
typedef struct Leak {
    LeakKind kind;
    const Statement *statement;
    Span span;            /* of the statement, or of the subscript */
    const Expr *read;     /* of the later position */
    const Tensor *output; /* the prediction that depends on it */
    int least, most;      /* how many positions later */
} Leak;

/* A program without a text and its next tokens has no leaks: Leak *, by statement and kind. */
List lookahead(Program *program);

/* Shared with lookahead_trace.c. */
bool look_matters(const Lookahead *look, const Axis *axis);
void look_assign(Lookahead *look, const Index *index, long value);
Cell look_value(Lookahead *look, const Expr *expr);
/* The value of a statement for the elements of its target that the assigned indices pick. */
Cell look_statement(Lookahead *look, const Statement *statement);
List look_leaks(Lookahead *look);

#endif

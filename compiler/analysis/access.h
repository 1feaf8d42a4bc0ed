/* access: the elements that statements read and write. */
#ifndef ACCESS_H
#define ACCESS_H

#include "ir/ir.h"

/* Calls visit for the target and the value of an equation and for the inputs of a call, and for
 * everything below them. */
void statement_walk(const Statement *statement, void (*visit)(Expr *expr, void *data), void *data);
/* Every read of a statement, including those inside subscripts; every target. */
void reads_of(Arena *arena, const Statement *statement, List *list);
void writes_of(Arena *arena, const Statement *statement, List *list);
/* The equation that defines the tensor, in a block of equations alone; or NULL. */
Statement *loop_writing(const Block *block, const Tensor *tensor);
/* Both: reads, then targets. */
List accesses_of(Arena *arena, const Statement *statement);
/* True if one of the accesses is of the tensor. */
bool accesses_have(const List *accesses, const Tensor *tensor);
/* True if sub is the index of a repeat + offset, or a number (step NULL). */
bool step_and_offset(const Expr *sub, const Index **step, double *offset);
/* True if the two access different steps of a stacked tensor: x[i] and x[i+1]. */
bool never_meet(const Expr *one, const Expr *other);
/* True if one statement writes a tensor that the other accesses. */
bool statements_meet(Arena *arena, const Statement *one, const Statement *other);

/* By tensor->id: the number of statements that access it. */
int *touches_of(Program *program);
/* True if two subscripts that each run with a loop start at the same index: see sub_loop. */
bool same_start(const Expr *a, const Expr *b);
/* True if two accesses of one tensor differ in different iterations of a loop: both subscript the
 * same dimension with its index. */
bool same_iteration(const Expr *one, const Index *first, const Expr *other, const Index *second);

/* The relation whose lists contain the rows that a scatter adds to each entry, y[b[r],s[r],d] +=
 * x[r,d] with r its rows; else NULL. */
const Relation *listed_rows(const Program *program, const Statement *statement);
/* The number of entries of its lists. */
long list_count(const Relation *relation);

/* True if no two iterations of `row`, over the rows of a relation, write the same element of the
 * target: it is subscripted with all their coordinates. */
bool lands_alone(const Program *program, const Statement *statement, const Index *row);

/* The dimension of a nested mask that runs over the rows of the outer relation, or -1. */
int rows_dimension(const Tensor *mask);

/* True for a subscript that is neither a number nor an index. */
bool is_computed(const Expr *sub);

#endif

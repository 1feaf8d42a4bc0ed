/* access: which elements statements touch. */
#ifndef ACCESS_H
#define ACCESS_H

#include "ir/ir.h"

/* Every read of a statement, those inside subscripts too; every target. */
void reads_of(Arena *arena, const Statement *statement, List *list);
void writes_of(Arena *arena, const Statement *statement, List *list);
/* sub == step of a repeat + offset, or a number (step NULL). */
bool step_and_offset(const Expr *sub, const Index **step, double *offset);
/* The two touch different steps of a stacked tensor: x[i] and x[i+1]. */
bool never_meet(const Expr *one, const Expr *other);
/* One writes a tensor that the other touches. */
bool statements_meet(Arena *arena, const Statement *one, const Statement *other);

/* By tensor->id: how many statements touch it. */
int *touches_of(Program *program);
/* Whether two accesses of one tensor stay apart in different iterations of a loop: both subscript
 * the same dimension with it. */
bool same_iteration(const Expr *one, const Index *first, const Expr *other, const Index *second);

/* The relation whose lists say which rows a scatter adds to an entry, y[b[r],s[r],d] += x[r,d] with
 * r its rows; else NULL. */
const Relation *listed_rows(const Program *program, const Statement *statement);
/* How many entries its lists are for. */
long listed_places(const Relation *relation);

/* No two iterations of `row`, over the rows of a relation, have the same place in the target: it is
 * subscripted with all their coordinates. */
bool lands_alone(const Program *program, const Statement *statement, const Index *row);

#endif

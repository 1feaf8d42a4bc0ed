/* nest: what fuse needs to build loop nests. */
#ifndef NEST_H
#define NEST_H

#include "analysis/access.h"
#include "analysis/range.h"
#include "schedule/kernel.h"

/* ---- loop_order.c ---- */

/* A statement with its loops in the order in which they shall run. */
Member *order_loops(Program *program, Statement *statement);
/* How many operations a statement makes. */
double statement_work(const Statement *statement);

/* ---- nest.c ---- */

/* Adds a statement to the kernel when that is allowed and sensible; `fresh`: in a nest of its own,
 * always. */
/* Kernels with fewer operations are small: see Target. */
double small_work(const Program *program);
bool nest_add(Program *program, Kernel *kernel, Statement *statement, bool fresh);

/* ---- epilogue.c ---- */

/* For each product of a block, by place, the kernel of what its store computes; nothing is written
 * where there is nothing. when: the place of each statement, or that of the product in whose store
 * or before which it is computed now. */
void epilogue(Program *program, const List *statements, Contraction *const *products, int *touched,
              Kernel **epilogues, int *when);

/* ---- gemm_epilogue.c ---- */

/* Makes the next statement on the way of a dense product's result part of its epilogue when it can
 * be one. first, next: the product and that statement, with loops that stand for each other; kept:
 * others read the result, too. */
bool gemm_epilogue(Contraction *product, const Member *first, const Member *next, bool kept);

/* ---- dual_gemm.c ---- */

/* Whether two statements read the same element where their loops stand at the same iterations. */
bool same_place(const Expr *one, const Expr *other);

/* The place of an earlier product that can be done in the tiles of the one at `place`, or -1. */
int find_pair(Program *program, const List *statements, Contraction *const *products,
              Kernel *const *epilogues, const int *when, int place);

/* ---- first_sums.c ---- */

/* Which products make a gradient in the first micro-batch of a step: Contraction.begins. */
void first_sums(Schedule *schedule);

/* ---- locals.c ---- */

/* Decides which tensors of a kernel live in variables. users[tensor->id] is the only kernel that
 * touches it, or NULL. */
void choose_locals(Program *program, Kernel *kernel, Kernel *const *users);

/* ---- online_softmax.c ---- */

/* Sums of exponentials less their largest, found in the loop of that. True when there are any:
 * more may live in variables now. */
bool online_softmax(Program *program, const Kernel *kernel);

#endif
